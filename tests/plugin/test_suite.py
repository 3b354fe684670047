"""The ready-made checks: found by their package, asked by ``--kv-set``, red with a reason where a server is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from pytest_kvcache.limits.asked import TokensMetric, TtftMetric
from pytest_kvcache.model import ResetMode
from pytest_kvcache.suite.asked import CHECKS, FORMATS, HitRate, Trace, given, parse
from pytest_kvcache.suite.kinds import FILE, FILES, parameters_of
from pytest_kvcache.suite.running import fitting
from pytest_kvcache.traces.detect import formats
from pytest_kvcache.traces.opening import TimeUnit
from pytest_kvcache.workloads.working_set import Reinit, Selection

from .conftest import LEAKS, Run, properties

DOCS = Path(__file__).parents[2] / "docs" / "suite.md"
SUITE = ("--pyargs", "pytest_kvcache.suite")
SMALL = (
    "--kv-set=hit_rate.requests=8",
    "--kv-set=hit_rate.input_len=256",
    "--kv-set=cache_rate.contexts=128,256",
    "--kv-set=cache_rate.rates=0.0,0.5",
    "--kv-set=cache_rate.duration=0.1",
    "--kv-set=conversation.turns=3",
)
Start = Callable[..., str]


def one(check: str) -> tuple[str, str]:
    return "--pyargs", f"pytest_kvcache.suite.{check}"


def document(run: Run, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """The result of a run, and its records by the name of the test."""
    result = run(*arguments, "--kv-report=kv.json")
    records = json.loads(Path("kv.json").read_text(encoding="utf-8"))
    return result, {record["nodeid"].rpartition("::")[2]: record for record in records["checks"]}


def trace_file(folder: Path) -> Path:
    """Ten prompts of two full blocks of 16 tokens each: one block that all share, and one of their own."""
    rows = [{"timestamp": 10 * n, "input_length": 32, "output_length": 2, "hash_ids": [0, n + 1]} for n in range(10)]
    path = folder / "traffic.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


# --- found ------------------------------------------------------------------------------------------------------------


def test_the_whole_suite_is_green(run: Run, sim: str) -> None:
    result = run(*SUITE, f"--kv-endpoint={sim}", "--kv-reset=auto", "-rs", *SMALL, "--junitxml=junit.xml")
    result.assert_outcomes(passed=12, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*no trace to look at: give --kv-set trace.file=FILE"])
    # the same wherever the package is installed
    result.stdout.fnmatch_lines(["pass *0.500 * pytest_kvcache/suite/hit_rate.py::test_hit_rate"])
    result.stdout.fnmatch_lines(
        ["sweep pytest_kvcache/suite/cache_rate.py::test_cache_rate at concurrency 4: 4 passed"]
    )
    assert properties(Path("junit.xml"))["test_hit_rate"]["kv_hit_rate"].startswith("0.5")
    assert 'classname="pytest_kvcache.suite.smoke"' in Path("junit.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("check", "passed", "skipped"),
    [("smoke", 5, 1), ("hit_rate", 1, 0), ("cache_rate", 4, 0), ("conversation", 1, 0), ("trace", 0, 2)],
)
def test_each_check_alone(run: Run, sim: str, check: str, passed: int, skipped: int) -> None:
    run(*one(check), f"--kv-endpoint={sim}", *SMALL).assert_outcomes(passed=passed, skipped=skipped)


def test_one_test_of_a_check(run: Run, sim: str) -> None:
    result = run("--pyargs", "pytest_kvcache.suite.smoke::test_block_size", f"--kv-endpoint={sim}", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["pytest_kvcache/suite/smoke.py::test_block_size PASSED*"])


def test_what_a_project_calls_its_tests_does_not_matter(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\npython_files = *.py\npython_functions = check_*\n"
        f"python_classes = C*\naddopts = --strict-markers --doctest-modules\nfilterwarnings =\n    error{LEAKS}\n"
    )
    pytester.makepyfile(check_mine="def check_mine(): pass")
    result = run(*SUITE, f"--kv-endpoint={sim}", "--import-mode=importlib", "--noconftest", *SMALL)
    result.assert_outcomes(passed=11, skipped=3)


def test_a_project_of_its_own_beside_it_is_left_alone(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_mine(): pass\ndef other(): pass")
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["asked", "kinds", "running"])
def test_nothing_else_of_the_folder_is_a_check(run: Run, name: str) -> None:
    result = run(*one(name), "-o", "python_files=*.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR or result.parseoutcomes() == {}
    assert "passed" not in result.stdout.str()


def test_without_an_endpoint_all_of_it_is_skipped(run: Run) -> None:
    result = run(*SUITE, "-rs")
    result.assert_outcomes(skipped=16)
    result.stdout.fnmatch_lines(["SKIPPED*no endpoint to measure: give --kv-endpoint=URL*"])


def test_workers(run: Run, sim: str) -> None:
    pytest.importorskip("xdist")
    result = run("-n", "2", *SUITE, f"--kv-endpoint={sim}", *SMALL)
    result.assert_outcomes(passed=11, skipped=3)
    result.stdout.fnmatch_lines(["pass * pytest_kvcache/suite/hit_rate.py::test_hit_rate"])


# --- asked ------------------------------------------------------------------------------------------------------------


def test_what_is_asked_is_sent(run: Run, sim: str) -> None:
    asked = ("hit_rate=0.75", "requests=8", "input_len=256", "prefixes=2", "output_len=1", "tol=0", "concurrency=2")
    result, records = document(
        run, *one("hit_rate"), f"--kv-endpoint={sim}", *(f"--kv-set=hit_rate.{pair}" for pair in asked)
    )
    result.assert_outcomes(passed=1)
    found = records["test_hit_rate"]
    assert (found["hit_tokens"], found["query_tokens"], found["hit_rate"]["target"]) == (8 * 192, 8 * 256, 0.75)


def test_a_cold_prefix_of_a_length_is_held_against_the_prediction(run: Run, sim: str) -> None:
    asked = ("prefix_len=128", "prefill=false", "requests=8", "input_len=256", "prefixes=2", "rate=50")
    result, records = document(
        run, *one("hit_rate"), f"--kv-endpoint={sim}", *(f"--kv-set=hit_rate.{pair}" for pair in asked)
    )
    result.assert_outcomes(passed=1)
    found = records["test_hit_rate"]
    assert (found["hit_tokens"], found["query_tokens"]) == (6 * 128, 8 * 256)  # the first of each prefix is cold
    assert found["arrival_s"]["count"] == 8  # they had a time at which they were due
    assert found["hit_rate"]["target"] == found["hit_rate"]["predicted"]


def test_a_cold_rate_is_held_against_the_prediction(run: Run, sim: str) -> None:
    result, records = document(run, *one("hit_rate"), f"--kv-endpoint={sim}", *SMALL, "--kv-set=hit_rate.prefill=false")
    result.assert_outcomes(passed=1)
    assert records["test_hit_rate"]["hit_tokens"] == 4 * 128  # eight requests with four prefixes, each cold once


def test_a_rate_that_blocks_do_not_reach_is_no_fault_of_the_server(run: Run, sim: str) -> None:
    more = ("--kv-set=hit_rate.hit_rate=0.7", "--kv-set=hit_rate.tol=0.001")
    result = run(*one("hit_rate"), f"--kv-endpoint={sim}", *SMALL, *more)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: *the nearest reachable are 0.688 (prefix_len=176) or 0.750*"])


def test_a_rate_that_is_missed_fails(run: Run, start_sim: Start) -> None:
    sim = start_sim("--capacity-blocks", "30")  # four prefixes of eight blocks do not stay until their next use
    more = ("--kv-set=hit_rate.concurrency=1", "--kv-set=hit_rate.tol=0.1")
    result = run(*one("hit_rate"), f"--kv-endpoint={sim}", *SMALL, *more)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hit rate 0.023, wanted 0.500 ± 0.100*eviction*"])


def test_the_sweep_is_what_was_asked(run: Run, sim: str) -> None:
    more = ("--kv-set=cache_rate.concurrency=1,2", "--kv-set=cache_rate.rates=0.25", "--kv-set=cache_rate.retries=1")
    result, records = document(run, *one("cache_rate"), f"--kv-endpoint={sim}", *SMALL, *more)
    result.assert_outcomes(passed=2)
    assert list(records) == ["test_cache_rate[0.25-128]", "test_cache_rate[0.25-256]"]
    for context, record in zip((128, 256), records.values(), strict=True):
        assert record["sweep"]["axes"] == {"context": context, "rate": 0.25}
        assert record["hit_tokens"] * 4 == record["query_tokens"]
        assert [single["level"]["concurrency"] for single in record["runs"]] == [1, 2, 1, 2]


def test_levels_of_an_open_loop(run: Run, sim: str) -> None:
    more = ("--kv-set=cache_rate.rate=40,80", "--kv-set=cache_rate.contexts=128", "--kv-set=cache_rate.reset=require")
    result, records = document(run, *one("cache_rate"), f"--kv-endpoint={sim}", *SMALL, *more)
    result.assert_outcomes(passed=2)
    for record in records.values():
        assert [single["level"]["rate"] for single in record["runs"]] == [40, 80]
        assert record["runs"][0]["cache_state"].startswith("reset, verified by a probe")


@pytest.mark.parametrize("check", ["hit_rate", "conversation"])
def test_a_check_that_resets(run: Run, sim: str, check: str) -> None:
    more = f"--kv-set={check}.reset=require"
    _, records = document(run, *one(check), f"--kv-endpoint={sim}", *SMALL, more)
    states = [single["cache_state"] for record in records.values() for single in record["runs"]]
    assert [state.startswith("reset, verified by a probe") for state in states] == [True]


def test_a_sustained_load_takes_its_own_options(run: Run, sim: str) -> None:
    more = ("--kv-set=cache_rate.mode=sustained", "--kv-set=cache_rate.assessment=7")
    result = run(*one("cache_rate"), f"--kv-endpoint={sim}", *SMALL, *more)
    result.assert_outcomes(failed=4)  # a tenth of a second has no room for a period of seven
    result.stdout.fnmatch_lines(["*kv.sustain(duration=0.1, assessment=7)*"])


def test_options_environment_and_ini(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile("def test_show(kv_settings): print('SHOWN', kv_settings.parameters, kv_settings)")
    ini = f"[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings =\n    error{LEAKS}\n"
    pytester.makeini(f"{ini}kv_set =\n    hit_rate.requests=3\n    trace.min_rate=0.5\n    trace.budgets=16,32\n")
    run("-s").stdout.fnmatch_lines(
        ["*SHOWN (('hit_rate', 'requests', 3), ('trace', 'min_rate', 0.5), ('trace', 'budgets', (16, 32)))*"]
    )
    monkeypatch.setenv("PYTEST_KV_SET", "hit_rate.requests=4\nconversation.system=secret words")
    shown = run("-s").stdout.str()
    assert "('hit_rate', 'requests', 4)" in shown
    assert shown.count("secret words") == 1  # where it was printed, and not with all the settings
    run("-s", "--kv-set=smoke.up_to=64").stdout.fnmatch_lines(["*SHOWN (('smoke', 'up_to', 64),)*"])


def test_the_last_of_two_values_counts() -> None:
    settings = [parse(text, "") for text in ("hit_rate.requests=3", "trace.users=2", "hit_rate.requests=5")]
    assert given(settings, HitRate) == HitRate(requests=5)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (["requests=3"], "expected CHECK.PARAM=VALUE, such as hit_rate.requests=100"),
        (["hit_rate.requests"], "expected CHECK.PARAM=VALUE, such as hit_rate.requests=100"),
        (["hitrate.x=1"], "there is no check 'hitrate'; there are smoke, hit_rate, cache_rate, conversation, trace"),
        (["smoke.x=1"], "smoke has no parameter 'x'; it has up_to, min_rate, settle"),
        (["hit_rate.requests=0"], "hit_rate.requests='0'; expected: whole number, 1 or more (such as 8)"),
        (["hit_rate.requests=many"], "hit_rate.requests='many'; expected: whole number, 1 or more (such as 8)"),
        (["hit_rate.hit_rate=70"], "hit_rate.hit_rate='70'; expected: ratio, 0 to 1 (such as 0.7)"),
        (["hit_rate.rate=inf"], "hit_rate.rate='inf'; expected: number above 0 (such as 2.5)"),
        (["hit_rate.prefill=maybe"], "hit_rate.prefill='maybe'; expected: true or false (such as true)"),
        (["hit_rate.reset=x"], "hit_rate.reset='x'; expected: one of never, auto, require (such as never)"),
        (["cache_rate.rates=0.5,2"], "cache_rate.rates='0.5,2'; expected: list of: ratio, 0 to 1 (such as 0.7,0.7)"),
        (["cache_rate.max_ttft=0"], "cache_rate.max_ttft='0'; expected: seconds above 0, or none (such as 30)"),
        (["conversation.turns=1"], "conversation.turns='1'; expected: whole number, 2 or more (such as 4)"),
        (["conversation.system="], "conversation.system=''; expected: text (such as 'You answer briefly.')"),
        (["trace.file=none.jsonl"], "trace.file='none.jsonl'; expected: file or folder that exists (such as *)"),
        (["conversation.tools=."], "conversation.tools='.'; expected: file that exists (such as tools.json)"),
        (["smoke.up_to=1"], "smoke.up_to='1'; expected: whole number, 2 or more (such as 4)"),
        (["hit_rate.rate=1e-300"], "hit_rate.rate=1e-300: 40 requests would take over a day"),
        (["trace.format=x"], "trace.format='x'; expected: one of auto, bailian, *"),
        (["hit_rate.rate=1", "hit_rate.concurrency=1"], "hit_rate.concurrency and hit_rate.rate exclude each other*"),
        (["hit_rate.hit_rate=1", "hit_rate.prefix_len=1"], "hit_rate.hit_rate and hit_rate.prefix_len exclude each*"),
        (["cache_rate.rate=1", "cache_rate.concurrency=4"], "cache_rate.concurrency and cache_rate.rate exclude*"),
        (["cache_rate.start=4"], "cache_rate.start is of cache_rate.mode=sustained, and the mode is fixed"),
        (
            ["cache_rate.mode=sustained", "cache_rate.strict=true"],
            "cache_rate.strict is of cache_rate.mode=fixed, and the mode is sustained",
        ),
        (["trace.users=4", "trace.speed=2"], "trace.users and trace.speed exclude each other; give one of them"),
        (["trace.min_rate=0.5"], "trace.min_rate: at which size of the cache? Give trace.budgets as well"),
    ],
)
def test_a_wrong_parameter_is_one_usage_error_line(run: Run, values: list[str], complaint: str) -> None:
    result = run(*SUITE, *(f"--kv-set={value}" for value in values))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvcache: --kv-set: {complaint}".replace("[", "[[]")])
    assert "Traceback" not in result.stderr.str()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hit_rate.requests= 1_000 ", 1000),
        ("hit_rate.prefix_len=0", 0),
        ("hit_rate.prefill=No", False),
        ("cache_rate.concurrency=1, 8", (1, 8)),
        ("cache_rate.max_ttft=none", None),
        ("cache_rate.max_ttft=1.5", 1.5),
        ("smoke.settle=0", 0.0),
        ("conversation.system=a = b", "a = b"),
    ],
)
def test_values_have_their_type(text: str, value: object) -> None:
    found = parse(text, "")[2]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        ("cache_rate", "ttft_metric", TtftMetric),
        ("cache_rate", "tokens_per_req_metric", TokensMetric),
        ("cache_rate", "selection", Selection),
        ("cache_rate", "reinit", Reinit),
        ("trace", "time_unit", TimeUnit),
        *((check, "reset", ResetMode) for check in CHECKS if check != "smoke"),
    ],
)
def test_words_are_those_that_are_taken(check: str, name: str, words: Any) -> None:
    kind = parameters_of(CHECKS[check])[name].kind
    assert set(kind.name.removeprefix("one of ").split(", ")) == set(get_args(words))


def test_policies_are_those_that_are_simulated(tmp_path: Path) -> None:
    from pytest_kvcache import open_trace

    trace = open_trace(trace_file(tmp_path), block_size=16)
    for policy in parameters_of(Trace)["policy"].kind.name.removeprefix("one of ").split(", "):
        assert trace.simulate(policy, blocks=4).hit_rate is not None


def test_defaults_are_values_of_their_kind() -> None:
    for check in CHECKS.values():
        for each in parameters_of(check).values():
            if each.default not in (None, ()):
                assert each.kind.parse(each.shown) == each.default
            if each.kind not in (FILE, FILES):
                assert each.kind.parse(each.kind.example) is not None


def test_parameters_are_listed_instead_of_running(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_mine(): raise AssertionError")
    result = run("--kv-params")
    assert result.ret == 0
    shown = result.stdout.str()
    assert "test session starts" not in shown
    result.stdout.fnmatch_lines(["hit_rate: Does the server reuse what prompts share by construction?"])
    result.stdout.fnmatch_lines(["  requests *whole number, 1 or more *40 *measured requests"])
    for name, check in CHECKS.items():
        section = shown.partition(f"\n{name}: ")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\w+)", section, re.MULTILINE) == list(parameters_of(check))


def test_the_guide_lists_every_parameter() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+\.\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    assert rows == [
        (f"{name}.{each.name}", each.kind.name, each.shown, each.help)
        for name, check in CHECKS.items()
        for each in parameters_of(check).values()
    ]


# --- servers that are wrong -------------------------------------------------------------------------------------------


def test_a_cache_that_is_off_fails_with_the_reason(run: Run, start_sim: Start) -> None:
    sim = start_sim("--no-prefix-caching")
    result = run(*one("smoke"), f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=5, skipped=1)
    result.stdout.fnmatch_lines(["the server says that its prefix cache is off; switch it on (*)"])
    result.stdout.fnmatch_lines(["inconclusive: granularity: nothing was cached up to 2,048 tokens (2 requests)"])


@pytest.mark.usefixtures("impatient")
def test_a_cold_cache_behind_a_reset_is_no_proof_when_it_is_off(run: Run, start_sim: Start) -> None:
    sim = start_sim("--no-prefix-caching")
    test = "pytest_kvcache.suite.smoke::test_reset_empties_the_cache"
    run("--pyargs", test, f"--kv-endpoint={sim}", "--kv-reset=auto").assert_outcomes(failed=1)


def test_a_server_of_others_is_not_emptied(run: Run, sim: str) -> None:
    result = run(*one("smoke"), f"--kv-endpoint={sim}", "-rs")
    result.stdout.fnmatch_lines(["SKIPPED*would empty the cache of a server that others may use*--kv-reset=auto"])


def test_an_engine_of_ours_may_be_emptied(run: Run) -> None:
    run("--pyargs", "pytest_kvcache.suite.smoke::test_reset_empties_the_cache", "--kv-endpoint=sim").assert_outcomes(
        passed=1
    )


@pytest.mark.parametrize(("mode", "outcome"), [("auto", "skipped"), ("require", "failed")])
def test_a_server_that_has_no_reset(run: Run, start_sim: Start, mode: str, outcome: str) -> None:
    test = "pytest_kvcache.suite.smoke::test_reset_empties_the_cache"
    result = run("--pyargs", test, f"--kv-endpoint={start_sim('--no-dev-mode')}", f"--kv-reset={mode}", "-rs")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*reset: unavailable (404)*"])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("fault", "test", "reason"),
    [
        ("isolation_leak=true", "test_salts_are_isolated", "*KV205*"),
        (
            "usage_all_cached=true",
            "test_counters_and_usage_agree",
            "inconclusive: *all of its 272 prompt tokens as cached*",
        ),
        ("tokens_off=1", "test_identical_prompt_hits", "inconclusive: *"),
    ],
)
def test_what_is_wrong_is_found(run: Run, start_sim: Start, fault: str, test: str, reason: str) -> None:
    sim = start_sim("--fault", fault)
    result = run("--pyargs", f"pytest_kvcache.suite.smoke::{test}", f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([reason])


def test_replies_that_do_not_tell_their_cached_tokens(run: Run, start_sim: Start) -> None:
    sim = start_sim("--no-prompt-tokens-details")
    result = run(*one("smoke"), f"--kv-endpoint={sim}", "-rs")
    result.assert_outcomes(passed=4, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*replies do not tell their cached tokens; the server needs *"])


def test_an_engine_without_counters_and_salts(run: Run, sim: str) -> None:
    result, records = document(run, *one("smoke"), f"--kv-endpoint={sim}", "--kv-engine=usage", "-rs")
    result.assert_outcomes(passed=1, skipped=5)
    for reason in ("*has no counters to compare*", "*has no cache_salt", "*tells no block size*", "*has no route*"):
        result.stdout.fnmatch_lines([f"SKIPPED{reason}"])
    assert records["test_identical_prompt_hits"]["runs"][0]["title"] == "2 requests of your own (chat)"


USAGE_ONLY = ("--kv-engine=usage", "--kv-set=cache_rate.duration=0.1", "--kv-set=cache_rate.rates=0.0,0.5")


@pytest.mark.parametrize(("least", "passed", "skipped"), [("0", 4, 0), ("1024", 2, 2)])
def test_rates_of_a_cache_that_tells_no_blocks(
    run: Run, start_sim: Start, least: str, passed: int, skipped: int
) -> None:
    sim = start_sim("--block-size", "128", "--minimum-tokens", least)
    result, records = document(run, *one("cache_rate"), f"--kv-endpoint={sim}", *USAGE_ONLY, "-rs")
    result.assert_outcomes(passed=passed, skipped=skipped)
    found = [line for record in records.values() for line in record["probes"]]
    assert len(found) == 1  # asked once a session
    assert "credits in 128-token steps" in found[0]
    if skipped:
        result.stdout.fnmatch_lines(["SKIPPED*of 512 tokens nothing is cached: this cache begins at 1,024"])


@pytest.mark.parametrize("asked", ["prefix_len=1000", "prefill=false"])
def test_a_predicted_rate_of_a_cache_that_tells_no_blocks(run: Run, start_sim: Start, asked: str) -> None:
    sim, more = start_sim("--block-size", "128"), ("--kv-engine=usage", "--kv-set=hit_rate.requests=8")
    result, records = document(run, *one("hit_rate"), f"--kv-endpoint={sim}", *more, f"--kv-set=hit_rate.{asked}")
    result.assert_outcomes(passed=1)
    assert records["test_hit_rate"]["hit_rate"]["target_from"] == "predicted"


def test_a_server_that_is_not_there(run: Run) -> None:
    result = run(*one("smoke"), *one("hit_rate"), "--kv-endpoint=http://127.0.0.1:9", "--tb=short")
    assert result.parseoutcomes().get("passed", 0) == 0
    result.stdout.fnmatch_lines(["*inconclusive: *127.0.0.1:9*"])
    assert "Traceback" not in result.stdout.str()


def test_a_short_context_is_respected(run: Run, start_sim: Start) -> None:
    sim = start_sim("--max-model-len", "1024")
    result = run(*SUITE, f"--kv-endpoint={sim}", "--kv-set=cache_rate.duration=0.1", "-rs")
    result.assert_outcomes(passed=10, skipped=6)
    result.stdout.fnmatch_lines(["SKIPPED*1,536 and 16 tokens are more than the 1,024 that the model takes"])


def test_a_length_that_was_asked_for_is_not_skipped(run: Run, start_sim: Start) -> None:
    sim = start_sim("--max-model-len", "1024")
    result = run(*one("cache_rate"), f"--kv-endpoint={sim}", "--kv-set=cache_rate.contexts=2048")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["inconclusive: *1,024*"])


@pytest.mark.parametrize(
    ("longest", "wanted", "fits"), [(None, 2048, 2048), (2056, 2048, 2048), (2055, 2048, 1984), (40, 512, 64)]
)
def test_lengths_that_fit(longest: int | None, wanted: int, fits: int) -> None:
    assert fitting(longest, wanted, 8) == fits


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("conversation.min_rate=1.0", "*wanted at least 1.000*"),
        ("conversation.max_tokens=2000", "inconclusive: *"),  # the second turn does not fit any more
    ],
)
def test_a_conversation_that_loses_its_cache(run: Run, start_sim: Start, setting: str, reason: str) -> None:
    sim = start_sim("--max-model-len", "4096")
    result = run(*one("conversation"), f"--kv-endpoint={sim}", f"--kv-set={setting}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([reason])


def test_every_turn_has_to_reach_the_rate(run: Run, sim: str) -> None:
    check = (*one("conversation"), f"--kv-endpoint={sim}", *SMALL, "--kv-set=conversation.sessions=1")
    _, records = document(run, *check)
    whole = records["test_conversation"]["hit_rate"]["measured"]
    result = run(*check, f"--kv-set=conversation.min_rate={whole - 0.0001}")  # the turns together do, one of them not
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["session 0, turn *tokens cached (0.*), wanted at least 0.*"])


def test_a_conversation_waits_until_a_hosted_cache_can_be_read(run: Run, start_sim: Start) -> None:
    sim = start_sim("--fault", "readable_after=0.5")
    asked = ("turns=2", "sessions=1", "max_tokens=4", "settle=0.7")
    result = run(*one("conversation"), f"--kv-endpoint={sim}", *(f"--kv-set=conversation.{pair}" for pair in asked))
    result.assert_outcomes(passed=1)


def test_a_conversation_of_ones_own(run: Run, sim: str, tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("You are a careful clerk. " * 30, encoding="utf-8")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    (tmp_path / "tools.json").write_text(json.dumps([tool]), encoding="utf-8")
    asked = (f"system_file={tmp_path / 'system.txt'}", f"tools={tmp_path / 'tools.json'}", "turns=2", "sessions=3")
    result, records = document(
        run, *one("conversation"), f"--kv-endpoint={sim}", *(f"--kv-set=conversation.{pair}" for pair in asked)
    )
    result.assert_outcomes(passed=1)
    found = records["test_conversation"]
    assert (found["requests"]["total"], found["query_tokens"] < 6 * 1000) == (6, True)  # the made-up prompt is longer


# --- traces -----------------------------------------------------------------------------------------------------------


def test_budgets_of_a_trace_need_no_endpoint(run: Run, tmp_path: Path) -> None:
    file = f"--kv-set=trace.file={trace_file(tmp_path)}"
    result = run(
        *one("trace"), file, "--kv-set=trace.block_size=16", "--kv-set=trace.budgets=64", "-rP", "--junitxml=j.xml"
    )
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["lru of traffic.jsonl: ceiling 0.450*"])  # 9 of 20 blocks were there before
    shown = properties(Path("j.xml"))["test_budgets"]
    assert (float(shown["trace_ceiling"]), float(shown["trace_hit_rate_64"])) == (0.45, 0.45)


def test_budgets_of_a_trace_in_gib(run: Run, tmp_path: Path) -> None:
    """2 x 2 layers x 2 heads x 64 x 2 bytes = 1 KiB a token: the knee's 11 blocks of 16 tokens are 176 KiB."""
    model = tmp_path / "config.json"
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64}
    model.write_text(json.dumps(shape | {"hidden_size": 128, "torch_dtype": "bfloat16"}), encoding="utf-8")
    asked = (f"file={trace_file(tmp_path)}", "block_size=16", f"model={model}", "replay=false")
    run(*one("trace"), *(f"--kv-set=trace.{pair}" for pair in asked), "--kv-report=o.json").assert_outcomes(
        passed=1, skipped=1
    )
    (curve,) = json.loads(Path("o.json").read_text(encoding="utf-8"))["curves"]
    assert curve["bytes_per_token"] == 1024
    assert curve["knee"]["gib"] == curve["knee"]["tokens"] * 1024 / 2**30


