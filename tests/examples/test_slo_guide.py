"""What `docs/slo.md` says is so: its examples are taken, its tables are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pytest_kvcache.model.objective import Objective
from pytest_kvcache.plugin import markers
from pytest_kvcache.slo.asked import service_level
from pytest_kvcache.slo.figures import bounding, needed
from pytest_kvcache.slo.verdict import OF_RATE
from pytest_kvcache.slo.wording import sentence

GUIDE = (Path(__file__).parents[2] / "docs" / "slo.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```python\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)[0]
SHOWN = re.findall(r"^```text\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)[0]
DECORATORS = [
    decorator
    for node in ast.parse(EXAMPLE).body
    if isinstance(node, ast.FunctionDef)
    for decorator in node.decorator_list
    if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute)
]


@pytest.mark.parametrize("decorator", DECORATORS, ids=ast.unparse)
def test_the_examples_ask_for_something(decorator: ast.Call) -> None:
    assert isinstance(decorator.func, ast.Attribute)
    given = {str(word.arg): ast.literal_eval(word.value) for word in decorator.keywords}
    assert getattr(markers, decorator.func.attr)(**given)


def test_the_sentence() -> None:
    objective = Objective("ttft", "p95", 2.0, at_most=True, name="ttft_p95")
    assert f"{sentence(objective, 2.31, (2.21, 2.43), '812 requests')} [KV207]" == SHOWN


def test_the_table_of_keywords_has_all_of_them() -> None:
    rows = GUIDE.partition("| keyword |")[2].partition("\n\n")[0]
    cells = [re.findall(r"`([\w.]+)`", row.split("|")[1]) for row in rows.splitlines() if row.startswith("| `")]
    suffixes = cells[0][1:]
    names = [cells[0][0], *(cells[0][0].replace("_p50", word) for word in suffixes)]
    for first, *_ in cells[1:4]:
        names += [first.replace("_...", word) for word in ("_p50", *suffixes)]
    for first, *more in cells[4:]:
        names += [first, *(first.replace("_avg", word) if word.startswith("_") else word for word in more)]
    assert len(names) == 28
    service_level({**dict.fromkeys(names, 0.5), "ttft": 1})


def test_the_figures() -> None:
    assert f"Below {bounding('p95')} requests p95 has no upper end, below {bounding('p99')} p99" in GUIDE
    told = re.findall(r"p50 (\d+), p10 (\d+), p95 and p5 (\d+), p99 (\d+), an attainment of 0.9 (\d+)", GUIDE)[0]
    names = ("ttft_p50", "tokens_per_s_p10", "ttft_p95", "ttft_p99", "attainment", "tokens_per_s_p5")
    levels = (service_level({name: 0.9, "ttft": 1, "goodput": 1}) for name in names)
    *counts, slow = (needed(next(o for o in level.objectives if o.metric != "goodput")) for level in levels)
    assert list(map(int, told)) == counts == [2, 10, slow, 100, 10]


def test_the_codes_that_do_not_matter() -> None:
    part = GUIDE.partition("What is only wrong with the hit rate")[2].partition("\n\n")[0]
    assert set(re.findall(r"KV\d{3}", part)) == OF_RATE
    table = GUIDE.partition("| why |")[2].partition("\n\n")[0]
    assert not set(re.findall(r"KV\d{3}", table)) & OF_RATE
