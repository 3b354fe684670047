"""The reference pages say what the code says: something new shows up, and nothing is left out."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import pytest_kvcache
from pytest_kvcache.engines import shipped
from pytest_kvcache.plugin import fixtures, markers, options
from pytest_kvcache.report import schema
from pytest_kvcache.simulate.__main__ import parser
from pytest_kvcache.suite import asked

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
CODES = re.compile(r"\bKV\d{3}\b")


@pytest.fixture(scope="module")
def kvdocs() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        yield importlib.import_module("kvdocs")
    finally:
        sys.path.pop(0)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_marker_that_pytest_shows(kvdocs: ModuleType) -> None:
    text = kvdocs.GENERATORS["markers"]()
    shown = [line.partition("(")[0] for line in markers.help_lines()]
    assert re.findall(r"^## `(\w+)`", text, re.MULTILINE) == shown
    assert ["`weight`", "`'token'`, `'request'`", "`'token'`"] in rows(text)
    assert ["`min`", "`float`", "must be given"] in rows(text)  # of kv_speedup
    assert ["`of`", "`'ttft'`, `'e2e'`", "`'ttft'`"] in rows(text)
    assert max(map(len, re.findall(r"^@pytest.*|^ .*", text, re.MULTILINE))) <= 90


def test_a_new_marker_is_on_the_page(kvdocs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def kv_new(often: int = 3) -> None:
        """Does ``something`` new."""

    lines = [*markers.help_lines(), "kv_new(often=3): Does ``something`` new."]
    monkeypatch.setattr(markers, "kv_new", kv_new, raising=False)
    monkeypatch.setattr(markers, "help_lines", lambda: lines)
    text = kvdocs.GENERATORS["markers"]()
    assert "## `kv_new`\n\n```text\n@pytest.mark.kv_new(often=3)\n```\n\nDoes `something` new." in text
    assert rows(text)[-1] == ["`often`", "`int`", "`3`"]


def test_every_fixture(kvdocs: ModuleType) -> None:
    text = kvdocs.GENERATORS["fixtures"]()
    names = [name for name in vars(fixtures) if name.startswith("kv")]
    assert len(names) >= 6
    assert re.findall(r"^## `(\w+)`", text, re.MULTILINE) == names
    table = {row[0].partition("]")[0]: row[1:] for row in rows(text)}
    assert table["[`kv_endpoint`"] == ["`Endpoint`", "session"]
    assert table["[`kv`"] == ["`Runner`", "function"]


def sections(text: str) -> dict[str, list[str]]:
    parts = [part.strip().split("\n\n") for part in re.split(r"^\(.*\)=\n## ", text, flags=re.MULTILINE)[1:]]
    return {title.strip("`"): rest for title, *rest in parts}


def test_every_option_with_its_twins(kvdocs: ModuleType) -> None:
    text = kvdocs.GENERATORS["options"]()
    found = sections(text)
    for option in options.OPTIONS:
        (shown,) = [name for name in found if re.fullmatch(rf"{option.flag}(=.*)?", name)]
        told, where = found[shown]
        assert told[1:-1] == option.help[1:]
        assert where.startswith(f"Environment `{option.variable}`, ini `{option.ini}`")
        assert where.endswith("several are a line each.") == option.repeatable
        assert f"(option-kv-{option.name.replace('_', '-')})=\n" in text
    assert found["kv_require"][1] == "In the ini file alone."
    assert found["--kv-params"][1] == "On the command line alone."


def test_a_new_option_is_on_the_page(kvdocs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    new = options.Option("new_thing", lambda text, _: text, "says something", "WORD")
    monkeypatch.setattr("pytest_kvcache.plugin.settings.OPTIONS", (*options.OPTIONS, new))
    monkeypatch.setattr("kvdocs.options.OPTIONS", (*options.OPTIONS, new))
    told = sections(kvdocs.GENERATORS["options"]())["--kv-new-thing=WORD"]
    assert told == ["Says something.", "Environment `PYTEST_KV_NEW_THING`, ini `kv_new_thing`."]


def test_what_ends_a_cell_is_written_out(kvdocs: ModuleType) -> None:
    markup = importlib.import_module("kvdocs.markup")
    assert markup.table(("a",), [("x | y\n z",)]).splitlines() == ["| a |", "|---|", "| x \\| y z |"]


def test_every_code_has_a_meaning_and_an_advice(kvdocs: ModuleType) -> None:
    findings = importlib.import_module("kvdocs.findings")
    package = Path(pytest_kvcache.__file__).parent
    used = {code for path in package.rglob("*.py") for code in CODES.findall(strings_of(path))}
    assert len(used) > 50
    meanings = findings.meaning()
    assert used - set(meanings) == set(), "describe it in the table of diagnose.py"
    assert set(meanings) - used == set(), "nobody finds it: take it out of the table of diagnose.py"
    assert set(meanings) == set(findings.what_to_do()), "say what to do in docs/reference/findings.toml"
    text = kvdocs.GENERATORS["findings"]()
    assert re.findall(r"^### (KV\d{3})$", text, re.MULTILINE) == sorted(meanings)
    assert "As an exception: `CounterReset`." in text.partition("### KV102")[2].partition("###")[0]


def strings_of(path: Path) -> str:
    """The strings of a file that are no docstrings: what the code can say."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    heads = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docs = {id(head.value) for head in heads if isinstance(head, ast.Expr)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return " ".join(node.value for node in found if id(node) not in docs)


