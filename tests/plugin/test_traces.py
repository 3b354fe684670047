"""Traces in tests: opened without an endpoint, replayed on one, judged by a cache of the server's size."""

from __future__ import annotations

import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_kvcache.capacity.simulate  # noqa: F401 - heavy: inner runs would import it each time
from pytest_kvcache import TraceOpener, open_trace

from .conftest import Run, properties

Start = Callable[..., str]

BLOCK, HEADS, REQUESTS, SLOTS = 16, 5, 40, 50
LENGTH, OUTPUT = 11 * BLOCK - 3, 5  # with its answer a request fills 11 blocks; 8 are those of its head


def rows(step: int = 20) -> Iterator[dict[str, Any]]:
    """Heads in turn, each request with three blocks of its own, every ``step`` milliseconds."""
    for number in range(REQUESTS):
        head = [number % HEADS * 10 + at for at in range(8)]
        own = [1000 + number * 10 + at for at in range(3)]
        yield {
            "timestamp": number * step, "input_length": LENGTH, "output_length": OUTPUT, "hash_ids": head + own
        }  # fmt: skip


def hits_by_hand(slots: int, requests: int = REQUESTS) -> int:
    """Hit tokens of a cache of so many blocks: the least recent block goes first, of a request its last."""
    kept: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits = 0
    for number in range(requests):
        path = [*((-1 - number % HEADS, at) for at in range(8)), *((number, at) for at in range(3))]
        found = 0
        while found < (LENGTH - 1) // BLOCK and path[found] in kept:
            found += 1
        for block in reversed(path):
            kept[block] = None
            kept.move_to_end(block)
        while len(kept) > slots:
            kept.popitem(last=False)
        hits += found * BLOCK
    return hits


HITS, MOST = hits_by_hand(SLOTS), hits_by_hand(10_000)
QUERY = REQUESTS * LENGTH
assert 0 < HITS < MOST

OPEN = 'kv_trace("requests.jsonl", block_size=16)'
REPLAYED = f"""
import pytest

@pytest.mark.hit_rate(target="simulated", tol=0.0)
def test_replayed(kv, kv_trace):
    result = kv.replay({OPEN}, users=1)
    CHECK
"""


def written(folder: Path, name: str = "requests.jsonl", step: int = 20) -> Path:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, rows(step))))
    return path


@pytest.fixture
def small(start_sim: Start) -> Callable[..., str]:
    """Start an engine that holds 50 blocks of 16 tokens."""
    return lambda *arguments: start_sim("--capacity-blocks", str(SLOTS), *arguments)


# --- opened ----------------------------------------------------------------------------------------------------------


def test_a_cache_is_simulated_without_an_endpoint(pytester: pytest.Pytester, run: Run) -> None:
    written(pytester.path)
    pytester.makepyfile(
        f"""
        def test_capacity(kv_trace):
            trace = {OPEN}
            assert (len(trace), trace.input_tokens, trace.span) == ({REQUESTS}, {QUERY}, 0.78)
            assert trace.simulate(rules="engine").hit_tokens == {MOST}
            assert trace.simulate(blocks=10, rules="engine").hit_rate < 0.1

        def test_curve(kv_trace):
            trace = {OPEN}
            curve = trace.sweep(rules="engine")
            assert [curve.hit_tokens(blocks=size) for size in (40, 500)] == [
                trace.simulate(blocks=size, rules="engine").hit_tokens for size in (40, 500)
            ]
            assert curve.hit_rate(blocks=40) < curve.ceiling == {MOST / QUERY}

        def test_too_much_is_hoped_for(kv_trace):
            assert {OPEN}.simulate(rules="engine").hit_rate >= 0.9
        """
    )
    result = run()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"E *AssertionError: assert {MOST / QUERY} >= 0.9",
            f"E *<Trace requests.jsonl: {REQUESTS} requests, {QUERY:,} input tokens, *> = kv_trace('requests.jsonl'*",
        ]
    )
    result.stdout.no_fnmatch_line("*kvcache:*skipped*")


