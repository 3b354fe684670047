"""The marker ``kv_regression``: an ordinary outcome of a test, in every form of report.

Times that are compared are 40 times apart, or may be: no verdict here depends on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.plugin import comparison
from pytest_kvcache.regression import values
from pytest_kvcache.simulate.process import SimProcess

from .conftest import PASSING, Run, properties

Start = Callable[..., str]
QUICK = ("--kv-sample-interval=0",)
SHAPE = "kv_workload.shared_prefix(requests=8, input_len=256, hit_rate=0.5, prefixes=2, output_len=2)"
MAKE = ("--kv-baseline=base.json", "--kv-update-baseline")
COMPARE = "--kv-baseline=base.json"


def of(marker: str = "", body: str = f"kv.run({SHAPE}, concurrency=1)", more: str = "") -> str:
    mark = f"@pytest.mark.kv_regression({marker})"
    return f"import pytest\n\n{more}\n{mark}\ndef test_it(kv, kv_workload):\n    {body}\n"


REPEATED = f"[kv.run({SHAPE}, concurrency=1) for _ in range(5)]"


def checks(path: Path) -> dict[str, Any]:
    return {check["nodeid"]: check for check in json.loads(path.read_text())["checks"]}


@pytest.fixture
def baseline(pytester: pytest.Pytester, run: Run, sim: str) -> Callable[..., None]:
    """Write a test, and make its baseline on an engine that keeps everything."""

    def make(source: str, *words: str, url: str = sim) -> None:
        pytester.makepyfile(test_it=source)
        result = run(f"--kv-endpoint={url}", *QUICK, *MAKE, *words)
        assert result.ret == 0, result.stdout.str()

    return make


def test_the_same_passes_in_every_report(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of())
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "--kv-report=kv.json", "--junitxml=out.xml", "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["hit rate stayed at 0.500 (allowed none)"])
    assert properties(pytester.path / "out.xml")["test_it"]["kv_regression"] == "pass"
    check = checks(pytester.path / "kv.json")["test_it.py::test_it"]
    (found,) = check["regressions"]
    assert {name: found[name] for name in ("name", "verdict", "baseline", "measured", "change", "exact", "p")} == {
        "name": "hit_rate",
        "verdict": "pass",
        "baseline": 0.5,
        "measured": 0.5,
        "change": 0.0,
        "exact": True,
        "p": None,
    }
    assert check["context"]["engine"] == "sim"
    assert check["values"][0]["values"]["hit_tokens"] == [1024]


def test_a_hit_rate_that_fell_fails_in_the_tests_own_name(
    pytester: pytest.Pytester, run: Run, start_sim: Start, baseline: Callable[..., None]
) -> None:
    """A cache that holds little more than one prompt keeps only one of the two prefixes."""
    baseline(of("hit_rate=-0.02"))
    small = start_sim("--capacity-blocks", "17")
    words = ("--kv-report=kv.json", "--junitxml=out.xml", "--kv-markdown=kv.md")
    result = run(f"--kv-endpoint={small}", *QUICK, COMPARE, *words)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["hit rate fell from 0.500 to 0.??? (-*.? points, allowed -2.0 points) [[]KV208[]]", "*Captured kvcache*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    found = properties(pytester.path / "out.xml")["test_it"]
    assert (found["kv_verdict"], found["kv_regression"], found["kv_findings"].split()[0]) == ("fail", "fail", "KV208")
    markdown = (pytester.path / "kv.md").read_text()
    assert "against the baseline" in markdown
    assert "hit rate fell from" in markdown


def test_times_that_rose_fail_beyond_chance(pytester: pytest.Pytester, run: Run, baseline: Callable[..., None]) -> None:
    """One request at a time, 128 new tokens each: 3 ms and 128 ms, other limits far away."""
    baseline(of("hit_rate=0, ttft_p50='+10%', e2e_p50='+100000%', error_rate=0.5", REPEATED))
    with SimProcess("--prefill-rate=1000", "--decode-time=0") as slow:
        result = run(f"--kv-endpoint={slow.url}", *QUICK, COMPARE, "--kv-report=kv.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "TTFT p50 rose from * to * ms (+* %, 98 % between *, allowed +10.0 %, p=0.004, 5 runs against 5)*KV208*",
            "  pass  hit rate stayed at 0.500 (allowed none)",
            "  fail  TTFT p50 rose from *KV208*",
        ]
    )
    (check,) = checks(pytester.path / "kv.json").values()
    assert [(one["name"], one["verdict"]) for one in check["regressions"]] == [
        ("hit_rate", "pass"),
        ("ttft_p50", "fail"),
        ("e2e_p50", "pass"),
        ("error_rate", "pass"),
    ]
    assert check["regressions"][1]["p"] == pytest.approx(1 / 252)


def test_without_a_baseline_it_is_inconclusive_and_says_how_to_make_one(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    pytester.makepyfile(test_it=of())
    result = run(f"--kv-endpoint={sim}", *QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: no baseline is named; *--kv-baseline=FILE --kv-update-baseline*KV131*"])
    baseline(of())
    pytester.makepyfile(test_other=of())
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["inconclusive: base.json has no entry of this test; *--kv-update-baseline*KV131*"])


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (
            "hit_rate=0.02",
            "hit_rate=0.02: it is worse when it falls, so what may be is written -0.02; expected kv_regr*",
        ),
        ("ttft_p95='10 ms'", "ttft_p95='10 ms' is no change; expected a part of what it was, such as '+10%'*"),
        ("ttft=1", "ttft= is nothing that is compared*"),
        ("allow='version'", "allow='version' is none of what may change, did you mean engine_version*"),
        ("0.02", "takes 0 positional arguments but 1 was given; expected kv_regression(allow=(), [*][*]limits)"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(
    pytester: pytest.Pytester, run: Run, sim: str, marker: str, says: str
) -> None:
    pytester.makepyfile(test_it=of(marker))
    result = run(f"--kv-endpoint={sim}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvcache: test_it.py::test_it: @pytest.mark.kv_regression: {says}"])


def test_another_engine_is_shown_and_inconclusive_unless_it_is_allowed(
    pytester: pytest.Pytester, run: Run, start_sim: Start, baseline: Callable[..., None]
) -> None:
    baseline(of())
    other = f"--kv-endpoint={start_sim('--block-size', '32', '--model', 'other')}"
    result = run(other, *QUICK, COMPARE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: what is compared is not the same: model sim -> other; block_size 16 -> 32; if *KV132*"]
    )
    allowed = ("--kv-allow-change=model", "--kv-allow-change=block_size")
    result = run(other, *QUICK, COMPARE, *allowed, "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*compared although it is not the same: model sim -> other; block_size*KV331*"])
    run(other, *QUICK, COMPARE, allowed[0]).assert_outcomes(failed=1)
    pytester.makepyfile(test_it=of("allow=('model', 'block_size')"))
    run(other, *QUICK, COMPARE).assert_outcomes(passed=1)
    result = run(other, *QUICK, COMPARE, "--kv-allow-change=version")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kv-allow-change: allow='version' is none of what may change, did you mean*"])


@pytest.mark.parametrize(
    "body",
    [
        f"kv.run({SHAPE.replace('output_len=2', 'output_len=3')}, concurrency=1)",
        f"kv.run({SHAPE}, concurrency=2)",
        f"kv.run({SHAPE}, concurrency=1); kv.run({SHAPE.replace('256', '512')}, concurrency=1)",
    ],
)
def test_another_workload_is_another_thing(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None], body: str
) -> None:
    baseline(of("allow='block_size'"))
    pytester.makepyfile(test_it=of("allow='block_size'", body))
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: what is compared is not the same: workload shared_prefix: 8 x 256*KV132*"]
    )


def test_a_seed_and_the_number_of_repeats_are_not_the_workload(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of(), "--kv-seed=1")
    pytester.makepyfile(test_it=of("", f"[kv.run({SHAPE.replace(')', ', seed=7)')}, concurrency=1) for _ in range(1)]"))
    run(f"--kv-endpoint={sim}", *QUICK, COMPARE).assert_outcomes(passed=1)
    pytester.makepyfile(test_it=of("", REPEATED))
    run(f"--kv-endpoint={sim}", *QUICK, COMPARE).assert_outcomes(passed=1)


def test_levels_are_compared_each_and_their_repetitions_are_runs(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    body = f"kv.steps({SHAPE}, concurrency=[1, 2], duration=0.2, retries=4)"
    baseline(of("ttft_p50='+100000%'", body))
    run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "--kv-report=kv.json").assert_outcomes(passed=1)
    (check,) = checks(pytester.path / "kv.json").values()
    told = [(one["where"], one["n"], one["n_baseline"], one["verdict"]) for one in check["regressions"]]
    assert told == [("concurrency 1", 5, 5, "pass"), ("concurrency 2", 5, 5, "pass")]


def test_too_few_runs_say_how_many_are_needed(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of("ttft_p50='+10%'", REPEATED))
    pytester.makepyfile(test_it=of("ttft_p50='+10%'"))
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: TTFT p50 *1 run against 5 of the baseline cannot show a change*KV133*"])


def test_what_the_other_markers_ask_is_judged_too(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of())
    pytester.makepyfile(test_it=of(more="@pytest.mark.hit_rate(target=0.9)\n@pytest.mark.kv_slo(ttft_p50=60)"))
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "--junitxml=out.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hit rate 0.500, wanted 0.900*KV201*"])
    found = properties(pytester.path / "out.xml")["test_it"]
    assert (found["kv_verdict"], found["kv_slo"], found["kv_regression"]) == ("fail", "pass", "pass")
    pytester.makepyfile(test_it=of(more="@pytest.mark.hit_rate(target=0.5)"))
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["hit rate 0.500, wanted 0.500*", "  pass  hit rate stayed at 0.500 (allowed none)"])


def test_xfail_and_reruns_see_an_ordinary_failure(
    pytester: pytest.Pytester, run: Run, start_sim: Start, baseline: Callable[..., None]
) -> None:
    baseline(of())
    small = f"--kv-endpoint={start_sim('--capacity-blocks', '17')}"
    result = run(small, *QUICK, COMPARE, "--reruns=1", "--junitxml=out.xml")
    assert result.parseoutcomes() == {"failed": 1, "rerun": 1}
    assert properties(pytester.path / "out.xml")["test_it"]["kv_regression"] == "fail"
    pytester.makepyfile(test_it=of(more="@pytest.mark.xfail(strict=True)"))
    run(small, *QUICK, COMPARE).assert_outcomes(xfailed=1)


def test_with_workers_it_is_the_same(
    pytester: pytest.Pytester, run: Run, start_sim: Start, baseline: Callable[..., None]
) -> None:
    source = of("hit_rate=-0.02") + of("hit_rate=0").replace("import pytest", "").replace("test_it", "test_exactly")
    baseline(source, "-n", "2")
    small = f"--kv-endpoint={start_sim('--capacity-blocks', '17')}"
    for name, words in (("one", ()), ("two", ("-n", "2"))):
        run(small, *QUICK, COMPARE, f"--kv-report={name}.json", *words).assert_outcomes(failed=2)
    one, two = (checks(pytester.path / f"{name}.json") for name in ("one", "two"))
    for nodeid, check in one.items():
        for key in ("verdict", "sentence", "regressions", "context", "findings"):
            assert check[key] == two[nodeid][key]


def test_a_stored_verdict_is_only_used_for_the_same_baseline(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of("hit_rate=-0.02"))
    words = (f"--kv-endpoint={sim}", *QUICK, "--kv-resume=res")
    run(*words, COMPARE, "--kv-report=1.json").assert_outcomes(passed=1)
    result = run(*words, COMPARE, "--kv-report=2.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 measured before (res), 0 now"])
    assert checks(pytester.path / "1.json") == checks(pytester.path / "2.json")
    path = pytester.path / "base.json"
    path.write_text(path.read_text().replace("[1024]", "[1200]").replace("[0.5]", "[0.585938]"))
    result = run(*words, COMPARE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hit rate fell from 0.586 to 0.500*KV208*", "*1 measured again: another baseline*"])
    result = run(*words, *MAKE)  # a failure of before is no verdict on what becomes the baseline
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*baseline base.json: 0 new, 1 changed, 0 as they were"])
    result = run(*words, COMPARE)
    result.assert_outcomes(passed=1)


def test_a_body_that_fails_is_its_own_failure(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    baseline(of())
    pytester.makepyfile(test_it=of("", f"assert kv.run({SHAPE}, concurrency=1).hit_rate == 0.9"))
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *AssertionError*", "*hit rate stayed at 0.500 (allowed none)*"])


def test_traffic_of_the_tests_own_is_compared_by_its_rate(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    source = """
import urllib.request
import pytest

