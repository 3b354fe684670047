"""The same results make the same files to the byte: with workers, without, and after a resume."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PASSING, Run

TESTS = (
    PASSING
    + """
@pytest.mark.hit_rate(target=0.9)
@pytest.mark.parametrize("name", ["b", "a", "<|>"])
def test_low(kv, kv_workload, name):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=2))

@pytest.mark.kv_sweep
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_swept(kv, kv_workload, rate):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=rate, output_len=2))

@pytest.mark.hit_rate(target=0.25, tol=0.0)
@pytest.mark.kv_slo(ttft_p50=1e-9, itl_p50=60)
def test_two_runs(kv, kv_workload):
    for rate in (0.5, 0.0):
        kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=rate, output_len=3))

@pytest.mark.xfail(strict=True)
@pytest.mark.hit_rate(target=0.9)
def test_known(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=0.5, output_len=1))
"""
)


def whole(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def timeless(path: Path) -> str:
    """A JUnit file without times and the host, its cases in the order of their names."""
    root = ET.parse(path).getroot()
    for suite in root.iter("testsuite"):
        suite[:] = sorted(suite, key=lambda case: str(case.get("name")))
    for element in root.iter():
        for name in ("time", "timestamp", "hostname"):
            element.attrib.pop(name, None)
    text = ET.tostring(root, encoding="unicode")
    text = re.sub(r"\[gw\d+\] \S+ -- .*", "", text)  # which worker it was, as pytest-xdist tells it
    return re.sub(r"measured before: ended \S+, in \S+", "", text)


# A form is an option, its file, and how it is read; one more is one more line.
FORMS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "--kv-report": ("kv.json", whole),
    "--kv-markdown": ("kv.md", whole),
    "--kv-html": ("kv.html", whole),
    "--junitxml": ("junit.xml", timeless),
}


def test_the_same_to_the_byte(pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_it=TESTS)
    left: dict[str, dict[str, str]] = {}
    for name, words in {
        "first": ["--kv-results=results"],
        "resumed": ["--kv-resume=results"],
        "resumed by workers": ["--kv-resume=results", "-n", "2"],
    }.items():
        folder = name.replace(" ", "-")
        (pytester.path / folder).mkdir()
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / folder / "summary.md"))
        forms = [f"{option}={folder}/{file}" for option, (file, _) in FORMS.items()]
        result = run(f"--kv-endpoint={sim}", *words, *forms)
        assert result.parseoutcomes() == {"passed": 3, "failed": 4, "xfailed": 1}
        if name != "first":
            result.stdout.fnmatch_lines(["8 measured before (results), 0 now"])
        left[name] = {file: read(pytester.path / folder / file) for file, read in FORMS.values()}
        left[name]["summary.md"] = whole(pytester.path / folder / "summary.md")
    assert left["first"] == left["resumed"]
    assert left["first"] == left["resumed by workers"]
    assert all(text.count("low") >= 3 for text in left["first"].values())
