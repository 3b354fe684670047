"""What others wrote (names, versions, labels, errors, ids of tests) is shown in every form, and breaks none of them."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from math import isfinite
from pathlib import Path

import pytest

from ..documents import Seen, validate
from .conftest import Run
from .talking import served, talking

TEXTS = {
    "markup": "<script>alert(1)</script><img src=x onerror=y>]]>&amp;\"'",
    "escapes": "\x1b[31mred\x1b]0;title\x07\x9b2J\x1b[2K",
    "nul": "a\x00b\x08c\x7f",
    "surrogate": "a\ud800b",
    "cells": "a|b`c``d~~e~~ **f** [g](http://h) @someone #1 \\",
    "lines": "a\nb\r\nc\n::error file=x::y\n##[group]z\ttab\u2028d\x85e",
    "direction": "a\u202eb\u200fc\u2066d\u061ce\ufefff\u200bg\U000e0041",
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1-1@SUM(A1)",
    "percent": "%s%d{0}{x}${HOME}$(id)`id`;rm -rf /",
    "long": "x" * 1_000_000,
}
UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
TESTS = """
import pytest

def shared(kv, kv_workload, **others):
    kv.run(kv_workload.shared_prefix(**{"requests": 2, "input_len": 64, "hit_rate": 0.5, "output_len": 1, **others}))

@pytest.mark.hit_rate(target=0.9)
@pytest.mark.parametrize("word", [%s])
def test_low(kv, kv_workload, word):
    shared(kv, kv_workload)

@pytest.mark.hit_rate(target=0.5)
def test_refused(kv, kv_workload):
    shared(kv, kv_workload, output_len=3)
"""


def terminal(text: str) -> None:
    """Nothing that a terminal or a CI system obeys, and no line that is not ours."""
    ours = text.partition("= kvcache =")[2]  # before that, pytest shows ids as it likes
    assert not UNSEEN.search(ours), UNSEEN.search(ours)
    assert not [line for line in ours.splitlines() if line.startswith(("::", "##["))]
    assert max(len(line) for line in ours.splitlines() if "::test_low[" not in line) < 500
    evidence = text.partition("Captured kvcache call")[2]
    assert not UNSEEN.search(evidence), UNSEEN.search(evidence)


def document(text: str) -> None:
    assert text.isascii()
    for string in strings(json.loads(text)):
        assert not UNSEEN.search(string), ascii(string[:200])
        assert "\n" not in string
        assert len(string) < 10_000


def strings(part: object) -> list[str]:
    if isinstance(part, dict):
        return [found for name, value in part.items() for found in (name, *strings(value))]
    if isinstance(part, list):
        return [found for value in part for found in strings(value)]
    return [part] if isinstance(part, str) else []


def markdown(text: str) -> None:
    seen = Seen.of(text)  # no tag, link or mention that is not ours
    assert {len(row) for row in seen.rows[:3]} == {len(seen.rows[0])}
    assert not UNSEEN.search(text)


def junit(text: str) -> None:
    root = ET.fromstring(text)
    for element in root.iter("property"):
        if str(element.get("name")).startswith("kv_"):
            assert not UNSEEN.search(str(element.get("value")))
    failures = [str(failure.get("message")) + str(failure.text) for failure in root.iter("failure")]
    assert len(failures) == 2
    for failure in failures:
        assert not UNSEEN.search(failure.replace("\t", ""))


def kept(text: str) -> None:
    for line in text.splitlines():
        result = json.loads(line)["result"]
        document(json.dumps(result["record"]))


def table(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    for cell in (cell for row in rows for cell in row):
        assert not UNSEEN.search(cell.replace("\t", "\x00"))
        assert not cell.startswith(tuple("=+-@")) or number(cell), cell


def number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False


def remembered(text: str) -> None:
    for line in text.splitlines():
        document(line)


def script(text: str) -> None:
    assert not UNSEEN.search(text)
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0


# A form is a name, the words of the command line, the files that they leave, and what must be true of each.
FORMS: dict[str, tuple[tuple[str, ...], str, Callable[[str], None]]] = {
    "JSON": (("--kv-report=kv.json",), "kv.json", document),
    "Markdown": (("--kv-markdown=kv.md",), "kv.md", markdown),
    "step summary": ((), "summary.md", markdown),
    "JUnit": (("--junitxml=junit.xml", "-o", "junit_family=xunit1", "-o", "junit_logging=all"), "junit.xml", junit),
    "tables": (("--kv-csv=csv",), "csv/*.csv", table),
    "history": (("--kv-history=history.jsonl",), "history.jsonl", remembered),
    "script": (("--kv-reproduce=reproduce.sh",), "reproduce.sh", script),
    "results": (("--kv-results=results",), "results/*.jsonl", kept),
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_form_breaks(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text = TEXTS[name]
    word = "x" * 5000 if name == "long" else text.encode("utf-8", "ignore").decode()  # pytest itself cannot do those
    pytester.makepyfile(test_h=TESTS % ascii(word))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    # a name that cannot be encoded cannot be asked for either; labels stand in every line of a page
    short = {"model": "m"} if name == "surrogate" else {}
    with served(talking(text, label=text[:2000], **short)) as url:
        words = [word for words, *_ in FORMS.values() for word in words]
        result = run(f"--kv-endpoint={url}", *words)
    result.assert_outcomes(failed=2)
    terminal(result.stdout.str())
    validate(Path("kv.json"))
    for _, files, check in FORMS.values():
        paths = sorted(Path().glob(files))
        assert paths
        for path in paths:
            check(path.read_text(encoding="utf-8"))
    checks = {
        check["nodeid"].partition("::")[2][:8]: check for check in json.loads(Path("kv.json").read_text())["checks"]
    }
    assert {check["verdict"] for check in checks.values()} == {"fail", "inconclusive"}
    assert checks["test_low"]["hit_rate"]["measured"] == 0.5  # it was measured all the same
