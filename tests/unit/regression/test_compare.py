"""Two documents side by side: what is told, what is written, and the exit code."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.command import main
from pytest_kvcache.regression import plain
from pytest_kvcache.regression.values import Entry, Group

from .made import entry, group, rate

STEADY = [0.100, 0.101, 0.102, 0.103, 0.104]


def load(factor: float = 1.0, hit: int = 700, runs: int = 5, where: str = "") -> Group:
    return group(
        where,
        hit_rate=[hit / 1000] * runs,
        hit_tokens=[hit] * runs,
        query_tokens=[1000] * runs,
        ttft_p95=[value * factor for value in STEADY[:runs]],
    )


def document(path: Path, *checks: tuple[str, str, Entry], **more: Any) -> str:
    told = [
        {"nodeid": n, "verdict": v, "context": plain.context(e), "values": plain.groups(e.groups)} for n, v, e in checks
    ]
    content = {
        "schema": "pytest-kvcache/1",
        "endpoint": None,
        "interrupted": False,
        "checks": told,
        "sweeps": [],
        **more,
    }
    path.write_text(json.dumps(content))
    return str(path)


class Compare:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, old: Any, new: Any, *words: str) -> tuple[int, str]:
        """Compare what two sessions measured in one test."""
        files = [
            document(
                self.folder / f"{name}.json",
                *(checks if isinstance(checks, list) else [("test_a.py::t", "pass", checks)]),
            )
            for name, checks in (("old", old), ("new", new))
        ]
        return self.files(*files, *words)

    def files(self, *words: str) -> tuple[int, str]:
        try:
            code = main(["compare", *words])
        except SystemExit as error:
            code = int(error.code or 0)
        out, err = self._capsys.readouterr()
        return code, out + err


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    return Compare(tmp_path, capsys)


def test_the_same_is_not_worse(compare: Compare) -> None:
    code, text = compare(entry(load()), entry(load()), "--hit-rate=-0.02", "--ttft-p95=+10%")
    assert code == 0
    assert text.splitlines()[0] == "old.json -> new.json: 1 test in both: 1 not worse"
    assert text.splitlines()[2].split() == ["verdict", "hit", "rate", "TTFT", "p95", "test"]
    assert text.splitlines()[3].split() == ["not", "worse", "0.700", "102.0", "ms", "test_a.py::t"]


def test_a_fall_is_worse(compare: Compare) -> None:
    code, text = compare(entry(load()), entry(load(hit=670)), "--hit-rate=-0.02")
    assert code == 1
    assert "0.700 -> 0.670 (-3.0 points)" in text
    assert "worse: hit rate fell from 0.700 to 0.670 (-3.0 points, allowed -2.0 points)" in text
    assert compare(entry(load()), entry(load(hit=670)))[0] == 1  # without limits it must not fall at all
    assert compare(entry(load()), entry(load(hit=670)), "--ttft-p95=+10%")[0] == 0  # only that is asked


def test_a_rise_of_times_is_worse_beyond_chance(compare: Compare) -> None:
    assert compare(entry(load()), entry(load(1.2)), "--ttft-p95=+10%")[0] == 1
    assert compare(entry(load()), entry(load(1.2)), "--ttft-p95=+30%")[0] == 0
    code, text = compare(entry(load(runs=3)), entry(load(1.2, runs=3)), "--ttft-p95", "0.01")
    assert code == 3
    assert "run it 5 times on each side" in text
    assert "102.0" not in text  # three runs have another median
    assert compare(entry(load()), entry(load(1.2, runs=3)), "--ttft-p95=+10%")[0] == 3


def test_other_circumstances_cannot_be_told_unless_allowed(compare: Compare) -> None:
    new = entry(load(), engine_version="0.32.0")
    code, text = compare(entry(load()), new)
    assert code == 3
    assert "  changed: engine_version 0.31.0 -> 0.32.0, in 1 test" in text
    assert "[KV132]" in text
    code, text = compare(entry(load()), new, "--allow-change=engine_version")
    assert code == 0
    assert "engine_version 0.31.0 -> 0.32.0 (allowed), in 1 test" in text


def test_tests_that_are_new_or_gone_are_told(compare: Compare) -> None:
    old = [("a", "pass", entry(load())), ("b", "pass", entry(load()))]
    new = [("b", "pass", entry(load())), ("c", "pass", entry(load(hit=1)))]
    code, text = compare(old, new)
    assert code == 0
    assert text.splitlines()[0].endswith("1 test in both: 1 not worse, 1 added, 1 removed")
    assert "added: c" in text
    assert "removed: a" in text
    code, text = compare([("a", "pass", entry(load()))], [("b", "pass", entry(load()))])
    assert (code, "0 tests in both" in text) == (3, True)  # nothing was compared


NOTHING = Entry(None, [])


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("pass", "pass", 3), ("pass", "fail", 1), ("pass", "inconclusive", 3), ("fail", "fail", 3), ("fail", "pass", 3)],
)
def test_without_figures_the_verdicts_are_all_there_is(compare: Compare, old: str, new: str, code: int) -> None:
    assert compare([("a", old, NOTHING)], [("a", new, NOTHING)])[0] == code


def test_a_test_that_passed_and_fails_is_worse_whatever_its_figures(compare: Compare) -> None:
    code, text = compare([("a", "pass", entry(load()))], [("a", "fail", entry(load()))])
    assert code == 1
    assert "it passed, and fails now [KV208]" in text
    assert compare([("a", "fail", entry(load()))], [("a", "fail", entry(load()))])[0] == 0
    assert compare([("a", "pass", entry(load()))], [("a", "inconclusive", entry(load()))])[0] == 0


def test_a_rate_that_a_test_never_had_is_only_missed_by_who_asks_for_it(compare: Compare) -> None:
    times = entry(group(ttft_p95=STEADY))
    both = [("a", "pass", times), ("b", "pass", entry(load()))]
    code, text = compare(both, both)
    assert code == 0
    assert "1 not worse, 1 not compared" in text
    assert compare(both, both, "--hit-rate=0")[0] == 3
    assert compare(both, [("a", "pass", times), ("b", "pass", times)])[0] == 3  # one that is gone is missed


def test_loads_of_a_test_are_compared_each(compare: Compare) -> None:
    old = entry(load(where="concurrency 4"), load(where="concurrency 8"))
    new = entry(load(where="concurrency 4"), load(1.3, where="concurrency 8"))
    code, text = compare(old, new, "--ttft-p95=+10%")
    assert code == 1
    assert "worse: TTFT p95 at concurrency 8 rose from" in text
    assert "not worse: TTFT p95 at concurrency 4 stayed" in text
    assert "2 loads" in text


def test_json_and_page(compare: Compare) -> None:
    evil = "test_a.py::t[<script>alert(1)</script>\x1b[31m]"
    old, new = [(evil, "pass", entry(load()))], [(evil, "pass", entry(load(1.3), model="<b>m</b>"))]
    words = [f"--{form}={compare.folder / 'out'}.{form}" for form in ("json", "html")]
    code, text = compare(old, new, "--ttft-p95=+10%", "--allow-change=model", *words)
    assert code == 1
    assert "\x1b" not in text
    found = json.loads((compare.folder / "out.json").read_text())
    assert (found["schema"], found["verdict"]) == ("pytest-kvcache-compare/1", "fail")
    (check,) = found["checks"]
    assert check["regressions"][0]["change"] == pytest.approx(0.3)
    assert [figure["name"] for figure in check["figures"]] == ["hit_rate", "hit_tokens", "ttft_p95"]
    assert check["changes"] == [{"name": "model", "old": "m", "new": "<b>m</b>", "allowed": True}]
    page = (compare.folder / "out.html").read_text()
    assert "\x1b" not in page
    assert Tags.of(page) <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span", "details", "summary", "code"),
        *("div", "table", "thead", "tbody", "tr", "th", "td"),
        *("link", "script", "header", "button", "main", "footer"),  # of every page; a script for light and dark
    }
    assert page.count("<script") == 1
    assert "://" not in page
    assert len(page) < 50_000  # without what draws charts
    assert "TTFT p95 rose from 102.0 ms to 132.6 ms" in page


class Tags(html.parser.HTMLParser):
    @classmethod
    def of(cls, page: str) -> set[str]:
        seen = cls()
        seen.found: set[str] = set()
        seen.feed(page)
        seen.close()
        return seen.found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_a_page_needs_the_extra(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in ("compare_page", "html.skeleton"):
        monkeypatch.delitem(sys.modules, f"pytest_kvcache.report.{name}", raising=False)
    code, text = compare(entry(load()), entry(load()), f"--html={compare.folder / 'out.html'}")
    assert code == 2
    assert "pip install 'pytest-kvcache[report]'" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ttft-p95=fast"], "ttft_p95='fast' is no change"),
        (["--hit-rate=0.02"], "what may be is written -0.02"),
        (["--allow-change=version"], "did you mean engine_version"),
        (["--ttft-p=1"], "unrecognized arguments"),
        (["third.json"], "unrecognized arguments"),
    ],
)
def test_what_is_asked_in_the_wrong_way(compare: Compare, words: list[str], says: str) -> None:
    code, text = compare(entry(load()), entry(load()), *words)
    assert (code, says in text) == (2, True), text


def test_files_that_are_no_documents(compare: Compare, tmp_path: Path) -> None:
    good = document(tmp_path / "good.json", ("a", "pass", entry(rate())))
    newer, damaged = tmp_path / "newer.json", tmp_path / "damaged.json"
    newer.write_text('{"schema": "pytest-kvcache/2"}')
    damaged.write_text('{"schema": "pytest-kvcache/1", "checks": [{"nodeid": "a", "verdict": "pass"}]}')
    for path, says in [
        (newer, "says 'pytest-kvcache/2'; expected a document of a session ('pytest-kvcache/1')"),
        (damaged, "is damaged at checks.0.context: Field required"),
        (tmp_path / "no.json", "cannot be read"),
        (tmp_path, "cannot be read"),
    ]:
        code, text = compare.files(good, str(path))
        assert (code, says in text) == (2, True), text
    code, text = compare.files(good, good, f"--json={tmp_path / 'good.json' / 'x.json'}")
    assert (code, "cannot be written" in text) == (2, True)


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    assert "exit codes: 0 nothing got worse, 1 something did, 2 usage, 3 it cannot be told" in capsys.readouterr().out


def test_an_interrupted_session_is_told(compare: Compare, tmp_path: Path) -> None:
    whole = document(tmp_path / "a.json", ("a", "pass", entry(rate())))
    part = document(tmp_path / "b.json", ("a", "pass", entry(rate())), interrupted=True)
    assert compare.files(whole, part)[1].startswith("a.json -> b.json (interrupted): ")


def test_a_terminal_that_knows_few_letters(monkeypatch: pytest.MonkeyPatch, compare: Compare) -> None:
    import io
    import sys

    old, new = (document(compare.folder / name, ("t[ü]", "pass", entry(rate()))) for name in ("a", "b"))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["compare", old, new]) == 0
    sys.stdout.flush()
    assert b"t[\\xfc]" in raw.getvalue()
