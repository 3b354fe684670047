"""Which blocks always move together? Requests as paths through a prefix tree whose nodes are runs of such blocks.

What a request uses is a path from the root, all of it at once. So blocks part only where requests part or end: a node
holds a run of them, is split there, and is joined with its only child again once a request has used both. The number of
nodes grows with requests and branches, whatever the size of a block.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator

from ..prefix import common


class Run:
    """Blocks that are only used together, one behind the other.

    Attributes:
        ids: of the blocks, an array of its own.
        children: runs that go on behind it, by the id of their first block.
        last: number of the request that used it last; -1: none has yet.
    """

    __slots__ = ("children", "ids", "last")

    def __init__(self, ids: array[int], last: int, children: dict[int, Run]) -> None:
        self.ids = ids
        self.last = last
        self.children = children


_NONE: dict[int, Run] = {}  # children of all runs without any, nearly all of which never get one


class RunTree:
    """Every block of a trace by what is before it: equal ids behind different blocks are different blocks.

    Attributes:
        blocks: distinct ones.
        roots: empty runs, by scope; all others are below them.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self.roots: dict[Hashable, Run] = {}

    def path(self, ids: array[int], scope: Hashable = None) -> list[Run]:
        """Return the runs that a request is made of, from the root; what is new is added, with ``last`` -1."""
        root = self.roots.get(scope)
        if root is None:
            root = self.roots[scope] = Run(array("q"), -1, {})
        path: list[Run] = []
        children, at, length = root.children, 0, len(ids)
        while at < length:
            first = ids[at]
            run = children.get(first)
            if run is None:
                if children is _NONE:
                    children = path[-1].children = {}
                run = children[first] = Run(ids[at:], -1, _NONE)
                self.blocks += length - at
                path.append(run)
                break
            known = run.ids
            size = len(known)
            if size > 1 and (part := ids[at : at + size]) != known:
                size = common(known, part)
                _split(run, size)
            path.append(run)
            children = run.children
            at += size
        return path

    def runs(self) -> Iterator[Run]:
        """Return every run that has blocks."""
        below = [child for root in self.roots.values() for child in root.children.values()]
        while below:
            run = below.pop()
            yield run
            below.extend(run.children.values())

    def keep(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forget the blocks of all other scopes."""
        self.roots = {scope: root for scope, root in self.roots.items() if wanted(scope)}
        self.blocks = sum(len(run.ids) for run in self.runs())


def join(path: list[Run]) -> None:
    """Join runs of a path that nothing parts any more, after a request has used all of it."""
    for at in range(len(path) - 2, -1, -1):
        run = path[at]
        if len(run.children) == 1:
            below = path[at + 1]
            run.ids.extend(below.ids)
            run.children = below.children


def _split(run: Run, at: int) -> None:
    lower = Run(run.ids[at:], run.last, run.children)
    run.ids = run.ids[:at]
    run.children = {lower.ids[0]: lower}