def test_places_in_which_a_trace_is_looked_for(pytester: pytest.Pytester, run: Run) -> None:
    beside = pytester.mkdir("inner")
    far = written(pytester.mkdir("far"), "c.jsonl")
    written(beside, "a.jsonl")
    written(beside, "b.jsonl")
    written(pytester.path, "b.jsonl", step=40)
    (beside / "test_places.py").write_text(
        f"""
import pytest

@pytest.fixture(scope="module")
def opened(kv_trace):
    return kv_trace("a.jsonl", block_size=16)

def test_beside_the_test_file(opened):
    assert opened.span == 0.78

def test_the_current_directory_comes_first(kv_trace):
    assert kv_trace("b.jsonl", block_size=16).span == 1.56

def test_several(kv_trace):
    assert len(kv_trace(["a.jsonl", {str(far)!r}], block_size=16)) == {2 * REQUESTS}

def test_nowhere(kv_trace):
    kv_trace("d.jsonl", block_size=16)

def test_nowhere_absolute(kv_trace):
    kv_trace("/nowhere/d.jsonl", block_size=16)

def test_arguments_arrive(kv_trace):
    kv_trace("a.jsonl", block_size=16, ids="hash")
"""
    )
    result = run("inner")
    result.assert_outcomes(passed=3, failed=3)
    places = f"in {pytester.path}, nor beside the test file, in {beside}"
    result.stdout.fnmatch_lines(
        [
            f"E *TraceError: d.jsonl: there is no such file or folder {places}",
            "E *TraceError: /nowhere/d.jsonl: there is no such file or folder",
            "E *TraceError: ids='hash': expected 'prefix' or 'content'",
        ]
    )


def test_standard_input_is_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with written(tmp_path).open() as lines:
        monkeypatch.setattr("sys.stdin", lines)
        assert len(TraceOpener(tmp_path)("-", block_size=16)) == REQUESTS


def test_the_fixture_opens_as_the_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    opens, ours = (inspect.signature(function).parameters for function in (open_trace, TraceOpener.__call__))
    assert list(opens.items()) == list(ours.items())[1:]  # names, kinds, defaults, annotations; one has a self
    seen: dict[str, object] = {}
    monkeypatch.setattr("pytest_kvcache.plugin.replaying.open_trace", lambda _, **options: seen.update(options))
    given = {name: object() for name in opens if name != "path"}
    TraceOpener(Path())("-", **given)  # type: ignore[arg-type] # only passed on
    assert seen == given


# --- replayed --------------------------------------------------------------------------------------------------------


def test_one_after_the_other_is_the_simulation_to_the_token(
    pytester: pytest.Pytester, run: Run, small: Callable[..., str]
) -> None:
    written(pytester.path)
    pytester.makepyfile(
        REPLAYED.replace(
            "CHECK",
            f"""assert (result.hit_tokens, result.query_tokens) == ({HITS}, {QUERY})
    assert result.simulated == {HITS / QUERY}
    assert result.predicted == {MOST / QUERY}
    assert [e.scheduled for e in result.exchanges] == [None] * {REQUESTS}
    assert [e.completion_tokens for e in result.exchanges] == [{OUTPUT}] * {REQUESTS}
    assert len(result.arrival) == 0""",
        )
    )
    result = run(f"--kv-endpoint={small()}", "-rP")
    result.assert_outcomes(passed=1)
    rate = f"{HITS / QUERY:.3f}"
    result.stdout.fnmatch_lines(
        [
            f"hit rate {rate}, wanted {rate} ± 0.000 (simulated): {HITS:,} of {QUERY:,} tokens hit",
            f"  a cache of 800 tokens in blocks of 16 reuses {rate} (simulated)",
            f"pass *{rate} *{rate} *{MOST / QUERY:.3f}*::test_replayed",
        ]
    )
    result.stdout.no_fnmatch_line("*later than scheduled*")


