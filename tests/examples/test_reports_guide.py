"""What ``docs/reports.md`` says is so: its example takes a document of a session, its options are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_kvcache

GUIDE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
TEST = """
def test_a(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0.5, output_len=1))
"""


def test_the_example_of_the_schema(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(TEST)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "ignore", "--kv-endpoint=sim", "--kv-report=kv.json")
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    names["check"]("kv.json")
    (pytester.path / "kv.json").write_text('{"schema": "pytest-kvcache/2"}')
    with pytest.raises(jsonschema.ValidationError):
        names["check"]("kv.json")


def test_the_schema_is_where_the_guide_says() -> None:
    (path,) = re.findall(r"\]\((\.\./src/[^)]*)\)", GUIDE)
    installed = Path(pytest_kvcache.__file__).parent
    assert (installed / path.removeprefix("../src/pytest_kvcache/")).is_file()


def test_its_options_exist(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    assert set(re.findall(r"--kv-[a-z-]+", GUIDE)) <= set(re.findall(r"--kv-[a-z-]+", shown))
