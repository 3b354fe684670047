"""From measurements to one value a run, and which runs are repetitions of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.model import Exchange, Finding, Measurement, PerRequest, Verdict
from pytest_kvcache.regression.values import groups_of, invalid

from ..report.made import search
from ..slo.made import answer, failed, level, run

OK = Verdict("pass", "", 0.25, 25, 100, source="counters")


def many(count: int = 20, ttft: float = 0.1) -> list[Exchange]:
    return [answer(ttft + at / 1000, sent=float(at)) for at in range(count)]


def of(*runs: Measurement, sent: Any = None, verdict: Verdict = OK, each: PerRequest | None = None) -> Any:
    return groups_of([(run, verdict) for run in runs], sent or ["d"] * len(runs), each)


def test_one_value_a_run() -> None:
    (group,) = of(run(many()), run(many(ttft=0.2)))
    assert (group.where, group.runs) == ("", 2)
    assert group.values["ttft_p50"] == [0.1095, 0.2095]
    assert group.values["ttft_max"] == [0.119, 0.219]
    assert group.values["hit_rate"] == [0.25, 0.25]
    assert group.values["query_tokens"] == [100, 100]
    assert group.values["error_rate"] == [0.0, 0.0]
    assert group.values["output_tok_s"] == [
        pytest.approx(20 * 11 / 19.219, rel=1e-5),
        pytest.approx(220 / 19.319, rel=1e-5),
    ]


def test_a_percentile_of_too_few_samples_is_no_value() -> None:
    (group,) = of(run(many(19)))
    assert "ttft_p95" not in group.values
    assert "ttft_p50" in group.values
    (group,) = of(run(many(20)), run(many(19)))
    assert group.values["ttft_p95"] == [pytest.approx(0.11805), None]
    assert "ttft_p99" not in group.values


def test_good_requests_need_limits_of_their_own() -> None:
    assert "goodput" not in of(run(many()))[0].values
    (group,) = of(run(many()), each=PerRequest(ttft=0.1045))
    assert group.values["attainment"] == [0.25]


def test_runs_of_the_same_load_are_repetitions() -> None:
    one, other = run(many()), run(many(), title="other")
    assert [(g.where, g.runs) for g in of(one, one, one)] == [("", 3)]
    assert [(g.where, g.runs) for g in of(one, other, one)] == [("t", 2), ("other", 1)]
    groups = of(one, one, sent=["d", "e"])  # at another pace
    assert [(g.where, g.runs) for g in groups] == [("1: t", 1), ("2: t", 1)]
    assert [(g.where, g.runs) for g in of(one, one, sent=[None, None])] == [("", 2)]


def test_levels_are_loads_of_their_own_and_their_laps_repetitions() -> None:
    levels = [level(many(), 0, 20, concurrency, lap=lap) for concurrency in (4, 8) for lap in (0, 1)]
    groups = of(*levels)
    assert [(g.where, g.runs) for g in groups] == [("concurrency 4", 2), ("concurrency 8", 2)]
    groups = of(*levels, *(replace(each, title="other") for each in levels))
    assert [g.where for g in groups] == [f"{title} at concurrency {c}" for title in ("t", "other") for c in (4, 8)]


def test_searches_are_told_apart_by_what_they_sent_and_not_by_what_they_found() -> None:
    chat, code = replace(search(held=12), title="chat"), replace(search(held=14), title="code")
    assert [g.where for g in of(chat, code)] == ["chat", "code"]
    assert [(g.where, g.runs) for g in of(search(held=12), search(held=14))] == [("", 2)]


def test_numbers_have_the_digits_that_files_keep() -> None:
    (group,) = of(run([answer(1 / 3)]), verdict=replace(OK, hit_rate=2 / 3, hit_tokens=2_000_001))
    assert group.values["ttft_max"] == [0.333333]
    assert group.values["hit_rate"] == [0.666667]
    assert group.values["hit_tokens"] == [2_000_001]


def test_bounds_are_kept_where_a_rate_is_not_exact() -> None:
    (group,) = of(run(many()), verdict=replace(OK, low=0.24, high=0.26))
    assert (group.values["hit_rate_low"], group.values["hit_rate_high"]) == ([0.24], [0.26])
    assert "hit_rate_low" not in of(run(many()), verdict=replace(OK, low=0.25, high=0.25))[0].values


@pytest.mark.parametrize(
    ("code", "rate", "times"),
    [
        ("KV101", False, True),  # no counters: times come from the client
        ("KV103", False, False),  # others were served too
        ("KV115", True, True),  # nothing is predicted: what was measured is as good
        ("KV126", True, True),
        ("KV201", True, True),
        ("KV301", True, True),
    ],
)
def test_what_is_invalid_is_not_kept(code: str, rate: bool, times: bool) -> None:
    verdict = replace(OK, findings=(Finding(code, "why"),))
    groups = of(run(many()), verdict=verdict)
    assert ("hit_rate" in groups[0].values, "ttft_p50" in groups[0].values) == (rate, times)
    assert (invalid(verdict, "hit_rate") is None, invalid(verdict, "ttft_p50") is None) == (rate, times)


def test_requests_that_failed_are_told_and_leave_the_rest() -> None:
    (group,) = of(run([*many(), failed()]))
    assert group.values["error_rate"] == [pytest.approx(1 / 21, rel=1e-5)]
    assert group.values["ttft_p50"] == [0.1095]


def test_texts_of_others_can_be_shown() -> None:
    from pytest_kvcache.regression.values import Entry

    entry = Entry({"model": "a\x1b", "block_size": 16}, of(run(many(), title="\x00"), run(many())))
    shown = entry.shown(lambda text: text.encode("unicode_escape").decode())
    assert shown.context == {"model": "a\\x1b", "block_size": 16}
    assert [group.where for group in shown.groups] == ["\\x00", "t"]