def test_on_the_clock(pytester: pytest.Pytester, run: Run, small: Callable[..., str]) -> None:
    written(pytester.path)
    pytester.makepyfile(
        REPLAYED.replace("users=1", "speed=2")
        .replace(
            "CHECK",
            """times = [e.scheduled for e in result.exchanges]
    assert [round(time - times[0], 6) for time in times] == [round(number * 0.01, 6) for number in range(40)]
    assert len(result.arrival) == 40
    assert 0 <= result.arrival.p50 <= result.arrival.max""",
        )
        .replace("tol=0.0", "tol=0.1")
    )
    result = run(f"--kv-endpoint={small()}", "-rP", "--kv-report=o.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["  sent * (p50), * (p95) later than scheduled", "  trace requests.jsonl: 40 * speed 2*"]
    )
    (check,) = json.loads((pytester.path / "o.json").read_text())["checks"]
    assert check["arrival_s"]["count"] == REQUESTS
    assert 0 <= check["arrival_s"]["p50"] <= check["arrival_s"]["p95"]


@pytest.mark.parametrize(
    ("arguments", "least", "most"),
    [("users=2", 2, 2), ("", 9, REQUESTS), ("concurrency=3", 3, 3)],
)
def test_how_many_go_at_once(
    pytester: pytest.Pytester, run: Run, start_sim: Start, arguments: str, least: int, most: int
) -> None:
    written(pytester.path, step=0)
    body = REPLAYED.replace('target="simulated", tol=0.0', "min=0.0").replace("users=1", arguments)
    pytester.makepyfile(
        body.replace(
            "CHECK",
            f"""moments = [(e.sent, 1) for e in result.exchanges] + [(e.end, -1) for e in result.exchanges]
    going = [sum(change for _, change in sorted(moments)[:number]) for number in range(len(moments))]
    assert {least} <= max(going) <= {most}
    assert len(result.arrival) == {0 if "users" in arguments else REQUESTS}""",
        )
    )
    run(f"--kv-endpoint={start_sim('--decode-time=0.02')}").assert_outcomes(passed=1)


