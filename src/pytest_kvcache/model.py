"""The nouns of a measurement, frozen: what was asked, sent, seen, predicted and concluded.

No I/O, no clock, no pytest here. Times are seconds on the monotonic clock, tokens are integers, rates are ratios 0..1,
and ``None`` always means "not reported", never zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

from .errors import ExpectationFailed

Weight = Literal["token", "request"]
Tier = Literal["total", "local", "external"]
Source = Literal["auto", "counters", "usage"]
Phase = Literal["prefill", "load"]
Status = Literal["pass", "fail", "inconclusive"]
ResetMode = Literal["never", "auto", "require"]


# --- what is asked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a ``hit_rate`` marker demands.

    Without ``target``, ``min`` and ``max`` the predicted rate is the target.

    Attributes:
        target: wanted rate, two-sided with ``tol``.
        tol: allowed absolute distance from ``target`` (0.02 = two points); also that of a predicted target.
        min: lowest acceptable rate, inclusive.
        max: highest acceptable rate, inclusive.
        weight: ``token`` = hit tokens / query tokens; ``request`` = share of requests with any hit.
        tier: device cache (``local``), connector or offload tier (``external``), or both together (``total``).
        source: the server's counters, the replies' ``usage``, or counters when the engine has them (``auto``).
    """

    target: float | None = None
    tol: float = 0.02
    min: float | None = None
    max: float | None = None
    weight: Weight = "token"
    tier: Tier = "total"
    source: Source = "auto"


# --- what is sent ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as the token ids the server must see.

    Attributes:
        ids: every token id the server counts, special tokens that its tokenizer adds included.
        text: what to send instead of ids; its encoding is exactly ``ids``. None: the ids themselves are sent.
    """

    ids: Sequence[int]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload.

    Attributes:
        prompt: what is looked up in the cache.
        max_tokens: generated tokens; the server is told to ignore its end-of-sequence token.
        phase: ``prefill`` warms the cache before the window, ``load`` is measured.
        group: number of the shared prefix, None when the prompt shares nothing.
    """

    prompt: Prompt
    max_tokens: int
    phase: Phase
    group: int | None = None


class Composed(Protocol):
    """A workload made concrete for one server: the same requests at every iteration, made as they are asked for."""

    @property
    def title(self) -> str:
        """One line for reports, without any prompt text."""

    @property
    def prefix_len(self) -> int:
        """Tokens that a measured request shares with earlier ones by construction, 0 for none."""

    def prefill(self) -> Iterator[Request]:
        """Return the requests that warm the cache, in order."""

    def load(self) -> Iterator[Request]:
        """Return the measured requests, in order."""

    def __len__(self) -> int:
        """Return the number of measured requests."""


# --- what was seen ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the endpoint told about itself before anything was measured.

    Attributes:
        engine: id of the engine profile (``vllm``, ``sim``, ``usage``).
        variant: the profile's variant that explains the counters, None for ``usage``.
        version: as the server reports it.
        model: the model that is asked for.
        block_size: tokens per cache block; None when the server does not tell.
        caching: False when the server says that its prefix cache is off; None when it does not tell.
        max_model_len: longest prompt plus output in tokens; None when unknown.
        simulated: True for the built-in engine, so that no report mistakes it for a real one.
        usage_flag / caching_flag: what the operator must set for ``cached_tokens`` to be reported, for the cache to
            work; for advice.
    """

    engine: str
    model: str
    variant: str | None = None
    version: str | None = None
    block_size: int | None = None
    caching: bool | None = None
    max_model_len: int | None = None
    simulated: bool = False
    usage_flag: str = ""
    caching_flag: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no valid answer, as data.

    Attributes:
        kind: ``http`` (a status other than 200), ``connect``, ``timeout``, ``cut`` (the body ended too early),
            ``server`` (an error object inside a 200 answer), ``protocol`` (not understood).
        message: what the server or the client library said, shortened, one line.
        retry_after: seconds the server asked to wait, from ``Retry-After``; None without.
    """

    kind: str
    message: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as it happened. Stamps are monotonic seconds.

    Attributes:
        queued: handed to the client.
        sent: the body was handed to the socket; None when it never was. Time to first token counts from here, so the
            client's own queue is never billed to the server.
        first_content: the first chunk that carries generated text, reasoning or a tool call.
        chunks: stamps of all such chunks, the first included.
        end: the answer was complete, or the request had failed.
        prompt_len: tokens that the client believes it sent; None when it cannot know.
        prompt_tokens / cached_tokens / completion_tokens: from ``usage``; None when not reported.
        finish_reason: of the first choice; None when the answer never finished.
        status: HTTP status, None without an answer.
        failure: None when the answer is whole.
        text: what was generated (content only).
        reasoning: what was generated as reasoning.
    """

    phase: Phase
    queued: float
    end: float
    sent: float | None = None
    first_content: float | None = None
    chunks: tuple[float, ...] = ()
    prompt_len: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    status: int | None = None
    failure: Failure | None = None
    text: str = field(default="", repr=False)
    reasoning: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """True when the answer is whole."""
        return self.failure is None

    @property
    def ttft(self) -> float | None:
        """Time to first token: body handed to the socket until the first chunk with content, in seconds."""
        if self.first_content is None or self.sent is None:
            return None
        return self.first_content - self.sent

    @property
    def e2e(self) -> float | None:
        """End-to-end latency: body handed to the socket until the answer was whole, in seconds."""
        return None if self.sent is None or self.failure is not None else self.end - self.sent


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one engine over a window, from its counters.

    Attributes:
        query: prompt tokens looked up.
        local_hit: of these, reused from the device cache.
        external_hit: reused from a connector or offload tier; None when the engine has no such counter.
        prompt: prompt tokens by the engine's independent prompt counter; None without one.
    """

    query: int
    local_hit: int
    external_hit: int | None = None
    prompt: int | None = None

    @property
    def hit(self) -> int:
        """Hit tokens of all tiers. External queries are the local misses, so hits add up over one denominator."""
        return self.local_hit + (self.external_hit or 0)

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            query=self.query + other.query,
            local_hit=self.local_hit + other.local_hit,
            external_hit=_add(self.external_hit, other.external_hit),
            prompt=_add(self.prompt, other.prompt),
        )


