"""What became of all requests of a run? Counts and samples, in one pass over them. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import counts
from .distribution import Latency
from .model import Exchange

_CLASSES = {
    "connect": "no connection",
    "timeout": "timeout",
    "cut": "cut off",
    "server": "error inside an answer",
    "protocol": "answer not understood",
    "process": "client process died",
}


@dataclass(frozen=True, slots=True)
class Overview:
    """Requests in numbers; latencies as in :mod:`pytest_kvcache.latency`, in seconds.

    Attributes:
        total / failed / aborted: requests; aborted: sent, and given up on or cut off before the answer was whole.
        errors: failed requests by class, such as ``HTTP 429``, the most frequent first.
        ttft / tpot / e2e: of whole answers.
        lateness: sent so much later than scheduled; no samples without a schedule.
        output_tokens / prompt_tokens / cached_tokens: of whole answers, by usage; None when one does not tell.
        seconds: from the first request sent to the last answer, of whole answers; of several runs the sum, as nothing
            is sent between them; None without one.
    """

    total: int = 0
    failed: int = 0
    aborted: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    ttft: Latency = field(default_factory=Latency)
    tpot: Latency = field(default_factory=Latency)
    e2e: Latency = field(default_factory=Latency)
    lateness: Latency = field(default_factory=Latency)
    output_tokens: int | None = 0
    prompt_tokens: int | None = 0
    cached_tokens: int | None = 0
    seconds: float | None = None

    @classmethod
    def of(cls, exchanges: Iterable[Exchange]) -> Overview:
        """Return what became of requests."""
        errors: Counter[str] = Counter()
        ttft, tpot, e2e, lateness, sent, ended = (array("d") for _ in range(6))
        total = aborted = tokens = untold = prompts = unsaid = cached = unseen = 0
        for e in exchanges:
            total += 1
            aborted += _is_aborted(e)
            first = e.earlier[0] if e.earlier else e
            _add(lateness, None if e.scheduled is None or first.sent is None else first.sent - e.scheduled)
            if e.failure is not None:
                errors[class_of(e)] += 1
                continue
            _add(ttft, e.ttft)
            _add(tpot, e.tpot)
            _add(e2e, e.e2e)
            if e.sent is not None:
                sent.append(e.sent)
                ended.append(e.end)
                untold += e.completion_tokens is None
                tokens += e.completion_tokens or 0
                unsaid += e.prompt_tokens is None
                prompts += e.prompt_tokens or 0
                unseen += e.cached_tokens is None
                cached += e.cached_tokens or 0
        return cls(
            total=total,
            failed=sum(errors.values()),
            aborted=aborted,
            errors=dict(errors.most_common()),
            ttft=Latency.of(ttft),
            tpot=Latency.of(tpot),
            e2e=Latency.of(e2e),
            lateness=Latency.of(lateness),
            output_tokens=None if untold else tokens,
            prompt_tokens=None if unsaid else prompts,
            cached_tokens=None if unseen else cached,
            seconds=max(ended) - min(sent) if sent else None,
        )

    @property
    def output_tok_s(self) -> float | None:
        """Generated tokens per second while requests were sent and answered; None if unknown."""
        return self.output_tokens / self.seconds if self.output_tokens is not None and self.seconds else None


def together(several: Sequence[Overview]) -> Overview:
    """Return one overview of the requests of several runs."""
    if len(several) == 1:
        return several[0]
    errors: Counter[str] = Counter()
    for one in several:
        errors.update(one.errors)
    seconds = [one.seconds for one in several if one.seconds is not None]
    return Overview(
        total=sum(one.total for one in several),
        failed=sum(one.failed for one in several),
        aborted=sum(one.aborted for one in several),
        errors=dict(errors.most_common()),
        ttft=_samples(one.ttft for one in several),
        tpot=_samples(one.tpot for one in several),
        e2e=_samples(one.e2e for one in several),
        lateness=_samples(one.lateness for one in several),
        output_tokens=counts.total(one.output_tokens for one in several),
        prompt_tokens=counts.total(one.prompt_tokens for one in several),
        cached_tokens=counts.total(one.cached_tokens for one in several),
        seconds=sum(seconds) if seconds else None,
    )


def _add(samples: array[float], value: float | None) -> None:
    if value is not None:
        samples.append(value)


def _samples(several: Iterable[Latency]) -> Latency:
    return Latency.of(value for one in several for value in one.samples)


def _is_aborted(e: Exchange) -> bool:
    kind = e.failure.kind if e.failure is not None else None
    return e.finish_reason == "abort" or (e.sent is not None and kind in ("timeout", "cut"))


def class_of(e: Exchange) -> str:
    """Return the class of a failed request, without anything that a server said, such as ``HTTP 429``."""
    kind = e.failure.kind if e.failure is not None else ""
    if kind == "http":
        return "HTTP error" if e.status is None else f"HTTP {e.status}"
    return _CLASSES.get(kind, kind)