def test_every_code_that_a_page_names_exists(kvdocs: ModuleType) -> None:
    known = set(importlib.import_module("kvdocs.findings").meaning())
    for path in [*PAGES, ROOT / "README.md"]:
        assert set(CODES.findall(path.read_text(encoding="utf-8"))) <= known, path


def test_every_profile(kvdocs: ModuleType) -> None:
    profiles = list(shipped())
    table = {row[0].split("`")[1]: row for row in rows(kvdocs.GENERATORS["engines"]())[1:]}
    assert set(table) == {profile.id for profile in profiles}
    assert table["vllm"][1:4] == ["vLLM", "engine", "tokens, blocks"]
    assert table["vllm"][6] == "`cache_salt`"
    assert table["openai"][2:4] == ["provider", "none"]
    details = kvdocs.GENERATORS["engine-details"]()
    assert next(row for row in rows(details) if row[0] == "`v1-admission`")[1:6] == [
        "`>=0.27.0`",
        "local: `vllm:prefix_cache_hits_total`; external: `vllm:external_prefix_cache_hits_total`",
        "`vllm:prefix_cache_queries_total`",
        "tokens",
        "admission",
    ]
    assert details.count("(engine-") == sum(bool(profile.variants) for profile in profiles)


def test_every_key_of_the_document(kvdocs: ModuleType) -> None:
    text = kvdocs.GENERATORS["schema"]()
    for name, part in schema()["$defs"].items():
        section = text.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
        assert part.get("description", "") in section
        assert [row[0] for row in rows(section)[1:]] == [f"`{key}`" for key in part.get("properties", {})]
        anchors = re.findall(r"\(#document-([\w-]+)\)", section)
        assert {anchor.replace("-", "_") for anchor in anchors} <= set(schema()["$defs"])
    assert ["`verdict`", "[`verdict`](#document-verdict)", ""] in rows(text)
    assert ["`target_from`", "`given`, `predicted`, `simulated`, `null`", "Where the target is from."] in rows(text)


def test_every_parameter_of_the_suite(kvdocs: ModuleType) -> None:
    names = [row[0] for row in rows(kvdocs.GENERATORS["parameters"]()) if row[0] != "parameter"]
    known = [(check, field.name) for check, of in asked.CHECKS.items() for field in dataclasses.fields(of)]
    assert names == [f"`{check}.{name}`" for check, name in known]


def test_every_public_name(kvdocs: ModuleType) -> None:
    text = kvdocs.GENERATORS["api"]()
    documented = re.findall(r"^\.\. auto(?:class|function):: pytest_kvcache\.(\w+)$", text, re.MULTILINE)
    assert sorted(documented) == pytest_kvcache.__all__


def test_every_option_of_the_simulated_engine(kvdocs: ModuleType) -> None:
    told = set(re.findall(r"--[a-z-]+", kvdocs.GENERATORS["simulator"]()))
    assert told >= set(re.findall(r"--[a-z][a-z-]+", parser().format_usage()))


def test_pages_ask_for_what_exists_and_nothing_generated_is_checked_in(kvdocs: ModuleType) -> None:
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    wanted = [name for text in texts for name in re.findall(r"^```\{kv-generated\} (.*)$", text, re.MULTILINE)]
    assert sorted(wanted) == sorted(kvdocs.GENERATORS)
    assert kvdocs.filled("a\n\n```{kv-generated} junit\n```\n\nb\n").startswith("a\n\n```{eval-rst}\n===")
    with pytest.raises(KeyError):
        kvdocs.filled("```{kv-generated} nothing\n```")


def test_links_out_of_the_folder_lead_to_pages(kvdocs: ModuleType) -> None:
    pages = importlib.import_module("kvdocs.pages")
    for path, page in pages.OUTSIDE.items():
        assert (ROOT / "docs" / path).is_file()
        assert Path(path).name in (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert pages.inside("see [it](../CHANGELOG.md#x)") == "see [it](project/changelog.md#x)"


def test_every_page_is_in_the_site(kvdocs: ModuleType) -> None:
    """Pages of the folders are named; one that is new beside them is found."""
    named = "\n".join(kvdocs.filled((ROOT / "docs" / name).read_text(encoding="utf-8")) for name in INDEXES)
    entries = set(re.findall(r"^[\w/-]+$", named, re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in PAGES} - {"index"}
    assert {page for page in pages if page not in entries and page.removeprefix("reference/") not in entries} == set()


INDEXES = ("index.md", "reference/index.md")
