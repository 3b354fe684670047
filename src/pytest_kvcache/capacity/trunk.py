"""Which beginnings do many requests share, and where did each request leave them?

The trunk is the top of the prefix tree: system prompts, documents. What grows out of it, all requests that go on behind
the same first block, is a *branch*: a session, or a few. Every request is followed through the trunk; branches can be
sampled, and reuse inside of one is then seen whole.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from hashlib import blake2b
from operator import itemgetter
from typing import TypeAlias

from ..prefix import common
from .runs import Run, RunTree

WORD = 2**64 - 1
_ODD_1, _ODD_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # of the splitmix64 generator


def mix(number: int) -> int:
    """Return 64 bits that look drawn at random, the same everywhere; a one-to-one function of 64 bits."""
    number = number * _ODD_1 & WORD
    number ^= number >> 29
    number = number * _ODD_2 & WORD
    return number ^ number >> 32


Use: TypeAlias = tuple[int, int, int, float]
"""The last use of a part: number of the request; and until its end, blocks of branches that all requests had used,
requests that had been sampled, blocks of branches that these had used. A plain tuple, as every request makes one."""

_second = itemgetter(1)


class Part:
    """Blocks of the trunk that are only used together.

    Attributes:
        ids: of the blocks.
        marks: of each block, a hash of everything up to it.
        parent: what is before it; None: nothing.
        children: what goes on behind it, by the id of the first block.
        last: use; None: none is known.
    """

    __slots__ = ("children", "ids", "last", "marks", "parent")

    def __init__(self, ids: array[int], marks: array[int], parent: Part | None, last: Use | None = None) -> None:
        self.ids = ids
        self.marks = marks
        self.parent = parent
        self.children: dict[int, Part] = {}
        self.last = last

    def path(self) -> list[Part]:
        """Return all parts from the first one to this."""
        path, part = [self], self.parent
        while part is not None:
            path.append(part)
            part = part.parent
        return path[-2::-1]  # without the root, which has no blocks


class Trunk:
    """Beginnings that are known to be shared, and when each part of them was used last.

    Attributes:
        blocks: it has.
        fresh: by the last part that a request used, the use; to be settled before uses are asked for.
    """

    def __init__(self, seed: int) -> None:
        self.blocks = 0
        self.fresh: dict[Part, Use] = {}
        self._seed = mix(seed & WORD)
        self._roots: dict[Hashable, Part] = {}
        self._recent: OrderedDict[Part, None] = OrderedDict()  # parts that have been used, the latest at the end
        self._used = 0  # blocks of them

    def follow(self, ids: array[int], end: int, scope: Hashable) -> tuple[Part | None, int, int]:
        """Follow the first ``end`` blocks of a request.

        Returns:
            The last part that they use (None: they use none), the blocks up to its end, and the mark there.
        """
        node = self._roots.get(scope)
        if node is None:
            return None, 0, self._start(scope)
        at = 0
        while at < end:
            child = node.children.get(ids[at])
            if child is None:
                break
            size = len(child.ids)
            part = ids[at : at + size] if at + size <= end else ids[at:end]
            if part != child.ids:
                size = common(child.ids, part)
                child = _split(child, size)
            node = child
            at += size
        return node if at else None, at, node.marks[-1]

    def settle(self) -> None:
        """Put what was used where it belongs: the latest use last, and of that the head of its path the very last."""
        recent = self._recent
        for part, use in sorted(self.fresh.items(), key=_second):
            step = part
            while step.parent is not None:
                if step in recent:
                    recent.move_to_end(step)
                else:
                    recent[step] = None
                    if step.last is None:  # else it is the upper end of one that was split
                        self._used += len(step.ids)
                step.last = use
                step = step.parent
        self.fresh.clear()

    def younger(self, last: Use) -> int:
        """Return the blocks that were used after some use of the trunk."""
        blocks = 0
        for part in reversed(self._recent):
            if part.last is None or part.last <= last:
                break
            blocks += len(part.ids)
        return blocks

    def since(self, row: int) -> int:
        """Return the blocks that were used by a request or after it."""
        older = younger = 0
        for old, young in zip(self._recent, reversed(self._recent), strict=True):  # from whichever end is nearer
            if old.last is None or old.last[0] >= row:
                return self._used - older
            if young.last is None or young.last[0] < row:
                return younger
            older += len(old.ids)
            younger += len(young.ids)
        return 0

    def renew(self, changed: Callable[[Use], Use]) -> None:
        """Let every use be what has become of it."""
        for part in self._recent:
            if part.last is not None:
                part.last = changed(part.last)

    def grow(self, ids: array[int], scope: Hashable, use: Use | None) -> None:
        """Add a beginning; what is new of it was used last at ``use``."""
        node, at, mark = self.follow(ids, len(ids), scope)
        if at == len(ids):
            return
        if node is None:
            node = self._roots.setdefault(scope, Part(array("q"), array("Q", [mark]), None))
        new = node.children[ids[at]] = Part(ids[at:], array("Q"), node)
        for block in new.ids:
            mark = mix(mark ^ block & WORD)
            new.marks.append(mark)
        self.blocks += len(new.ids)
        if use is not None:
            self.fresh[new] = use

    def _start(self, scope: Hashable) -> int:
        if scope is None:
            return self._seed
        told = blake2b(repr(scope).encode("utf-8", "surrogatepass"), digest_size=8)
        return mix(self._seed ^ int.from_bytes(told.digest(), "big"))


def _split(part: Part, at: int) -> Part:
    # The lower end stays the object that it is, with its place among the recent ones; the upper one is used next.
    upper = Part(part.ids[:at], part.marks[:at], part.parent, part.last)
    upper.children[part.ids[at]] = part
    if part.parent is not None:
        part.parent.children[part.ids[0]] = upper
    part.ids, part.marks, part.parent = part.ids[at:], part.marks[at:], upper
    return upper


def shared(requests: Iterable[tuple[Hashable, array[int]]], least: int) -> Iterator[tuple[Hashable, array[int]]]:
    """Return the beginnings that at least so many requests continue in ways of their own, with their scopes.

    Turns of one session have a beginning in common too, but they all continue it in the same way.

    Args:
        requests: scope and blocks of each.
        least: number of them.
    """
    tree = RunTree()
    for scope, ids in requests:
        tree.path(ids, scope)
    for scope, root in tree.roots.items():
        below: list[tuple[array[int], Run]] = [(array("q"), child) for child in root.children.values()]
        while below:
            before, run = below.pop()
            if not run.children:
                continue
            ids = before + run.ids
            if len(run.children) >= least:
                yield scope, ids
            below.extend((ids, child) for child in run.children.values())
