"""Levels, searches and objectives: as the document holds them and as people read them."""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_kvcache.model import ClientLoad, Failure, Finding, Level, Loss, Period, Pressure, Tokens, Waterfall
from pytest_kvcache.report.levels import headline, levels_table
from pytest_kvcache.report.loads import client
from pytest_kvcache.report.plain import Record
from pytest_kvcache.report.terminal import table

from .made import REFUSED, TEN, WHOLE, at, judged, lines, measured, reached, samples, search, stretch

PLAIN = {"0": Tokens(1000, {"local": 700})}


def period(concurrency: int, held: str = "held", start: float = 100.0, **more: object) -> Period:
    kept = stretch(Level(concurrency), start=start, end=start + 30.0)
    return Period(kept, held, **more)  # type: ignore[arg-type] # as given by the tests below


# --- the document ----------------------------------------------------------------------------------------------------


def test_a_run_without_load_has_none() -> None:
    record = judged(measured(PLAIN))
    (run,) = record["runs"]
    assert (run["level"], run["stretch"], run["limit"], run["statements"]) == (None, None, None, [])
    assert (record["client"], record["sweep"], record["objectives"], record["statements"]) == (None, None, [], [])
    assert (record["errors"], record["tpot_s"]["count"]) == ({}, 0)


def test_a_stretch_in_figures() -> None:
    (run,) = judged(at(8, itl=samples(0.25, 0.75), good=1))["runs"]
    assert run["level"] == {"concurrency": 8, "rate": None}
    assert run["stretch"] == {
        "level": {"concurrency": 8, "rate": None},
        "seconds": 10.0,
        "strict": False,
        "requests": 2,
        "failed": 1,
        "requests_per_s": 0.2,
        "input_tokens": 400,
        "hit_tokens": 100,
        "hit_rate": 0.25,
        "output_tokens": 1000.0,
        "input_tok_s": 40.0,
        "output_tok_s": 100.0,
        "tokens_per_s": {"p5": 11.0, "p10": 12.0, "p50": 20.0, "mean": 20.0, "count": 2},
        "ttft_s": {"p50": 0.2, "p95": 0.29, "p99": 0.298, "mean": 0.2, "count": 2},
        "tpot_s": {"p50": 0.02, "p95": 0.02, "p99": 0.02, "mean": 0.02, "count": 1},
        "itl_s": {"p50": 0.5, "p95": 0.725, "p99": 0.745, "mean": 0.5, "count": 2},
        "e2e_s": {"p50": 2.0, "p95": 2.9, "p99": 2.98, "mean": 2.0, "count": 2},
        "good": 1,
        "goodput": 0.1,
    }
    untold = judged(at(8, input_tokens=None, hit_tokens=None))["runs"][0]["stretch"]
    assert [untold[name] for name in ("input_tokens", "hit_rate", "input_tok_s", "itl_s", "good", "goodput")] == [
        None
    ] * 6


def test_an_open_loop_has_a_rate() -> None:
    (run,) = judged(replace(measured(PLAIN), stretch=stretch(Level(rate=2.5))))["runs"]
    assert run["level"] == {"concurrency": None, "rate": 2.5}


def test_a_search_in_figures() -> None:
    periods = (period(2), period(14, "breached", 130.0, why="TTFT p95 2.31 s\x1b", stalled=3))
    (run,) = judged(search(*periods))["runs"]
    assert run["level"] == {"concurrency": 12, "rate": None}
    assert run["stretch"]["output_tok_s"] == 480.0
    limit = run["limit"]
    assert {name: limit[name] for name in ("level", "breached", "converged", "sentence")} == {
        "level": {"concurrency": 12, "rate": None},
        "breached": {"concurrency": 14, "rate": None},
        "converged": True,
        "sentence": "concurrency 12 held ...",
    }
    assert [(p["start"], p["seconds"], p["held"], p["why"], p["stalled"]) for p in limit["periods"]] == [
        (0.0, 30.0, "held", "", 0),
        (30.0, 30.0, "breached", "TTFT p95 2.31 s\\x1b", 3),
    ]
    assert limit["asked"] == [
        {"metric": "ttft", "statistic": "p95", "limit": 2.0, "at_most": True, "unit": "s"},
        {"metric": "tpot", "statistic": "each", "limit": 0.1, "at_most": True, "unit": "s"},
    ]
    assert limit["periods"][1]["level"]["concurrency"] == 14
    assert limit["periods"][1]["ttft_s"]["p95"] == 0.29


