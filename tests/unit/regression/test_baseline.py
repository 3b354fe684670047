"""The baseline as a file: small differences, and nothing taken for one that is none."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.regression import baseline
from pytest_kvcache.regression.documents import read_baseline, read_document
from pytest_kvcache.regression.values import Entry, Group

from .made import CONTEXT, entry, group, rate

ENTRIES = {
    "test_b.py::test_two": entry(rate(), group("concurrency 8", ttft_p95=[0.1, 0.12])),
    "test_a.py::test_one": entry(rate(500)),
}


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_text(baseline.text(ENTRIES))
    assert read_baseline(path) == {
        name: Entry(dict(each.context or {}), list(each.groups)) for name, each in ENTRIES.items()
    }


def test_what_is_read_is_written_as_it_was(tmp_path: Path) -> None:
    """Or else the entries of all tests would change with one."""
    path = tmp_path / "kv.json"
    path.write_text(baseline.text(ENTRIES))
    assert '"query_tokens": [1000' in path.read_text()  # a whole number
    assert baseline.text(read_baseline(path)) == path.read_text()


def test_it_is_sorted_and_the_values_of_a_metric_are_one_line() -> None:
    lines = baseline.text(ENTRIES).splitlines()
    assert lines[1] == '  "schema": "pytest-kvcache-baseline/1",'
    assert [line for line in lines if line.startswith('    "test')] == [
        '    "test_a.py::test_one": {',
        '    "test_b.py::test_two": {',
    ]
    assert '            "ttft_p95": [0.1, 0.12]' in lines
    assert baseline.text(dict(reversed(ENTRIES.items()))) == baseline.text(ENTRIES)
    assert baseline.text({}) == '{\n  "schema": "pytest-kvcache-baseline/1",\n  "checks": {}\n}\n'


def test_one_changed_test_is_a_small_difference() -> None:
    changed = ENTRIES | {"test_a.py::test_one": entry(rate(400))}
    before, after = (baseline.text(entries).splitlines() for entries in (ENTRIES, changed))
    moved = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert [line.split()[1] for line in moved if line[0] == "+"] == ['"hit_rate":', '"hit_tokens":']
    assert len(moved) == 4


def test_only_what_is_compared_is_kept() -> None:
    whole = entry(
        group(hit_rate=[0.7], hit_tokens=[7], query_tokens=[10], ttft_p95=[0.1], itl_p50=[0.1], hit_rate_low=[0.6])
    )
    assert list(baseline.narrowed(whole, ["ttft_p95"]).groups[0].values) == ["ttft_p95"]
    kept = list(baseline.narrowed(whole, ["hit_rate"]).groups[0].values)
    assert kept == ["hit_rate", "hit_tokens", "query_tokens", "hit_rate_low"]


NAMES = st.text(max_size=20)


@given(
    name=NAMES,
    where=NAMES,
    values=st.lists(st.none() | st.floats(0, 1e9) | st.integers(0, 10**12), min_size=1, max_size=4),
)
def test_any_text_is_json_that_reads_as_it_was(name: str, where: str, values: list[Any]) -> None:
    found = json.loads(baseline.text({name: entry(Group(where, len(values), {"ttft_p50": values}))}))
    assert found["checks"][name]["groups"] == [{"where": where, "runs": len(values), "values": {"ttft_p50": values}}]


DAMAGED: list[tuple[Any, str]] = [
    ("", "is no JSON"),
    ("{", "is no JSON"),
    (b"\xff\xfe", "is no JSON"),
    ("[" * 100_000, "is no JSON"),
    ("[]", "has no schema"),
    ({"checks": {}}, "has no schema"),
    ({"schema": 7}, "has no schema"),
    ({"schema": "pytest-kvcache-baseline/2", "checks": {}}, "says 'pytest-kvcache-baseline/2'; expected a baseline"),
    ({"schema": "pytest-kvcache/1", "checks": []}, "says 'pytest-kvcache/1'; expected a baseline"),
    ({"schema": baseline.SCHEMA}, "is damaged at checks: Field required"),
    ({"schema": baseline.SCHEMA, "checks": {"a": {"context": {}, "groups": 1}}}, "is damaged at checks.a.groups"),
    (
        {"schema": baseline.SCHEMA, "checks": {"a": {"context": {}, "groups": [{"runs": 2, "values": {"b": [1]}}]}}},
        "b has 1 values of 2 runs",
    ),
    (
        {"schema": baseline.SCHEMA, "checks": {"a": {"context": {}, "groups": [{"runs": 1, "values": {"b": [-1]}}]}}},
        "checks.a.groups.0.values.b.0: Input should be greater than or equal to 0",
    ),
    (
        {"schema": baseline.SCHEMA, "checks": {"a": {"context": {}, "groups": [{"runs": 1, "values": {"b": ["1"]}}]}}},
        "Input should be a valid number",
    ),
    (
        '{"schema": "pytest-kvcache-baseline/1", "checks": {"a": {"context": {}, "groups": [{"runs": 1, "values":'
        ' {"b": [NaN]}}]}}}',
        "is no JSON (NaN is no number)",
    ),
]


@pytest.mark.parametrize(("content", "says"), DAMAGED, ids=[says[:30] for _, says in DAMAGED])
def test_what_is_no_baseline_is_refused(tmp_path: Path, content: Any, says: str) -> None:
    path = tmp_path / "kv.json"
    path.write_bytes(
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    with pytest.raises(ConfigurationError) as caught:
        read_baseline(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no\.json cannot be read \(No such file or directory\)"):
        read_baseline(tmp_path / "no.json")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_document(tmp_path)


def test_the_entry_of_a_record_is_what_was_measured() -> None:
    record = {"context": dict(CONTEXT), "values": [{"where": "", "runs": 1, "values": {"hit_rate": [0.7]}}]}
    assert baseline.entry_of(record) == Entry(dict(CONTEXT), [Group("", 1, {"hit_rate": [0.7]})])
