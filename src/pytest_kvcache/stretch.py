"""What came out between two moments of a load? Pure.

Requests are counted where they ended and first tokens where they came, so that a stretch in the middle of a load is
neither short of the requests that began before it nor of those that end behind it. Strict, only what began and ended
between the moments counts, as some benchmarks have it: short stretches then tell less than there was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import latency
from .distribution import Latency
from .model import Exchange, Level, PerRequest, Stretch
from .production import Production


def stretch_of(
    exchanges: Iterable[Exchange],
    produced: Production,
    level: Level,
    start: float,
    end: float,
    *,
    each: PerRequest | None = None,
    strict: bool = False,
) -> Stretch:
    """Return what came out from ``start`` to ``end``, monotonic seconds.

    Args:
        exchanges: all that may have touched the stretch.
        produced: when tokens came out.
        level: what was asked of the client.
        each: what a request has to meet to be good.
        strict: only requests that were sent and had ended between the moments.
    """
    touching = [e for e in exchanges if e.end >= start and (e.sent is None or e.sent <= end)]
    ended = [e for e in touching if start <= e.end <= end]
    begun = [e for e in touching if start <= (e.end if e.first_content is None else e.first_content) <= end]
    if strict:
        ended = begun = [e for e in ended if e.sent is not None and e.sent >= start]
    whole = [e for e in ended if e.ok]
    answered = [e for e in begun if e.ok]
    return Stretch(
        level=level,
        start=start,
        end=end,
        requests=len(whole),
        failed=len(ended) - len(whole),
        output_tokens=sum(e.completion_tokens or 0 for e in whole) if strict else produced.between(start, end),
        input_tokens=_sum([e.prompt_tokens for e in answered]),
        hit_tokens=_sum([e.cached_tokens for e in answered]),
        ttft=latency.ttft(answered),
        tpot=latency.tpot(whole),
        e2e=latency.e2e(whole),
        tokens_per_s=Latency.of(e.tokens_per_s for e in whole),
        good=None if each is None or not each.asked else sum(is_good(e, each) for e in whole),
        strict=strict,
    )


def is_good(exchange: Exchange, each: PerRequest) -> bool:
    """Tell whether a request met every limit; a duration that is not known meets none, except TPOT of one token."""
    if not exchange.ok:
        return False
    limits = ((exchange.ttft, each.ttft), (exchange.e2e, each.e2e))
    if any(limit is not None and (value is None or value > limit) for value, limit in limits):
        return False
    if each.tpot is None or (exchange.completion_tokens or 0) == 1:
        return True
    return exchange.tpot is not None and exchange.tpot <= each.tpot


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum; None when one of them is not told."""
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None