def test_a_search_that_found_nothing() -> None:
    (run,) = judged(search(held=None, breached=None))["runs"]
    assert (run["level"], run["stretch"], run["limit"]["level"], run["limit"]["breached"]) == (None, None, None, None)
    assert run["limit"]["periods"] == []


def test_the_client_over_several_runs() -> None:
    one = ClientLoad(samples(0.001, 0.003), samples(0.01, 0.02), 0.2)
    two = ClientLoad(samples(0.002), samples(), None, processes=4)
    record = judged(measured(PLAIN, client=one), measured(PLAIN, client=two), measured(PLAIN))
    assert [run["client"] for run in record["runs"]] == [
        {
            "lag_s": {"p50": 0.002, "p99": 0.00298, "max": 0.003, "count": 2},
            "queueing_s": {"p50": 0.015, "p95": 0.0195, "count": 2},
            "busy": 0.2,
            "processes": 1,
        },
        {
            "lag_s": {"p50": 0.002, "p99": 0.002, "max": 0.002, "count": 1},
            "queueing_s": {"p50": None, "p95": None, "count": 0},
            "busy": None,
            "processes": 4,
        },
        None,
    ]
    assert record["client"] == {
        "lag_s": {"p50": 0.002, "p99": 0.00298, "max": 0.003, "count": 3},
        "queueing_s": {"p50": 0.015, "p95": 0.0195, "count": 2},
        "busy": 0.2,
        "processes": 4,
    }
    assert client([]) is None


def test_objectives_of_the_test_and_of_each_run() -> None:
    record = judged(measured(PLAIN), measured(PLAIN), objectives=(reached(note="a\x1b"),))
    told = {
        "name": "ttft_p95",
        "metric": "ttft",
        "statistic": "p95",
        "limit": 2.0,
        "at_most": True,
        "unit": "s",
        "verdict": "pass",
        "value": 1.31,
        "low": 1.2,
        "high": 1.4,
        "samples": 812,
        "sentence": "ttft_p95: 1.310 s, wanted at most 2.000 s",
        "note": "a\\x1b",
    }
    assert record["objectives"] == [told]
    assert [run["objectives"] for run in record["runs"]] == [[told], [told]]


def test_statements_of_runs_and_over_levels() -> None:
    several = [at(level, output_tokens=1000.0, requests=9) for level in (10, 20)]
    busy = replace(several[0], pressure=Pressure(preemptions=3))
    record = judged(busy, several[1])
    assert record["statements"] == [
        "output stops growing from concurrency 10 on: 100 tok/s there, 100 tok/s at 20",
        "requests are preempted from concurrency 10 on: 3 at 10",
    ]
    assert [run["statements"] for run in record["runs"]] == [
        ["running requests filled the cache: 3 preemptions"],
        [],
    ]


def test_errors_by_class() -> None:
    limited = replace(REFUSED, status=429, failure=Failure("http", "SECRET"))
    record = judged(measured(PLAIN, exchanges=(REFUSED, limited, limited)), measured(PLAIN, exchanges=(limited, WHOLE)))
    assert record["errors"] == {"HTTP 429": 3, "no connection": 1}
    assert record["runs"][1]["errors"] == {"HTTP 429": 1}
    assert "SECRET" not in str(record)


def test_json_holds_all_of_it() -> None:
    busy = ClientLoad(samples(0.001), samples(), 0.5)
    record = judged(at(4, measured(PLAIN, client=busy)), search(period(2)), objectives=(reached(),))
    assert json.loads(json.dumps(record, allow_nan=False)) == record


# --- the section -----------------------------------------------------------------------------------------------------