@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_a_budget_that_is_too_small(run: Run, tmp_path: Path, policy: str) -> None:
    asked = (f"file={trace_file(tmp_path)}", "block_size=16", "budgets=16,64", "min_rate=0.5", f"policy={policy}")
    result = run(*one("trace"), *(f"--kv-set=trace.{pair}" for pair in asked))
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["a cache of 16 tokens hits 0.* of traffic.jsonl, wanted at least 0.5000; no cache *"])


def test_a_trace_that_does_not_say_enough(run: Run, tmp_path: Path) -> None:
    result = run(*one("trace"), f"--kv-set=trace.file={trace_file(tmp_path)}")
    result.stdout.fnmatch_lines(["inconclusive: *traffic.jsonl, line 1: the block size is not said*"])
    assert result.parseoutcomes().get("passed", 0) == 0


def test_what_a_trace_does_not_say_can_be_said(run: Run, tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    path.write_text(f"{path.read_text(encoding='utf-8')}broken\n", encoding="utf-8")
    asked = [f"--kv-set=trace.{pair}" for pair in (f"file={path}", "block_size=16", "format=mooncake", "time_unit=s")]
    result = run(*one("trace"), *asked)
    result.stdout.fnmatch_lines(["inconclusive: *traffic.jsonl, line 11*"])
    result = run(*one("trace"), *asked, "--kv-set=trace.strict=false", "-rP", "--junitxml=j.xml")
    result.assert_outcomes(passed=1, skipped=1)
    assert float(properties(Path("j.xml"))["test_budgets"]["trace_ceiling"]) == 0.45


def test_forms_are_those_that_are_read() -> None:
    assert sorted(FORMATS) == sorted(form.name for form in formats())


def test_a_trace_is_sent_again(run: Run, sim: str, tmp_path: Path) -> None:
    asked = (f"file={trace_file(tmp_path)}", "block_size=16", "requests=6", "users=1", "tol=0", "scale=32")
    result, records = document(
        run, *one("trace"), f"--kv-endpoint={sim}", *(f"--kv-set=trace.{pair}" for pair in asked)
    )
    result.assert_outcomes(passed=2)
    found = records["test_replay"]
    assert (found["hit_tokens"], found["query_tokens"]) == (5 * 32, 6 * 64)


def test_a_trace_is_sent_by_its_clock(run: Run, sim: str, tmp_path: Path) -> None:
    asked = (f"file={trace_file(tmp_path)}", "block_size=16", "speed=2", "target=predicted", "output_len=1")
    result, records = document(
        run, *one("trace"), f"--kv-endpoint={sim}", *(f"--kv-set=trace.{pair}" for pair in asked)
    )
    result.assert_outcomes(passed=2)
    found = records["test_replay"]
    assert (found["arrival_s"]["count"], found["hit_rate"]["target_from"]) == (10, "predicted")


def test_a_trace_is_not_sent_when_it_should_not(run: Run, sim: str, tmp_path: Path) -> None:
    asked = (f"file={trace_file(tmp_path)}", "block_size=16", "replay=false")
    result = run(*one("trace"), f"--kv-endpoint={sim}", "-rs", *(f"--kv-set=trace.{pair}" for pair in asked))
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*trace.replay=false"])
