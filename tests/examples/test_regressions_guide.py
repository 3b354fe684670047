"""What `docs/regressions.md` says is so: its examples are taken, its sentences and figures are those of the code."""

from __future__ import annotations

import ast
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_kvcache.command import EXIT
from pytest_kvcache.diagnose import __doc__ as codes
from pytest_kvcache.model import Regression
from pytest_kvcache.plugin import markers
from pytest_kvcache.regression import history, ranks, wording
from pytest_kvcache.regression.asked import ALPHA, allowed
from pytest_kvcache.regression.context import NAMES

GUIDE = (Path(__file__).parents[2] / "docs" / "regressions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)
DECORATORS = [
    decorator
    for kind, block in BLOCKS
    if kind == "python"
    for node in ast.parse(block).body
    if isinstance(node, ast.FunctionDef)
    for decorator in node.decorator_list
    if isinstance(decorator, ast.Call)
]


def block(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


@pytest.mark.parametrize("decorator", DECORATORS, ids=ast.unparse)
def test_the_examples_ask_for_something(decorator: ast.Call) -> None:
    given = {str(word.arg): ast.literal_eval(word.value) for word in decorator.keywords}
    assert len(markers.kv_regression(**given).limits) == 2


def test_the_sentences() -> None:
    rate, times = block("text")[0].splitlines()
    found = Regression("hit_rate", "", "fail", -0.02, False, 0.7, 0.67, -0.03, n=10, n_baseline=10, exact=True)
    assert f"{wording.told(allowed('hit_rate', -0.02), found).sentence} [KV208]" == rate
    found = replace(found, name="ttft_p95", baseline=0.12, measured=0.138, change=0.15, low=0.112, high=0.194, p=0.0002)
    found = replace(found, relative=True, exact=False)
    assert f"{wording.told(allowed('ttft_p95', '+10%'), found).sentence} [KV208]" == times


def test_the_figures() -> None:
    assert math.comb(8, 4) == 70
    assert math.comb(10, 5) == 252
    assert "With 4 runs on each side no values whatsoever reach 0.01 (1 way of 70); 5 do (1 of 252)" in joined()
    assert (ALPHA, ranks.repeats_needed(ALPHA), ranks.repeats_needed(ALPHA, 3)) == (0.01, 5, 7)
    assert f"up to {ranks.EXACT} runs on a side" in GUIDE


def joined() -> str:
    return " ".join(GUIDE.split())


def test_all_circumstances_exit_codes_and_codes_are_told() -> None:
    circumstances = GUIDE.partition("| name | is |")[2].partition("\n\n")[0]
    assert [
        name
        for row in circumstances.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ] == list(NAMES)
    assert {int(code) for code in re.findall(r"^\| (\d) \|", GUIDE, re.MULTILINE)} == {*EXIT.values(), 2}
    told = re.findall(r"^\| `(KV\d+)` \|", GUIDE, re.MULTILINE)
    assert told == ["KV131", "KV132", "KV133", "KV208", "KV331", "KV332"]
    assert all(f"\n{code}   " in (codes or "") for code in told)


def test_the_line_of_a_history() -> None:
    shown = json.loads(block("json")[0])
    check = {"nodeid": shown["nodeid"], "verdict": "pass", "context": {"engine": "vllm"}, "values": []}
    assert shown.keys() == history.line(check, "s", "t").keys()
    assert shown["schema"] == history.SCHEMA