def test_levels_are_one_table() -> None:
    quiet = measured(PLAIN, pressure=Pressure(preemptions=0, kv_usage_peak=0.1, waiting_peak=0), notes=("a note",))
    busy = replace(quiet, pressure=Pressure(preemptions=12, kv_usage_peak=0.98, waiting_peak=25))
    slow = ClientLoad(samples(0.5), samples(), None)
    quiet = replace(quiet, notes=("a note", "of this level alone"))
    few = [at(8, quiet), at(1024, replace(busy, client=slow), ttft=samples(), input_tokens=None)]
    assert lines(judged(*few, status="pass"))[2:-1] == [
        "  a title",
        "  a note",
        "    concurrency  requests  failed  TTFT p50     p95  TPOT p50  tok/s each  output tok/s  hit rate  KV usage"
        "  waiting  preempted  client lag",
        "              8         2       1    200 ms  290 ms   20.0 ms        20.0           100     0.700      10 %"
        "        0          0           -",
        "           1024         2       1         -       -   20.0 ms        20.0           100     0.700      98 %"
        "       25         12      500 ms",
        "  requests are preempted from concurrency 1024 on: 12 at 1024",
        "  the cache is full from concurrency 1024 on: KV usage 98 % at peak",
        "  at concurrency 1024:",
        "    requests waited in the server: 25 waiting at peak",
        "    running requests filled the cache: KV usage 98 % at peak, 12 preemptions",
        "    the client, without a TTFT to hold it against: event loop late by 500 ms p50, 500 ms p99, 500 ms max",
    ]


def test_a_column_that_nobody_tells_is_left_out_and_one_that_says_why_stands_last() -> None:
    runs = judged(at(8), at(16), objectives=(reached(verdict="fail"), reached("tpot_p50")))["runs"]
    header, *rows = levels_table(runs)
    assert header.split()[-2:] == ["hit", "rate"]
    assert [row.split()[-2:] for row in rows] == [["missed", "ttft_p95"]] * 2
    assert levels_table(judged(at(8))["runs"])[1].endswith("0.700  fail")
    assert levels_table(judged(at(8), status="pass")["runs"])[1].endswith("0.700")
    assert levels_table([]) == []


def test_where_reuse_was_lost_at_one_level_and_not_at_each_of_several() -> None:
    fall = Waterfall(1200, (Loss("cold", 500, "1 request"),), 700)
    run = measured(PLAIN, waterfall=fall)
    assert "    could be reused   1,200" in lines(judged(at(8, run), status="pass"))
    assert not any("could be reused" in line for line in lines(judged(at(8, run), at(16, run), status="pass")))


def test_rates_in_the_table() -> None:
    runs = [replace(measured(PLAIN), stretch=stretch(Level(rate=rate), good=1)) for rate in (0.25, 1.5)]
    header, *rows = levels_table(judged(*runs, status="pass")["runs"])
    assert header.split()[0] == "req/s"
    assert [row.split()[0] for row in rows] == ["0.25", "1.5"]
    assert "goodput" in header
    mixed = judged(at(2), runs[0], status="pass")
    assert levels_table(mixed["runs"])[0].split()[0] == "level"


def test_the_hit_rate_of_a_level_by_usage_where_no_counter_tells() -> None:
    (run,) = judged(replace(at(8), engines={}), status="pass")["runs"]
    run["hit_rate"]["measured"] = None
    assert levels_table([run])[1].endswith("0.250")


def test_the_sentence_of_the_only_level_stands_once() -> None:
    assert sum("hit rate ..." in line for line in lines(judged(at(8)))) == 1
    assert sum("hit rate ..." in line for line in lines(judged(at(8), at(16)))) == 3  # and which of them missed


def test_a_single_limit_stands_once() -> None:
    single = reached()
    told = judged(at(8), objectives=(single,), status="pass") | {"sentence": single.sentence}
    assert [line for line in lines(told) if single.sentence in line] == [single.sentence]
    beside = judged(at(8), objectives=(single,), status="pass")  # a hit rate that is said first
    assert f"  pass  {single.sentence}" in lines(beside)
    several = judged(at(8), objectives=(single, reached("tpot_p50")), status="pass") | {"sentence": single.sentence}
    assert f"  pass  {single.sentence}" in lines(several)


