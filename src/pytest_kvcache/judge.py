"""Expectation x measurements -> verdict. Pure arithmetic: what was measured, is it valid, is it what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .diagnose import findings, main_cause, surplus
from .expected import ceiling_rate, not_simulated, predicted_rate, predicted_slack, simulated_rate, simulated_slack
from .model import Expectation, Finding, Measurement, Severity, Status, Verdict
from .model.concluded import Origin
from .rate import Rate, rate_of, warm_rate

_EPSILON = 1e-9  # rates are ratios of integers; this only absorbs the rounding of `target ± tol` itself
_ALIKE = 2  # tokens with which distinct prompts may begin by chance: three of a thousand words never are
_NOTHING_ASKED = Finding(
    "KV115",
    "no rate is asked for and none is predicted here",
    "give target=, min= or max= (predicting needs kv.run, tier='total' and a known block size)",
)


def judge(expectation: Expectation, measurements: Sequence[Measurement]) -> Verdict:
    """Return the verdict on all measurements together.

    The rate is that of all windows: the sum of hits over the sum of queries, never a mean of rates. Any finding that
    makes a window invalid makes the verdict inconclusive, whatever the number says.
    """
    found = [finding for measurement in measurements for finding in findings(measurement)]
    rate = rate_of(expectation, measurements)
    measured: Rate | None = None
    if isinstance(rate, Finding):
        found.append(rate)
    elif rate.value is None:
        found.append(Finding("KV106", "nothing was looked up in the window: 0 of 0 tokens is no hit rate"))
    else:
        measured = rate
    least = ceiling_rate(expectation, measurements)
    ceiling = None if least is None else least + predicted_slack(expectation, measurements)
    target, slack = _aim(expectation, measurements)
    if target is None and expectation.target is not None:
        found.append(not_simulated(expectation, measurements))
    elif target is None and expectation.min is None and expectation.max is None:
        found.append(_NOTHING_ASKED)
    cause: Finding | None = None
    if measured is not None:
        found += [*_above(measured, ceiling, measurements), *_compare(expectation, measured, target, slack)]
        if any(finding.code == "KV201" for finding in found):
            cause = main_cause(expectation, measurements, _least(expectation, target) or 0.0)
        elif any(finding.code == "KV202" for finding in found):
            cause = surplus(measurements)
    found = _weigh_failures(expectation, measurements, found)
    ordered = tuple(sorted(dict.fromkeys(found), key=_gravity))
    status = _status(ordered)
    return Verdict(
        status=status,
        sentence=_sentence(status, measured, expectation, target, ordered, cause),
        hit_rate=measured.value if measured else None,
        hit_tokens=measured.hit if measured else None,
        query_tokens=measured.query if measured else None,
        target=target,
        target_from=None if target is None else _origin(expectation),
        min=expectation.min or None,  # at least 0 is every rate
        max=expectation.max,
        predicted=predicted_rate(expectation, measurements),
        simulated=simulated_rate(expectation, measurements),
        ceiling=ceiling,
        source=measured.source if measured else None,
        low=measured.low if measured and not measured.exact else None,
        high=measured.high if measured and not measured.exact else None,
        warm=warm_rate(expectation, measurements),
        findings=ordered,
    )


def _aim(expectation: Expectation, measurements: Sequence[Measurement]) -> tuple[float | None, float]:
    """Return the rate to compare with, None when there is none, and how far above it the true one may lie."""
    asked = expectation.target
    if asked is None and (expectation.min is not None or expectation.max is not None):
        return None, 0.0
    if asked is None:
        target, slack = predicted_rate(expectation, measurements), predicted_slack(expectation, measurements)
    elif asked == "simulated":
        target, slack = simulated_rate(expectation, measurements), simulated_slack(expectation, measurements)
    else:
        return asked, 0.0
    return target, 1.0 if _may_be_warm(measurements) else slack  # warm before: at least that much


def _origin(expectation: Expectation) -> Origin:
    if expectation.target is None:
        return "predicted"
    return "simulated" if expectation.target == "simulated" else "given"


# --- the comparison --------------------------------------------------------------------------------------------------


def _weigh_failures(
    expectation: Expectation, measurements: Sequence[Measurement], found: list[Finding]
) -> list[Finding]:
    failed = sum(not e.ok for m in measurements for e in m.exchanges)
    if failed <= expectation.max_failed:  # allowed: told, and no reason to fail
        return [replace(f, code="KV313") if f.code == "KV203" else f for f in found]
    return [f for f in found if f.code != "KV123"]  # they decide, so what they leave open does not matter


def _above(rate: Rate, ceiling: float | None, measurements: Sequence[Measurement]) -> Iterator[Finding]:
    if _may_be_warm(measurements):
        ceiling = None  # the cache may hold what was sent before: that is a warm start, and told as one
    # without a ceiling: no more can hit than was looked up
    highest = 1.0 if ceiling is None else ceiling
    if rate.low <= highest + _by_chance(rate, measurements) + _EPSILON:
        return
    preempted = sum(m.pressure.preemptions or 0 for m in measurements if m.pressure is not None)
    causes = [f"{preempted:,} preemptions: a request that is computed again finds its own blocks"] if preempted else []
    retried = sum(bool(e.earlier) for m in measurements for e in m.exchanges)
    again = f"{retried:,} requests were tried again: a retry finds what its earlier attempt computed"
    causes += [again] if retried else []
    causes += ["the prompts were cached before the run (same seed?)"] if ceiling is not None else []
    yield Finding(
        "KV108",
        f"the measured rate {rate.value or 0.0:.4f} is above {highest:.4f}, the most that any cache can reach here",
        ", or ".join([*causes, "the instrument is wrong"]),
    )


def _by_chance(rate: Rate, measurements: Sequence[Measurement]) -> float:
    """Return what requests may hit of prompts of other runs: where a block is a token or two, some begin alike."""
    short = [m for m in measurements if m.prediction is not None and m.prediction.block_size <= _ALIKE]
    return _ALIKE * sum(len(m.exchanges) for m in short) / rate.query if rate.query else 0.0


def _may_be_warm(measurements: Sequence[Measurement]) -> bool:
    return any(m.prediction is not None and not m.prediction.fresh for m in measurements)


def _compare(expectation: Expectation, rate: Rate, target: float | None, slack: float) -> list[Finding]:
    value = rate.value or 0.0
    found: list[Finding] = []
    low = _least(expectation, target)
    high = min(
        (x for x in (None if target is None else target + expectation.tol + slack, expectation.max) if x is not None),
        default=None,
    )
    if low is not None and rate.high < low - _EPSILON:
        found.append(Finding("KV201", f"hit rate {value:.3f} is {low - value:.3f} below {low:.3f}"))
    elif high is not None and rate.low > high + _EPSILON:
        found.append(Finding("KV202", f"hit rate {value:.3f} is {value - high:.3f} above {high:.3f}"))
    elif (low is not None and rate.low < low - _EPSILON) or (high is not None and rate.high > high + _EPSILON):
        found.append(
            Finding(
                "KV123",
                f"the true rate lies between {rate.low:.4f} and {rate.high:.4f}, and what was asked for is inside that",
                "few printed digits or failed requests leave this open: send more tokens, or use source='usage'",
            )
        )
    return found


def _least(expectation: Expectation, target: float | None) -> float | None:
    """Return the lowest rate that is good enough; None when none is too low."""
    lows = (None if target is None else target - expectation.tol, expectation.min)
    return max((low for low in lows if low is not None), default=None)


def _gravity(finding: Finding) -> tuple[int, int]:
    # A cause before its consequence: no counters to judge by is only what the earlier finding led to.
    rank = [Severity.INVALID, Severity.MISSED, Severity.DOUBT].index(finding.severity)
    consequence = finding.code in ("KV101", "KV106", "KV114", "KV115")
    return rank, int(consequence)


def _status(found: Sequence[Finding]) -> Status:
    severities = {finding.severity for finding in found}
    if Severity.INVALID in severities:
        return "inconclusive"
    return "fail" if Severity.MISSED in severities else "pass"


def _sentence(
    status: str,
    rate: Rate | None,
    expectation: Expectation,
    target: float | None,
    found: Sequence[Finding],
    cause: Finding | None,
) -> str:
    if status == "inconclusive":
        first = found[0]
        return f"inconclusive: {first.sentence}{f'; {first.advice}' if first.advice else ''} [{first.code}]"
    if rate is None or rate.value is None:
        return "hit rate undefined"
    unit = "requests" if expectation.weight == "request" else "tokens"
    measured = f"hit rate {rate.value:.3f}"
    numbers = f"{rate.hit:,} of {rate.query:,} {unit} hit"
    wanted = wanted_text(expectation, target)
    if status == "pass" and target is None and expectation.max is None and not expectation.min:
        return f"{measured}: {numbers}"  # whatever it is: nobody asked for a rate
    if status == "pass":
        return f"{measured}, wanted {wanted}: {numbers}"
    missed = next(f for f in found if f.severity is Severity.MISSED)
    what = missed.sentence if missed.code == "KV203" else _distance(rate.value, missed.code, expectation, target)
    return f"{measured}, wanted {wanted} ({what}): {numbers} [{missed.code}]{_why(cause)}"


def _why(cause: Finding | None) -> str:
    if cause is None:
        return ""
    advice = f"; {cause.advice}" if cause.advice else ""
    return f". {cause.sentence[:1].upper()}{cause.sentence[1:]}{advice} [{cause.code}]"


def _distance(value: float, missed: str, expectation: Expectation, target: float | None) -> str:
    """Return how far off the rate is: from the target, or from a bound where the target was met."""
    met = target is None or abs(value - target) <= expectation.tol + _EPSILON
    aim = target if not met else expectation.min if missed == "KV201" else expectation.max
    if aim is None:
        return "out of bounds"
    return f"{abs(value - aim):.3f} {'below' if value < aim else 'above'}"


def wanted_text(expectation: Expectation, target: float | None) -> str:
    """Return what was asked for, as people read it: ``0.700 ± 0.020``, ``at least 0.850``."""
    parts = []
    if target is not None:
        origin = _origin(expectation)
        parts.append(f"{target:.3f} ± {expectation.tol:.3f}{'' if origin == 'given' else f' ({origin})'}")
    if expectation.min is not None:
        parts.append(f"at least {expectation.min:.3f}")
    if expectation.max is not None:
        parts.append(f"at most {expectation.max:.3f}")
    asked = " and ".join(parts) or "a predicted rate"
    return f"{asked} from turn {expectation.skip_turns} on" if expectation.skip_turns else asked
