"""The tutorial as somebody types it: its files, its commands, and what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
PYTHON, CONSOLE, TEXT = (
    re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for kind in ("python", "console", "text")
)
(INI,) = re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def figures_out(text: str) -> str:
    return re.sub(r"[\d.,]+|\s+|µ|m(?=s)", "", text)


def typed(pytester: pytest.Pytester, command: str) -> pytest.RunResult:
    """Run what stands in a console block, as it stands there."""
    program, *words = shlex.split(command.strip().removeprefix("$ "))
    assert program == ".venv/bin/pytest"
    pytester.makeini(INI)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *words)


def test_the_first_test_passes_and_shows_its_table(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_cache=PYTHON[0])
    result = typed(pytester, CONSOLE[1])
    result.assert_outcomes(passed=1)
    head, row = TEXT[0].splitlines()
    assert head.split() in [line.split() for line in result.outlines]
    exact = " ".join(row.split()[:5])
    (line,) = [line for line in result.outlines if line.endswith("test_cache.py::test_shared_prefix")]
    assert " ".join(line.split()[:5]) == exact
    assert figures_out(line) == figures_out(row)


def test_the_failure_reads_as_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_cache=re.sub(r"@pytest.mark.xfail.*\n", "", PYTHON[1]))
    result = typed(pytester, CONSOLE[1])
    result.assert_outcomes(failed=1)
    assert TEXT[1].strip() in result.outlines


def test_a_real_server(pytester: pytest.Pytester, sim: str) -> None:
    start, command = CONSOLE[2].strip().splitlines()
    assert start == "$ vllm serve Qwen/Qwen3-0.6B --enable-prompt-tokens-details"
    pytester.makepyfile(test_cache=PYTHON[0])
    typed(pytester, command.replace("http://127.0.0.1:8000", sim)).assert_outcomes(passed=1)


def test_one_command(pytester: pytest.Pytester, sim: str) -> None:
    result = typed(pytester, CONSOLE[3].replace("http://127.0.0.1:8000", sim))
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] >= 5
