"""What came out between two moments of a load? Pure.

Requests are counted where they ended and first tokens where they came, so that a stretch in the middle of a load is
neither short of the requests that began before it nor of those that end behind it. Strict, only what began and ended
between the moments counts, as some benchmarks have it: short stretches then tell less than there was.

Behind the last stretch of a load no other one counts what was in flight at its end. So what fails there, or hangs, is
its own: a server that stops to answer would else be left out of its figures because it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from . import latency
from .counts import total
from .distribution import Latency
from .model import Exchange, Level, PerRequest, Stretch
from .production import Production

_LONG = 2.0  # times what any other took: who has waited longer does not wait for the same reason


def stretch_of(
    exchanges: Iterable[Exchange],
    produced: Production,
    level: Level,
    start: float,
    end: float,
    *,
    each: PerRequest | None = None,
    strict: bool = False,
    last: bool = False,
) -> Stretch:
    """Return what came out from ``start`` to ``end``, monotonic seconds.

    Args:
        exchanges: all that may have touched the stretch.
        produced: when tokens came out.
        level: what was asked of the client.
        each: what a request has to meet to be good.
        strict: only requests that were sent and had ended between the moments.
        last: of its load; the requests of :func:`overdue` count, too.
    """
    touching = [e for e in exchanges if e.end >= start and _began(e) <= end]
    ended = [e for e in touching if start <= e.end <= end]
    begun = [e for e in touching if start <= (e.end if e.first_content is None else e.first_content) <= end]
    if strict:
        ended = begun = [e for e in ended if e.sent is not None and e.sent >= start]
    inside = [e for e in ended if e.ok]
    answered = [e for e in begun if e.ok]
    late = overdue(touching, start, end) if last else []
    whole = [*inside, *(e for e in late if e.ok)]
    waited = [*answered, *(e for e in late if e.ok and e.first_content is not None and e.first_content > end)]
    return Stretch(
        level=level,
        start=start,
        end=end,
        requests=len(whole),
        failed=len(ended) + len(late) - len(whole),
        output_tokens=sum(e.completion_tokens or 0 for e in inside) if strict else produced.between(start, end),
        input_tokens=total(e.prompt_tokens for e in answered),
        hit_tokens=total(e.cached_tokens for e in answered),
        ttft=latency.ttft(waited),
        tpot=latency.tpot(whole),
        e2e=latency.e2e(whole),
        tokens_per_s=Latency.of(e.tokens_per_s for e in whole),
        good=None if each is None or not each.asked else sum(is_good(e, each) for e in whole),
        strict=strict,
    )


def overdue(exchanges: Iterable[Exchange], start: float, end: float) -> list[Exchange]:
    """Return the requests in flight at the end that have failed since, or had waited twice as long as any that had got
    its first token, or its answer, by then.
    """
    flying, ttft, e2e = [], 0.0, 0.0
    for e in exchanges:
        if start <= _began(e) <= end < e.end:
            flying.append((e, end - _began(e)))
        if e.ok and start <= e.end <= end:
            e2e = max(e2e, e.e2e or 0.0)
        if e.ok and e.first_content is not None and start <= e.first_content <= end:
            ttft = max(ttft, e.ttft or 0.0)
    ttft, e2e = (_LONG * longest or math.inf for longest in (ttft, e2e))
    return [
        e
        for e, waited in flying
        if not e.ok or waited > e2e or (e.first_content is not None and e.first_content > end and waited > ttft)
    ]


def _began(exchange: Exchange) -> float:
    return exchange.queued if exchange.began is None else exchange.began


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
