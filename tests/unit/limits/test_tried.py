"""What several periods at one level say together, and where the search goes from there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency
from pytest_kvcache.limits.asked import of_concurrency, of_rate
from pytest_kvcache.limits.breach import NOBODY, Stalled
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.limits.steering import aim, ramp
from pytest_kvcache.limits.tried import Tried, pooled
from pytest_kvcache.model import Level, Stretch

from .stretches import stretch

P95 = of_concurrency(2.0)
GOOD = stretch([1.0] * 100)
BAD = stretch([3.0] * 100)
NARROW = stretch([1.0] * 94 + [3.0] * 6)  # together with a good one 3 % are above the limit


@pytest.mark.parametrize(
    ("periods", "verdict", "confirmed"),
    [
        ([GOOD], "held", False),
        ([GOOD, GOOD], "held", True),
        ([BAD], "breached", False),
        ([BAD, BAD], "breached", False),
        ([GOOD, BAD], "breached", False),
        ([BAD, GOOD], "open", False),
        ([BAD, GOOD, GOOD], "breached", False),
        ([NARROW], "breached", False),
        ([NARROW, GOOD], "held", False),
        ([GOOD, NARROW], "held", False),
        ([GOOD, NARROW, GOOD], "held", True),
        ([NARROW, GOOD, GOOD], "held", True),
        ([NARROW, GOOD, stretch([1.0] * 94 + [3.0] * 6)], "breached", False),
    ],
)
def test_the_verdict_is_that_of_all_samples_together(periods: list[Stretch], verdict: str, confirmed: bool) -> None:
    tried = Tried(P95)
    for one in periods:
        tried.add(one, NOBODY, None)
    assert tried.verdict(None) == verdict
    assert tried.confirmed(None) is confirmed


def test_a_level_that_was_passed_has_no_verdict() -> None:
    tried = Tried(P95, passing=GOOD)
    assert tried.verdict(None) == "passed"
    assert not tried.confirmed(None)
    assert tried.pooled is GOOD
    tried.add(BAD, NOBODY, None)
    assert tried.pooled is BAD
    assert tried.verdict(None) == "breached"


def test_requests_that_stalled_in_one_period_count_for_all() -> None:
    tried = Tried(P95)
    period = tried.add(GOOD, Stalled(2, 40.0), None)
    assert (period.held, period.why, period.stalled) == ("breached", "2 requests without an answer for 40 s", 2)
    tried.add(GOOD, Stalled(1, 30.0), None)
    assert tried.why(None) == "3 requests without an answer for 40 s"


def test_a_queue_may_grow_too_slowly_for_one_period() -> None:
    level = Level(rate=10.0)  # one period: 67 may be missing; two: 103
    slow = stretch([1.0] * 240, level=level, good=240, requests=240)
    tried = Tried(of_rate(2.0))
    assert tried.add(slow, NOBODY, None).held == "held"
    assert tried.add(slow, NOBODY, None).held == "held"
    assert tried.why(None) == "8 of 10 req/s ended: the queue grows"
    assert tried.verdict(None) == "breached"


def test_a_collapse_is_one_against_lower_levels() -> None:
    tried = Tried(P95)  # 10 users and 100 answers: 1.1 * 100 tok/s against 0.8 of the best
    assert tried.add(GOOD, NOBODY, 138.0).why == "throughput fell from 138 to 100 tok/s"
    assert tried.verdict(138.0) == "breached"
    assert not tried.confirmed(130.0)
    tried.add(GOOD, NOBODY, 100.0)
    tried.add(GOOD, NOBODY, 100.0)
    assert tried.confirmed(129.0)  # 10 / 300 of 100 tok/s more
    assert not tried.confirmed(131.0)


@given(st.lists(st.lists(st.floats(0.0, 9.0), max_size=20), min_size=1, max_size=4))
def test_all_periods_as_one(samples: list[list[float]]) -> None:
    several = [
        stretch(
            one,
            start=1000.0 + 50.0 * number,
            seconds=10.0 + number,
            failed=number,
            output_tokens=7.0 * len(one),
            tpot=[value / 10 for value in one],
            e2e=[value + 1 for value in one],
            tokens_per_s=[value + 2 for value in one],
            itl=Latency.of(value / 9 for value in one),
            good=len(one) // 2,
            input_tokens=5 * len(one),
            hit_tokens=3 * len(one),
        )
        for number, one in enumerate(samples)
    ]
    every = sorted(value for one in samples for value in one)
    together = pooled(several)
    count = len(samples)
    assert together.start == 1000.0
    assert together.seconds == pytest.approx(10.0 * count + count * (count - 1) / 2)
    assert (together.requests, together.failed) == (len(every), count * (count - 1) // 2)
    assert [together.ttft.ranked(rank) for rank in range(len(together.ttft))] == every
    assert (len(together.tpot), len(together.e2e), len(together.tokens_per_s)) == (len(every),) * 3
    assert together.e2e.max == (None if not every else every[-1] + 1)
    assert together.tpot.max == (None if not every else every[-1] / 10)
    assert together.tokens_per_s.min == (None if not every else every[0] + 2)
    assert together.itl is not None
    assert len(together.itl) == len(every)
    assert together.output_tokens == 7.0 * len(every)
    assert (together.input_tokens, together.hit_tokens) == (5 * len(every), 3 * len(every))
    assert together.good == sum(len(one) // 2 for one in samples)


def test_what_one_period_does_not_tell_is_not_told_of_all() -> None:
    together = pooled([stretch([1.0], good=1, input_tokens=5, hit_tokens=0, itl=Latency.of([1.0])), stretch([1.0])])
    assert (together.good, together.input_tokens, together.hit_tokens, together.itl) == (None, None, None, None)
    with pytest.raises(ValueError, match="no stretch"):
        pooled([])


def test_the_more_headroom_the_faster_the_ramp() -> None:
    ladder = Ladder.of_concurrency(2, 2, 1000)
    rung = ladder.below(20)
    to = [
        ladder[ramp(ladder, rung, used)].concurrency for used in (0.0, 0.1, 0.25, 0.4, 0.5, 0.8, 0.95, 1.0, 1.2, None)
    ]
    assert to == [80, 80, 80, 50, 40, 24, 22, 22, 22, 22]
    assert ramp(ladder, ladder.below(900), 0.1) == ladder.top


def test_rates_ramp_alike() -> None:
    ladder = Ladder.of_rate(1.0, 0.1, 1000.0)
    assert ladder[ramp(ladder, 0, 0.1)].rate == pytest.approx(1.1**14)  # 3.797; the next is above 4


@pytest.mark.parametrize(
    ("used", "halve", "rung"),
    [
        ((0.5, 1.5), False, 20),  # the line reaches 1 in the middle
        ((0.2, 1.2), False, 26),  # 10 + 0.8 * 20
        ((0.2, 1.2), True, 20),
        ((0.5, 99.0), False, 14),  # taken for 3: 10 + 0.2 * 20
        ((0.0, 1.001), False, 29),
        ((0.99, 3.0), False, 11),
        ((None, 1.5), False, 20),
        ((0.5, None), False, 20),
        ((1.1, 1.5), False, 20),  # open: it broke once
        ((0.5, 0.9), False, 20),  # a collapse
        ((0.5, float("inf")), False, 14),
    ],
)
def test_between_two_the_line_is_followed_or_the_gap_is_halved(
    used: tuple[float | None, float | None], halve: bool, rung: int
) -> None:
    assert aim(10, 30, used, halve=halve) == rung


@given(st.integers(0, 1000), st.integers(2, 1000), st.floats(0, 2), st.floats(0, 50), st.booleans())
def test_an_aim_is_strictly_between(floor: int, gap: int, low: float, high: float, halve: bool) -> None:
    assert floor < aim(floor, floor + gap, (low, high), halve=halve) < floor + gap
