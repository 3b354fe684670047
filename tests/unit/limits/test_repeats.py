"""Several measurements of one level: figures by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency
from pytest_kvcache.limits.repeats import FIGURES, Repeated, repeated
from pytest_kvcache.model import Level

from .stretches import stretch


def test_two_values() -> None:
    # s = 2 / sqrt(2); half the interval: 12.706 * s / sqrt(2) = 12.706
    of = Repeated.of([9.0, 11.0])
    assert (of.mean, of.deviation) == (10.0, pytest.approx(2**0.5))
    assert (of.low, of.high) == (pytest.approx(10 - 12.7062), pytest.approx(10 + 12.7062))
    assert of.known == 2


def test_the_textbook() -> None:
    # 1..10: s = 3.02765, t(9) = 2.26216, 2.26216 * 3.02765 / sqrt(10) = 2.16586
    of = Repeated.of([float(i) for i in range(1, 11)])
    assert (of.mean, of.deviation) == (5.5, pytest.approx(3.02765, abs=1e-5))
    assert (of.low, of.high) == (pytest.approx(5.5 - 2.16586, abs=2e-3), pytest.approx(5.5 + 2.16586, abs=2e-3))


@pytest.mark.parametrize(
    ("count", "quantile"),
    [
        (3, 4.3027),
        (4, 3.1824),
        (5, 2.7764),
        (6, 2.5706),
        (7, 2.4469),
        (8, 2.3646),
        (9, 2.3060),
        (10, 2.2622),
        (31, 2.0423),
    ],
)
def test_quantiles_of_student(count: int, quantile: float) -> None:
    of = Repeated.of(
        [0.0] * (count - 1) + [float(count)]
    )  # mean 1, variance (count - 1 + (count - 1) ** 2) / (count - 1)
    assert of.deviation == pytest.approx(count**0.5)
    assert of.high == pytest.approx(1 + quantile, abs=2e-3)


def test_one_value_has_no_deviation_and_none_no_mean() -> None:
    assert Repeated.of([None, 3.0]) == Repeated((None, 3.0), 3.0)
    assert Repeated.of([None]) == Repeated((None,))
    assert Repeated.of([]) == Repeated(())
    assert Repeated.of([None, 3.0, 5.0]).known == 2
    assert Repeated.of([None, 3.0, 5.0]).mean == 4.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_the_mean_is_inside(values: list[float]) -> None:
    of = Repeated.of(values)
    assert of.low is not None
    assert of.high is not None
    assert of.mean is not None
    assert of.low <= of.mean <= of.high


def test_every_figure_of_a_stretch() -> None:
    one = stretch(
        [0.1, 0.2, 0.3],
        seconds=10.0,
        failed=1,
        output_tokens=600.0,
        tokens_per_s=[20.0, 30.0, 40.0],
        tpot=[0.01, 0.02, 0.03],
        e2e=[1.0, 2.0, 3.0],
        itl=Latency.of([0.01, 0.03]),
        good=2,
        input_tokens=900,
        hit_tokens=300,
    )
    found = {name: of.mean for name, of in repeated([one]).items()}
    wanted = {
        "ttft_mean": 0.2,
        "ttft_p50": 0.2,
        "ttft_p95": 0.29,
        "ttft_p99": 0.298,
        "tpot_mean": 0.02,
        "tpot_p50": 0.02,
        "tpot_p95": 0.029,
        "tpot_p99": 0.0298,
        "itl_mean": 0.02,
        "itl_p50": 0.02,
        "itl_p95": 0.029,
        "itl_p99": 0.0298,
        "e2e_mean": 2.0,
        "e2e_p50": 2.0,
        "e2e_p95": 2.9,
        "e2e_p99": 2.98,
        "tokens_per_s_mean": 30.0,
        "tokens_per_s_p5": 21.0,
        "tokens_per_s_p10": 22.0,
        "requests_per_s": 0.3,
        "output_tok_s": 60.0,
        "input_tok_s": 90.0,
        "goodput": 0.2,
        "attainment": 0.5,
        "error_rate": 0.25,
        "hit_rate": 1 / 3,
    }
    assert found == pytest.approx(wanted)
    assert set(FIGURES) == set(wanted)


def test_what_was_not_told_stays_untold() -> None:
    bare = repeated([stretch(), stretch()])
    for name, of in bare.items():
        told = name in ("requests_per_s", "output_tok_s")
        assert of.values == ((0.0, 0.0) if name == "requests_per_s" else (100.0, 100.0) if told else (None, None)), name


def test_measurements_in_order() -> None:
    of = repeated([stretch([0.1] * 30), stretch([0.3] * 60)])
    assert of["requests_per_s"].values == (1.0, 2.0)
    assert of["ttft_p95"].mean == pytest.approx(0.2)
    assert repeated([])["ttft_p95"] == Repeated(())


def test_levels_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="expected measurements of one level, got concurrency 10, concurrency 20"):
        repeated([stretch(), stretch(level=Level(concurrency=20))])
