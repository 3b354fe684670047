"""Token sequences that share prefixes, kept once: how long is the longest prefix that was there before?

A radix tree: each edge holds a run of tokens, split where a sequence leaves it. What a chained block cache reuses
follows for every block size at once, because a chain of blocks is a prefix of one single sequence: floor(match/B)*B.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..prefix import common


@dataclass(slots=True, eq=False)
class Node:
    """A run of tokens behind its parent's.

    Attributes:
        run: the tokens.
        owner: number of the sequence that brought them first.
        visits: sequences that begin with everything down to here.
        children: by first token.
    """

    run: array[int]
    owner: int
    visits: int = 1
    children: dict[int, Node] = field(default_factory=dict)


class PrefixTree:
    """Sequences by their prefixes. Memory grows with distinct tokens, time with the runs that a sequence crosses."""

    def __init__(self) -> None:
        self.root = Node(array("I"), owner=-1, visits=0)
        self._count = 0

    def match(self, ids: Sequence[int]) -> int:
        """Return how many first tokens of ``ids`` are a prefix of something inserted."""
        return sum(shared for _, shared in self._walk(_packed(ids)))

    def insert(self, ids: Sequence[int]) -> int:
        """Insert a sequence and return what :meth:`match` would have returned before. Token ids are below 2**32."""
        packed = _packed(ids)
        owner, self._count = self._count, self._count + 1
        self.root.visits += 1
        node, depth = self.root, 0
        for child, shared in self._walk(packed):
            if shared < len(child.run):
                child = self._split(node, child, shared)
            child.visits += 1
            node, depth = child, depth + shared
        if depth < len(packed):
            node.children[packed[depth]] = Node(packed[depth:], owner)
        return depth

    def path(self, ids: Sequence[int]) -> Iterator[Node]:
        """Return the runs that make up an inserted sequence, first one first.

        Nothing is compared: where a sequence is known to be there, its next run follows from its next token.

        Raises:
            KeyError: the sequence was never inserted.
        """
        node, depth = self.root, 0
        while depth < len(ids):
            node = node.children[ids[depth]]
            yield node
            depth += len(node.run)

    def nodes(self) -> Iterator[tuple[Node, int]]:
        """Return every run with the number of tokens before it."""
        stack = [(child, 0) for child in self.root.children.values()]
        while stack:
            node, depth = stack.pop()
            yield node, depth
            stack += [(child, depth + len(node.run)) for child in node.children.values()]

    def _walk(self, ids: array[int]) -> Iterator[tuple[Node, int]]:
        node, depth = self.root, 0
        while depth < len(ids):
            child = node.children.get(ids[depth])
            if child is None:
                return
            shared = common_prefix(child.run, ids[depth : depth + len(child.run)])
            ends = shared < len(child.run)
            yield child, shared  # who inserts splits the child here
            if ends:
                return
            node, depth = child, depth + shared

    @staticmethod
    def _split(parent: Node, child: Node, at: int) -> Node:
        upper = Node(child.run[:at], child.owner, child.visits, {child.run[at]: child})
        parent.children[upper.run[0]] = upper
        child.run = child.run[at:]
        return upper


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many first tokens two sequences share."""
    return common(_packed(a), _packed(b))


def _packed(ids: Sequence[int]) -> array[int]:
    return ids if isinstance(ids, array) and ids.typecode == "I" else array("I", ids)
