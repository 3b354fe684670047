"""When sessions are due: by hand for constant arrivals, by the properties of the process for Poisson ones."""

from __future__ import annotations

import math
import statistics
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.pace import Arrival, Pace

RATES = st.floats(0.01, 1000.0)
RAMPS = st.floats(0.0, 1000.0)
ARRIVALS = st.sampled_from(["constant", "poisson"])


def times(pace: Pace, count: int) -> list[float]:
    return list(islice(pace.due(), count))


def expected_arrivals(pace: Pace, until: float) -> float:
    """The integral of the rate, as the area of a triangle and of the rectangle behind it."""
    assert pace.rate is not None
    risen = min(until, pace.ramp)
    height = pace.rate * risen / pace.ramp if pace.ramp else pace.rate
    return risen * height / 2 + (until - risen) * pace.rate


def test_constant_arrivals_have_one_gap_and_the_first_comes_at_once() -> None:
    assert times(Pace(None, 4.0, "constant"), 5) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert times(Pace(None, 0.1, "constant"), 3) == [0.0, 10.0, 20.0]
    assert times(Pace(None, 10.0, "constant"), 1001)[-1] == 100.0  # gaps are not added up, so nothing drifts


def test_a_ramp_of_constant_arrivals_by_hand() -> None:
    # 2 a second after 4 s: the rate is t / 2, its integral t**2 / 4, which is k at 2 * sqrt(k) until 4 have come at 4 s
    assert times(Pace(None, 2.0, "constant", ramp=4.0), 7) == pytest.approx(
        [0.0, 2.0, 2.8284271247, 3.4641016151, 4.0, 4.5, 5.0]
    )


@given(RATES, RAMPS, ARRIVALS, st.text(max_size=3))
def test_times_never_go_back_and_are_the_same_for_the_same_seed(
    rate: float, ramp: float, arrival: Arrival, seed: str
) -> None:
    pace = Pace(None, rate, arrival, ramp, seed)
    found = times(pace, 200)
    assert found[0] >= 0.0
    assert all(before <= after for before, after in pairwise(found))
    assert all(map(math.isfinite, found))
    assert times(pace, 200) == found
    assert times(Pace(3, rate, arrival, ramp, seed), 200) == found  # how many may be going is another question


@given(RATES, RAMPS)
def test_the_constant_session_k_is_due_when_k_have_come_by_the_integral(rate: float, ramp: float) -> None:
    pace = Pace(None, rate, "constant", ramp)
    found = times(pace, 100)
    assert [expected_arrivals(pace, at) for at in found] == pytest.approx(list(range(100)), abs=1e-6)


@given(RATES, RAMPS, st.text(max_size=3))
def test_poisson_arrivals_are_one_unit_process_in_another_time(rate: float, ramp: float, seed: str) -> None:
    unit = times(Pace(None, 1.0, "poisson", 0.0, seed), 100)
    pace = Pace(None, rate, "poisson", ramp, seed)
    assert [expected_arrivals(pace, at) for at in times(pace, 100)] == pytest.approx(unit, abs=1e-6)


def test_seeds_differ() -> None:
    assert times(Pace(None, 1.0, seed="a"), 5) != times(Pace(None, 1.0, seed="b"), 5)


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_poisson_gaps_are_exponential(seed: str) -> None:
    """Mean and deviation are 1/rate, and half the gaps are below ln(2)/rate; 20,000 gaps: four standard errors."""
    rate, count = 5.0, 20_000
    found = times(Pace(None, rate, "poisson", seed=seed), count)
    gaps = [after - before for before, after in pairwise([0.0, *found])]
    room = 4 / math.sqrt(count)
    assert statistics.fmean(gaps) * rate == pytest.approx(1.0, abs=room)
    assert statistics.pstdev(gaps) * rate == pytest.approx(1.0, abs=2 * room)
    assert statistics.median(gaps) * rate == pytest.approx(math.log(2), abs=room)


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
def test_the_mean_rate_of_a_ramp_is_half_of_what_it_rises_to(arrival: Arrival) -> None:
    pace = Pace(None, 100.0, arrival, ramp=200.0, seed="s")
    assert sum(at < 200.0 for at in times(pace, 20_000)) == pytest.approx(
        10_000, abs=0 if arrival == "constant" else 400
    )
    assert sum(at < 100.0 for at in times(pace, 20_000)) == pytest.approx(
        2_500, abs=0 if arrival == "constant" else 200
    )


def test_places_of_a_closed_loop() -> None:
    assert Pace(None).openings() is None
    assert list(Pace(3).openings() or ()) == [0.0, 0.0, 0.0]
    assert list(Pace(4, ramp=8.0).openings() or ()) == [0.0, 2.0, 4.0, 6.0]
    assert list(Pace(1, ramp=8.0).openings() or ()) == [0.0]
    assert list(Pace(4, 1.0, ramp=8.0).openings() or ()) == [0.0] * 4  # the rate rises, not the number of places


def test_a_closed_loop_has_no_due_times() -> None:
    with pytest.raises(ValueError, match="a closed loop has no rate"):
        Pace(8).due()


def test_the_pace_of_a_prefill() -> None:
    assert Pace(3, 9.0, "constant", 5.0, "s").closed() == Pace(3, None, "constant", 0.0, "s")
    assert Pace(None, 9.0).closed().concurrency == 8
