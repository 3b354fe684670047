"""Every command that a page shows could be typed: its options, parameters, files and modules exist."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_kvcache.plugin.options import OPTIONS
from pytest_kvcache.plugin.settings import PARAMETERS
from pytest_kvcache.simulate.__main__ import parser
from pytest_kvcache.suite.asked import CHECKS, parse
from pytest_kvcache.suite.kinds import parameters_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "conftest_examples").rglob("README.md"))
    if path.name not in ("CHANGELOG.md",)
)
FLAGS = {option.flag for option in OPTIONS} | {PARAMETERS}
ELSEWHERE = {"--kv-cache-quantization", "--kv-bytes-per-token"}  # of the tools that pages compare with


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(path: Path) -> list[list[str]]:
    """The words of each command in the console blocks of a page."""
    blocks = re.findall(r"^```console\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in line.removeprefix("$ ").split(" && ")]
    return [shlex.split(part, comments=True) for part in parts]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_options_that_a_page_names_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"--kv-[a-z-]+", text)) - ELSEWHERE <= FLAGS
    variables = {option.variable for option in OPTIONS}
    real = {"PYTEST_KV_PROMETHEUS", "PYTEST_KV_VLLM_VENV", "PYTEST_KV_LLAMA_SERVER", "PYTEST_KV_LLAMA_DIR"}
    assert set(re.findall(r"\bPYTEST_KV_[A-Z_]+", text)) <= variables | real


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_parameters_that_a_page_sets_exist(path: Path) -> None:
    for words in commands(path):
        for flag, value in pairwise(words):
            if flag == "--kv-set" and not value.startswith(("trace.file=", "trace.model=")):
                parse(value, name_of(path))
    text = path.read_text(encoding="utf-8")
    if "suite" in text and path.name != "traces.md":  # there `trace.notes` is an attribute
        names = {f"{check}.{name}" for check, of in CHECKS.items() for name in parameters_of(of)}
        assert set(re.findall(rf"`((?:{'|'.join(CHECKS)})\.[a-z_]+)[`=]", text)) <= names


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_files_and_modules_that_a_command_names_exist(path: Path) -> None:
    simulated = set(re.findall(r"--[a-z][a-z-]+", parser().format_help()))
    for words in commands(path):
        for word in words:
            if word.startswith(("conftest_examples/", "tests/", "benchmarks/")):
                assert (ROOT / word).exists(), word
            if word.startswith("pytest_kvcache."):
                assert find_spec(word.partition("::")[0]) is not None, word
        if words[:3] == ["python", "-m", "pytest_kvcache.simulate"]:
            assert {word for word in words if word.startswith("--")} <= simulated


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_within_the_repository_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists() or not in_checkout(target), target


def in_checkout(target: str) -> bool:
    """The sources are not beside the tests where the wheel is tested."""
    return "src/" not in target or (ROOT / "src").exists()
