"""What counts, and what is one sample: runs alone, repetitions of a level together, a search by what held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.distribution import Latency
from pytest_kvcache.model import Level, Limit, Period, PerRequest
from pytest_kvcache.overview import Overview
from pytest_kvcache.slo.samples import samples_of

from .made import answer, client, failed, level, run

NOTHING = PerRequest()
TWO = [answer(0.1, sent=1.0), answer(0.3, sent=2.0, tokens=21)]  # end at 1.2 and 2.5


def test_a_run_counts_from_the_first_body_to_the_last_answer() -> None:
    measured = run([*TWO, failed(sent=0.5, end=9.0)])
    (sample,) = samples_of([measured], NOTHING)
    assert (sample.where, sample.answered, sample.failed, sample.ended) == ("", 2, 1, 3)
    assert sample.seconds == pytest.approx(1.5)
    assert sample.tokens == {"output_tok_s": 32, "input_tok_s": 200}
    assert list(sample.latencies["ttft"].samples) == pytest.approx([0.1, 0.3])
    assert list(sample.latencies["tpot"].samples) == pytest.approx([0.01, 0.01])
    assert list(sample.latencies["e2e"].samples) == pytest.approx([0.2, 0.5])
    assert list(sample.latencies["tokens_per_s"].samples) == pytest.approx([42.0, 55.0])
    assert len(sample.latencies["itl"]) == 10 + 20
    assert sample.failures == {"HTTP 429: slow down": 1}
    assert (sample.good, sample.nearly, sample.batches) == (None, None, {})
    rate = Overview.of(measured.exchanges).output_tok_s
    assert rate == pytest.approx(32 / 1.5)  # the figure that reports show
    assert sample.tokens["output_tok_s"] == pytest.approx(rate * sample.seconds)


def test_tokens_that_are_not_told_are_no_tokens() -> None:
    (sample,) = samples_of([run([TWO[0], replace(TWO[1], completion_tokens=None, prompt_tokens=None)])], NOTHING)
    assert sample.tokens == {"output_tok_s": None, "input_tok_s": None}
    assert sample.untold == 1


def test_nothing_is_no_sample_and_an_empty_run_an_empty_one() -> None:
    assert samples_of([], NOTHING) == []
    (sample,) = samples_of([run([])], NOTHING)
    assert (sample.ended, sample.seconds, sample.timed) == (0, 0.0, True)
    assert sample.tokens == {"output_tok_s": None, "input_tok_s": None}
    (own,) = samples_of([run([], own_traffic=False)], NOTHING)
    assert not own.timed


def test_runs_stay_apart_and_are_numbered() -> None:
    found = samples_of([run(TWO), run(TWO[:1])], NOTHING)
    assert [(sample.where, sample.answered) for sample in found] == [("in run 1 of 2", 2), ("in run 2 of 2", 1)]


def test_a_level_counts_what_ended_in_its_time() -> None:
    exchanges = [answer(0.1, sent=0.0, tokens=2), *TWO, failed(sent=1.5, end=1.6), failed(sent=2.5, end=2.8)]
    (sample,) = samples_of([level(exchanges, 1.0, 2.0)], PerRequest(ttft=0.2))
    assert (sample.answered, sample.failed, sample.seconds) == (1, 1, 1.0)  # the answer of 2.0 ends behind
    assert sample.good == 1
    assert sample.tokens["output_tok_s"] == pytest.approx(11)
    assert sample.tokens["input_tok_s"] == 100


def test_a_level_counts_what_failed_or_hung_when_it_was_over() -> None:
    exchanges = [*(answer(0.1, sent=at / 5) for at in range(4)), answer(9.0, sent=0.3), failed(sent=0.9, end=30.0)]
    (sample,) = samples_of([level(exchanges, 0.0, 1.0)], PerRequest(ttft=0.2))
    assert (sample.answered, sample.failed, sample.good) == (5, 1, 4)
    assert sample.latencies["ttft"].max == pytest.approx(9.0)
    assert dict(sample.failures) == {"HTTP 429: slow down": 1}


def test_a_strict_level_counts_what_also_began_in_it() -> None:
    early = answer(0.2, sent=0.9)
    exchanges = [early, *TWO]
    (loose,) = samples_of([level(exchanges, 1.0, 3.0)], PerRequest(ttft=1))
    (strict,) = samples_of([level(exchanges, 1.0, 3.0, strict=True)], PerRequest(ttft=1))
    assert (loose.answered, loose.good) == (3, 3)
    assert (strict.answered, strict.good) == (2, 2)


def test_repetitions_of_a_level_are_one_sample_and_levels_stay_apart() -> None:
    first, second = level(TWO, 0.0, 3.0, 4), level([*TWO, failed(sent=1.0, end=1.5)], 0.0, 3.0, 8)
    again = level([answer(0.7, sent=1.0)], 0.0, 2.0, 4, lap=1, client=client([0.5], busy=0.9))
    four, eight = samples_of([first, second, again], PerRequest(ttft=0.5))
    assert (four.where, eight.where) == ("at concurrency 4", "at concurrency 8")
    assert (four.answered, four.failed, four.seconds, four.good) == (3, 0, 5.0, 2)
    assert four.tokens == {"output_tok_s": pytest.approx(32 + 11), "input_tok_s": 300}
    assert list(four.latencies["ttft"].samples) == pytest.approx([0.1, 0.3, 0.7])
    assert (len(four.lag), four.busy) == (1, 0.9)
    assert (eight.answered, eight.failed) == (2, 1)


def test_a_level_that_was_asked_for_twice_is_no_repetition() -> None:
    good, bad = level(TWO, 0.0, 3.0, 4), level([answer(9.0, sent=1.0)], 0.0, 20.0, 4)
    found = samples_of([good, replace(good, stretch=replace(good.stretch, lap=1)), bad], NOTHING)
    assert [(sample.where, sample.answered) for sample in found] == [
        ("at concurrency 4 in run 1 of 2", 4),
        ("at concurrency 4 in run 2 of 2", 1),
    ]


def test_the_same_level_of_another_workload_is_another_sample() -> None:
    found = samples_of([level(TWO, 0.0, 3.0, title="a"), level(TWO, 0.0, 3.0, title="b")], NOTHING)
    assert [sample.where for sample in found] == ["at concurrency 8 in run 1 of 2", "at concurrency 8 in run 2 of 2"]


def test_good_requests_meet_every_limit() -> None:
    exchanges = [
        answer(0.1, tokens=11, step=0.01),  # e2e 0.2
        answer(0.1, tokens=11, step=0.05),  # e2e 0.6
        answer(0.4, tokens=11, step=0.01),  # e2e 0.5
        answer(0.1, tokens=1),
        failed(),
    ]
    for each, good in (
        (PerRequest(ttft=0.3), 3),
        (PerRequest(tpot=0.02), 3),
        (PerRequest(e2e=0.55), 3),
        (PerRequest(0.3, 0.02, 0.55), 2),
    ):
        (sample,) = samples_of([run(exchanges)], each)
        assert sample.good == good


def test_what_no_request_tells_is_not_known_rather_than_missed() -> None:
    quiet = [replace(e, first_content=None, last_content=None) for e in TWO]
    assert samples_of([run(quiet)], PerRequest(ttft=1))[0].good is None
    assert samples_of([run([*quiet, TWO[0]])], PerRequest(ttft=1))[0].good == 1  # an answer without content is not good
    untold = [TWO[0], replace(TWO[1], completion_tokens=None)]
    assert samples_of([run(untold)], PerRequest(tpot=1))[0].good is None
    assert samples_of([run(untold)], PerRequest(ttft=1))[0].good == 2
    assert samples_of([run([failed()])], PerRequest(ttft=1))[0].good == 0


def test_what_the_client_may_have_added_is_left_out_of_what_is_nearly_good() -> None:
    exchanges = [
        answer(0.1), answer(0.34), answer(0.36),  # TTFT
        answer(0.1, tokens=11, step=0.0248), answer(0.1, tokens=11, step=0.0252),  # TPOT, ten steps
    ]  # fmt: skip
    lagging = client([0.0] * 50 + [0.05] * 50)
    (sample,) = samples_of([run(exchanges, client=lagging)], PerRequest(ttft=0.3, tpot=0.02, e2e=10))
    assert (sample.good, sample.nearly, sample.late) == (1, 3, 0.05)
    (sample,) = samples_of([run(exchanges, client=lagging)], PerRequest(e2e=0.42))
    assert (sample.good, sample.nearly) == (3, 5)  # E2E 0.2, 0.44, 0.46, 0.344, 0.356


# --- a search for the limit ------------------------------------------------------------------------------------------


def search(held: str = "held") -> Limit:
    measured = [level(TWO, start, end, 4) for start, end in ((0.0, 1.3), (2.4, 3.0))]
    stretches = [m.stretch for m in measured if m.stretch is not None]
    other = level(TWO, 1.3, 2.4, 8).stretch
    assert other is not None
    periods = [Period(stretches[0], "held"), Period(other, "breached", "x"), Period(stretches[1], held)]  # type: ignore[arg-type] # a Literal
    return Limit(Level(4), Level(8), tuple(periods), True, None, "4 held")


def test_a_search_is_judged_by_the_periods_of_the_level_that_held() -> None:
    whole = level([*TWO, answer(0.1, sent=1.5)], 0.0, 3.0, 4)  # the third one ended while the level was higher
    (sample,) = samples_of([replace(whole, limit=search())], PerRequest(ttft=0.2))
    assert sample.good == 1  # both requests ended in its periods, one of them in time
    (sample,) = samples_of([replace(whole, limit=search("transition"))], PerRequest(ttft=1))
    assert sample.good == 1  # the second one ended in a period that does not count
    assert (sample.limit, sample.batches) == ("4 held", {})


def test_a_search_where_nothing_held_has_no_sample() -> None:
    measured = run(TWO, limit=Limit(None, Level(1), (), True, None, "not even 1 session held"))
    (sample,) = samples_of([measured], PerRequest(ttft=1))
    assert (sample.ended, sample.limit) == (0, "not even 1 session held")


# --- parts of a level's time -----------------------------------------------------------------------------------------


def steady(seconds: int) -> list[float]:
    return [0.1 * at for at in range(10 * seconds)]


def test_a_level_is_cut_into_equal_parts() -> None:
    exchanges = [answer(0.02, sent=sent, tokens=3, step=0.02) for sent in steady(50)]  # 0.06 s each, 10 a second
    (sample,) = samples_of([level(exchanges, 5.0, 45.0)], PerRequest(ttft=1))  # parts of 2 s
    assert {len(parts) for parts in sample.batches.values()} == {20}
    assert sample.batches["output_tok_s"] == pytest.approx([30.0] * 20, abs=0.5)
    assert sample.batches["input_tok_s"] == pytest.approx([1000.0] * 20)
    assert sample.batches["goodput"] == pytest.approx([10.0] * 20)
    assert 2 * sum(sample.batches["goodput"]) == sample.good


def test_parts_are_at_least_as_long_as_a_request() -> None:
    exchanges = [answer(1.0, sent=sent, tokens=2, step=0.6) for sent in steady(20)]  # 1.6 s each
    (sample,) = samples_of([level(exchanges, 0.0, 20.0)], NOTHING)
    assert len(sample.batches["output_tok_s"]) == 12
    (sample,) = samples_of([level(exchanges, 0.0, 15.0)], NOTHING)
    assert sample.batches == {}  # 9 parts are too few
    (sample,) = samples_of([level(exchanges, 0.0, 20.0, strict=True)], NOTHING)
    assert sample.batches == {}


def test_a_search_has_no_parts() -> None:
    exchanges = [answer(0.02, sent=sent, tokens=3, step=0.02) for sent in steady(20)]
    kept = level(exchanges, 0.0, 20.0)
    assert kept.stretch is not None
    found = Limit(kept.stretch.level, None, (Period(kept.stretch, "held"),), True, None, "8 held")
    (sample,) = samples_of([replace(kept, limit=found)], NOTHING)
    assert (sample.answered, sample.batches) == (200, {})


def test_parts_of_repetitions_are_joined_where_all_have_them() -> None:
    exchanges = [answer(0.02, sent=sent, tokens=3, step=0.02) for sent in steady(20)]
    long, short = level(exchanges, 0.0, 20.0, lap=1), level(exchanges[:3], 0.0, 0.3, lap=1)
    assert len(samples_of([long, long], NOTHING)[0].batches["output_tok_s"]) == 40
    assert samples_of([long, short], NOTHING)[0].batches == {}


def test_the_lag_is_that_of_the_client() -> None:
    (sample,) = samples_of([run(TWO, client=client([0.1, 0.2], 0.5, 3))], NOTHING)
    assert (list(sample.lag.samples), sample.busy, sample.processes) == ([0.1, 0.2], 0.5, 3)
    (sample,) = samples_of([run(TWO)], NOTHING)
    assert (sample.lag, sample.late, sample.busy, sample.processes) == (Latency(), 0.0, None, 1)