def test_a_note_tells_what_the_sentence_does_not() -> None:
    one = replace(
        reached(verdict="fail"), sentence="error rate 0.5: 3 x timeout", note="3 x timeout; missed in 2 of 3 runs"
    )
    told = lines(judged(at(8), objectives=(one, reached("tpot_p50")), status="fail"))
    assert "  fail  error rate 0.5: 3 x timeout (missed in 2 of 3 runs)" in told


def test_one_level_keeps_its_timing_and_its_waterfall() -> None:
    told = {"ttft": TEN, "queue": TEN, "decode": TEN, "prefill": TEN}
    record = judged(at(8, measured(PLAIN, server_latency=told, pressure=Pressure(preemptions=0))), status="pass")
    assert lines(record)[2:4] == [
        "  TTFT 200 ms/290 ms (p50/p95), 100 tok/s output, at concurrency 8",
        "  server: queue 750 ms, prefill 750 ms, TTFT 750 ms, decode 750 ms (means)",
    ]
    assert "  running requests left room in the cache: 0 preemptions" in lines(record)
    assert not any("pressure:" in line for line in lines(record))


def test_a_run_of_levels_that_is_not_as_wanted_says_so() -> None:
    record = judged(at(8), at(16), status="pass")
    record["runs"][1] |= {"verdict": "inconclusive", "sentence": "inconclusive: restarted"}
    assert [line for line in lines(record) if line.startswith("  run ")] == ["  run 2: inconclusive: restarted"]


def test_errors_of_levels_by_class() -> None:
    record = judged(at(8, measured(PLAIN, exchanges=(WHOLE, REFUSED))), at(16), status="pass")
    assert "  failed: 1 no connection" in lines(record)


def test_a_search_with_its_periods() -> None:
    periods = (
        period(2),
        period(14, "transition"),
        period(14, "breached", why="TTFT p95 2.31 s above 2.00 s", stalled=1200),
    )
    record = judged(search(*periods, pressure=Pressure(waiting_peak=0)), status="pass")
    assert lines(record)[2:-1] == [
        "  TTFT 200 ms/290 ms (p50/p95), 480 tok/s output, concurrency 12 held, 14 did not",
        "  a title",
        "  concurrency 12 held ...",
        "    concurrency  seconds  requests  failed  TTFT p50     p95  tok/s each  output tok/s",
        "              2     30.0         2       1    200 ms  290 ms        20.0            33  held",
        "             14     30.0         2       1    200 ms  290 ms        20.0            33  transition",
        "             14     30.0         2       1    200 ms  290 ms        20.0            33  breached"
        "    TTFT p95 2.31 s above 2.00 s; 1,200 requests stalled",
        "  over the whole search:",
        "    requests hardly waited in the server: 0 waiting at peak",
    ]


def test_a_long_search_is_folded() -> None:
    def shown(count: int) -> list[str]:
        record = judged(search(*(period(n + 1) for n in range(count))), status="pass")
        return [line.split()[0] for line in lines(record) if line.startswith("    ")]

    assert shown(25) == ["concurrency", *map(str, range(1, 26))]
    folded = shown(60)
    assert folded == ["concurrency", *map(str, range(1, 9)), "...", *map(str, range(45, 61))]
    assert "    ... 36 more periods ..." in lines(judged(search(*(period(n + 1) for n in range(60)))))
    assert shown(0) == []


def test_searches_and_other_runs_in_one_test() -> None:
    record = judged(search(period(2)), search(period(4)), measured(PLAIN), status="pass")
    told = [line for line in lines(record) if line.startswith(("  run ", "  concurrency 12"))]
    runs = [f"  run {number}: hit rate ..." for number in (1, 2, 3)]
    assert told == [runs[0], "  concurrency 12 held ...", runs[1], "  concurrency 12 held ...", runs[2]]


