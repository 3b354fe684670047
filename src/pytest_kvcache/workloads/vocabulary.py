"""Words that stay one token each, however they are joined: what exact prompts are made of.

Proven once per tokenizer: every word is encoded alone and between changing neighbours, words that break are dropped,
and a second sample with other neighbours must come back to the id. Then the ids of any sequence of these words are
known without encoding it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from weakref import WeakKeyDictionary

from ..errors import WorkloadError
from ..protocols import Tokenizer

_TABLE = 1 << 16  # two random bytes pick an entry
_FEW = 64  # candidates for the general search, which looks at every pair
_FEWEST = 2  # digits need two values


@dataclass(frozen=True)
class Vocabulary:
    """Pieces of text with the one token id of each.

    Attributes:
        texts: the pieces, each with the space that belongs to it.
        ids: their token ids.
        lead / trail: special tokens that the tokenizer puts around every text; the server counts them.
        drop_space: the text of a prompt begins without the first piece's space (the tokenizer adds one itself).
    """

    texts: tuple[str, ...] = field(repr=False)
    ids: tuple[int, ...] = field(repr=False)
    lead: tuple[int, ...] = ()
    trail: tuple[int, ...] = ()
    drop_space: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def draw(self, seed: str, count: int) -> list[int]:
        """Return ``count`` piece numbers, the same for the same seed in every process and on every machine."""
        halves = random.Random(seed).randbytes(2 * count)
        numbers = memoryview(halves).cast("H")
        if sys.byteorder == "big":
            numbers = memoryview(b"".join(n.to_bytes(2, "little") for n in numbers)).cast("H")
        return list(map(self._numbers.__getitem__, numbers))

    def digits(self, value: int, below: int, offset: int) -> list[int]:
        """Return ``value`` in base ``len(self)``, least significant first, each digit shifted by ``offset``.

        All values under ``below`` have the same number of digits, so that any two of them differ within these.
        """
        base = len(self)
        found = [(offset + value) % base]
        while (below := -(-below // base)) > 1:
            value //= base
            found.append((offset + value) % base)
        return found

    def encode(self, numbers: Sequence[int]) -> list[int]:
        """Return the token ids of pieces by number."""
        return list(map(self.ids.__getitem__, numbers))

    def text(self, numbers: Sequence[int]) -> str:
        """Return the joined text of pieces by number, as it stands inside a prompt."""
        return "".join(map(self.texts.__getitem__, numbers))

    def prompt_text(self, body: str) -> str:
        """Return joined text as the text of a whole prompt."""
        return body[1:] if self.drop_space else body

    @cached_property
    def _numbers(self) -> list[int]:
        size = len(self)
        return [number % size for number in range(_TABLE)]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """Return the vocabulary of a tokenizer, proven at the first call and remembered.

        Words behind a space are tried first, then words joined by spaces (a tokenizer that adds the first space
        itself), then any single tokens that can be joined in every order.

        Raises:
            WorkloadError: the tokenizer holds no two pieces that stay themselves when they are joined.
        """
        try:
            known = _PROVEN.get(tokenizer)
        except TypeError:  # a tokenizer of the user's own may be neither hashable nor weakly referable
            return cls._prove(tokenizer)
        if known is None:
            known = _PROVEN[tokenizer] = cls._prove(tokenizer)
        return known

    @classmethod
    def _prove(cls, tokenizer: Tokenizer) -> Vocabulary:
        words = [f" {word}" for word in tokenizer.words()]
        for drop_space in (False, True):
            found = _closed(tokenizer, words, drop_space=drop_space)
            if found is not None and len(found) >= _FEW:
                return found
        found = _pairwise(tokenizer, tokenizer.pieces())
        if found is None:
            raise WorkloadError(
                f"tokenizer {tokenizer.name!r} holds no pieces that stay one token each when they are joined,"
                " so no prompt of exactly known length can be made with it; name the model's own with --kv-tokenizer"
            )
        return found


_PROVEN: WeakKeyDictionary[Tokenizer, Vocabulary] = WeakKeyDictionary()


def _closed(tokenizer: Tokenizer, candidates: Sequence[str], *, drop_space: bool) -> Vocabulary | None:
    if len(candidates) < _FEWEST:
        return None
    cut = 1 if drop_space else 0
    lead, trail = _specials(tokenizer, candidates[0][cut:], (candidates[0] * 2)[cut:])
    around = len(lead) + len(trail)
    encoded = tokenizer.encode([piece[cut:] for piece in candidates])
    known = {
        piece: ids[len(lead)]
        for piece, ids in zip(candidates, encoded, strict=True)
        if len(ids) == around + 1 and tuple(ids[: len(lead)]) == lead
    }
    for seed in range(8):  # until a sample with new neighbours drops nothing
        kept = _survivors(tokenizer, known, lead, trail, cut, seed)
        if len(kept) == len(known) and seed:
            return Vocabulary(tuple(known), tuple(known.values()), lead, trail, drop_space)
        known = kept
        if len(known) < _FEWEST:
            return None
    return None  # words kept breaking: nothing is proven


def _survivors(
    tokenizer: Tokenizer, known: dict[str, int], lead: tuple[int, ...], trail: tuple[int, ...], cut: int, seed: int
) -> dict[str, int]:
    """Return the pieces that come back as themselves between neighbours of this round."""
    order = list(known)
    random.Random(seed).shuffle(order)
    groups = [order[start : start + 8] for start in range(0, len(order), 8)]
    broken: set[str] = set()
    suspects = [g for g, ok in zip(groups, _exact(tokenizer, groups, known, lead, trail, cut), strict=True) if not ok]
    for group in suspects:
        pairs = list(pairwise(group))
        verdicts = zip(pairs, _exact(tokenizer, pairs, known, lead, trail, cut), strict=True)
        guilty = {piece for pair, ok in verdicts if not ok for piece in pair}
        broken |= guilty or set(group)  # it may take more than two to break
    return {piece: number for piece, number in known.items() if piece not in broken}


def _exact(
    tokenizer: Tokenizer,
    groups: Sequence[Sequence[str]],
    known: dict[str, int],
    lead: tuple[int, ...],
    trail: tuple[int, ...],
    cut: int,
) -> list[bool]:
    encoded = tokenizer.encode(["".join(group)[cut:] for group in groups])
    return [
        ids == [*lead, *(known[piece] for piece in group), *trail] for group, ids in zip(groups, encoded, strict=True)
    ]


def _pairwise(tokenizer: Tokenizer, pieces: Sequence[str]) -> Vocabulary | None:
    """Return pieces of which every ordered pair stays itself, added greedily in the order of their ids."""
    distinct = list(dict.fromkeys(pieces))[:_FEW]
    if len(distinct) < _FEWEST:
        return None
    lead, trail = _specials(tokenizer, distinct[0], distinct[0] * 2)
    around = len(lead) + len(trail)
    encoded = tokenizer.encode(distinct)
    single = {p: ids[len(lead)] for p, ids in zip(distinct, encoded, strict=True) if len(ids) == around + 1}
    kept: dict[str, int] = {}
    for piece, number in single.items():
        trial = {**kept, piece: number}
        pairs = [(a, b) for a in trial for b in trial if piece in (a, b)]
        if all(_exact(tokenizer, pairs, trial, lead, trail, 0)):
            kept = trial
    if len(kept) < _FEWEST:
        return None
    found = Vocabulary(tuple(kept), tuple(kept.values()), lead, trail)
    sample = found.draw("closure", 2048)
    if tokenizer.encode([found.text(sample)])[0] != [*lead, *found.encode(sample), *trail]:
        return None
    return found


def _specials(tokenizer: Tokenizer, one: str, two: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what the tokenizer puts around a text, from the encodings of a piece once and twice."""
    empty, *_ = tokenizer.encode([""])
    single, double = tokenizer.encode([one, two])
    width = len(double) - len(single)
    for start in range(len(empty) + 1):  # the encoding of nothing is lead and trail; find where the piece goes in
        if single[:start] + single[start + width :] == empty and width > 0:
            return tuple(empty[:start]), tuple(empty[start:])
    return (), ()
