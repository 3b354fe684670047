"""JUnit: every property is in the documented table and the other way round; the file is strict XML in both families."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import get_args

import pytest

from pytest_kvcache.model.objective import Metric
from pytest_kvcache.report import junit

from .conftest import Run, properties
from .test_markdown import LOADS

TABLE = Path(__file__).parents[2] / "docs" / "reports.md"
MORE = """
@pytest.mark.hit_rate(target=0.25)
@pytest.mark.kv_slo(ttft_p50=60, e2e_mean=60, goodput=0.001, ttft=60)
def test_several(kv, kv_workload):
    for rate in (0.5, 0.0):
        kv.run(kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=rate, output_len=2))

@pytest.mark.kv_regression
def test_compared(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=0.5, output_len=2))

@pytest.mark.kv_speedup(min=0.0001)
def test_speedup(kv, work):
    kv.speedup(work)
"""


def documented() -> set[str]:
    rows = re.findall(r"^\| `(kv_\w+)` \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(set(rows))
    return set(rows)


def row_of(name: str) -> str:
    """Return under which name a property stands in the table; its own when in no row."""
    plain = re.sub(r"^kv_\d+_", "kv_", name)
    limit = plain.startswith(tuple(f"kv_{metric}" for metric in get_args(Metric)))
    return "kv_LIMIT" if limit and plain not in documented() else plain


def test_every_property_is_in_the_table_and_every_row_is_written(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_it=LOADS + MORE)
    (pytester.path / "p.toml").write_text('currency = "USD"\n[models."*"]\ninput = "2"\ncached_input = "1"\n')
    run(f"--kv-endpoint={sim}", "--junitxml=j.xml", "--kv-sample-interval=0.1", "--kv-prices=p.toml")
    names = {name for case in properties(pytester.path / "j.xml").values() for name in case}
    assert {row_of(name) for name in names} == documented()
    assert all(map(junit.is_ours, names))
    assert {"kv_1_verdict", "kv_2_ttft_p50", "kv_e2e_mean", "kv_goodput"} <= names


HOSTILE = """
import pytest

@pytest.mark.hit_rate(target=0.9)
@pytest.mark.parametrize("word", ["<&>\\"']]>", "\\x00\\x1b", "a\\nb"])
def test_word(kv, kv_workload, word, record_property):
    record_property("kv_mine", "]]> & <b>")
    print("<&> ]]>")
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0.5, output_len=1))
"""


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_both_families(pytester: pytest.Pytester, sim: str, family: str) -> None:
    pytester.makepyfile(test_it=HOSTILE)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = ignore:record_property\n"
    )
    words = ("-p", "no:cacheprovider", f"--kv-endpoint={sim}", "--junitxml=j.xml", "-o", f"junit_family={family}")
    pytester.runpytest_inprocess(*words, "-o", "junit_logging=all").assert_outcomes(failed=3)
    cases = list(ET.parse(pytester.path / "j.xml").getroot().iter("testcase"))
    assert len(cases) == 3
    for case in cases:
        told = {str(p.get("name")): p.get("value") for p in case.iter("property")}
        assert (told["kv_mine"], told["kv_verdict"], told["kv_findings"]) == ("]]> & <b>", "fail", "KV201")
        assert "<&> ]]>" in str(case.findtext("system-out"))
        assert str(case.find("failure").get("message")).startswith("Failed: hit rate 0.500")  # type: ignore[union-attr] # each has one
