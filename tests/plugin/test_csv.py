"""``--kv-csv``: four tables of one session, whoever wrote the rows, was killed, or had been there before."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from filelock import Timeout

from pytest_kvcache.plugin.lock import folder_lock

from .conftest import FAILING, PASSING, Run

NAMES = ["periods.csv", "phases.csv", "requests.csv", "summary.csv"]
SUITE = (
    PASSING
    + FAILING.replace("import pytest", "").replace("test_shared", "test_low")
    + """
def test_a_chat(kv, kv_workload):
    kv.run(kv_workload.conversation(turns=2), sessions=2)

def test_two_runs(kv, kv_workload):
    for rate in (0.5, 0.0):
        kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=rate, output_len=1))

def test_other():
    pass
"""
)
ONE = """
def test_one(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests={}, input_len=64, hit_rate=0.5, output_len=1))
"""
CLOCK = re.compile(r"(_s|per_s.*|started|busy|_peak|_tok_s|sentence)$")  # columns that a clock decides
Rows = list[dict[str, str]]


def table(folder: Path, name: str) -> Rows:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def timeless(rows: Rows) -> Rows:
    return [{name: cell for name, cell in row.items() if not CLOCK.search(name)} for row in rows]


def counted(folder: Path) -> Counter[tuple[str, str, str]]:
    """How many requests each phase of each run of each test has."""
    names = (row["nodeid"].partition("::")[2] for row in table(folder, "requests"))
    return Counter((name, row["run"], row["phase"]) for name, row in zip(names, table(folder, "requests"), strict=True))


def test_the_rows_of_a_session(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_suite=SUITE)
    run(f"--kv-endpoint={sim}", "--kv-csv=deep/tables", "--kv-report=o.json").assert_outcomes(passed=4, failed=1)
    folder = pytester.path / "deep/tables"
    assert sorted(path.name for path in folder.iterdir()) == NAMES  # the parts are gone
    assert counted(folder) == {
        ("test_a_chat", "1", "measured"): 4,
        ("test_low", "1", "measured"): 8,
        ("test_low", "1", "prefill"): 2,
        ("test_shared", "1", "measured"): 8,
        ("test_shared", "1", "prefill"): 2,
        ("test_two_runs", "1", "measured"): 4,
        ("test_two_runs", "1", "prefill"): 1,
        ("test_two_runs", "2", "measured"): 4,
    }
    rows = table(folder, "requests")
    shared = [row for row in rows if row["nodeid"].endswith("::test_shared")]
    assert sum(int(row["cached_tokens"]) for row in shared if row["phase"] == "measured") == 1024
    assert {(row["prompt_tokens"], row["cached_tokens"], row["predicted_tokens"]) for row in shared[2:]} == {
        ("256", "128", "128")
    }
    assert {(row["status"], row["error"], row["attempts"], row["engine"]) for row in rows} == {("200", "", "1", "0")}
    chat = [(row["session"], row["turn"]) for row in rows if row["nodeid"].endswith("::test_a_chat")]
    assert chat == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    for row in rows:
        start, sent, end = (float(row[name]) for name in ("start_s", "sent_s", "ended_s"))
        assert 0 <= start <= sent <= sent + float(row["ttft_s"]) <= end + 1e-9
    document = json.loads((pytester.path / "o.json").read_text())
    started = {(c["nodeid"], str(n)): r["started"] for c in document["checks"] for n, r in enumerate(c["runs"], 1)}
    assert {(row["nodeid"], row["run"]): row["started"] for row in rows} == started
    kinds = [(row["kind"], row["nodeid"].partition("::")[2]) for row in table(folder, "summary")]
    assert kinds[:3] == [("check", "test_a_chat"), ("run", "test_a_chat"), ("check", "test_low")]
    assert Counter(kind for kind, _ in kinds) == {"check": 4, "run": 5}
    phases = [row["phase"] for row in table(folder, "phases") if row["nodeid"].endswith("::test_shared")]
    assert phases == ["prefill", "settle_before", "load", "settle_after"]
    assert table(folder, "periods") == []


def test_the_tables_are_the_same_with_and_without_workers(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_suite=SUITE, test_more=ONE.format(3))
    run(f"--kv-endpoint={sim}", "--kv-csv=alone")
    run(f"--kv-endpoint={sim}", "--kv-csv=shared", "-n", "2")
    alone, shared = pytester.path / "alone", pytester.path / "shared"
    assert sorted(path.name for path in shared.iterdir()) == NAMES
    for name in ("summary", "requests", "phases", "periods"):
        assert timeless(table(alone, name)) == timeless(table(shared, name)) or name == "periods"
    assert len(table(shared, "requests")) == 33 + 4


def test_loads_have_periods_and_levels(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        def test_levels(kv, kv_workload):
            work = kv_workload.shared_prefix(requests=8, input_len=64, hit_rate=0.5, output_len=2)
            kv.steps(work, [2, 4], duration=0.2)

        def test_search(kv, kv_workload):
            work = kv_workload.shared_prefix(requests=8, input_len=64, hit_rate=0.5, output_len=2)
            kv.sustain(work, max_ttft=60.0, duration=1, assessment=0.2, step=2, limit=4)

        def test_own(kv):
            with kv.measure():
                pass
        """
    )
    run(f"--kv-endpoint={sim}", "--kv-csv=t", "--kv-report=o.json", "--kv-sample-interval=0.1")
    periods, requests = table(pytester.path / "t", "periods"), table(pytester.path / "t", "requests")
    levels = [(row["kind"], row["run"], row["concurrency"]) for row in periods if row["kind"] == "level"]
    assert levels == [("level", "1", "2"), ("level", "2", "4")]
    assert [row["period"] for row in periods if row["kind"] == "period"] == [str(n) for n in range(1, len(periods) - 1)]
    for name in ("levels", "search"):
        sent = {row["concurrency"] for row in requests if row["nodeid"].endswith(name) and row["phase"] == "measured"}
        kept = {row["concurrency"] for row in periods if row["nodeid"].endswith(name)}
        assert sent - {""} == kept if name == "levels" else sent - {""} <= kept
        assert "2" in sent
    (check,) = [
        c for c in json.loads((pytester.path / "o.json").read_text())["checks"] if c["nodeid"].endswith("search")
    ]
    rows = [row for row in requests if row["nodeid"].endswith("search")]
    assert len(rows) == check["requests"]["total"] + check["requests"]["prefill"]
    own = [row for row in table(pytester.path / "t", "phases") if row["nodeid"].endswith("own")]
    assert [(row["phase"], row["requests"], row["query_tokens"]) for row in own] == [
        ("load", "", "0"),
        ("settle_after", "", ""),
    ]


