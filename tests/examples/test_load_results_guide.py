"""What `docs/load_results.md` says is so: its thresholds and names are those of the code, its sweeps are sweeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_kvcache import bottleneck, trend
from pytest_kvcache.overview import Overview
from pytest_kvcache.report import levels
from pytest_kvcache.report.junit import is_ours

GUIDE = (Path(__file__).parents[2] / "docs" / "load_results.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```python\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = GUIDE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_the_columns_are_those_of_the_table() -> None:
    named = [name for first, _ in rows("Levels") for name in re.findall(r"`([^`]+)`", first)]
    assert named == list(levels._LEVELS[:-1])
    shown = next(line for line in GUIDE.splitlines() if "client lag" in line)
    assert re.split(r"\s{2,}", shown.strip())[1:] == [name for name in named if name not in ("ITL p50", "goodput")]


def test_the_thresholds_are_those_of_the_code() -> None:
    made = dict(rows("Statements"))
    found = {
        "requests waited in the server": (bottleneck.QUEUE_SHARE,),
        "running requests filled the cache": (bottleneck.KV_FULL,),
        "TTFT between engine and client": (bottleneck.WAY_SHARE,),
        "the client may have been the bottleneck": (bottleneck.LAG_SHARE, bottleneck.BUSY),
        "output stops growing from ... on": (trend.GROWTH,),
        "TTFT falls as the hit rate rises, or does not": (trend.FALLS,),
    }
    for statement, shares in found.items():
        assert re.findall(r"(\d+) %", made[statement]) == [f"{100 * share:.0f}" for share in shares]
    assert f"and {1000 * bottleneck.WAY_SECONDS:.0f} ms" in made["TTFT between engine and client"]
    faster = made["TTFT grows faster than the load"]
    assert (f"{trend.MARGIN} times" in faster, f"{1000 * trend.NOTICED:.0f} ms" in faster) == (True, True)
    assert f"differ by {trend.SPREAD};" in made["TTFT falls as the hit rate rises, or does not"]
    assert f"at least {trend.REQUESTS} whole answers" in GUIDE
    assert f"first {levels._FIRST} and the last {levels._LAST} rows" in GUIDE


def test_the_classes_of_errors() -> None:
    from pytest_kvcache.model import Exchange, Failure

    kinds = (("http", 429), ("timeout", None), ("cut", None), ("connect", None))
    several = [Exchange("load", 0.0, 1.0, status=status, failure=Failure(kind, "")) for kind, status in kinds]
    assert re.findall(r"`([^`]+)`", dict(rows("Statements"))["errors"]) == list(Overview.of(several).errors)


def test_the_properties_are_ours() -> None:
    names = re.findall(r"`(kv_\w+)`", GUIDE.partition("## JUnit")[2])
    assert len(names) > 6
    assert all(map(is_ours, [name for name in names if name not in ("kv_speedup", "kv_1_", "kv_2_")]))


def test_the_sweeps(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_load=EXAMPLE)
    words = ("-p", "no:cacheprovider", f"--kv-endpoint={start_sim()}", "--kv-report=o.json")
    result = pytester.runpytest_inprocess(*words)
    result.assert_outcomes(passed=11)
    by_name = {sweep["name"]: sweep for sweep in json.loads((pytester.path / "o.json").read_text())["sweeps"]}
    assert {name: [axis["name"] for axis in sweep["axes"]] for name, sweep in by_name.items()} == {
        "engines": ["rate", "engine"],
        "test_load.py::test_contexts": ["context"],
        "test_load.py::test_grid": ["rate", "context"],
    }
    result.stdout.fnmatch_lines([next(line for line in GUIDE.splitlines() if line.startswith("sweep "))])
    grid = [re.split(r" {2,}", line.strip()) for line in result.outlines]
    assert ["context", "0", "0.25", "0.5", "0.75"] in [cells[:5] for cells in grid]
    assert ["2048", "0.000", "0.250", "0.500", "0.750"] in [cells[:5] for cells in grid]
