"""Runs of a load as they come out: two runs of the same load differ, and requests of one run are alike."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import cache

from pytest_kvcache.distribution import Latency
from pytest_kvcache.model import Verdict
from pytest_kvcache.regression.asked import asked
from pytest_kvcache.regression.joining import join
from pytest_kvcache.regression.judging import judge
from pytest_kvcache.regression.values import Entry, Group

REQUESTS = 100
QUERY = 100_000
ALIKE = 0.6  # correlation of a request's logarithm with that of the one before it
SPREAD = 0.15  # of the logarithm, between requests
CONTEXT = {"engine": "vllm", "model": "m", "workload": "w", "sent": "d"}


def p95(random_: random.Random, between: float) -> float:
    """TTFT p95 of a run: lognormal between runs, and an autoregressive lognormal inside of one."""
    run = math.log(0.1) + random_.gauss(0, between)
    inside, found = random_.gauss(0, SPREAD), []
    for _ in range(REQUESTS):
        found.append(math.exp(run + inside))
        inside = ALIKE * inside + math.sqrt(1 - ALIKE**2) * random_.gauss(0, SPREAD)
    return Latency.of(found).p95 or 0.0


@cache
def pool(between: float) -> list[float]:
    """Enough runs to draw from, because to make each anew takes long."""
    random_ = random.Random(f"pool {between}")
    return [p95(random_, between) for _ in range(2000)]


def entry(random_: random.Random, runs: int, between: float, factor: float = 1.0, rate: float = 0.7) -> Entry:
    hits = [round(rate * QUERY)] * runs
    values = {
        "hit_rate": [rate] * runs,
        "hit_tokens": hits,
        "query_tokens": [QUERY] * runs,
        "ttft_p95": [value * factor for value in random_.sample(pool(between), runs)],
    }
    return Entry(CONTEXT, [Group("", runs, values)])


def outcomes(seed: str, times: int, runs: int, between: float, factor: float = 1.0, rate: float = 0.7) -> Counter[str]:
    """How often a comparison of two sessions came out how: hit rate -2 points and TTFT p95 +10 % are allowed."""
    random_ = random.Random(seed)
    limits = asked({"hit_rate": -0.02, "ttft_p95": "+10%"})
    found: Counter[str] = Counter()
    for _ in range(times):
        before, now = entry(random_, runs, between), entry(random_, runs, between, factor, rate)
        judged = judge(limits, before, now, Verdict("pass", "hit rate 0.700"))
        found[join(Verdict("pass", ""), judged, only=True).status] += 1
    return found
