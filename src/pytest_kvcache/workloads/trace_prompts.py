"""Which tokens does each request of a trace have? Those of the blocks that it shares, and others that nobody has.

A prompt is the first tokens of an earlier one, and from there on its own. Where it leaves the others follows from the
trace alone (:func:`branches`); what it says from there on is drawn by the number of the request, and begins with a
number that tells apart all that go on from the same token (:class:`TracePrompts`). So nothing has to be remembered of
a block but who had it first, and a prompt is made when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from ..model import Prompt, Row
from ..protocols import Tokenizer
from .heads import turn_of
from .proof import prove
from .vocabulary import Vocabulary
from .wording import Wording

_NOBODY = -1
_KEPT = 1 << 20  # tokens of drawn parts in memory; one that was dropped is drawn again
_BESIDE = 64  # what it costs to keep any, in tokens
_MOST_BOUNDARIES = 256  # re-encoded before sending, three of them whole
_NEAR = 8  # pieces to either side of one


class Branch(NamedTuple):
    """Where a prompt leaves those before it, in tokens from its beginning.

    Attributes:
        of: number of the request that had the token before; -1: there is none.
        start: its first own token.
        end: behind its last own token; what stands around the pieces comes after.
        way: how many went on from there before it, that request itself among them.
    """

    of: int
    start: int
    end: int
    way: int


@dataclass(frozen=True, slots=True)
class Branches:
    """Where all prompts of a trace part.

    Attributes:
        each: of each request, in order.
        ways: how many go on from a token, by the request that had it first and the position of what comes next; that
            request is one of them where it goes on itself.
        lead: tokens in front of all.
    """

    each: tuple[Branch, ...]
    ways: Mapping[tuple[int, int], int]
    lead: int


def branches(rows: Iterable[Row], block_size: int, *, lead: int = 0, trail: int = 0) -> Branches:
    """Return where each request's prompt leaves those before it.

    Two requests share the tokens of their common blocks, which have equal ids, behind equal blocks, in equal scopes. Of
    the last one they share as many tokens as both have of it; where a request goes on behind a part of a block, another
    that has more of the block has left it.

    Args:
        rows: with more tokens than stand around them.
        block_size: tokens of a block; of no meaning where no row has ids.
        lead: first tokens that are the same in all prompts, in place of the trace's.
        trail: last tokens of each prompt that are not the trace's.
    """
    blocks, found = _Blocks(block_size), list[Branch]()
    ways: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows):
        end = row.input_length - trail
        of, start = blocks.share(number, row, end)
        while of != _NOBODY and start <= found[of].start:  # somebody else had that token first
            of = found[of].of
        start = start if of != _NOBODY else lead
        way = ways.setdefault((of, start), int(of != _NOBODY and start < found[of].end))
        ways[of, start] += start < end
        found.append(Branch(of, start, end, way))
    return Branches(tuple(found), ways, lead)


class _Blocks:
    """Every block of the requests so far, and who has most of it. Two blocks are one when all before them is."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._numbers: dict[tuple[Hashable, int], int] = {}  # by what is before a block, and its id
        self._tokens = array("Q")
        self._owners = array("Q")

    def share(self, number: int, row: Row, end: int) -> tuple[int, int]:
        """Remember the first tokens of a request; return who had most of them before, and how many."""
        owner, shared, at = _NOBODY, 0, 0
        before: Hashable = (None, row.scope)
        for identity, weight in zip(row.ids, repeat(self._size) if row.weights is None else row.weights, strict=False):
            if at >= end:
                break
            tokens = min(weight, end - at)
            block = self._numbers.setdefault((before, identity), len(self._owners))
            if block == len(self._owners):
                self._tokens.append(tokens)
                self._owners.append(number)
            else:
                owner, shared = self._owners[block], at + min(tokens, self._tokens[block])
                if tokens > self._tokens[block]:
                    self._tokens[block], self._owners[block] = tokens, number
            at += tokens
            before = block if tokens == self._size else (block, tokens)
        return owner, shared


def costs(rows: Sequence[Row], block_size: int, made: Branches, wording: Wording) -> Iterator[str]:
    """Tell what of the trace's sharing is lost to the tokens that stand around a prompt."""
    by = "the chat template's" if wording.way == "chat" else "the tokenizer's"
    if wording.lead:
        count = len(wording.lead)
        yield f"the first {count:,} token{'s' * (count > 1)} of every prompt are {by}, in place of the trace's"
    if wording.trail:
        wanted = branches(rows, block_size).each
        lost = sum(max(0, there.start - here.start) for there, here in zip(wanted, made.each, strict=False))
        count, all_shared = len(wording.trail), sum(branch.start for branch in wanted)
        tokens = f"{lost:,} of {all_shared:,} tokens that are shared in the trace are not"
        yield f"the last {count:,} token{'s' * (count > 1)} of every prompt are {by}, in place of the trace's: {tokens}"


