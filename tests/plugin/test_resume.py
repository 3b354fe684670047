"""``--kv-results`` and ``--kv-resume``: what was measured is not measured again, and all reports show it."""

from __future__ import annotations

import json
import shutil
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import FAILING, PASSING, Run, properties

Start = Callable[..., str]
QUICK = ("--kv-sample-interval=0",)
SHAPE = "kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=0.5, output_len=1)"
ONE = f"def test_one(kv, kv_workload):\n    assert kv.run({SHAPE}).hit_rate == 0.5\n"


def looked_up(url: str) -> int:
    """Prompt tokens that the engine has looked up since it was started."""
    with urllib.request.urlopen(f"{url}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(round(float(line.split()[-1])) for line in lines if line.startswith("sim:prefix_cache_queries_total{"))


def kept(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line)["result"] for line in lines]


def times(path: Path) -> dict[str, float]:
    """The seconds of each test."""
    return {str(case.get("name")): float(case.get("time", 0)) for case in ET.parse(path).getroot().iter("testcase")}


def failures(path: Path) -> dict[str, tuple[str | None, str | None, str | None]]:
    """What JUnit says of each test: message and text of its failure, and whether it was skipped."""
    found = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        failure = next(iter(case.iter("failure")), None)
        told = (None, None) if failure is None else (failure.get("message"), failure.text)
        found[str(case.get("name"))] = (*told, "skipped" if case.find("skipped") is not None else None)
    return found


class Sessions:
    """Runs one suite several times with the same folder, and says what each run measured."""

    def __init__(self, run: Run, url: str, folder: Path) -> None:
        self._run = run
        self.url = url
        self.folder = folder

    def __call__(self, *words: str) -> tuple[pytest.RunResult, int]:
        before = looked_up(self.url)
        result = self._run(f"--kv-endpoint={self.url}", "--kv-resume=res", *QUICK, *words)
        return result, looked_up(self.url) - before

    def again(self, *words: str) -> int:
        """The prompt tokens of a further run, which must not fail."""
        result, tokens = self(*words)
        assert result.ret == 0, result.stdout.str()
        return tokens


@pytest.fixture
def sessions(run: Run, sim: str, pytester: pytest.Pytester) -> Sessions:
    return Sessions(run, sim, pytester.path / "res")


SUITE = (
    PASSING
    + FAILING.replace("import pytest", "").replace("test_shared", "test_low")
    + f"""
@pytest.mark.hit_rate(target=0.25, tol=0.0)
def test_two_runs(kv, kv_workload):
    for rate in (0.5, 0.0):
        kv.run(kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=rate, output_len=1))

def test_body(kv, kv_workload, request):
    result = kv.run({SHAPE})
    request.node.user_properties.append(("mine", result.hit_rate))
    assert result.hit_rate == 0.75, "too low"

@pytest.mark.xfail(raises=AssertionError, strict=True)
def test_known(kv, kv_workload):
    assert kv.run({SHAPE}).hit_rate == 0.75

@pytest.mark.xfail(strict=True)
def test_cured(kv, kv_workload):
    kv.run({SHAPE})

@pytest.fixture
def measured(kv, kv_workload):
    return kv.run({SHAPE})

def test_in_a_fixture(measured):
    assert measured.hit_rate == 0.5

async def test_in_a_fixture_async(measured):
    assert measured.hit_rate == 0.5

@pytest.mark.parametrize("rate", [0.0, 0.25, 0.75])
def test_sweep(kv, kv_workload, rate):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=rate, output_len=1))

@pytest.mark.hit_rate(min=0.0)
async def test_async(kv, kv_workload):
    await kv.arun({SHAPE})

def test_other():
    pass
"""
)


def test_what_was_measured_is_not_measured_again_and_all_reports_are_the_same(
    pytester: pytest.Pytester, sessions: Sessions
) -> None:
    pytester.makepyfile(test_suite=SUITE)
    words = ("--asyncio-mode=auto", "--kv-report={}.json", "--kv-markdown={}.md", "--junitxml={}.xml")
    results = []
    for name in ("first", "second", "third"):
        shared = ("-n", "2") if name == "third" else ()
        results.append(sessions(*(word.format(name) for word in words), *shared))
    assert [tokens > 0 for _, tokens in results] == [True, False, False]
    outcomes = {"passed": 9, "failed": 3, "xfailed": 1}
    assert [result.parseoutcomes() for result, _ in results] == [outcomes] * 3
    paths = [pytester.path / name for name in ("first", "second", "third")]
    documents = [path.with_suffix(".json").read_text() for path in paths]
    assert documents[0] == documents[1] == documents[2]
    assert len(json.loads(documents[0])["checks"]) == 12
    assert len({path.with_suffix(".md").read_text() for path in paths}) == 1
    first, *others = (path.with_suffix(".xml") for path in paths)
    for other in others:
        assert properties(first) == properties(other)
        assert failures(first) == failures(other)
    took = {line["nodeid"].split("::")[1]: line["duration"] for line in kept(sessions.folder)}
    assert all(times(others[0])[name] > seconds - 0.001 for name, seconds in took.items())
    assert properties(first)["test_body"]["mine"] == "0.5"
    assert failures(first)["test_body"][0] == "AssertionError: too low\nassert 0.5 == 0.75\n +  where 0.5 = " + (
        "<Result hit rate 0.500: 128 of 256 tokens hit>.hit_rate"
    )
    lines = [[line for line in result.outlines if "measured" in line and "(res)" in line] for result, _ in results]
    assert lines == [[f"{before} measured before (res), {12 - before} now"] for before in (0, 12, 12)]
    assert len(kept(sessions.folder)) == 12
    text = results[1][0].stdout.str()
    assert "measured before: ended 20" in text
    assert text.count("Captured kvcache call") == text.count("  measured before: ended ") == 3


def test_only_what_is_missing_is_measured(pytester: pytest.Pytester, sessions: Sessions) -> None:
    sweep = (
        "import pytest\nRATES = [0.0, 0.25]\n@pytest.mark.parametrize('rate', RATES)\n"
        "def test_sweep(kv, kv_workload, rate):\n"
        "    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=rate, output_len=1, prefill=False))\n"
    )
    pytester.makepyfile(test_sweep=sweep)
    assert sessions.again() == 2 * 2 * 64
    pytester.makepyfile(test_sweep=sweep.replace("0.25]", "0.25, 0.5]"))
    result, tokens = sessions()
    assert tokens == 2 * 64
    result.stdout.fnmatch_lines(["2 measured before (res), 1 now"])


def test_results_without_resuming(pytester: pytest.Pytester, sessions: Sessions, run: Run) -> None:
    pytester.makepyfile(ONE)
    for _ in range(2):
        before = looked_up(sessions.url)
        result = run(f"--kv-endpoint={sessions.url}", "--kv-results=res", *QUICK)
        result.stdout.fnmatch_lines(["kvcache: endpoint=*, results=res", "1 measured and kept in res"])
        assert looked_up(sessions.url) > before
    assert len(kept(sessions.folder)) == 2
    assert sessions.again() == 0


def test_a_folder_that_is_not_there_yet_and_one_that_cannot_be(
    pytester: pytest.Pytester, sessions: Sessions, run: Run
) -> None:
    pytester.makepyfile(ONE)
    (pytester.path / "file").touch()
    result = run(f"--kv-endpoint={sessions.url}", "--kv-results=file/res")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: kvcache: --kv-results: nothing can be written to file/res"])
    result, _ = sessions()
    result.stdout.fnmatch_lines(["0 measured before (res), 1 now"])


# --- what makes it another measurement -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["-v"],
        ["-q"],
        ["-k", "one"],
        ["--kv-show-text"],
        ["--kv-report=x.json"],
        ["--junitxml=x.xml"],
        ["--kv-concurrency=8"],
        ["--tb=short"],
        ["-n", "2"],
        ["--kv-reset=never"],
    ],
    ids=" ".join,
)
def test_what_does_not_change_the_measurement(pytester: pytest.Pytester, sessions: Sessions, words: list[str]) -> None:
    pytester.makepyfile(ONE)
    assert sessions.again() > 0
    assert sessions.again(*words) == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--kv-concurrency=2"], "call"),
        (["--kv-reset=auto"], "call"),
        (["--kv-seed=1"], "settings"),
        (["--kv-timeout=10"], "settings"),
        (["--kv-tokenizer=builtin"], "settings"),
        (["--kv-usage-absent=zero"], "settings"),
        (["--kv-sample-interval=0.5"], "settings"),
        (["--kv-header=X-Route: b"], "settings"),
        (["--kv-metrics={url}/metrics"], "endpoint"),
        (["--kv-engine=usage"], "engine"),
    ],
    ids=str,
)
def test_what_does(pytester: pytest.Pytester, sessions: Sessions, words: list[str], part: str) -> None:
    pytester.makepyfile(ONE)
    assert sessions.again() > 0
    result, tokens = sessions(*(word.format(url=sessions.url) for word in words))
    assert tokens > 0
    result.stdout.fnmatch_lines(["0 measured before (res), 1 now", f"1 measured again: another {part}*"])
    assert sessions.again() == 0  # the first result is there yet


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("== 0.5", "<= 0.5", "test"),
        ("output_len=1", "output_len=2", "test and workload"),
        ("def test", "import pytest\n@pytest.mark.hit_rate(min=0.1)\ndef test", "test"),
    ],
    ids=["code", "workload", "marker"],
)
def test_a_test_that_changed(pytester: pytest.Pytester, sessions: Sessions, old: str, new: str, part: str) -> None:
    pytester.makepyfile(test_it=ONE)
    assert sessions.again() > 0
    pytester.makepyfile(test_it=f"# remark\n\n{ONE}\ndef test_more():\n    pass\n")
    assert sessions.again() == 0
    pytester.makepyfile(test_it=ONE.replace(old, new))
    result, tokens = sessions()
    assert tokens > 0
    result.stdout.fnmatch_lines([f"1 measured again: another {part}"])
    pytester.makepyfile(test_it=ONE)
    assert sessions.again() == 0


