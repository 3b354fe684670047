"""Traces that were read as what they are not: in another block size, on another clock, with another last block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError, TraceError
from pytest_kvcache.plugin.replaying import replayed
from pytest_kvcache.traces import Trace, open_trace

from ..plugin.conftest import Run

DATA = Path(__file__).parents[1] / "data" / "traces"


def written(path: Path, *lines: dict[str, Any] | str) -> Path:
    file = path / "trace.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def reasons(trace: Trace) -> dict[str, int]:
    return {note.reason: note.count for note in trace.notes}


# --- T01: blocks of 16, read as blocks of 512 ------------------------------------------------------------------------

T01 = '{"timestamp":0,"input_length":100,"output_length":4,"hash_ids":[1,2,3,4,5,6,7]}'


def test_t01_the_sizes_that_would_fit_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, T01)
    with pytest.raises(
        TraceError,
        match=r"line 1: 7 ids need more than 3,072 tokens at block size 512 \(as given\), and its"
        r" input length is 100; fits block sizes 15\.\.16",
    ):
        open_trace(path, block_size=512)
    trace = open_trace(path, block_size=16)
    assert (trace.uncovered_tokens, reasons(trace)) == (0, {})
    assert trace.simulate().miss_tokens == 6 * 16 + 4


@pytest.mark.parametrize("size", range(1, 40))
def test_t01_every_other_size_is_refused(tmp_path: Path, size: int) -> None:
    path = written(tmp_path, T01)
    if size in (15, 16):
        assert open_trace(path, block_size=size).uncovered_tokens == 0
    elif size in (13, 14):  # a last, partial block without an id
        assert open_trace(path, block_size=size).uncovered_tokens == 100 - 7 * size
    else:
        with pytest.raises(TraceError, match=r"fits block sizes 15\.\.16"):
            open_trace(path, block_size=size)


def test_t01_one_row_among_many_is_enough(tmp_path: Path) -> None:
    fitting = '{"timestamp":0,"input_length":500,"output_length":4,"hash_ids":[1]}'
    with pytest.raises(TraceError, match=r"line 3: 7 ids need .*fits block sizes 15\.\.16"):
        open_trace(written(tmp_path, fitting, fitting, T01), block_size=512)


def test_t01_a_size_that_contradicts_the_row_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"input_length": 32, "hash_ids": [1, 2], "block_size": 16})
    with pytest.raises(TraceError, match=r"line 1: it says block size 16, and 20 holds \(as given\)"):
        open_trace(path, block_size=20)


# --- T03: milliseconds, seconds, or what? ----------------------------------------------------------------------------


def clock(*times: float) -> list[dict[str, Any]]:
    return [{"timestamp": time, "input_length": 16, "output_length": 1, "hash_ids": [0]} for time in times]


def test_t03_the_unit_is_that_of_the_form_or_of_the_user_and_stands_beside_the_span(tmp_path: Path) -> None:
    path = written(tmp_path, *clock(0, 3000, 6000))
    trace = open_trace(path, block_size=16)
    assert (trace.span, "span 6 s" in str(trace), "span 6 s" in repr(trace)) == (6.0, True, True)
    trace = open_trace(path, block_size=16, time_unit="s")
    assert (trace.span, "span 6000 s" in str(trace)) == (6000.0, True)


def test_t03_bailian_counts_seconds(tmp_path: Path) -> None:
    row = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 16, "hash_ids": [1]}
    (found,) = open_trace(written(tmp_path, row))
    assert found.time == 61.114


@pytest.mark.parametrize(("unit", "factor"), [("us", 10**6), ("ns", 10**9)])
def test_t03_clocks_of_gateways_since_1970(tmp_path: Path, unit: Any, factor: int) -> None:
    path = written(tmp_path, *clock(*(1_700_000_000 * factor + at * factor for at in (0, 3, 6))))
    assert open_trace(path, block_size=16, time_unit=unit).span == 6.0


def test_t03_the_span_of_the_conversation_trace() -> None:
    trace = open_trace(DATA / "mooncake_conversation_trace.jsonl.gz", block_size=512)
    assert trace.span == 3536.999
    assert "span 3537 s" in str(trace)


def test_t03_a_replay_that_would_take_more_than_a_day_has_to_be_confirmed(tmp_path: Path) -> None:
    path = written(tmp_path, *clock(0, 3_000_000, 90_000_000))  # 25 h in ms, read as seconds: 2.9 years
    given: dict[str, Any] = dict.fromkeys(("users", "concurrency", "output_len", "seed"))
    given |= {"max_span": 86_400.0, "send": "auto"}
    for unit, span in (("ms", "90,000 s"), ("s", "90,000,000 s")):
        trace = open_trace(path, block_size=16, time_unit=unit)  # type: ignore[arg-type] # a Literal
        with pytest.raises(ConfigurationError, match=f"spans {span}.*max_span=.*time_unit="):
            replayed(trace, speed=1.0, **given)
    trace = open_trace(path, block_size=16)
    assert replayed(trace, speed=2.0, **given)
    assert replayed(trace, speed=1.0, **{**given, "max_span": 1e5})


# --- T05: rows without tokens, and a beginning that says nothing -----------------------------------------------------

T05 = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,0,0,0,Conversation log
118,GPT-4,417,0,417,API log
"""