def _add(left: int | None, right: int | None) -> int | None:
    return left if right is None else right if left is None else left + right


@dataclass(frozen=True, slots=True)
class Prediction:
    """What an unlimited cache of the server's block size reuses on a workload.

    Attributes:
        hit_tokens: of the measured requests, in total.
        query_tokens: prompt tokens of the measured requests.
        per_request: hit tokens of each measured request, in workload order.
        block_size: tokens per block used for the prediction.
        exact: False when the server does not tell its block size: then the numbers are those of a cache that shares
            token by token, an upper bound.
        prefill_hit_tokens: of the requests that warm the cache; more than this means it was warm already.
    """

    hit_tokens: int
    query_tokens: int
    per_request: tuple[int, ...]
    block_size: int
    exact: bool = True
    prefill_hit_tokens: int = 0

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
        exchanges: every measured request, failed ones included, in workload order.
        prefill: the requests that warmed the cache.
        own_traffic: True when all traffic in the window was sent by this package, so that tokens can be reconciled.
        prediction: None for traffic of the user's own.
        prefix_len: tokens that a request shares by construction; None for traffic of the user's own.
        findings: what already went wrong while measuring.
        cache_state: how cold the cache was known to be at the start, one line.
        started / ended: the ends of the window.
    """

    title: str
    facts: ServerFacts
    engines: Mapping[str, Tokens]
    exchanges: tuple[Exchange, ...] = ()
    prefill: tuple[Exchange, ...] = ()
    own_traffic: bool = True
    prediction: Prediction | None = None
    prefix_len: int | None = None
    findings: tuple[Finding, ...] = ()
    cache_state: str = ""
    started: float = 0.0
    ended: float = 0.0

    @property
    def counters(self) -> Tokens | None:
        """Tokens of all engines together; None when no counters were read."""
        total: Tokens | None = None
        for tokens in self.engines.values():
            total = tokens if total is None else total + tokens
        return total


# --- what is concluded -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion about one or several measurements: a list of findings, where green is the empty list.

    Attributes:
        status: ``pass``, ``fail`` or ``inconclusive``.
        sentence: one line for a failure text; its first word is ``hit rate`` or ``inconclusive`` unless passed.
        hit_tokens / query_tokens: what the rate was computed from; None when there is no valid number.
        hit_rate: the judged rate; None when undefined or invalid.
        target: the rate that was asked for; None when only bounds were.
        source: where the rate came from, ``counters`` or ``usage``; None without one.
        findings: deviations and doubts, gravest first.
    """

    status: Status
    sentence: str
    hit_rate: float | None = None
    hit_tokens: int | None = None
    query_tokens: int | None = None
    target: float | None = None
    predicted: float | None = None
    ceiling: float | None = None
    source: Literal["counters", "usage"] | None = None
    findings: tuple[Finding, ...] = ()

    def check(self) -> None:
        """Raise :class:`~pytest_kvcache.errors.ExpectationFailed` unless the verdict is a pass."""
        if self.status != "pass":
            raise ExpectationFailed(self)
