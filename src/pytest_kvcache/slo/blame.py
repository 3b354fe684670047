"""May the load generator itself have caused a miss? Pure.

A client that is late notices what came later than it came, and in an open loop it sends later than it was due, so times
look longer and never shorter: it can spoil a miss and never a pass.
"""

from __future__ import annotations

from ..model import Finding, Objective
from . import wording
from .figures import statistic
from .samples import Sample

_BUSY = 0.95  # CPU seconds over wall seconds
_DURATIONS = ("ttft", "itl", "tpot", "e2e")
_MIRRORED = {"p5": "p95", "p10": "p90"}  # the slow tail of a speed is the late tail of a time


def clients_own(objective: Objective, value: float, sample: Sample, said: str) -> Finding | None:
    """Return that the load generator may have caused a miss, None when it cannot have."""
    full = too_busy(sample, said)
    if full is not None and objective.metric in ("output_tok_s", "input_tok_s", "goodput"):
        return full
    late = _lag(objective, sample)
    if not late or not _explained(objective, value, sample, late):
        return None
    return _bottleneck(f"its own event loop was {wording.duration(late)} late", sample, said)


def too_busy(sample: Sample, said: str) -> Finding | None:
    """Return that a process of the client could not have sent or read much more, None when it could."""
    if sample.busy is None or sample.busy <= _BUSY:
        return None
    return _bottleneck(f"its busiest process computed {100 * sample.busy:.0f} % of the time", sample, said)


def _bottleneck(why: str, sample: Sample, said: str) -> Finding:
    advice = f"spread the load over more processes (--kv-processes={2 * sample.processes})"
    return Finding("KV127", f"the load generator was the bottleneck ({why}): {said}", advice)


def _lag(objective: Objective, sample: Sample) -> float:
    """Return the client's lag at the statistic that is judged."""
    if objective.statistic == "total":
        return sample.late
    return statistic(sample.lag, _MIRRORED.get(objective.statistic, objective.statistic)) or 0.0


def _explained(objective: Objective, value: float, sample: Sample, late: float) -> bool:
    metric = objective.metric
    if sample.scheduled and metric in ("ttft", "e2e", "tokens_per_s"):
        late *= 2
    if metric == "tpot":  # a chunk that is noticed late moves the time of one token by its share of the answer
        late /= max(1.0, _tokens_per_answer(sample) - 1)
    if metric in _DURATIONS:
        return objective.met_by(value - late)
    if metric == "tokens_per_s":
        seconds = sample.latencies["e2e"].p50 or 0.0
        return late >= seconds or objective.met_by(value * seconds / (seconds - late))
    if metric == "attainment" and sample.nearly is not None:
        return objective.met_by(sample.nearly / sample.ended)
    return metric == "goodput" and sample.nearly is not None and objective.met_by(sample.nearly / sample.seconds)


def _tokens_per_answer(sample: Sample) -> float:
    tokens = sample.tokens["output_tok_s"]
    return tokens / sample.answered if tokens is not None and sample.answered else 1.0