def test_t05_rows_without_input_are_dropped_and_counted_those_without_output_stay(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, T05.strip()))
    assert [(row.input_length, row.output_length) for row in trace] == [(472, 18), (417, 0)]
    assert len(trace) == 2
    assert reasons(trace) == {"zero_input": 1, "zero_output": 1, "no_ids": 2}
    assert "1 row left out, the first in line 3: 'Request tokens' is 0" in [note.sentence for note in trace.notes]


def test_t05_without_ids_there_is_no_hit_rate_and_not_one_of_0(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, T05.strip()))
    assert trace.uncovered_tokens == trace.input_tokens == 889
    for ask in (trace.simulate, trace.sweep, trace.first(1).simulate):
        with pytest.raises(TraceError, match="needs block ids, and no row has any: no hit rate can be derived"):
            ask()


def test_t05_a_slice_says_its_rate(tmp_path: Path) -> None:
    slow = [f"{at * 600},ChatGPT,10,1,11,API log" for at in range(10)]  # one request in ten minutes
    busy = [f"{5_400 + at / 10},ChatGPT,10,1,11,API log" for at in range(1, 1_000)]
    trace = open_trace(written(tmp_path, T05.splitlines()[0], *slow, *busy))
    assert trace.first(10).name == "first 10 of trace.jsonl (0.00185 requests/s)"
    assert trace.between(5_400, 6_000).name == "5400 s to 6000 s of trace.jsonl (10 requests/s)"
    assert "(0.183 requests/s)" in str(trace)


# --- T08: is the last, partial block listed? -------------------------------------------------------------------------


def rows(ids: list[int], **more: Any) -> list[dict[str, Any]]:
    return [{"input_length": 33, "hash_ids": ids, "block_size": 16, **more}] * 2


def test_t08_both_are_accepted_and_the_denominator_is_the_input(tmp_path: Path) -> None:
    listed = open_trace(written(tmp_path, *rows([10, 20, 99]))).simulate()
    assert (listed.hit_tokens, listed.input_tokens, listed.uncovered_tokens) == (33, 66, 0)
    assert listed.hit_rate == 0.5
    trace = open_trace(written(tmp_path, *rows([10, 20])))
    unlisted = trace.simulate()
    assert (unlisted.hit_tokens, unlisted.input_tokens, unlisted.uncovered_tokens) == (32, 66, 2)
    assert unlisted.hit_rate == 32 / 66
    assert trace.uncovered_tokens == 2
    assert reasons(trace)["uncovered"] == 2
    assert trace.sweep().ceiling == 32 / 66


def test_t08_a_trace_may_mix_them(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, *rows([10, 20, 99]), *rows([10, 20])))
    assert (trace.input_tokens, trace.uncovered_tokens) == (4 * 33, 2)
    assert trace.simulate().hit_tokens == 33 + 32 + 32


