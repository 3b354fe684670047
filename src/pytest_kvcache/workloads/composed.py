"""The prompts of a plan, token by token: a prefix, a number that tells the request from all others, a random rest."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from ..model import Phase, Request, Session
from ..model.sent import alone
from ..protocols import Tokenizer
from .heads import Heads
from .paths import Paths
from .plan import Place, Plan
from .proof import prove
from .wording import Wording

_TAIL = 16  # tokens after the shared prefix of a prefill prompt, so that the prefix itself is never its end
_MOST_BOUNDARIES = 2048  # re-encoded before sending; a workload beyond that is sampled
_MOST_HEADS = 16  # as well, whole


@dataclass(frozen=True)
class Source:
    """From what the pieces of a workload's prompts are drawn.

    Attributes:
        shared: seeds the prefixes.
        own: seeds what no two prompts share.
        warms: name of what is cached once the prefill is done, None when no other run uses it.
    """

    shared: str
    own: str
    warms: str | None = None


@dataclass(frozen=True)
class ComposedPrefix:
    """The prompts of a workload for one server, made anew at each iteration, the same every time.

    A prompt is: what the server puts in front of a text or a message, the first pieces of a prefix, a number that tells
    the request from all others of the prefix and from the prefix itself, a random rest.

    Sharing ends at exactly P while a prefix has fewer requests than the vocabulary has pieces, because then the first
    piece of the number differs between any two. Beyond that the number has more digits, lowest first, and a pair of
    requests may share all but one of them. With P = 0 each request begins with its number, and nothing but what stands
    in front of a text or message is shared. The prediction looks at the ids and so knows of all this.

    Attributes:
        title / notes: for reports.
        plan: which request takes what.
        wording: pieces, and what stands around them.
        paths: the prefixes, in pieces.
        source: seeds.
        output_len: generated tokens of each measured request.
        whole: prefill prompts are all prefixes, each filling its prompt; else those that are used, with a few more
            tokens.
        is_warm: an earlier run has sent the prefixes.
        header: what the chat template puts in front of every message can be hit.
    """

    title: str
    notes: tuple[str, ...]
    plan: Plan
    wording: Wording
    paths: Paths
    source: Source
    output_len: int
    whole: bool = False
    is_warm: bool = False
    header: bool = False
    _heads: Heads = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_heads", Heads(self.wording.vocabulary, self.paths, self.source.shared))

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def prefix_len(self) -> int:
        """Tokens that each measured request shares with its prefix, 0 where they differ."""
        least, most = self.plan.prefix_lens
        return most if least == most else 0

    @property
    def input_len(self) -> int:
        """Tokens of the longest measured prompt."""
        return max(self.plan.lengths)

    @property
    def rate(self) -> float:
        """Share of the measured prompts' tokens that is shared by construction."""
        return self.plan.shared_tokens / self.plan.query_tokens

    @property
    def warms(self) -> str | None:
        """What is cached once the prefill is done, for runs that find it there."""
        return self.source.warms

    @property
    def append_only(self) -> bool:
        """False: what these requests share is known by their tokens."""
        return False

    @property
    def fresh(self) -> bool:
        """True: the nonce stands at the head of every prompt."""
        return True

    def warmed(self) -> Iterator[Request]:
        """Return what an earlier run has sent, and a chat's header, which anybody may have."""
        if self.header:
            yield self._request(0, 0, [], "prefill", 1)
        if self.is_warm:
            yield from self._warming()

    def prefill(self) -> Iterator[Request]:
        """Return one request for each prefix, or nothing where an earlier run has sent them.

        Without a prefix a chat's header is warmed, so that no measured request may or may not find it.
        """
        if self.is_warm:
            return
        if self.plan.warm and self.paths.length:
            yield from self._warming()
        elif self.header:
            count = min(_TAIL, self._pieces(min(self.plan.lengths)))
            yield self._request(0, 0, self._rest(self._first(self._apart[1]), count, "header"), "prefill", 1)

    def load(self) -> Iterator[Request]:
        """Return the measured requests."""
        for index in range(len(self)):
            place = self.plan[index]
            head = self._head_len(place)
            mark = self._mark(place)
            numbers = self._rest(mark, self._pieces(place.input_len) - head, f"{index}")
            request = self._request(place.leaf, head, numbers, "load", self.output_len)
            alone = len(self.wording.lead) + head + len(mark)
            yield replace(request, prompt=replace(request.prompt, alone=alone))

    def sessions(self) -> Iterator[Session]:
        """Return each measured request by itself."""
        return alone(self.load())

    def again(self, lap: str) -> ComposedPrefix:
        """Return as many requests of the same prefixes, with rests that nobody has sent."""
        return replace(self, source=replace(self.source, own=f"{self.source.own}/{lap}"))

    def verify(self, tokenizer: Tokenizer) -> None:
        """Re-encode prefixes, the boundaries and a sample of whole prompts before anything is sent.

        Raises:
            WorkloadError: a text does not encode to the ids it was made of; shows where.
        """
        prove(tokenizer, self.wording.vocabulary, self._samples())

    def _samples(self) -> Iterator[list[int]]:
        head = self.paths.length
        used = list(self.plan.used) if head else []
        for leaf in used[:: max(1, len(used) // _MOST_HEADS)]:
            yield self._heads.head(leaf, head).numbers
        last = len(self) - 1
        whole = {0, last // 2, last}
        for index in sorted({*range(0, last + 1, max(1, last // _MOST_BOUNDARIES)), *whole}):
            place = self.plan[index]
            head = self._head_len(place)
            count = self._pieces(place.input_len) - head
            numbers = self._heads.head(place.leaf, head).numbers if head else []
            yield [*numbers[-8:], *self._tail(place, index, min(count, 8))]
            if index in whole:
                yield [*numbers, *self._tail(place, index, count)]

    def _pieces(self, input_len: int) -> int:
        """Return the pieces in a prompt of so many tokens."""
        return self.wording.pieces(input_len - self.wording.around)

    def _head_len(self, place: Place) -> int:
        """Return the pieces of the prefix in a prompt: P without what stands in front of it."""
        return self._head_pieces(place.prefix_len)

    def _head_pieces(self, tokens: int) -> int:
        return min(self.paths.length, self.wording.pieces(max(0, tokens - len(self.wording.lead))))

    def _warming(self) -> Iterator[Request]:
        head = self.paths.length
        if self.whole:
            for leaf in range(self.paths.leaves):
                yield self._request(leaf, head, [], "prefill", 1)
            return
        room = self._pieces(self.input_len) - head
        for leaf in self.plan.used:
            count = self.plan.by_leaf.counts[leaf]
            numbers = self._rest(self._boundary(leaf, head, count, count + 1), min(_TAIL, room), f"{leaf}/{count}")
            yield self._request(leaf, head, numbers, "prefill", 1)

    def _tail(self, place: Place, index: int, count: int) -> list[int]:
        """Return the pieces of a measured prompt behind its head."""
        return self._rest(self._mark(place), count, f"{index}")

    def _mark(self, place: Place) -> list[int]:
        """Return the pieces that tell a measured prompt from all others of its head."""
        head = self._head_len(place)
        if head:
            return self._boundary(place.leaf, head, place.position, self.plan.by_leaf.counts[place.leaf] + 1)
        return self._first(self._apart[0][place.column] + place.row)

    def _first(self, number: int) -> list[int]:
        of = self._apart[1] + int(self.header)  # the last one warms the header
        return self._heads.first(number, of, self.source.own)

    def _boundary(self, leaf: int, head: int, position: int, of: int) -> list[int]:
        return self._heads.after(self._heads.head(leaf, head), leaf, position, of, self.source.own)

    def _rest(self, mark: list[int], count: int, seed: str) -> list[int]:
        begun = mark[:count]
        return [*begun, *self.wording.vocabulary.draw(f"{self.source.own}/suffix/{seed}", count)[len(begun) :]]

    @cached_property
    def _apart(self) -> tuple[list[int], int]:
        """The first number of the requests of each rate among those that share nothing, and how many there are."""
        rows = self.plan.shared
        counts = [
            count if any(not self._head_pieces(row[column]) for row in rows) else 0
            for column, count in enumerate(self.plan.by_rate.counts)
        ]
        return [0, *accumulate(counts)][:-1], sum(counts)

    def _request(self, leaf: int, head_len: int, numbers: list[int], phase: Phase, max_tokens: int) -> Request:
        vocabulary, wording = self.wording.vocabulary, self.wording
        ids, text = array("I", vocabulary.encode(numbers)), ""
        if wording.way != "ids":
            text = vocabulary.text(numbers)
        if head_len:
            head = self._heads.head(leaf, head_len)
            ids, text = head.ids + ids, head.text + text
        api = "chat" if wording.way == "chat" else "completions"
        return Request(wording.prompt(ids, text), max_tokens, phase, leaf if head_len else None, api=api)
