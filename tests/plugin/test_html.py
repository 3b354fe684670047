"""``--kv-html``: when it is written, what is refused, and what is never in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..pages import Page
from .conftest import FAILING, PASSING, Run

pytest.importorskip("plotly", reason="the extra `report` is not installed")

import pytest_kvcache.report.html.dashboard  # heavy, and inner runs forget what they import first

SEEDED = ("--kv-seed=1", "--kv-sample-interval=0")
BOTH = PASSING + FAILING.replace("import pytest", "").replace("test_shared", "test_low")


def test_the_page_says_what_the_document_says(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=BOTH)
    result = run(f"--kv-endpoint={sim}", "--kv-html=deep/kv.html", "--kv-report=kv.json")
    result.assert_outcomes(passed=1, failed=1)
    text = (pytester.path / "deep/kv.html").read_text(encoding="utf-8")
    assert text == pytest_kvcache.report.html.page(json.loads((pytester.path / "kv.json").read_text()))
    rows = [row for row in Page(text).cells if len(row) == 9][1:]
    assert [(row[0], row[1].split()[0], row[2], row[3]) for row in rows] == [
        (" ✕ fail", "test_a.py::test_low", " 0.500", " 0.900"),
        (" ✓ pass", "test_a.py::test_shared", " 0.500", " 0.500"),
    ]
    assert not (pytester.path / "deep/kv.html.part").exists()


def test_one_page_of_all_workers(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=BOTH)
    run(f"--kv-endpoint={sim}", "--kv-html=kv.html", "-n", "2").assert_outcomes(passed=1, failed=1)
    assert "1 ✓ passed 1 ✕ failed" in Page((pytester.path / "kv.html").read_text(encoding="utf-8")).text


def test_money_is_on_the_page(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    (pytester.path / "p.toml").write_text('[models."*"]\ninput = 2.50\ncached_input = 0.25\noutput = 10\n')
    run(f"--kv-endpoint={sim}", "--kv-prices=p.toml", "--kv-html=kv.html", "--kv-report=kv.json").assert_outcomes(
        passed=1
    )
    saved = json.loads((pytester.path / "kv.json").read_text())["saved"]
    assert float(saved["money"]) == pytest.approx(saved["prefill_tokens"] * 2.25e-6)
    shown = Page((pytester.path / "kv.html").read_text(encoding="utf-8"))
    assert f"saved {saved['prefill_tokens']:,} tokens of prefill" in shown.text
    pairs = [pair for part in shown.data("check-0") for block in part["blocks"] for pair in block.get("pairs", [])]
    assert [name for name, _ in pairs if name in ("money saved", "cost of what was sent")] == [
        "money saved",
        "cost of what was sent",
    ]


def test_nothing_was_measured(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_other(): pass")
    run("--kv-html=kv.html").assert_outcomes(passed=1)
    assert "Nothing was measured." in Page((pytester.path / "kv.html").read_text(encoding="utf-8")).text


def test_without_the_extra_it_is_a_usage_error_and_the_other_forms_work(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=PASSING)
    monkeypatch.setattr("pytest_kvcache.report.html.find_spec", lambda _: None)
    result = run(f"--kv-endpoint={sim}", "--kv-html=kv.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--kv-html: jinja2 and plotly not installed; a page needs: pip install 'pytest-kvcache[[]report[]]'"]
    )
    run(f"--kv-endpoint={sim}", "--kv-report=kv.json", "--kv-markdown=kv.md").assert_outcomes(passed=1)


def test_a_file_that_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_other(): pass")
    (pytester.path / "file").write_text("")
    result = run("--kv-html=file/kv.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--kv-html: file/kv.html cannot be written" in result.stdout.str() + result.stderr.str()
    result = run("--kv-html=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--kv-html: '.' is a folder" in result.stdout.str() + result.stderr.str()


def test_no_secret(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=FAILING)
    endpoint = sim.replace("http://", "http://someone:passw0rd@")
    run(f"--kv-endpoint={endpoint}", "--kv-header=X-Tenant: tenantsecret", "--kv-html=kv.html").assert_outcomes(
        failed=1
    )
    text = (pytester.path / "kv.html").read_text(encoding="utf-8")
    assert sim in Page(text).text
    assert not [secret for secret in ("tenantsecret", "passw0rd", "someone:") if secret in text]


def test_a_session_without_a_page_imports_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n")
    code = (
        "import sys, pytest\n"
        "words = ['-q', '-p', 'no:cacheprovider', '-p', 'no:html']\n"  # pytest-html imports Jinja
        "assert pytest.main([*words, '--kv-markdown=o.md', 'test_other.py']) == 0\n"
        "print('LOADED', [m for m in ('jinja2', 'plotly', 'pytest_kvcache.report.html') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert "LOADED []" in done.stdout, done.stdout + done.stderr
