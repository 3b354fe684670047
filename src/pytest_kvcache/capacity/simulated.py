"""What a cache of one budget did with a trace."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..rows import Note
from .rules import Rules
from .timing import Gaps, WorkingSet


class Rate(NamedTuple):
    """Hit tokens of input tokens."""

    hit_tokens: int
    input_tokens: int

    @property
    def hit_rate(self) -> float | None:
        """The share, 0..1; None of nothing."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else None


class Residency(NamedTuple):
    """Evicted blocks, of the whole run.

    Attributes:
        lifetime: from the request that brought a block to the one that it made room for.
        idle: from the last request that had it to the one that it made room for; 0 for a request's own block.
    """

    lifetime: Gaps
    idle: Gaps


class Reuse(NamedTuple):
    """When counted rows found what they reused, and why they missed the rest.

    The three kinds of missed tokens add up to all of them.

    Attributes:
        gap: from the last request that had a block to the one in which it hit.
        compulsory_tokens: in blocks that no request had before.
        capacity_tokens: in blocks that an unlimited cache would have had, so what the budget and the policy lose.
        excluded_tokens: that the rules never let hit: partial blocks, and the block of the last token.
    """

    gap: Gaps
    compulsory_tokens: int
    capacity_tokens: int
    excluded_tokens: int


@dataclass(frozen=True, slots=True, repr=False)
class Simulated:
    """A cache that a trace went through. Of warm rows only what they leave in the cache counts.

    ``hit_tokens + miss_tokens + uncovered_tokens == input_tokens``, always.

    Attributes:
        policy: who was evicted.
        rules: what was cached and what could hit.
        slots: budget in blocks, None without limit.
        block_size: tokens of a block.
        requests / input_tokens: counted ones.
        hit_tokens: reused. Of ``optimum``: what no policy exceeds; a note tells what is known to be reached, if less.
        uncovered_tokens: of blocks without an id, which can never hit.
        hit_requests: those with any hit.
        evictions: blocks that had to go, in the whole run.
        per_request: hit tokens of each counted row.
        sessions / tenants: rates of those that the rows name.
        residency: how long evicted blocks had been there.
        reuse: how long hit blocks had been waiting, and why the others missed.
        working_set: how much the trace has in use at a time; of the whole run, whatever the policy.
        notes: what should be known of the figures.
        engines: of a fleet, what each engine did.
        pooled: of a fleet, one cache of all their room.
    """

    policy: str
    rules: Rules
    slots: int | None
    block_size: int
    requests: int
    input_tokens: int
    hit_tokens: int
    uncovered_tokens: int
    hit_requests: int
    evictions: int
    per_request: array[int] = field(repr=False)
    sessions: Mapping[str, Rate] = field(repr=False)
    tenants: Mapping[str, Rate] = field(repr=False)
    residency: Residency = field(repr=False)
    reuse: Reuse = field(repr=False)
    working_set: WorkingSet = field(repr=False)
    notes: tuple[Note, ...] = ()
    engines: tuple[Simulated, ...] = field(default=(), repr=False)
    pooled: Simulated | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        rate = "undefined" if self.hit_rate is None else f"{self.hit_rate:.3f}"
        room = "without limit" if self.slots is None else f"of {self.slots:,} blocks"
        several = f" on {len(self.engines)} engines" if self.engines else ""
        hits = f"{self.hit_tokens:,} of {self.input_tokens:,} tokens"
        return f"<Simulated {self.policy} {room}{several}: hit rate {rate}, {hits}, {self.evictions:,} evictions>"

    @property
    def miss_tokens(self) -> int:
        """Input tokens that have an id and were not reused."""
        return self.input_tokens - self.hit_tokens - self.uncovered_tokens

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens / input tokens, 0..1; None when there were none."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else None

    @property
    def request_weighted(self) -> float | None:
        """The share of requests with any hit, 0..1; None when there were none. Not the hit rate."""
        return self.hit_requests / self.requests if self.requests else None
