"""``--kv-artifacts``: every form in one folder, but for those that have a place of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_kvcache.plugin.leaving import FORMS, Form, place
from pytest_kvcache.plugin.settings import Settings
from pytest_kvcache.report import html

from ..documents import validate
from .conftest import FAILING, PASSING, Run

LEFT_OUT = "kvcache.html is left out: pip install 'pytest-kvcache[report]'"
TABLES = ["periods.csv", "phases.csv", "requests.csv", "summary.csv"]


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "workers"])
def test_all_forms_in_one_folder(pytester: pytest.Pytester, run: Run, sim: str, words: tuple[str, ...]) -> None:
    pytester.makepyfile(test_a=PASSING)
    result = run(f"--kv-endpoint={sim}", "--kv-artifacts=deep/art", *words)
    result.assert_outcomes(passed=1)
    folder = pytester.path / "deep/art"
    expected = [*(f"csv/{name}" for name in TABLES), "kvcache.json", "kvcache.md", "reproduce.sh"]
    assert [name for name in names(folder) if name != "kvcache.html"] == expected
    validate(folder / "kvcache.json")
    if not (folder / "kvcache.html").exists():
        result.stdout.fnmatch_lines([LEFT_OUT])
    assert "### kvcache: 1 passed" in (folder / "kvcache.md").read_text()
    assert len((folder / "csv/requests.csv").read_text().splitlines()) == 11
    assert "--kv-artifacts=deep/art" in (folder / "reproduce.sh").read_text()


def test_a_place_of_its_own_wins(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    own = ["--kv-report=mine.json", "--kv-csv=mine", "--kv-reproduce=mine.sh"]
    run(f"--kv-endpoint={sim}", "--kv-artifacts=art", *own).assert_outcomes(passed=1)
    assert [name for name in names(pytester.path / "art") if name != "kvcache.html"] == ["kvcache.md"]
    assert names(pytester.path / "mine") == TABLES
    assert (pytester.path / "mine.sh").exists()
    assert json.loads((pytester.path / "mine.json").read_text())["checks"][0]["verdict"] == "pass"


def test_by_ini_and_where_nothing_was_measured(pytester: pytest.Pytester, run: Run) -> None:
    ini = (pytester.path / "tox.ini").read_text()
    (pytester.path / "tox.ini").write_text(f"{ini}\nkv_artifacts = art\n")
    pytester.makepyfile("def test_other(): pass")
    run().assert_outcomes(passed=1)
    assert json.loads((pytester.path / "art/kvcache.json").read_text())["checks"] == []


def test_a_folder_that_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run) -> None:
    (pytester.path / "file").write_text("")
    pytester.makepyfile("def test_other(): pass")
    result = run("--kv-artifacts=file/art", "--kv-markdown=kv.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stdout.str() + result.stderr.str()
    assert "kvcache: --kv-artifacts: file/art/kvcache.json cannot be written (Not a directory)" in told
    assert "kvcache: --kv-artifacts: file/art/csv cannot be written" in told
    assert (pytester.path / "kv.md").exists()


def test_what_was_measured_is_told_before_that_error(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    (pytester.path / "file").write_text("")
    pytester.makepyfile(test_a=FAILING)
    result = run(f"--kv-endpoint={sim}", "--kv-report=file/a/kv.json", "--kv-markdown=file/a/kv.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*= FAILURES =*", "*= kvcache =*", "fail *", "FAILED test_a.py*"])
    assert [line for line in result.errlines if "kvcache: " in line] == [
        "ERROR: kvcache: --kv-report: file/a/kv.json cannot be written (Not a directory)",
        "kvcache: --kv-markdown: file/a/kv.md cannot be written (Not a directory)",
    ]


def test_nothing_is_left_without_being_asked(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    before = names(pytester.path)
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)
    assert names(pytester.path) == before


def test_every_form_has_an_option_and_a_name_of_its_own() -> None:
    assert len({form.name for form in FORMS}) == len({form.option for form in FORMS}) == len(FORMS)
    for form in FORMS:
        assert place(form.option, Settings()) is None
        assert place(form.option, Settings(artifacts=Path("a"))) in (Path("a") / form.name, None)


def test_a_form_whose_extra_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Form("report", "page", lambda _path, _left: [], possible=lambda: False)
    monkeypatch.setattr("pytest_kvcache.plugin.leaving.FORMS", (one,))
    assert place("report", Settings(artifacts=Path("a"))) is None
    assert place("report", Settings(artifacts=Path("a"), report=Path("b"))) == Path("b")


@pytest.mark.parametrize(("missing", "lines"), [([], []), (["plotly"], [LEFT_OUT])])
def test_what_cannot_be_made_here_is_said_and_nothing_else(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch, missing: list[str], lines: list[str]
) -> None:
    monkeypatch.setattr(html, "missing", lambda: missing)
    pytester.makepyfile(test_a=PASSING)
    result = run(f"--kv-endpoint={sim}", "--kv-artifacts=art")
    assert [line for line in result.outlines if "left out" in line] == lines
    assert (pytester.path / "art/kvcache.html").exists() == (not missing)