@pytest.mark.parametrize("ids", [[10], [10, 20, 30, 40]])
def test_t08_ids_for_a_block_less_or_a_block_more_are_refused(tmp_path: Path, ids: list[int]) -> None:
    with pytest.raises(TraceError, match=r"line 1: .* ids (leave 17 of 33|need more than 48)"):
        open_trace(written(tmp_path, *rows(ids)))


def test_t08_real_sessions_list_full_blocks_only() -> None:
    trace = open_trace(DATA / "agentic_8_sessions_block64.jsonl.gz")
    found = trace.simulate()
    assert (reasons(trace)["uncovered"], found.uncovered_tokens) == (157, 5_111)
    assert found.hit_tokens + found.miss_tokens + found.uncovered_tokens == found.input_tokens == 9_271_735


# --- T10: the file does not say its block size -----------------------------------------------------------------------

T10 = [{"input_length": 128, "hash_ids": [1, 2]}] * 2


def test_t10_the_size_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, *T10)
    with pytest.raises(
        TraceError,
        match=r"the block size is not said; all 2 rows looked at fit block sizes 64\.\.127.*Give"
        " block_size=",
    ):
        open_trace(path)
    found = open_trace(path, block_size=64).simulate()
    assert (found.hit_tokens, found.input_tokens, found.hit_rate) == (128, 256, 0.5)
    with pytest.raises(TraceError, match=r"line 1: 2 ids need more than 512 tokens at block size 512.*64\.\.127"):
        open_trace(path, block_size=512)


def test_t10_the_row_says_it(tmp_path: Path) -> None:
    path = written(tmp_path, *({**row, "block_size": 64} for row in T10))
    assert open_trace(path).simulate().hit_rate == 0.5


def test_t10_a_default_of_64_accounts_for_an_eighth_of_the_conversation_trace_and_is_refused() -> None:
    path = DATA / "mooncake_conversation_first1000.jsonl"
    with pytest.raises(TraceError, match=r"line 1: 14 ids leave 5,862 of 6,758 input tokens without one.*483\.\.519"):
        open_trace(path, block_size=64)
    trace = open_trace(path, block_size=64, strict=False)
    assert (trace.input_tokens, trace.uncovered_tokens) == (13_732_944, 13_732_944 - 1_747_520)
    assert any("can never hit" in note.sentence for note in trace.notes if note.reason == "short_ids")
    with pytest.raises(TraceError, match=r"all 1,000 rows looked at fit block sizes 512\. Give block_size="):
        open_trace(path)


# --- T12: FIFO beats LRU ---------------------------------------------------------------------------------------------


def test_t12_fifo_may_hit_more_than_lru() -> None:
    trace = open_trace(DATA / "mooncake_synthetic_trace.jsonl", block_size=512).first(1_000)
    lru, fifo = trace.simulate("lru", blocks=4_000), trace.simulate("fifo", blocks=4_000)
    assert (lru.hit_tokens, fifo.hit_tokens) == (576_735, 605_919)
    assert lru.input_tokens == fifo.input_tokens == 11_851_558
    assert trace.sweep("lru").hit_tokens(blocks=4_000) == 576_735
    assert trace.sweep("fifo", budgets=[4_000]).hit_tokens(blocks=4_000) == 605_919
    assert trace.simulate("optimum", blocks=4_000).hit_tokens >= 605_919


# --- as a user's test sees it ----------------------------------------------------------------------------------------


def test_a_user_reads_why_a_trace_does_not_open(pytester: pytest.Pytester, run: Run) -> None:
    written(pytester.path, T01)
    pytester.makepyfile("""
        def test_budget(kv_trace):
            assert kv_trace("trace.jsonl", block_size=16).sweep().ceiling == 0.0

        def test_wrong_size(kv_trace):
            kv_trace("trace.jsonl", block_size=512)
    """)
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*trace.jsonl, line 1: 7 ids need more than 3,072 tokens*fits block sizes 15..16*"])
