"""What was measured in a window: tokens, pressure, what was predicted, and what is odd about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ..distribution import Latency
from ..histogram import Histogram
from ..production import Production
from .divergence import Divergence
from .exchange import Exchange
from .load import ClientLoad, Limit, Stretch
from .loss import Waterfall
from .phases import Moment, Span
from .server import ServerFacts


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one engine over a window, from its counters.

    Attributes:
        query: prompt tokens looked up, the denominator of every tier.
        hits: of these, reused, by tier; ``local`` is the device cache. Together they are all hits.
        prompt: prompt tokens by the engine's independent prompt counter; None without one.
        query_error / hit_error: how far the true numbers may lie from these, because the page prints few digits.
    """

    query: int
    hits: Mapping[str, int]
    prompt: int | None = None
    query_error: int = 0
    hit_error: int = 0

    @property
    def hit(self) -> int:
        """Hit tokens of all tiers."""
        return sum(self.hits.values())

    @property
    def local_hit(self) -> int:
        """Hit tokens of the device cache."""
        return self.hits.get("local", 0)

    @property
    def external_hit(self) -> int | None:
        """Hit tokens of every tier behind the device cache; None when the engine tells of none."""
        behind = [tokens for tier, tokens in self.hits.items() if tier != "local"]
        return sum(behind) if behind else None

    def of(self, tier: str) -> int | None:
        """Return the hit tokens of a tier, ``total`` and ``external`` too; None when the engine has no such tier."""
        if tier == "total":
            return self.hit
        return self.external_hit if tier == "external" else self.hits.get(tier)

    def __add__(self, other: Tokens) -> Tokens:
        tiers = dict.fromkeys([*self.hits, *other.hits])
        return Tokens(
            query=self.query + other.query,
            hits={tier: self.hits.get(tier, 0) + other.hits.get(tier, 0) for tier in tiers},
            prompt=None if self.prompt is None or other.prompt is None else self.prompt + other.prompt,
            query_error=self.query_error + other.query_error,
            hit_error=self.hit_error + other.hit_error,
        )


@dataclass(frozen=True, slots=True)
class Pressure:
    """How hard the engines had to work in the window. None: not reported; peaks are of the samples taken.

    Attributes:
        preemptions: requests that lost their blocks and were computed again.
        evictions: evicted blocks or tokens, as the engine counts them.
        kv_usage_peak: share of the cache that running requests held, 0..1, of the fullest engine.
        running_peak / waiting_peak: requests, over all engines.
        samples / missed: scrapes during the load that were had, and that failed.
    """

    preemptions: int | None = None
    evictions: int | None = None
    kv_usage_peak: float | None = None
    running_peak: int | None = None
    waiting_peak: int | None = None
    samples: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a cache of the server's block size reuses on a workload.

    Attributes:
        hit_tokens: of the measured requests, in total.
        query_tokens: prompt tokens of the measured requests.
        per_request: hit tokens of each measured request, in workload order.
        block_size: tokens per block used for the prediction.
        exact: False when the server does not tell its block size: then the numbers are those of a cache that shares
            token by token, an upper bound.
        slack: hit tokens that may come on top, because what was generated is not known token by token.
        room: of ``slack``, the part of each measured request; empty: only the total is known.
        prefill_hit_tokens: of the requests that warm the cache; more than this means it was warm already.
        fresh: nobody can have sent these prompts before; otherwise more may hit than these requests explain.
        capacity: tokens that the cache holds; None: an unlimited one.
    """

    hit_tokens: int
    query_tokens: int
    per_request: tuple[int, ...]
    block_size: int
    exact: bool = True
    slack: int = 0
    room: tuple[int, ...] = ()
    prefill_hit_tokens: int = 0
    fresh: bool = True
    capacity: int | None = None

    @property
    def hit_rate(self) -> float | None:
        """Token-weighted rate; None when nothing is asked."""
        return self.hit_tokens / self.query_tokens if self.query_tokens else None


class Severity(str, Enum):
    """How a finding weighs: INVALID makes the verdict inconclusive, MISSED fails it, DOUBT is only told."""

    INVALID = "invalid"
    MISSED = "missed"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation or doubt, with a code that stays the same between releases.

    ``KV1xx`` the measurement is invalid, ``KV2xx`` the expectation is missed, ``KV3xx`` a doubt worth telling.
    """

    code: str
    sentence: str
    advice: str = ""

    @property
    def severity(self) -> Severity:
        """Derived from the hundreds of the code."""
        return {"1": Severity.INVALID, "2": Severity.MISSED}.get(self.code[2:3], Severity.DOUBT)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured window with everything that is needed to judge it later, without any I/O.

    Attributes:
        title: what was run, one line.
        facts: the server.
        engines: tokens per engine of the endpoint by counters; empty when there are none to read.
        aside: tokens of engines that are shown and never summed, because they look up what others did: the decode side
            of a disaggregated pair, a tier server.
        pressure: None when nothing of it was read.
        disaggregated: replies came from a decode engine, so what they say of the cache is not about prefill.
        server_latency: the engines' own histograms over the window, by name (``ttft``, ``queue``, ...), seconds.
        exchanges: every measured request, failed ones included, in workload order; packed, so keep one that is read
            twice.
        gaps: between the content chunks of whole answers (ITL), seconds, exact to a microsecond.
        produced: generated tokens over time.
        client: how busy the client itself was; None when nothing was sent by it.
        stretch: of a level that was kept for a time: what came out in that time; None for a run of all requests.
        limit: of a search for the highest level: where it lies; None elsewhere.
        planned: how many requests the workload has; fewer exchanges: conversations ended early. None: any number.
        prefill: the requests that warmed the cache.
        own_traffic: True when all traffic in the window was sent by this package, so that tokens can be reconciled.
        prediction: of an unlimited cache; None when the prompts are not known token by token.
        simulated: of one that holds no more than the server's, all engines together; None when its size, its block
            size or the prompts are not known.
        prefix_len: tokens that a request shares by construction; None for traffic of the user's own.
        waterfall: where reuse was lost; None when that is not known.
        divergence: where requests that should share a prefix part; None when none do, or that is not known.
        notes: what a reader should know of the workload: rounding, the highest rate in reach.
        findings: what already went wrong while measuring.
        cache_state: how cold the cache was known to be at the start, one line.
        started / ended: the ends of the window.
        begun: when the run began, before anything of it was sent; None: not noted.
        phases: what it did since then, in order.
    """

    title: str
    facts: ServerFacts
    engines: Mapping[str, Tokens]
    aside: Mapping[str, Tokens] = field(default_factory=dict)
    disaggregated: bool = False
    pressure: Pressure | None = None
    server_latency: Mapping[str, Histogram] = field(default_factory=dict)
    exchanges: Sequence[Exchange] = ()
    gaps: Latency = field(default_factory=Latency)
    produced: Production = field(default_factory=Production, repr=False)
    client: ClientLoad | None = None
    stretch: Stretch | None = None
    limit: Limit | None = None
    planned: int | None = None
    prefill: tuple[Exchange, ...] = ()
    own_traffic: bool = True
    prediction: Prediction | None = None
    simulated: Prediction | None = None
    prefix_len: int | None = None
    waterfall: Waterfall | None = None
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    cache_state: str = ""
    started: float = 0.0
    ended: float = 0.0
    begun: Moment | None = None
    phases: tuple[Span, ...] = ()

    @property
    def counters(self) -> Tokens | None:
        """Tokens of all engines together; None when no counters were read."""
        total: Tokens | None = None
        for tokens in self.engines.values():
            total = tokens if total is None else total + tokens
        return total
