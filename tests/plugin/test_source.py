"""Which code is a test: what it uses, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kvcache.plugin.source import NoSource, code_of_file, code_of_test

FILE = '''"""About the file."""
import os
from math import floor as down, ceil
from string import *

import pytest

LIMIT = 0.5
RATES = [0.0, 0.5]
OTHER = 1
TABLE = {}
TABLE["a"] = LIMIT
annotated: int = 3
count = 0
count += 1
pytestmark = pytest.mark.slow

pytest.importorskip("json")

if os.name:
    LATE = 1


def helper(value):
    """About it."""
    return deeper(value) + annotated  # a remark


def deeper(value):
    return down(value)


def unused():
    return ceil(1)


def setup_module():
    pass


@pytest.fixture(name="warm")
def _warm():
    return count


@pytest.fixture
def cold():
    return 0


class Base:
    def shared(self):
        return 1


@pytest.mark.slow
class TestGroup(Base):
    size = 3

    def setup_method(self):
        pass

    def helps(self):
        return self.size

    @pytest.mark.parametrize("rate", RATES)
    def test_inner(self, kv, warm):
        assert self.helps()

    def test_sibling(self):
        pass


@pytest.mark.parametrize("rate", RATES)
def test_it(kv, warm, rate):
    assert helper(rate) < TABLE["a"]


def test_neighbour():
    assert OTHER
'''


def code(tmp_path: Path, text: str, *names: str) -> str:
    path = tmp_path / "test_file.py"
    path.write_text(text)
    return code_of_test(path, names, ["warm", "kv"])


def differs(tmp_path: Path, old: str, new: str, *names: str) -> bool:
    assert FILE.count(old) == 1
    return code(tmp_path, FILE, *names) != code(tmp_path, FILE.replace(old, new), *names)


USED = [
    ("helper(rate) <", "helper(rate) <="),
    ("LIMIT = 0.5", "LIMIT = 0.6"),
    ('TABLE["a"] = LIMIT', 'TABLE["a"] = 2'),
    ("TABLE = {}", "TABLE = {1: 2}"),
    ("annotated: int = 3", "annotated: int = 4"),
    ("count = 0", "count = 1"),
    ("count += 1", "count += 2"),
    ("floor as down", "trunc as down"),
    ("return deeper(value)", "return 1 + deeper(value)"),
    ("return down(value)", "return down(value) + 1"),
    ("return count", "return count + 1"),
    ('importorskip("json")', 'importorskip("ast")'),
    ("LATE = 1", "LATE = 2"),
    ("from string import *", "from os import *"),
    ("def setup_module():\n    pass", "def setup_module():\n    print()"),
]
UNUSED = [
    ("About the file", "About this file"),
    ("# a remark", "# another"),
    ("OTHER = 1", "OTHER = 2"),
    ("RATES = [0.0, 0.5]", "RATES = [0.0, 0.5, 1.0]"),
    ("return ceil(1)", "return ceil(2)"),
    ("    return 0", "    return 1"),
    ("pytestmark = pytest.mark.slow", "pytestmark = pytest.mark.fast"),
    ("def test_neighbour():\n", "def test_neighbour():\n    print()\n"),
    ("    def test_sibling(self):\n        pass", "    def test_sibling(self):\n        print()"),
    ('@pytest.mark.parametrize("rate", RATES)\ndef', '@pytest.mark.parametrize("rate", [1])\ndef'),
]
IN_CLASS = [
    ("assert self.helps()", "assert not self.helps()"),
    ("return self.size", "return self.size + 1"),
    ("size = 3", "size = 4"),
    ("        return 1\n", "        return 2\n"),
    ("def setup_method(self):\n        pass", "def setup_method(self):\n        print()"),
    ("return count", "return count + 1"),
]
BESIDE_CLASS = [
    ("    def test_sibling(self):\n        pass", "    def test_sibling(self):\n        print()"),
    ('    @pytest.mark.parametrize("rate", RATES)\n', "    @pytest.mark.slow\n"),
    ("@pytest.mark.slow\nclass", "class"),
    ("helper(rate) <", "helper(rate) <="),
    ("LIMIT = 0.5", "LIMIT = 0.6"),
]


@pytest.mark.parametrize(("old", "new"), USED)
def test_what_a_test_uses(tmp_path: Path, old: str, new: str) -> None:
    assert differs(tmp_path, old, new, "test_it")


@pytest.mark.parametrize(("old", "new"), UNUSED)
def test_what_it_does_not(tmp_path: Path, old: str, new: str) -> None:
    assert not differs(tmp_path, old, new, "test_it")


@pytest.mark.parametrize(("old", "new"), IN_CLASS)
def test_what_a_method_uses(tmp_path: Path, old: str, new: str) -> None:
    assert differs(tmp_path, old, new, "TestGroup", "test_inner")


@pytest.mark.parametrize(("old", "new"), BESIDE_CLASS)
def test_what_a_method_does_not(tmp_path: Path, old: str, new: str) -> None:
    assert not differs(tmp_path, old, new, "TestGroup", "test_inner")


def test_a_test_that_is_made(tmp_path: Path) -> None:
    made = "def make(n):\n    def inner(kv):\n        assert n\n    return inner\n"
    made += "test_made = make(1)\ntest_other = make(2)\n"
    before = code(tmp_path, made, "test_made")
    assert before != code(tmp_path, made.replace("make(1)", "make(3)"), "test_made")
    assert before != code(tmp_path, made.replace("assert n", "assert not n"), "test_made")
    assert before == code(tmp_path, made.replace("make(2)", "make(3)"), "test_made")


def test_what_cannot_be_had_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSource, match=r"test_file.py has no test_gone"):
        code(tmp_path, FILE, "test_gone")
    with pytest.raises(NoSource, match=r"test_file.py cannot be read \(SyntaxError\)"):
        code(tmp_path, "def", "test_it")
    with pytest.raises(NoSource, match=r"missing.py cannot be read \(FileNotFoundError\)"):
        code_of_file(tmp_path / "missing.py")
