"""How hard an endpoint was pushed, and what came out: levels, stretches, periods, and where the limit lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..distribution import Latency
from .objective import Objective, PerRequest

Held = Literal["held", "breached", "transition"]


@dataclass(frozen=True, slots=True)
class Level:
    """What is turned up: one of the two.

    Attributes:
        concurrency: sessions going at once (closed loop).
        rate: sessions that begin per second (open loop).
    """

    concurrency: int | None = None
    rate: float | None = None

    @property
    def value(self) -> float:
        """The number that is turned up."""
        return float(self.concurrency or 0) if self.rate is None else self.rate

    def __str__(self) -> str:
        return f"concurrency {self.concurrency}" if self.rate is None else f"{self.rate:.4g} req/s"


@dataclass(frozen=True, slots=True)
class Stretch:
    """What came out between two moments at one level.

    Of a level that was kept for a time, requests that failed or hung when it was over count as well.

    Attributes:
        level: what was asked of the client.
        start / end: monotonic seconds.
        requests: whole answers that count.
        failed: requests that ended without one.
        output_tokens: generated between the moments (strict: of the requests that began and ended between them).
        input_tokens: prompt tokens of the requests whose first token, or else end, came between them; None: not told.
        hit_tokens: of these, cached, by usage; None: not told.
        ttft / tpot / e2e: of the counted requests, seconds.
        tokens_per_s: completion tokens over end-to-end time, of each counted request.
        itl: gaps between chunks; None where they are only known of the whole run.
        good: counted requests that met every per-request limit; None where there was none.
        strict: only requests that began and ended between the moments count.
        lap: which repetition of the level it is, from 0.
    """

    level: Level
    start: float
    end: float
    requests: int
    failed: int
    output_tokens: float
    input_tokens: int | None
    hit_tokens: int | None
    ttft: Latency
    tpot: Latency
    e2e: Latency
    tokens_per_s: Latency
    itl: Latency | None = None
    good: int | None = None
    strict: bool = False
    lap: int = 0

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.start

    @property
    def output_tok_s(self) -> float | None:
        """Generated tokens per second."""
        return self.output_tokens / self.seconds if self.seconds > 0 else None

    @property
    def input_tok_s(self) -> float | None:
        """Prompt tokens per second, cached or not."""
        return None if self.input_tokens is None or self.seconds <= 0 else self.input_tokens / self.seconds

    @property
    def requests_per_s(self) -> float | None:
        """Whole answers per second."""
        return self.requests / self.seconds if self.seconds > 0 else None

    @property
    def goodput(self) -> float | None:
        """Requests per second that met every per-request limit."""
        return None if self.good is None or self.seconds <= 0 else self.good / self.seconds

    @property
    def hit_rate(self) -> float | None:
        """Cached share of the prompt tokens, by usage."""
        return None if not self.input_tokens or self.hit_tokens is None else self.hit_tokens / self.input_tokens


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """How busy the client itself was: what it may have added to what it measured.

    Attributes:
        lag: how late its event loop woke, of every sample in the window and all processes, seconds.
        queueing: from handing a request to the client until its body was handed to the socket, seconds.
        busy: CPU seconds over wall seconds of the busiest process; about 1: it could not have done more.
        processes: that sent.
    """

    lag: Latency
    queueing: Latency
    busy: float | None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Period:
    """One assessment period of a search for the limit.

    Attributes:
        stretch: what came out.
        held: whether every objective was met; ``transition``: the level had just changed, so it does not count.
        why: of a breach, one line: ``TTFT p95 2.31 s above 2.00 s``; of a transition, empty, or that the level was
            passed with ample headroom.
        stalled: requests that were in flight at its end for longer than any whole answer may explain.
    """

    stretch: Stretch
    held: Held
    why: str = ""
    stalled: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """Where the limit lies, as far as it was found.

    Attributes:
        level: the highest that held over whole periods; None: not even the lowest did.
        breached: the lowest that did not hold; None: none was tried.
        periods: every one, in order.
        converged: nothing between the two is left to try, or the highest allowed level held.
        stretch: all counted periods at ``level`` together; None without a level.
        sentence: one line with the confidence: what held, over how many periods and requests, and what did not.
        asked / each: the service level that the search was for: of a period, and of each request.
    """

    level: Level | None
    breached: Level | None
    periods: tuple[Period, ...]
    converged: bool
    stretch: Stretch | None
    sentence: str
    asked: tuple[Objective, ...] = ()
    each: PerRequest | None = None