def test_only_the_last_attempt_of_a_rerun_counts(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import pytest
        tried = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(kv, kv_workload, number):
            tried.append(number)
            requests = len(tried)
            kv.run(kv_workload.shared_prefix(requests=requests, input_len=64, hit_rate=0.0, output_len=1))
            assert requests != 1
        """
    )
    run(f"--kv-endpoint={sim}", "--kv-csv=t", "--reruns=1").assert_outcomes(passed=2)
    assert [count for _, count in sorted(counted(pytester.path / "t").items())] == [2, 3]
    run(f"--kv-endpoint={sim}", "--kv-csv=u", "--reruns=1", "-n", "1").assert_outcomes(passed=2)
    assert counted(pytester.path / "u") == counted(pytester.path / "t")


def test_a_second_session_begins_afresh(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=ONE.format(2), test_b=ONE.format(3))
    run(f"--kv-endpoint={sim}", "--kv-csv=t", "test_a.py")
    (pytester.path / "t/parts").mkdir()
    (pytester.path / "t/parts/0123.main.ab.csv").write_text("somebody else's")
    (pytester.path / "t/mine.txt").write_text("mine")
    run(f"--kv-endpoint={sim}", "--kv-csv=t", "test_b.py")
    assert {row["nodeid"] for row in table(pytester.path / "t", "requests")} == {"test_b.py::test_one"}
    assert {row["nodeid"] for row in table(pytester.path / "t", "summary")} == {"test_b.py::test_one"}
    assert [path.name for path in (pytester.path / "t/parts").iterdir()] == ["0123.main.ab.csv"]
    assert (pytester.path / "t/mine.txt").read_text() == "mine"


def test_a_session_that_measures_nothing_leaves_headers(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_other(): pass")
    run("--kv-csv=t").assert_outcomes(passed=1)
    assert [len((pytester.path / "t" / name).read_text().splitlines()) for name in NAMES] == [1, 1, 1, 1]


@pytest.mark.parametrize("what", ["a folder that cannot be made", "a file in its place"])
def test_what_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run, sim: str, what: str) -> None:
    pytester.makepyfile(PASSING)
    (pytester.path / "file").write_text("")
    if "place" in what:
        result = run(f"--kv-endpoint={sim}", "--kv-csv=file")
        expected = "--kv-csv: 'file' is a file; expected a folder"
    else:
        result = run(f"--kv-endpoint={sim}", "--kv-csv=file/deep")
        expected = "--kv-csv: file/deep cannot be written (Not a directory)"
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert expected in result.stdout.str() + result.stderr.str()


def test_hostile_names_are_cells(pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]) -> None:
    model = "=cmd|' /C calc'!A0\x1b[31m\x00"[:-1]
    url = start_sim("--model", model)
    names = ['a,b"c', "=1+1", "a\nb", "\x1b[31m"]
    body = PASSING.replace("@pytest", f"@pytest.mark.parametrize('name', {names!r})\n@pytest", 1)
    pytester.makepyfile(test_h=body.replace("(kv,", "(name, kv,"))
    run(f"--kv-endpoint={url}", f"--kv-model={model}", "--kv-csv=t").assert_outcomes(passed=4)
    rows = table(pytester.path / "t", "summary")
    assert {row["model"] for row in rows} == {"'=cmd|' /C calc'!A0\\x1b[31m"}
    assert len(table(pytester.path / "t", "requests")) == 40
    for name in NAMES:
        content = (pytester.path / "t" / name).read_bytes()
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", content)
        cells = [cell for row in table(pytester.path / "t", name.removesuffix(".csv")) for cell in row.values()]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


def test_no_prompt_and_no_secret_is_in_any_table(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret")
    pytester.makepyfile(
        """
        def test_it(kv, kv_workload):
            body = {"messages": [{"role": "user", "content": "the secret plan " * 30}]}
            kv.run(kv_workload.requests([body, body]))
        """
    )
    words = [f"--kv-endpoint={sim}", "--kv-header=X-T: tenantsecret", "--kv-csv=t"]
    run(*words).assert_outcomes(passed=1)
    assert len(table(pytester.path / "t", "requests")) == 2
    for name in NAMES:
        text = (pytester.path / "t" / name).read_text()
        assert not [word for word in ("secret plan", "verysecret", "tenantsecret") if word in text]


# --- sessions that were killed, went on, or ran beside each other -----------------------------------------------------

QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--kv-sample-interval=0")


def started(folder: Path, url: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", *QUIET, f"--kv-endpoint={url}", "--kv-csv=t", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def sweep(count: int) -> str:
    return f"""
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_sweep(kv, kv_workload, number):
    kv.run(kv_workload.shared_prefix(requests=2 + number, input_len=64, hit_rate=0.0, output_len=1))
"""


def parts(folder: Path) -> list[Rows]:
    found = []
    for path in sorted((folder / "parts").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found.append(list(csv.DictReader(file)))
    return found


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_killed_session_leaves_parts_and_a_resumed_one_takes_them_over(
    tmp_path: Path, sim: str, workers: tuple[str, ...]
) -> None:
    count, tables = 14, tmp_path / "t"
    (tmp_path / "test_it.py").write_text(sweep(count))
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    process = started(tmp_path, sim, "--kv-resume=res", *workers)
    with process:
        while sum(len(path.read_text().splitlines()) for path in (tmp_path / "res").glob("*.jsonl")) < 5:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    kept = parts(tables)
    assert not (tables / "requests.csv").exists()
    assert sum(map(len, kept)) >= 2 + 3 + 4 + 5 + 6
    assert all(row["status"] == "200" for rows in kept for row in rows[:-1])

    last = started(tmp_path, sim, "--kv-resume=res", *workers)
    output = last.communicate()[0]
    assert last.returncode == 0, output
    assert "lacks" not in output
    assert counted(tables) == {(f"test_sweep[{n}]", "1", "measured"): 2 + n for n in range(count)}
    names = [row["nodeid"] for row in table(tables, "requests")]
    assert names == sorted(names)
    before = {(row["nodeid"], row["request"]): row for rows in kept for row in rows}
    assert sum(before.get((row["nodeid"], row["request"])) == row for row in table(tables, "requests")) >= 20
    assert len(parts(tables)) == len(kept)  # those of the killed session stay, those of this one do not


def test_rows_of_a_finished_session_are_taken_over(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=SUITE)
    words = [f"--kv-endpoint={sim}", "--kv-resume=res", "--kv-csv=t"]
    run(*words, "-k", "not chat")
    place = ("nodeid", "run", "phase", "request")
    first = {tuple(row[name] for name in place): row for row in table(pytester.path / "t", "requests")}
    result = run(*words)
    rows = table(pytester.path / "t", "requests")
    assert len(rows) == len(first) + 4
    old = [row for row in rows if "chat" not in row["nodeid"]]
    assert [first[tuple(row[name] for name in place)] for row in old] == old
    result.stdout.no_fnmatch_line("*lacks*")


def test_rows_that_are_nowhere_are_told_to_be_missing(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=SUITE)
    words = [f"--kv-endpoint={sim}", "--kv-resume=res"]
    run(*words)
    result = run(*words, "--kv-csv=t")
    assert table(pytester.path / "t", "requests") == []
    assert len(table(pytester.path / "t", "summary")) == 9
    line = "requests.csv lacks the rows of 4 tests: they were measured before, and nothing here has them"
    result.stdout.fnmatch_lines([line])


def test_rows_of_another_measurement_are_not_taken_over(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=ONE.format(2))
    run(f"--kv-endpoint={sim}", "--kv-resume=res")
    run(f"--kv-endpoint={sim}", "--kv-csv=t")  # of the same test, at another time
    assert len(table(pytester.path / "t", "requests")) == 3
    result = run(f"--kv-endpoint={sim}", "--kv-resume=res", "--kv-csv=t")
    assert table(pytester.path / "t", "requests") == []
    result.stdout.fnmatch_lines(["requests.csv lacks the rows of 1 test: *"])


def test_of_a_test_with_several_runs_all_rows_are_taken_over_or_none(
    pytester: pytest.Pytester, run: Run, sim: str
) -> None:
    pytester.makepyfile(test_a=SUITE)
    words = [f"--kv-endpoint={sim}", "--kv-resume=res", "--kv-csv=t", "-k", "two_runs or chat"]
    run(*words)
    path = pytester.path / "t/requests.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))  # of the second run one is gone
    result = run(*words)
    assert set(counted(pytester.path / "t")) == {("test_a_chat", "1", "measured")}
    result.stdout.fnmatch_lines(["requests.csv lacks the rows of 1 test: they were measured before*"])


def test_the_tables_take_their_places_while_nobody_else_may(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seen = pytester.path / "t", []

    @contextmanager
    def spy(locked: Path) -> Iterator[None]:
        before = {path: path.stat().st_ino for path in folder.glob("*.csv")}
        yield
        after = {path: path.stat().st_ino for path in folder.glob("*.csv")}
        seen.append((locked, len(before), len(after), [path for path in after if after[path] == before.get(path)]))

    monkeypatch.setattr("pytest_kvcache.plugin.lock.folder_lock", spy)
    pytester.makepyfile(test_a=ONE.format(2))
    for _ in range(2):
        run(f"--kv-endpoint={sim}", "--kv-csv=t")
    assert seen == [(Path("t"), 0, 4, []), (Path("t"), 4, 4, [])]


@pytest.mark.parametrize("same", [True, False])
def test_the_lock_of_a_folder_is_that_of_the_folder(tmp_path: Path, same: bool) -> None:
    (tmp_path / "a").mkdir()
    with folder_lock(tmp_path / "a"):
        other = folder_lock(tmp_path / "a/../a" if same else tmp_path / "b")
        with pytest.raises(Timeout) if same else nullcontext(), other.acquire(blocking=False):
            pass


def test_two_sessions_at_once_do_not_mix(tmp_path: Path, sim: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_a.py").write_text(sweep(6))
    (tmp_path / "test_b.py").write_text(sweep(5))
    both = [started(tmp_path, sim, name) for name in ("test_a.py", "test_b.py")]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    names = {
        name: {row["nodeid"][:9] for row in table(tmp_path / "t", name)} for name in ("summary", "requests", "phases")
    }
    (only,) = names["requests"]
    assert names == {"summary": {only}, "requests": {only}, "phases": {only}}
    count = 6 if only == "test_a.py" else 5
    assert counted(tmp_path / "t") == {(f"test_sweep[{n}]", "1", "measured"): 2 + n for n in range(count)}
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == NAMES


@pytest.mark.usefixtures("run")  # its ini file
def test_an_interrupted_test_keeps_its_rows(pytester: pytest.Pytester, sim: str) -> None:
    pytester.makepyfile(ONE.format(2) + "    raise KeyboardInterrupt\n")
    words = ["-p", "no:cacheprovider", f"--kv-endpoint={sim}", "--kv-csv=t"]
    assert pytester.runpytest_subprocess(*words).ret == pytest.ExitCode.INTERRUPTED
    assert len(table(pytester.path / "t", "requests")) == 3


def test_rows_that_cannot_be_written_are_told(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        ONE.format(2)
        + """
def test_two(kv, kv_workload, monkeypatch):
    import pytest_kvcache.report.sheets.parts as parts
    def full(rows):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(parts, "lines", full)
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0.0, output_len=1))
"""
    )
    result = run(f"--kv-endpoint={sim}", "--kv-csv=t")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["requests.csv: rows could not be written (No space left on device)"])
    result.stdout.no_fnmatch_line("*lacks*")
    assert len(table(pytester.path / "t", "requests")) == 3


def test_rows_of_another_machine_are_told(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makeconftest(
        """
        from pathlib import Path

        import pytest

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtestloop(session):
            result = yield
            if not hasattr(session.config, "workerinput"):
                for part in Path("t/parts").glob("*.csv"):
                    part.unlink()
            return result
        """
    )
    pytester.makepyfile(ONE.format(2))
    result = run(f"--kv-endpoint={sim}", "--kv-csv=t", "-n", "1")
    result.stdout.fnmatch_lines(["requests.csv lacks the rows of 1 test: their part is not on this machine"])
    assert table(pytester.path / "t", "requests") == []


def test_the_guide(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "csv.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={sim}", "--kv-csv=tables")
    names: dict[str, Any] = {}
    exec(example, names)
    (rate,) = names["hit_rates"](pytester.path / "tables/summary.csv").values()
    assert rate == "0.5"
