"""Hit rate, service level and speed-up of one test -> one verdict. Pure.

What makes a hit rate inconclusive need not spoil a latency. A test that asks for no rate is judged whatever these say:

=====  ================================================================================================
KV101  the counters are absent, as are KV104, KV106 and KV117 incomplete or empty: times come from the client
KV107  the cache is off: that is what was timed
KV108  more was hit than can be, as KV114 the instrument of the rate is in doubt
KV111  the replies' cached tokens are absent, as by KV112 and KV122 impossible
KV115  no rate is predicted, or by KV123 not exact enough
KV124  this version's counters are known to be wrong
=====  ================================================================================================

Everything else does spoil it: what was sent is not what was asked for (KV110, KV113, KV129), others were served too
(KV103, KV105), the engine restarted (KV102), the run was broken off (KV116), or nothing of it was answered (KV109).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ..diagnose import findings
from ..judge import judge
from ..model import Expectation, Finding, Measurement, Objective, ServiceLevel, Severity, Status, Verdict
from .asked import SpeedUpAsked
from .judging import Judged, judged
from .speedup import Pair, judge_speed_ups

OF_RATE = frozenset(
    {
        "KV101",
        "KV104",
        "KV106",
        "KV107",
        "KV108",
        "KV111",
        "KV112",
        "KV114",
        "KV115",
        "KV117",
        "KV122",
        "KV123",
        "KV124",
    }
)
"""Findings that make a hit rate invalid, and leave times as they are."""

_EPSILON = 1e-9  # 0.29 * 100 is 28.999999999999996
_NO_FAILURE = Objective("error_rate", "total", 0.0, at_most=True, name="error_rate")
_NOTHING = Finding("KV106", "the test measured nothing", "call kv.run, which times what it sends")


def judge_test(
    expectation: Expectation | None,
    measurements: Sequence[Measurement],
    level: ServiceLevel | None = None,
    speed_up: SpeedUpAsked | None = None,
    pairs: Sequence[Pair] = (),
) -> Verdict:
    """Return the verdict on all that a test asks of its measurements.

    A failure that is certain outweighs what cannot be told of something else; nothing is certain in a measurement that
    is spoiled. Requests may fail only where ``error_rate`` or the rate's ``max_failed`` says so.

    Args:
        expectation: of the hit rate; None: none is asked for, so that only the validity of the measurement counts.
        measurements: judged together by their rate, each alone by its service level.
        level: of latency and throughput.
        speed_up: of warm over cold.
        pairs: cold and warm measurements.
    """
    rate = judge(_allowing(expectation, measurements, level, speed_up), measurements)
    if level is None and speed_up is None:
        return rate
    found: list[Judged] = []
    if level is not None:
        spoiled = _spoiling(rate.findings, measurements) if measurements else [_NOTHING]
        found += _unless(spoiled, judged(_with_failures(level, expectation), measurements))
    if speed_up is not None:
        both = [m for pair in pairs for m in pair]
        spoiled = _spoiling((finding for m in both for finding in findings(m)), both)
        found += _unless(spoiled, judge_speed_ups(speed_up, pairs))
    rated = rate if expectation is not None else None
    status = _status([*([rated.status] if rated else []), *(one.attained.reached for one in found)])
    deciding = _deciding(status, rated, found)
    known = rate.status != "inconclusive"
    return replace(
        rate,
        status=status,
        sentence=_sentence(status, rated, found, deciding),
        hit_rate=rate.hit_rate if known else None,
        hit_tokens=rate.hit_tokens if known else None,
        query_tokens=rate.query_tokens if known else None,
        findings=tuple(dict.fromkeys([*deciding, *_all(found), *(rate.findings if rated or measurements else ())])),
        objectives=tuple(one.attained for one in found),
    )


# --- requests that failed --------------------------------------------------------------------------------------------


def _allowing(
    expectation: Expectation | None,
    measurements: Sequence[Measurement],
    level: ServiceLevel | None,
    speed_up: SpeedUpAsked | None,
) -> Expectation:
    """Return what is asked of the rate, with as many failed requests as the service level allows."""
    sent = sum(len(m.exchanges) for m in measurements)
    if expectation is None and level is None and speed_up is None:
        return Expectation(min=0.0)  # only validity is judged
    if expectation is None:  # whether too many failed is not the rate's to say
        return Expectation(min=0.0, max_failed=sent)
    shares = [o.limit for o in level.objectives if o.metric == "error_rate"] if level is not None else []
    allowed = [int(share * sent + _EPSILON) for share in shares]
    return replace(expectation, max_failed=max(expectation.max_failed, *allowed, 0))


def _with_failures(level: ServiceLevel, expectation: Expectation | None) -> ServiceLevel:
    """Return a service level that says how many requests may fail: none, unless something else does."""
    if expectation is not None or any(o.metric == "error_rate" for o in level.objectives):
        return level
    return replace(level, objectives=(*level.objectives, _NO_FAILURE))


# --- is it valid? ----------------------------------------------------------------------------------------------------


def _spoiling(seen: Iterable[Finding], measurements: Sequence[Measurement]) -> list[Finding]:
    """Return what makes times invalid. One level of several without any answer is no instrument's fault: it missed."""
    found = [f for f in dict.fromkeys(seen) if f.severity is Severity.INVALID and f.code not in OF_RATE]
    if any(f.code == "KV109" for f in found) and any(e.ok for m in measurements for e in m.exchanges):
        found = [f for f in found if f.code != "KV109"]
    return found


def _unless(spoiled: Sequence[Finding], found: Iterable[Judged]) -> list[Judged]:
    """Return what was judged, and that it cannot be told where its measurement is spoiled."""
    if not spoiled:
        return list(found)
    return [Judged(replace(one.attained, reached="inconclusive"), tuple(spoiled)) for one in found]


def _status(parts: Collection[Status]) -> Status:
    return "fail" if "fail" in parts else "inconclusive" if "inconclusive" in parts else "pass"


# --- what is said ----------------------------------------------------------------------------------------------------


def _deciding(status: Status, rated: Verdict | None, found: Sequence[Judged]) -> list[Finding]:
    """Return the findings that the status comes from, the hit rate's first."""
    weight = {"fail": Severity.MISSED, "inconclusive": Severity.INVALID}.get(status)
    of_rate = rated.findings if rated is not None and rated.status == status else ()
    return [finding for finding in (*of_rate, *_all(found)) if finding.severity is weight]


def _all(found: Iterable[Judged]) -> list[Finding]:
    return [finding for one in found for finding in one.findings]


def _sentence(status: Status, rated: Verdict | None, found: Sequence[Judged], deciding: Sequence[Finding]) -> str:
    of_rate = rated.sentence if rated is not None and rated.status == status else ""
    if status == "pass":
        return of_rate or "; ".join(one.attained.sentence for one in found)
    if status == "inconclusive":
        first = deciding[0]
        return of_rate or f"inconclusive: {first.sentence}{f'; {first.advice}' if first.advice else ''} [{first.code}]"
    missed = "; ".join(one.attained.sentence for one in found if one.attained.reached == "fail")
    return ". ".join(filter(None, (of_rate, f"{missed} [KV207]" if missed else "")))