def test_the_value_of_a_parameter(pytester: pytest.Pytester, sessions: Sessions) -> None:
    body = f"""
import pytest
@pytest.mark.parametrize("least", [pytest.param(0.1, id="low"), pytest.param(object(), id="any")])
def test_it(kv, kv_workload, least):
    assert kv.run({SHAPE}).hit_rate >= (least if isinstance(least, float) else 0)
"""
    pytester.makepyfile(test_it=body)
    assert sessions.again() > 0
    assert sessions.again() == 0
    pytester.makepyfile(test_it=body.replace("0.1", "0.2"))
    result, _ = sessions()
    result.stdout.fnmatch_lines(["1 measured before (res), 1 now", "1 measured again: another test"])


def test_a_test_case_of_unittest_is_measured_in_every_session(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(
        test_it=f"""
        import unittest, pytest

        class TestIt(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _given(self, kv, kv_workload):
                self.kv = kv
                self.shape = {SHAPE}

            def test_it(self):
                self.assertEqual(self.kv.run(self.shape).hit_rate, 0.5)
        """
    )
    assert sessions.again() > 0
    result, tokens = sessions()
    result.assert_outcomes(passed=1)
    assert tokens > 0
    result.stdout.fnmatch_lines(["1 measured in every session: its test holds a unittest.TestCase, which *"])


def test_numbers_of_fixtures(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(
        test_it=f"""
        import os, pathlib, pytest

        @pytest.fixture(scope="session")
        def limits():
            return {{"least": [float(pathlib.Path("least.txt").read_text())], "session": os.urandom(4).hex()}}

        def test_it(kv, kv_workload, limits, tmp_path, request, monkeypatch):
            assert kv.run({SHAPE}).hit_rate >= limits["least"][0]
        """
    )
    least = pytester.path / "least.txt"
    least.write_text("0.5")
    assert sessions.again() > 0
    assert sessions.again() == 0
    least.write_text("0.75")
    result, _ = sessions()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["1 measured again: another test"])


def test_an_inherited_test(pytester: pytest.Pytester, sessions: Sessions) -> None:
    base = f"class Base:\n    def test_it(self, kv, kv_workload):\n        assert kv.run({SHAPE}).hit_rate == 0.5\n"
    pytester.makepyfile(common=base, test_mine="from common import Base\nclass TestMine(Base):\n    pass\n")
    pytester.syspathinsert()
    assert sessions.again() > 0
    assert sessions.again() == 0
    pytester.makepyfile(common=base.replace("==", "<="))
    sessions()[0].stdout.fnmatch_lines(["1 measured again: another test"])


def test_a_conftest_that_changed(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(ONE)
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef limit(): return 1\n")
    assert sessions.again() > 0
    pytester.makeconftest("# remark\nimport pytest\n@pytest.fixture\ndef limit(): return 1\n")
    assert sessions.again() == 0
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef limit(): return 2\n")
    assert sessions.again() > 0


def test_another_engine(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    pytester.makepyfile(ONE)
    port = start_sim().rpartition(":")[2]
    words = (f"--kv-endpoint=http://127.0.0.1:{port}", "--kv-resume=res", *QUICK)
    run(*words).assert_outcomes(passed=1)
    other = start_sim("--block-size", "32")
    result = run(f"--kv-endpoint={other}", "--kv-resume=res", *QUICK)
    result.stdout.fnmatch_lines(["1 measured again: another endpoint and engine"])
    localhost = run(f"--kv-endpoint=http://user:password@127.0.0.1:{port}", "--kv-resume=res", *QUICK)
    localhost.stdout.fnmatch_lines(["1 measured before (res), 0 now"])


def test_sim_is_the_same_at_any_port(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        ONE + "\nfrom pytest import mark\n@mark.hit_rate(min=0)\ndef test_whole(kv_endpoint):\n    pass\n"
    )
    run("--kv-endpoint=sim", "--kv-resume=res", *QUICK)
    run("--kv-endpoint=sim", "--kv-resume=res", *QUICK).stdout.fnmatch_lines(["1 measured before (res), 1 now"])


def test_a_workload_that_nothing_tells_from_another(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        class Mine:
            def __init__(self, inner):
                self.inner = inner
                self.lines = iter(open(__file__))
            async def bind(self, site):
                return await self.inner.bind(site)

        def test_mine(kv, kv_workload):
            mine = Mine({SHAPE})
            kv.run(mine)
            mine.lines = None
    """)
    assert sessions.again("-W", "ignore") > 0
    result, tokens = sessions("-W", "ignore")
    assert tokens > 0
    result.stdout.fnmatch_lines(["1 measured in every session: its workload holds a _io.TextIOWrapper"])
    assert [line["fingerprints"] for line in kept(sessions.folder)] == [[None], [None]]


# --- how a test ended ------------------------------------------------------------------------------------------------


def test_what_was_not_decided_is_measured_again(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        import pytest
        from pytest_kvcache.errors import KVCacheError

        @pytest.mark.hit_rate(0.5)
        def test_inconclusive(kv, kv_workload):
            kv.run({SHAPE})
            kv.run({SHAPE})
            raise KVCacheError("no")

        def test_broken(kv, kv_workload):
            kv.run({SHAPE})
            raise OSError("disk")

        def test_skipped(kv, kv_workload):
            kv.run({SHAPE})
            pytest.skip("not here")

        def test_stopped(kv, kv_workload):
            kv.run({SHAPE})
            pytest.fail("judged")

        def test_expected(kv, kv_workload):
            kv.run({SHAPE})
            pytest.xfail("known")
    """)
    first, before = sessions()
    second, tokens = sessions("-rx")
    outcomes = {"failed": 3, "skipped": 1, "xfailed": 1}
    assert first.parseoutcomes() == second.parseoutcomes() == outcomes
    assert tokens * 6 == before * 4
    second.stdout.fnmatch_lines(
        [
            "2 measured before (res), 3 now",
            "1 measured again: broken",
            "1 measured again: inconclusive",
            "1 measured again: skipped",
            "XFAIL *::test_expected - *known",
        ]
    )
    assert {line["nodeid"].split("_")[-1]: line["outcome"] for line in kept(sessions.folder)} == {
        "inconclusive": "failed", "broken": "broken", "skipped": "skipped", "stopped": "failed", "expected": "failed",
    }  # fmt: skip


def test_the_last_result_counts(pytester: pytest.Pytester, sessions: Sessions, run: Run) -> None:
    (pytester.path / "mood").write_text("bad")
    pytester.makepyfile(f"""
        from pathlib import Path
        def test_it(kv, kv_workload):
            kv.run({SHAPE})
            assert Path("mood").read_text() != "bad"
    """)
    sessions()[0].assert_outcomes(failed=1)
    (pytester.path / "mood").write_text("good")
    sessions()[0].assert_outcomes(failed=1)  # it was not run
    run(f"--kv-endpoint={sessions.url}", "--kv-results=res", *QUICK).assert_outcomes(passed=1)
    (pytester.path / "mood").write_text("bad")
    result, tokens = sessions()
    result.assert_outcomes(passed=1)
    assert tokens == 0


def test_reruns(pytester: pytest.Pytester, sessions: Sessions) -> None:
    """An attempt that failed before fails again, and the next one is measured as it would have been."""
    pytester.makepyfile(f"def test_it(kv, kv_workload):\n    assert kv.run({SHAPE}).hit_rate == 0.75\n")
    _, once = sessions()
    result, tokens = sessions("--reruns=2")
    assert result.parseoutcomes() == {"failed": 1, "rerun": 2}
    assert tokens == 2 * once
    result, tokens = sessions("--reruns=2")
    assert result.parseoutcomes() == {"failed": 1, "rerun": 2}
    assert tokens == 0


def test_fixtures_that_measure(pytester: pytest.Pytester, sessions: Sessions) -> None:
    """In tests that name them and tests that do not, in any order, and what was set up before is torn down."""
    pytester.makepyfile(f"""
        import pytest
        from pathlib import Path

        def note(text):
            with open("notes", "a") as file:
                file.write(text + " ")

        @pytest.fixture
        def around():
            yield note("up")
            note("down")

        @pytest.fixture
        def measured(around, kv, kv_workload):
            yield kv.run({SHAPE})

        @pytest.fixture
        async def awaited(around, kv, kv_workload):
            yield await kv.arun({SHAPE})

        def test_first(measured):
            note("body")

        @pytest.mark.usefixtures("measured")
        def test_second():
            note("body")

        async def test_third(awaited):
            note("body")

        @pytest.mark.hit_rate(min=0.1)
        async def test_fourth(awaited, measured):
            note("body")
            assert not measured
    """)
    notes = pytester.path / "notes"
    results = []
    for _ in range(2):
        results.append(sessions("--asyncio-mode=auto"))
        assert results[-1][0].parseoutcomes() == {"passed": 3, "failed": 1}
        results.append(notes.read_text())
        notes.unlink()
    assert results[1] == "up body down " * 4
    assert results[3] == "up down " * 4
    again, tokens = results[2]
    assert tokens == 0
    assert again.stdout.str().count("Captured kvcache call") == 1


def test_a_rerun_that_comes_to_a_run_that_passed(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        from pathlib import Path
        def test_it(kv, kv_workload):
            if Path("mood").exists():
                Path("mood").unlink()
                raise AssertionError("not yet")
            kv.run({SHAPE})
    """)
    assert sessions.again() > 0
    (pytester.path / "mood").touch()
    result, tokens = sessions("--reruns=1")
    assert result.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert tokens == 0


def test_options_of_pytest_decide_anew_what_a_failure_is(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        import pytest
        @pytest.mark.xfail(raises=pytest.importorskip("pytest_kvcache").errors.ProbeFailed)
        def test_it(kv, kv_workload):
            from pytest_kvcache.errors import ProbeFailed
            kv.run({SHAPE})
            raise ProbeFailed("leaks", "KV000")
    """)
    assert sessions()[0].parseoutcomes() == {"xfailed": 1}
    assert sessions()[0].parseoutcomes() == {"xfailed": 1}
    result, tokens = sessions("--runxfail")
    assert result.parseoutcomes() == {"failed": 1}
    assert tokens == 0
    result.stdout.fnmatch_lines(["E * pytest_kvcache.errors.ProbeFailed: leaks"])


def test_a_body_that_catches_everything(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        import pytest
        @pytest.mark.hit_rate(min=0.1)
        def test_it(kv, kv_workload):
            for _ in range(2):
                try:
                    kv.run({SHAPE})
                except BaseException:
                    pass
            assert {{}}
    """)
    assert sessions()[0].parseoutcomes() == {"failed": 1}
    result, tokens = sessions()
    assert result.parseoutcomes() == {"failed": 1}
    assert tokens == 0
    assert result.stdout.str().count("Captured kvcache call") == 1


def test_what_a_fixture_measures_at_its_end_belongs_to_no_result(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.fixture
        def leave(kv, kv_workload):
            yield
            kv.run({SHAPE})

        @pytest.mark.hit_rate(min=0.1)
        def test_teardown(kv, kv_workload, leave):
            kv.run({SHAPE})
    """)
    assert sessions.again() > 0
    result, tokens = sessions()
    result.stdout.fnmatch_lines(["1 measured before (res), 0 now", "*1 passed*"])
    assert tokens > 0


def test_a_ctrl_c_is_one(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        def test_it(kv, kv_workload):
            try:
                kv.run({SHAPE})
            except BaseException:
                raise KeyboardInterrupt from None
    """)
    assert sessions.again() > 0
    with pytest.raises(KeyboardInterrupt):  # pytester hands it on
        sessions()


def test_runs_at_the_same_time(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(f"""
        import asyncio
        async def test_it(kv, kv_workload):
            await asyncio.gather(*(kv.arun({SHAPE}) for _ in range(3)))
    """)
    assert sessions.again("--asyncio-mode=auto") > 0
    assert sessions.again("--asyncio-mode=auto") == 0


def test_own_traffic(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile("""
        import urllib.request
        import pytest

        def send(endpoint):
            body = b'{"model": "sim", "prompt": "one two three", "max_tokens": 1}'
            url = endpoint.api("completions")
            urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).read()

        def test_block(kv, kv_endpoint):
            with kv.measure() as m:
                send(kv_endpoint)
            assert m.result.query_tokens

        async def test_async_block(kv, kv_endpoint):
            async with kv.measure():
                send(kv_endpoint)

        def test_window(kv_metrics, kv_endpoint):
            with kv_metrics.window():
                send(kv_endpoint)

        @pytest.mark.hit_rate(min=0.0)
        def test_whole(kv_endpoint):
            send(kv_endpoint)
    """)
    words = ("--asyncio-mode=auto",)
    assert sessions.again(*words) > 0
    result, tokens = sessions(*words)
    result.assert_outcomes(passed=4)
    assert tokens == 0
    result.stdout.fnmatch_lines(["4 measured before (res), 0 now"])
    assert sessions.again(*words, "--kv-seed=1", "--kv-processes=2") == 0  # its requests are not made by the plugin
    assert sessions.again(*words, "--kv-timeout=10") > 0


@pytest.mark.parametrize(
    ("call", "other"),
    [
        ("steps({}, concurrency=[1, 2], duration=0.05)", ("0.05", "0.06")),
        ("speedup({}, concurrency=1)", ("concurrency=1", "concurrency=2")),
        ("sustain({}, duration=0.6, assessment=0.1, limit=4)", ("limit=4", "limit=6")),
    ],
    ids=["steps", "speedup", "sustain"],
)
def test_loads(pytester: pytest.Pytester, sessions: Sessions, call: str, other: tuple[str, str]) -> None:
    body = f"def test_it(kv, kv_workload):\n    kv.{call.format(SHAPE)}\n"
    pytester.makepyfile(test_it=body)
    assert sessions.again() > 0
    assert sessions.again() == 0
    pytester.makepyfile(test_it=body.replace(*other))
    sessions()[0].stdout.fnmatch_lines(["1 measured again: another test and call"])


def test_thresholds_decide_what_a_body_makes_of_the_levels(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(
        test_it=f"""
        from pathlib import Path

        def test_it(kv, kv_workload):
            ttft = float(Path("limit.txt").read_text())
            assert kv.steps({SHAPE}, [1], duration=0.05, max_ttft=ttft)[0].why == ("",)
        """
    )
    limit = pytester.path / "limit.txt"
    limit.write_text("60")
    assert sessions.again() > 0
    assert sessions.again() == 0
    limit.write_text("1e-9")
    result, _ = sessions()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["1 measured again: another call"])


def test_a_replayed_trace_is_known_by_its_rows(pytester: pytest.Pytester, sessions: Sessions) -> None:
    trace = pytester.path / "t.jsonl"
    row = '{{"timestamp": {}, "input_length": 32, "output_length": 1, "hash_ids": [{}, 2]}}\n'
    trace.write_text(row.format(0, 1) + row.format(1, 1))
    pytester.makepyfile(
        test_it="def test_it(kv, kv_trace):\n    kv.replay(kv_trace('t.jsonl', block_size=16), users=1)\n"
    )
    assert sessions.again() > 0
    trace.write_text(trace.read_text().replace("}\n", " }\n"))
    assert sessions.again() == 0
    trace.write_text(row.format(0, 1) + row.format(1, 3))
    result, _ = sessions()
    result.stdout.fnmatch_lines(["1 measured again: another workload"])


# --- the folder ------------------------------------------------------------------------------------------------------


def test_damage_is_told_once_and_loses_nothing_else(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile(ONE + ONE.replace("test_one", "test_two") + ONE.replace("test_one", "test_three"))
    sessions()
    (path,) = sessions.folder.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    lines[0] = lines[0].replace('"duration": ', '"duration": 1')
    (sessions.folder / "a.jsonl").write_text(lines[0] + lines[1] + lines[2][:-20])
    (sessions.folder / "b.jsonl").write_text('{"x": 1}\nnot JSON\n[1]\n\n' + lines[0].replace("result/1", "result/2"))
    (sessions.folder / "c.jsonl").write_bytes(b"\xff\xfe\n")
    (sessions.folder / "d.jsonl").mkdir()
    path.unlink()
    result, tokens = sessions("-n", "2")
    assert tokens == 2 * (4 * 64 + 64 - 16)  # two tests, each with a prompt that warms
    result.stdout.fnmatch_lines(
        [
            "1 measured before (res), 2 now",
            "res: lines that are not used: 1 changed since they were written, 1 cut off while being written, 4 none of"
            " ours, 1 not of the form pytest-kvcache-result/1, 1 in files that cannot be read",
        ]
    )
    assert result.stdout.str().count("lines that are not used") == 1


def test_results_that_cannot_be_kept_are_told(pytester: pytest.Pytester, sessions: Sessions, run: Run) -> None:
    pytester.makeconftest("""
        import os, pytest
        @pytest.fixture(autouse=True)
        def _full(monkeypatch):
            def fail(*_):
                raise OSError(28, "No space left on device")
            monkeypatch.setattr(os, "fsync", fail)
    """)
    pytester.makepyfile(ONE + ONE.replace("test_one", "test_two"))
    lost = "2 not kept in res: No space left on device"
    result = run(f"--kv-endpoint={sessions.url}", "--kv-results=res", *QUICK)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["0 measured and kept in res", lost])
    shutil.rmtree(sessions.folder)
    quiet, _ = sessions("-q")
    quiet.stdout.fnmatch_lines([lost])
    quiet.stdout.no_fnmatch_line("*measured before*")


def test_nothing_secret_is_kept(
    pytester: pytest.Pytester, run: Run, start_sim: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY_OF_MINE", "sk-veryverysecret")
    pytester.makepyfile("""
        import pytest
        def test_it(kv, kv_workload, kv_endpoint, request):
            hidden = "a prompt of mine".title()
            body = {"prompt": hidden.lower() + " with words", "max_tokens": 1}
            kv.run(kv_workload.requests([body, body], api="completions"))
            request.node.user_properties.append(("key", kv_endpoint.api_key))
            request.node.user_properties.append(("route", "Bearer of secret-header-value"))
            raise AssertionError(f"{kv_endpoint.api_key} and secret-header-value")
    """)
    words = (
        f"--kv-endpoint={start_sim()}",
        "--kv-resume=res",
        "--kv-api-key-env=SECRET_KEY_OF_MINE",
        "--kv-header=X-Secret: secret-header-value",
        "--kv-header=X-Kind: ReprEntry",  # as pytest calls a part of a failure
        "--kv-show-text",
        "--showlocals",
        *QUICK,
    )
    run(*words).assert_outcomes(failed=1)
    text = "".join(path.read_text() for path in (pytester.path / "res").iterdir())
    assert "AssertionError: *** and ***" in text
    for secret in ("sk-veryverysecret", "secret-header-value", "A Prompt Of Mine"):
        assert secret not in text
    again = run(*words)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["E * AssertionError: [*][*][*] and [*][*][*]", "1 measured before (res), 0 now"])
    again.stdout.no_fnmatch_line("*keeping.py*")


def test_workers_write_files_of_their_own(pytester: pytest.Pytester, sessions: Sessions) -> None:
    pytester.makepyfile("\n".join(ONE.replace("test_one", f"test_{n}") for n in range(6)))
    sessions("-n", "2")
    names = [path.name.split(".") for path in sessions.folder.iterdir()]
    assert sorted(name[1] for name in names) == ["gw0", "gw1"]
    assert len({name[0] for name in names}) == 1
    assert len({line["nodeid"] for line in kept(sessions.folder)}) == 6
    assert {line["worker"] for line in kept(sessions.folder)} == {"gw0", "gw1"}
    assert sessions.again() == 0
    assert len(list(sessions.folder.iterdir())) == 2  # who measured nothing makes no file


def test_who_measures_nothing_gets_no_folder(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_other():\n    pass\n")
    result = run("--kv-results=res")
    assert not (pytester.path / "res").exists()
    assert "measured" not in result.stdout.str()
