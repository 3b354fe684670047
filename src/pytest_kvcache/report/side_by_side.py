"""A comparison of two sessions to lines: what changed for all, one row a test, the evidence of what did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..figures import plural
from ..regression import wording
from ..regression.asked import Allowed
from ..regression.metrics import METRICS
from .columns import UNKNOWN, aligned, told
from .text import visible

_USUAL = ("hit_rate", "ttft_p50", "ttft_p95", "output_tok_s")
WORDS = {"fail": "worse", "inconclusive": "inconclusive", "pass": "not worse", "nothing": "not compared"}


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return what a terminal shows of :func:`pytest_kvcache.regression.compare.side_by_side`."""
    return [visible(line) for line in _lines(found)]


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    checks = found["checks"]
    yield f"{_name(found['old'])} -> {_name(found['new'])}: {summary(found)}"
    yield from (f"  {line}" for line in changed(checks))
    if checks:
        yield ""
        yield from aligned(*_table(checks))
    for check in checks:
        if check["verdict"] in ("fail", "inconclusive"):
            yield from ("", *_details(check))
    for title in ("added", "removed"):
        if found[title]:
            yield from ("", f"{title}: {', '.join(found[title])}")


def _name(side: Mapping[str, Any]) -> str:
    return f"{side['name']}{' (interrupted)' if side['interrupted'] else ''}"


def summary(found: Mapping[str, Any]) -> str:
    """Return how many tests came out how."""
    counts = Counter(check["verdict"] for check in found["checks"])
    parts = [f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict]]
    parts += [f"{len(found[name])} {name}" for name in ("added", "removed") if found[name]]
    return f"{plural(len(found['checks']), 'test')} in both{': ' if parts else ''}{', '.join(parts)}"


def changed(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each circumstance that is not the same, once, with the number of tests."""
    counts = Counter(
        (f"{c['name']} {c['old']} -> {c['new']}{' (allowed)' if c['allowed'] else ''}")
        for check in checks
        for c in check["changes"]
    )
    return [f"changed: {text}, in {plural(count, 'test')}" for text, count in counts.items()]


def _table(checks: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[str, ...]], tuple[int, int]]:
    names = dict.fromkeys([*_USUAL, *(one["name"] for check in checks for one in check["regressions"])])
    header = ("verdict", *(METRICS[name].title for name in names), "test")
    rows = [header]
    for check in checks:
        by_name: dict[str, list[Mapping[str, Any]]] = {}
        for figure in check["figures"]:
            by_name.setdefault(figure["name"], []).append(figure)
        cells = [_cell(by_name.get(name, [])) for name in names]
        rows.append((WORDS[check["verdict"]], *cells, check["nodeid"]))
    kept = told(rows)
    return kept, (0, len(kept[0]) - 1)


def _cell(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return old and new of a metric; of several loads how many there are."""
    if not figures:
        return UNKNOWN
    return shown(figures[0]) if len(figures) == 1 else f"{len(figures)} loads"


def shown(figure: Mapping[str, Any]) -> str:
    """Return what a figure was and is: ``120.0 ms -> 138.0 ms (+15.0 %)``."""
    metric = METRICS[figure["name"]]
    old, new = wording.pair(metric, figure["old"], figure["new"])
    if figure["old"] == figure["new"]:
        return new
    change = wording.change(Allowed(metric, 0.0, figure["relative"]), figure["change"])
    return f"{old} -> {new}{f' ({change})' if change else ''}"


def _details(check: Mapping[str, Any]) -> Iterator[str]:
    yield f"{WORDS[check['verdict']]}: {check['nodeid']}"
    for one in check["regressions"]:
        if one["sentence"]:
            yield f"  {WORDS[one['verdict']]}: {one['sentence']}"
    yield from (f"  -> {remark}" for remark in remarks(check))


def remarks(check: Mapping[str, Any]) -> list[str]:
    """Return the findings on a test with their codes, without what the sentences of its comparisons say already."""
    sentences = {one["sentence"] for one in check["regressions"]}
    found = []
    for finding in check["findings"]:
        told = "" if finding["sentence"] in sentences else finding["sentence"]
        text = "; ".join(filter(None, (told, finding["advice"])))
        found += [f"{text} [{finding['code']}]"] if text else []
    return found
