"""Does composed text come back from the tokenizer as it was composed? Asked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import WorkloadError
from ..protocols import Tokenizer
from .vocabulary import Vocabulary

_AT_ONCE = 1 << 16  # tokens that are encoded in one call: a tokenizer takes some hundred bytes for each


def prove(tokenizer: Tokenizer, vocabulary: Vocabulary, bodies: Iterable[list[int]]) -> None:
    """Encode the texts of pieces, given by number, and compare.

    Raises:
        WorkloadError: a text does not encode to the ids it was made of; shows where.
    """
    for batch in _batches(bodies):
        texts = [vocabulary.prompt_text(vocabulary.text(body)) for body in batch]
        for body, seen in zip(batch, tokenizer.encode(texts), strict=True):
            wanted = [*vocabulary.lead, *vocabulary.encode(body), *vocabulary.trail]
            if seen != wanted:
                raise WorkloadError(_difference(tokenizer.name, wanted, seen))


def _batches(bodies: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    batch: list[list[int]] = []
    held = 0
    for body in bodies:
        batch.append(body)
        held += len(body)
        if held >= _AT_ONCE:
            yield batch
            batch, held = [], 0
    yield batch


def _difference(name: str, wanted: list[int], seen: list[int]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(wanted, seen, strict=False)) if a != b), min(len(wanted), len(seen)))
    there = [ids[at] if at < len(ids) else "nothing" for ids in (wanted, seen)]
    return (
        f"tokenizer {name!r} does not give composed text back as it was composed: token {at} is {there[1]} instead of"
        f" {there[0]} ({len(seen)} tokens instead of {len(wanted)}); send ids, or report this tokenizer"
    )