JSON = {"Content-Type": "application/json"}
BODY = b'{"model": "sim", "prompt": "' + b"word " * 200 + b'", "max_tokens": 1}'

@pytest.mark.kv_regression
def test_it(kv, kv_endpoint):
    with kv.measure():
        for _ in range(2):
            asked = urllib.request.Request(kv_endpoint.base + "/v1/completions", data=BODY, headers=JSON)
            urllib.request.urlopen(asked).close()
"""
    baseline(source)  # the second session finds what the first one left: no fall
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*hit rate rose from *"])


def test_a_test_that_knows_nothing_of_it_is_measured_whole(
    pytester: pytest.Pytester, run: Run, sim: str, baseline: Callable[..., None]
) -> None:
    source = f"""
import urllib.request
import pytest

@pytest.mark.kv_regression
def test_it():
    for _ in range(2):
        body = b'{{"model": "sim", "prompt": "' + b"whole " * 200 + b'", "max_tokens": 1}}'
        head = {{"Content-Type": "application/json"}}
        urllib.request.urlopen(urllib.request.Request("{sim}/v1/completions", data=body, headers=head)).close()
"""
    baseline(source)
    result = run(f"--kv-endpoint={sim}", *QUICK, COMPARE, "--kv-report=kv.json")
    result.assert_outcomes(passed=1)
    (check,) = checks(pytester.path / "kv.json").values()
    assert check["context"]["workload"] == "the whole test"


@pytest.mark.parametrize(
    ("option", "made"),
    [
        ("--kv-markdown=o.md", False),
        ("--kv-report=o.json", True),
        ("--kv-artifacts=o", True),
        ("--kv-results=o", True),
        ("--kv-history=o.jsonl", True),
    ],
)
def test_values_that_nobody_compares_are_not_made(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch, option: str, made: bool
) -> None:
    calls = []
    monkeypatch.setattr(comparison, "digest_of", lambda *_: calls.append("sent"))
    monkeypatch.setattr(values, "groups_of", lambda *_: calls.append("values") or [])
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={sim}", option).assert_outcomes(passed=1)
    assert calls == (["sent", "values"] if made else [])