def test_objectives_stand_below_the_sentence() -> None:
    passed, missed = reached(), reached("tpot_p50", "inconclusive", None, "too few")
    assert lines(judged(measured(PLAIN), objectives=(passed, missed)))[:3] == [
        "hit rate ...",
        "  pass          ttft_p95: 1.310 s, wanted at most 2.000 s",
        "  inconclusive  tpot_p50: 1.310 s, wanted at most 2.000 s (too few)",
    ]


def test_a_finding_on_an_objective_stands_behind_it_and_not_once_more() -> None:
    missed = reached(verdict="fail", note="wanted at most 2.000 s")
    findings = (Finding("KV207", missed.sentence, "buy another GPU"), Finding("KV305", "something else"))
    assert [
        line for line in lines(judged(measured(PLAIN), objectives=(missed,), findings=findings)) if "KV" in line
    ] == [
        "  fail  ttft_p95: 1.310 s, wanted at most 2.000 s; buy another GPU [KV207]",
        "  -> something else [KV305]",
    ]


def test_statements_of_a_run_without_levels_only_where_an_objective_is_missed() -> None:
    run = measured(PLAIN, pressure=Pressure(preemptions=2))
    told = "running requests filled the cache: 2 preemptions"
    assert f"  {told}" in lines(judged(run, objectives=(reached(verdict="fail"),)))
    for record in (judged(run, objectives=(reached(),)), judged(run)):
        assert f"  {told}" not in lines(record)
        assert "  pressure: 2 preemptions" in lines(record)
    two = lines(judged(run, run, objectives=(reached(verdict="fail"),)))
    assert [two[n + 1] for n, line in enumerate(two) if line in ("  run 1:", "  run 2:")] == [f"    {told}"] * 2


# --- what stands for a test ------------------------------------------------------------------------------------------


def row(record: Record) -> str:
    """A test's line in the table, from its TTFT on."""
    return table([record])[1].split("700  ", 1)[-1]


def test_the_table_shows_the_highest_level() -> None:
    several = judged(at(8), at(32, ttft=samples(0.5), output_tokens=2000.0), at(16))
    assert row(several).endswith("test_a.py::test · at concurrency 32 (of 8, 32, 16)")
    assert "500 ms/500 ms  200 tok/s" in row(several)
    assert row(judged(at(8), at(8))).endswith("test_a.py::test · at concurrency 8")


def test_the_table_shows_what_held() -> None:
    def told(**more: object) -> str:
        return row(judged(search(period(2), **more)))  # type: ignore[arg-type] # as given below

    assert "200 ms/290 ms  480 tok/s" in told()
    assert told().endswith("test_a.py::test · concurrency 12 held, 14 did not")
    assert told(breached=None).endswith(" · concurrency 12 held")
    assert told(converged=False).endswith(" · concurrency 12 held, 14 did not (not converged)")
    assert told(held=None, breached=2).endswith(" · no level held, not even concurrency 2")
    assert told(held=None, breached=None).endswith(" · no level held")


def test_nothing_is_averaged_over_levels() -> None:
    exchanges = (WHOLE,)
    nothing = judged(search(period(2), held=None, exchanges=exchanges))
    mixed = judged(search(period(2), exchanges=exchanges), at(8, measured(PLAIN, exchanges=exchanges)))
    beside = judged(at(8, measured(PLAIN, exchanges=exchanges)), measured(PLAIN, exchanges=exchanges))
    assert [headline(record)[0] for record in (nothing, mixed, beside)] == [None, None, None]
    assert "ms/" not in row(nothing)
    plain = judged(measured(PLAIN, exchanges=exchanges), measured(PLAIN, exchanges=exchanges))
    whole = {"requests": 2, "ttft_s": plain["ttft_s"], "output_tok_s": plain["output_tokens_per_s"]}
    assert headline(plain) == (whole, "")
    assert row(plain).endswith("test_a.py::test")


def test_rates_have_their_unit() -> None:
    one = replace(measured(PLAIN), stretch=stretch(Level(rate=2.5)))
    assert row(judged(one)).endswith(" · at 2.5 req/s")