def test_a_clock_of_its_own_is_no_limit_of_sessions(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    written(pytester.path, step=0)
    pytester.makepyfile(
        f"""
        def test_run(kv, kv_trace, kv_workload):
            trace = {OPEN}
            result = kv.run(kv_workload.trace(trace))
            moments = [(e.sent, 1) for e in result.exchanges] + [(e.end, -1) for e in result.exchanges]
            going = [sum(change for _, change in sorted(moments)[:number]) for number in range(len(moments))]
            assert max(going) > 2
            assert len(kv.run(kv_workload.trace(trace), concurrency=2).arrival) == len(trace)
            assert not len(kv.run(kv_workload.trace(trace, clock=False)).arrival)
        """
    )
    run(f"--kv-endpoint={start_sim('--decode-time=0.02')}", "--kv-concurrency=2").assert_outcomes(passed=1)


def test_records_tell_it_the_same_with_and_without_workers(
    pytester: pytest.Pytester, run: Run, small: Callable[..., str]
) -> None:
    written(pytester.path)
    pytester.makepyfile(
        test_first=REPLAYED.replace("CHECK", ""),
        test_second=REPLAYED.replace("CHECK", "")
        .replace('target="simulated", tol=0.0', "min=0.1")
        .replace("replayed(", "bounds("),
    )
    url, told = small(), {}
    for name, words in {"alone": [], "shared": ["-n", "2"]}.items():
        run(f"--kv-endpoint={url}", f"--kv-report={name}.json", f"--junitxml={name}.xml", *words).assert_outcomes(
            passed=2
        )
        checks = json.loads((pytester.path / f"{name}.json").read_text())["checks"]
        told[name] = [(check["hit_rate"], check["simulated_cache"], check["arrival_s"]) for check in checks]
    assert told["alone"] == told["shared"]
    (rates, cache, arrival), (second, *_) = told["alone"]
    rate = HITS / QUERY
    assert (rates["simulated"], rates["target"], rates["target_from"]) == (rate, rate, "simulated")
    assert (second["simulated"], second["target"], second["target_from"]) == (rate, None, None)
    assert cache == {"capacity_tokens": SLOTS * BLOCK, "block_size": BLOCK}
    assert arrival == {"p50": None, "p95": None, "p99": None, "mean": None, "count": 0}
    junit = properties(pytester.path / "alone.xml")
    assert junit == properties(pytester.path / "shared.xml")
    assert junit["test_replayed"]["kv_simulated"] == f"{rate:.6f}"


def test_async(pytester: pytest.Pytester, run: Run, small: Callable[..., str]) -> None:
    written(pytester.path)
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.hit_rate(target="simulated", tol=0.0)
        async def test_awaited(kv, kv_trace):
            result = await kv.areplay({OPEN}.first(10), users=1, output_len=2, seed=3, stream=False)
            assert [e.completion_tokens for e in result.exchanges] == [2] * 10
            assert {{e.first_content for e in result.exchanges}} == {{None}}

        @pytest.mark.asyncio
        async def test_not_awaited(kv, kv_trace):
            kv.replay({OPEN}, users=1)
        """
    )
    result = run(f"--kv-endpoint={small()}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["inconclusive: this is an async test: write `await kv.areplay(...)`"])


# --- what the simulation does not explain -----------------------------------------------------------------------------


def test_what_a_cache_of_that_size_would_not_lose_is_told(
    pytester: pytest.Pytester, run: Run, small: Callable[..., str]
) -> None:
    written(pytester.path)
    pytester.makepyfile(REPLAYED.replace("CHECK", ""))
    result = run(f"--kv-endpoint={small('--fault', 'readable_after=1e6')}", "--junitxml=j.xml")
    result.assert_outcomes(failed=1)
    rate = f"{HITS / QUERY:.3f}"
    result.stdout.fnmatch_lines(
        [
            f"hit rate 0.000, wanted {rate} ± 0.000 (simulated) ({rate} below): 0 of {QUERY:,} tokens hit [[]KV201[]]."
            f" {HITS:,} tokens lost to unknown causes; * [[]KV326[]]",
            f"*- eviction * -{MOST - HITS:,} *",
            f"*- unknown causes * -{HITS:,} *",
        ]
    )
    assert properties(pytester.path / "j.xml")["test_replayed"]["kv_simulated"] == f"{HITS / QUERY:.6f}"


def test_several_engines_are_simulated_as_one_and_routing_is_the_cause(
    pytester: pytest.Pytester, run: Run, start_sim: Start
) -> None:
    written(pytester.path)
    pytester.makepyfile(REPLAYED.replace("CHECK", f"assert result.simulated == {MOST / QUERY}"))
    url = start_sim("--engines=2", "--capacity-blocks=500")  # taken in turn: each computes every head
    result = run(f"--kv-endpoint={url}")
    result.assert_outcomes(failed=1)
    lost = HEADS * 8 * BLOCK
    result.stdout.fnmatch_lines(
        [
            f"hit rate *, * (simulated) (* below): {MOST - lost:,} of *[[]KV201[]]. {lost} tokens lost to routing"
            f" over engines; {HEADS} requests went to one of 2 engines *",
            "  the caches of 2 engines are simulated as one cache of 16,000 tokens: which of them serves a request is*",
            f"*- routing over engines * -{lost} *",
        ]
    )


def test_size_that_nobody_tells_is_inconclusive(pytester: pytest.Pytester, run: Run, small: Callable[..., str]) -> None:
    written(pytester.path)
    pytester.makepyfile(REPLAYED.replace("CHECK", "assert result.simulated is None"))
    result = run(f"--kv-endpoint={small()}", "--kv-engine=usage", "--kv-tokenizer=builtin")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: target='simulated' needs the size of the cache, and usage does not tell how many *[[]KV115[]]"]
    )


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "users=2, speed=3",
            "kv.replay(users=..., speed=...): users follow each other's answers*give users= or speed=",
        ),
        ("users=2, concurrency=3", "kv.replay(users=..., concurrency=...): *give users= or concurrency="),
        ("users=0", "kv.replay(users=0): expected at least 1"),
        ("users='2'", "kv.replay(users='2'): expected at least 1"),
        ("concurrency=0", "kv.replay(concurrency=0): expected at least 1 session at a time"),
        ("concurrency=1.5", "kv.replay(concurrency=1.5): expected at least 1 session at a time"),
        ("speed=0", "trace: speed=0 must be a number above 0"),
        ("output_len=0", "trace: output_len=0 must be *"),
        ("send='words'", "trace: send='words' must be *"),
        ("seed='x'", "trace: seed='x' must be *"),
        ("retries=-1", "kv.replay(retries=-1): expected 0 or more"),
        ("reset='always'", "kv.replay(reset='always'): expected 'never', 'auto' or 'require'"),
        ("max_span=0", "kv.replay(max_span=0): expected seconds, above 0"),
        ("max_span='day'", "kv.replay(max_span='day'): expected seconds, above 0"),
        ("max_span=float('nan')", "kv.replay(max_span=nan): expected seconds, above 0"),
        (
            "max_span=0.5",
            "kv.replay: trace requests.jsonl spans 0.78 s, more than max_span=0.5; if its clock is not in the unit that"
            " was assumed, say time_unit= when it is opened; else *speed=*trace.between(*users=*max_span=",
        ),
        (
            "speed=0.000001",
            "kv.replay: trace requests.jsonl spans 0.78 s, 780,000 s at speed=1e-06, more than max_span=86400; *",
        ),
    ],
)
def test_arguments_that_are_refused(pytester: pytest.Pytester, run: Run, sim: str, arguments: str, text: str) -> None:
    written(pytester.path)
    pytester.makepyfile(REPLAYED.replace("users=1", arguments).replace("CHECK", ""))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"inconclusive: {text}*"])


def test_a_clock_in_the_wrong_unit_is_not_waited_for(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    written(pytester.path, step=3_000)  # 117 s in milliseconds, more than a day in seconds
    pytester.makepyfile(REPLAYED.replace("users=1", "").replace("block_size=16", "block_size=16, time_unit='s'"))
    result = run(f"--kv-endpoint={sim}")
    result.stdout.fnmatch_lines(
        ["inconclusive: kv.replay: trace requests.jsonl spans 117,000 s, more than * time_unit=*"]
    )


def test_what_cannot_be_replayed(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    told = [{name: value for name, value in row.items() if name != "timestamp"} for row in rows()]
    (pytester.path / "untimed.jsonl").write_text("\n".join(map(json.dumps, told)))
    written(pytester.path)
    pytester.makepyfile(
        f"""
        def test_untimed(kv, kv_trace):
            kv.replay(kv_trace("untimed.jsonl", block_size=16))

        def test_without_its_times(kv, kv_trace):
            kv.replay(kv_trace("untimed.jsonl", block_size=16), users=8)

        def test_path(kv):
            kv.replay("requests.jsonl")

        def test_in_a_block(kv, kv_trace):
            with kv.measure():
                kv.replay({OPEN})
        """
    )
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "inconclusive: kv.replay: trace untimed.jsonl has no times, so nothing in it is ever due; users=8 *",
            "inconclusive: kv.replay(str): expected a trace; open it with kv_trace(path)",
            "inconclusive: kv.replay inside a measured block: *",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "'simulate'",
            "target='simulate' is no rate; expected a ratio such as 0.7, or 'simulated'; expected hit_rate(*",
        ),
        ("'simulated', tier='external'", "target='simulated' is the rate of the device cache: tier='total' or *"),
        ("'simulated', weight='request', requests='warm'", "requests='warm' is for token-weighted rates*"),
        ("'simulated', tol=2", "tol=2 is no rate*"),
    ],
)
def test_markers_that_are_refused(pytester: pytest.Pytester, run: Run, arguments: str, text: str) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.hit_rate({arguments})\ndef test_a(kv):\n    raise AssertionError('it ran')\n"
    )
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*@pytest.mark.hit_rate: {text}"])
