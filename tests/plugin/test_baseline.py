"""``--kv-baseline`` and ``--kv-update-baseline``: what is written, what is kept, what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

QUICK = ("--kv-sample-interval=0",)
MAKE = ("--kv-baseline=base.json", "--kv-update-baseline")
SHAPE = "kv_workload.shared_prefix(requests=4, input_len=64, hit_rate={rate}, output_len=1)"
HEAD = "import pytest\n"


def check(name: str, rate: float = 0.5, marker: str = "", more: str = "", after: str = "") -> str:
    marks = f"{more}\n@pytest.mark.kv_regression({marker})"
    return (
        f"\n{marks}\ndef {name}(kv, kv_workload):\n    kv.run({SHAPE.format(rate=rate)}, concurrency=1)\n    {after}\n"
    )


def entries(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["checks"]
    return found


def rates(path: Path) -> dict[str, float]:
    return {
        name.partition("::")[2]: check["groups"][0]["values"]["hit_rate"][0] for name, check in entries(path).items()
    }


def test_only_what_passed_is_written_and_the_rest_is_said(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        test_a=HEAD
        + check("test_good")
        + check("test_low", more="@pytest.mark.hit_rate(target=0.9)")
        + check("test_few", marker="ttft_p50='+10%'")
        + check("test_body", after="assert False")
        + check("test_known", after="assert False", more="@pytest.mark.xfail")
        + f"\ndef test_not_marked(kv, kv_workload):\n    kv.run({SHAPE.format(rate=0.5)})\n"
    )
    result = run(f"--kv-endpoint={sim}", *QUICK, *MAKE)
    result.assert_outcomes(passed=2, failed=3, xfailed=1)
    assert list(entries(pytester.path / "base.json")) == ["test_a.py::test_good"]
    result.stdout.fnmatch_lines(
        [
            "baseline base.json: 1 new, 0 changed, 0 as they were",
            "baseline base.json: 2 not written, failed: test_a.py::test_body, test_a.py::test_low",
            "baseline base.json: 1 not written, inconclusive: test_a.py::test_few",
            "baseline base.json: 1 not written, skipped: test_a.py::test_known",
        ],
        consecutive=False,
    )
    result.stdout.fnmatch_lines(["*a baseline of 1 cannot be compared with; measure 5 runs in the test*KV133*"])


def test_tests_that_do_not_run_keep_their_entries(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    path = pytester.path / "base.json"
    pytester.makepyfile(test_a=HEAD + check("test_one") + check("test_two"))
    run(f"--kv-endpoint={sim}", *QUICK, *MAKE).assert_outcomes(passed=2)
    assert rates(path) == {"test_one": 0.5, "test_two": 0.5}
    pytester.makepyfile(test_a=HEAD + check("test_one", 0.25) + check("test_two", 0.25))
    result = run(f"--kv-endpoint={sim}", *QUICK, *MAKE, "-k", "one")
    result.stdout.fnmatch_lines(
        [
            "baseline base.json: 0 new, 1 changed, 0 as they were, 1 not measured and kept",
            "  changed: test_a.py::test_one",
        ]
    )
    assert rates(path) == {"test_one": 0.25, "test_two": 0.5}
    pytester.makepyfile(test_a=HEAD + check("test_two", 0.25, after="assert False"))
    run(f"--kv-endpoint={sim}", *QUICK, *MAKE).assert_outcomes(failed=1)
    assert rates(path) == {"test_one": 0.25, "test_two": 0.5}


def test_nothing_is_written_where_nothing_changed(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    path = pytester.path / "base.json"
    repeated = HEAD + (
        "\n@pytest.mark.kv_regression(ttft_p50='+10%', hit_rate=0)\ndef test_one(kv, kv_workload):\n"
        f"    for _ in range(5):\n        kv.run({SHAPE.format(rate=0.5)}, concurrency=1)\n"
    )
    pytester.makepyfile(test_a=HEAD + check("test_one"))
    run(f"--kv-endpoint={sim}", *QUICK, *MAKE).assert_outcomes(passed=1)
    before, written = path.read_text(), path.stat().st_ino
    result = run(f"--kv-endpoint={sim}", *QUICK, *MAKE)
    result.stdout.fnmatch_lines(["baseline base.json: 0 new, 0 changed, 1 as they were"])
    assert (path.read_text(), path.stat().st_ino) == (before, written)
    pytester.makepyfile(test_a=repeated)
    run(f"--kv-endpoint={sim}", *QUICK, *MAKE).assert_outcomes(passed=1)
    assert len(entries(path)["test_a.py::test_one"]["groups"][0]["values"]["ttft_p50"]) == 5
    values = list(entries(path)["test_a.py::test_one"]["groups"][0]["values"])
    assert values == ["hit_rate", "hit_tokens", "query_tokens", "ttft_p50"]  # nothing that is not compared


def test_noise_does_not_rewrite_an_entry() -> None:
    from pytest_kvcache.plugin.memory import _newer

    def record(*values: float) -> dict[str, Any]:
        group = {"where": "", "runs": 5, "values": {"ttft_p95": list(values), "itl_p50": [1.0] * 5}}
        asked = {"name": "ttft_p95", "allowed": 0.1, "relative": True}
        return {"context": {"model": "m"}, "values": [group], "regressions": [asked]}

    old = _newer(record(0.100, 0.101, 0.102, 0.103, 0.104), None)
    assert list(old.groups[0].values) == ["ttft_p95"]
    assert _newer(record(0.1005, 0.1015, 0.102, 0.103, 0.1035), old) is old
    assert _newer(record(0.200, 0.201, 0.202, 0.203, 0.204), old).groups[0].values["ttft_p95"][0] == 0.2


def test_workers_measure_and_the_controller_writes(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=HEAD + "".join(check(f"test_{n}", 0.25 * (n % 3)) for n in range(6)))
    run(f"--kv-endpoint={sim}", *QUICK, *MAKE, "-n", "2").assert_outcomes(passed=6)
    one = (pytester.path / "base.json").read_bytes()
    assert rates(pytester.path / "base.json") == {f"test_{n}": 0.25 * (n % 3) for n in range(6)}
    run(f"--kv-endpoint={sim}", *QUICK, "--kv-baseline=two.json", "--kv-update-baseline").assert_outcomes(passed=6)
    assert (pytester.path / "two.json").read_bytes() == one


@pytest.mark.usefixtures("run")  # its ini file
def test_a_test_that_was_interrupted_or_fails_at_its_end_is_no_baseline(pytester: pytest.Pytester, sim: str) -> None:
    """Ctrl-C behind the first of several runs leaves a record that looks like a pass."""
    fixture = "\n@pytest.fixture\ndef broken():\n    yield\n    assert False\n"
    late = check("test_late").replace("(kv, kv_workload)", "(kv, kv_workload, broken)")
    pytester.makepyfile(test_a=HEAD + fixture + late + check("test_stopped", after="raise KeyboardInterrupt"))
    words = ("-p", "no:cacheprovider", f"--kv-endpoint={sim}", *QUICK, *MAKE)
    result = pytester.runpytest_subprocess(*words)  # in this process it would end all
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not (pytester.path / "base.json").exists()
    result.stdout.fnmatch_lines(
        ["*1 not written, failed: test_a.py::test_late", "*1 not written, interrupted: test_a.py::test_stopped"]
    )


def test_a_quiet_session_tells_what_was_not_written(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=HEAD + check("test_good") + check("test_body", after="assert False"))
    result = run(f"--kv-endpoint={sim}", *QUICK, *MAKE, "-q")
    result.stdout.no_fnmatch_line("*1 new*")
    result.stdout.fnmatch_lines(["*1 not written, failed: test_a.py::test_body"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kv-baseline=no.json"], "*--kv-baseline: there is no no.json; make it with --kv-update-baseline"),
        (["--kv-update-baseline"], "*--kv-update-baseline: which one? Name it with --kv-baseline=FILE"),
        (["--kv-baseline=."], "*--kv-baseline: '.' is a folder; expected a file*"),
        (["--kv-baseline=bad.json"], "*--kv-baseline: bad.json is no JSON*"),
        (["--kv-baseline=bad.json", "--kv-update-baseline"], "*--kv-baseline: bad.json is no JSON*"),
        (["--kv-baseline=kv.json"], "*--kv-baseline: kv.json says 'pytest-kvcache/1'; expected a baseline*"),
        (
            ["--kv-baseline=bad.json/x.json", "--kv-update-baseline"],
            "*bad.json/x.json cannot be written: *is no folder",
        ),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_cannot_be_used_is_refused_before_anything_is_sent(
    pytester: pytest.Pytester, run: Run, words: list[str], says: str, workers: tuple[str, ...]
) -> None:
    (pytester.path / "bad.json").write_text("{")
    (pytester.path / "kv.json").write_text('{"schema": "pytest-kvcache/1", "checks": []}')
    pytester.makepyfile(test_a=HEAD + check("test_one"))
    result = run("--kv-endpoint=http://127.0.0.1:9", *words, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])


def test_from_ini_and_environment(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=HEAD + check("test_one"))
    monkeypatch.setenv("PYTEST_KV_BASELINE", "base.json")
    monkeypatch.setenv("PYTEST_KV_UPDATE_BASELINE", "true")
    run(f"--kv-endpoint={sim}", *QUICK).assert_outcomes(passed=1)
    assert (pytester.path / "base.json").exists()
    monkeypatch.setenv("PYTEST_KV_UPDATE_BASELINE", "false")
    monkeypatch.setenv("PYTEST_KV_ALLOW_CHANGE", "model\nengine_version")
    run(f"--kv-endpoint={sim}", *QUICK).assert_outcomes(passed=1)


def test_no_key_is_in_it(pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    url = sim.replace("http://", "http://user:secret@")
    pytester.makepyfile(test_a=HEAD + check("test_one"))
    words = (*QUICK, *MAKE, "--kv-history=h.jsonl", "--kv-header=X-Key: hidden-value")
    monkeypatch.delenv("OPENAI_API_KEY")
    run(f"--kv-endpoint={url}", *words).assert_outcomes(passed=1)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    run(f"--kv-endpoint={sim}", *words).assert_outcomes(passed=1)
    told = (pytester.path / "base.json").read_text() + (pytester.path / "h.jsonl").read_text()
    assert not any(secret in told for secret in ("sk-not-to-be-shown", "secret", "user", "hidden-value"))
    assert os.fspath(pytester.path) not in told


def test_a_name_that_is_hidden_in_it_is_compared_as_it_was_written(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    """A gateway that routes by a header with the name of the model: a header's value is taken for a secret."""
    pytester.makepyfile(test_a=HEAD + check("test_one"))
    words = (f"--kv-endpoint={start_sim('--model', 'large-model')}", *QUICK, "--kv-header=X-Route: large-model")
    run(*words, *MAKE).assert_outcomes(passed=1)
    assert entries(pytester.path / "base.json")["test_a.py::test_one"]["context"]["model"] == "***"
    run(*words, "--kv-baseline=base.json").assert_outcomes(passed=1)
