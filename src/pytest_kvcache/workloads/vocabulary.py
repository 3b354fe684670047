"""Words that stay one token each, however they are joined: what exact prompts are made of.

Proven once per tokenizer: every word is encoded alone and between changing neighbours, words that break are dropped,
and a second sample with other neighbours must come back to the id. Then the ids of any sequence of these words are
known without encoding it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import TypeVar
from weakref import WeakKeyDictionary

from ..errors import WorkloadError
from ..protocols import Tokenizer

_TABLE = 1 << 16  # two random bytes pick an entry
_FEW = 64  # candidates for the general search, which looks at every pair
_FEWEST = 2  # digits need two values
_ROUNDS = 8  # of dropping what breaks, before giving up

T = TypeVar("T")


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
        drawn = struct.unpack(f"<{count}H", random.Random(seed).randbytes(2 * count))
        return list(_picked(self._numbers, drawn))

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
        return list(_picked(self.ids, numbers))

    def text(self, numbers: Sequence[int]) -> str:
        """Return the joined text of pieces by number, as it stands inside a prompt."""
        return "".join(_picked(self.texts, numbers))

    def prompt_text(self, body: str) -> str:
        """Return joined text as the text of a whole prompt."""
        return body[1:] if self.drop_space else body

    @cached_property
    def _numbers(self) -> list[int]:
        own = list(range(len(self)))  # few objects, often drawn, stay near the processor
        return [own[number % len(own)] for number in range(_TABLE)]

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


def _picked(entries: Sequence[T], numbers: Sequence[int]) -> Sequence[T]:
    """Return entries by number: in one call, because a prompt has thousands."""
    return itemgetter(*numbers)(entries) if len(numbers) > 1 else [entries[number] for number in numbers]


_PROVEN: WeakKeyDictionary[Tokenizer, Vocabulary] = WeakKeyDictionary()


def _closed(tokenizer: Tokenizer, candidates: Sequence[str], *, drop_space: bool) -> Vocabulary | None:
    """Return the candidates that stay themselves beside changing neighbours, None when fewer than two do."""
    asked = _Asked.of(tokenizer, candidates, cut=1 if drop_space else 0)
    known = asked.single(candidates)
    for seed in range(_ROUNDS):
        if len(known) < _FEWEST:
            return None
        kept = asked.survivors(known, seed)
        if len(kept) == len(known) and seed:  # a sample with new neighbours dropped nothing
            return Vocabulary(tuple(known), tuple(known.values()), asked.lead, asked.trail, drop_space)
        known = kept
    return None  # words kept breaking: nothing is proven


def _pairwise(tokenizer: Tokenizer, pieces: Sequence[str]) -> Vocabulary | None:
    """Return pieces of which every ordered pair stays itself, added greedily in the order of their ids."""
    distinct = list(dict.fromkeys(pieces))[:_FEW]
    asked = _Asked.of(tokenizer, distinct)
    kept: dict[str, int] = {}
    for piece, number in asked.single(distinct).items():
        trial = {**kept, piece: number}
        if all(asked.exact([(a, b) for a in trial for b in trial if piece in (a, b)], trial)):
            kept = trial
    if len(kept) < _FEWEST:
        return None
    found = Vocabulary(tuple(kept), tuple(kept.values()), asked.lead, asked.trail)
    sample = [found.texts[number] for number in found.draw("closure", 2048)]
    return found if all(asked.exact([sample], kept)) else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A tokenizer that is asked about joined pieces.

    Attributes:
        tokenizer: asked.
        lead / trail: special tokens around every text.
        cut: characters taken off the start of a text: the space that the tokenizer adds itself.
    """

    tokenizer: Tokenizer
    lead: tuple[int, ...]
    trail: tuple[int, ...]
    cut: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, pieces: Sequence[str], cut: int = 0) -> _Asked:
        lead, trail = _specials(tokenizer, pieces[0][cut:], (pieces[0] * 2)[cut:]) if pieces else ((), ())
        return cls(tokenizer, lead, trail, cut)

    def single(self, pieces: Sequence[str]) -> dict[str, int]:
        """Return the pieces that are one token alone, with its id."""
        encoded = self.tokenizer.encode([piece[self.cut :] for piece in pieces])
        start, around = len(self.lead), len(self.lead) + len(self.trail)
        return {
            piece: ids[start]
            for piece, ids in zip(pieces, encoded, strict=True)
            if len(ids) == around + 1 and tuple(ids[:start]) == self.lead
        }

    def exact(self, groups: Sequence[Sequence[str]], known: Mapping[str, int]) -> list[bool]:
        """Tell of each group whether its joined text encodes to the ids of its pieces."""
        encoded = self.tokenizer.encode(["".join(group)[self.cut :] for group in groups])
        return [
            ids == [*self.lead, *(known[piece] for piece in group), *self.trail]
            for group, ids in zip(groups, encoded, strict=True)
        ]

    def survivors(self, known: Mapping[str, int], seed: int) -> dict[str, int]:
        """Return the pieces that come back as themselves between the neighbours that ``seed`` gives them."""
        order = list(known)
        random.Random(seed).shuffle(order)
        groups = [order[start : start + 8] for start in range(0, len(order), 8)]
        broken: set[str] = set()
        for group in (group for group, ok in zip(groups, self.exact(groups, known), strict=True) if not ok):
            pairs = list(pairwise(group))
            guilty = {
                piece for pair, ok in zip(pairs, self.exact(pairs, known), strict=True) if not ok for piece in pair
            }
            broken |= guilty or set(group)  # it may take more than two to break
        return {piece: number for piece, number in known.items() if piece not in broken}


def _specials(tokenizer: Tokenizer, one: str, two: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what the tokenizer puts around a text, from the encodings of a piece once and twice."""
    empty, *_ = tokenizer.encode([""])
    single, double = tokenizer.encode([one, two])
    width = len(double) - len(single)
    for start in range(len(empty) + 1):  # the encoding of nothing is lead and trail; find where the piece goes in
        if single[:start] + single[start + width :] == empty and width > 0:
            return tuple(empty[:start]), tuple(empty[start:])
    return (), ()