def crowded(made: Branches, vocabulary: Vocabulary) -> Iterator[str]:
    """Tell where more requests go on from one token than there are pieces to tell them apart."""
    size, most = len(vocabulary), max(made.ways.values(), default=0)
    if most > size:
        more = len(vocabulary.digits(0, most, 0)) - 1
        yield (
            f"{most:,} requests go on from one token, and {size:,} pieces tell them apart: some share up to {more}"
            f" token{'s' * (more > 1)} more than in the trace"
        )


class _Own(NamedTuple):
    """What a request was the first to have, as numbers of pieces and as token ids."""

    pieces: array[int]
    ids: array[int]


@dataclass(slots=True, eq=False)
class TracePrompts:
    """The prompts of a trace, drawn as they are needed, each time the same.

    Attributes:
        branches: where they part.
        wording: pieces, and what stands around them.
        seed: decides every piece.
    """

    branches: Branches
    wording: Wording
    seed: str
    _kept: dict[int, _Own] = field(default_factory=dict, repr=False)
    _size: int = 0

    def __len__(self) -> int:
        return len(self.branches.each)

    def __getitem__(self, number: int) -> Prompt:
        """Return the prompt of a request."""
        ids, text = array("I"), ""
        for part, count in self._line(number):
            ids += self._own(part).ids[:count]
        if self.wording.way != "ids":
            text = self.wording.vocabulary.text(self._pieces(number))
        return self.wording.prompt(ids, text)

    def verify(self, tokenizer: Tokenizer) -> None:
        """Re-encode a sample of the places where prompts part, and of whole prompts, before anything is sent.

        Raises:
            WorkloadError: a text does not encode to the ids it was made of; shows where.
        """
        prove(tokenizer, self.wording.vocabulary, self._samples())

    def _samples(self) -> Iterator[list[int]]:
        last = len(self) - 1
        whole = {0, last // 2, last}
        for number in sorted({*range(0, last + 1, max(1, last // _MOST_BOUNDARIES)), *whole}):
            pieces = self._pieces(number)
            at = self.branches.each[number].start - self.branches.lead
            yield list(pieces if number in whole else pieces[max(0, at - _NEAR) : at + _NEAR])

    def _pieces(self, number: int) -> array[int]:
        """Return a prompt without what stands around it."""
        pieces = array("I")
        for part, count in self._line(number):
            pieces += self._own(part).pieces[:count]
        return pieces

    def _line(self, number: int) -> Sequence[tuple[int, int]]:
        """Return the requests that a prompt is made of, with the tokens of each one's own; the first one first."""
        found: list[tuple[int, int]] = []
        end = self.branches.each[number].end
        while number != _NOBODY:
            branch = self.branches.each[number]
            found.append((number, end - branch.start))
            number, end = branch.of, branch.start
        return found[::-1]

    def _own(self, number: int) -> _Own:
        """Return what a request was the first to have; it needs that of the one it goes on from, best asked before."""
        found = self._kept.pop(number, None)
        if found is None:
            branch, vocabulary = self.branches.each[number], self.wording.vocabulary
            count = branch.end - branch.start
            mark = self._mark(branch)[:count]
            pieces = [*mark, *vocabulary.draw(f"{self.seed}/{number}", count)[len(mark) :]]
            found = _Own(array("I", pieces), array("I", vocabulary.encode(pieces)))
            self._size += count + _BESIDE
        self._kept[number] = found  # what was used last is dropped last
        while self._size > _KEPT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._size -= len(self._kept.pop(oldest).ids) + _BESIDE
        return found

    def _mark(self, branch: Branch) -> list[int]:
        """Return the pieces that tell one way from all others that go on from the same token."""
        vocabulary, (of, start, _, way) = self.wording.vocabulary, branch
        ways, before = self.branches.ways[of, start], None if of == _NOBODY else self.branches.each[of]
        if before is None or start == before.end:
            return vocabulary.digits(way, ways, turn_of(f"{self.seed}/{of}/{start}"))
        then = self._own(of).pieces[start - before.start]  # no other may go on with this one
        free = len(vocabulary) - 1
        value, most = ((number + number // free + 1) for number in (way - 1, ways - 2))
        return vocabulary.digits(value, most + 1, then)
