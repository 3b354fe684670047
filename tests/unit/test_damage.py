"""Damaged pages and replies: one of our own errors or exactly what the bytes say, never a traceback, never a guess."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines import Reader, shipped
from pytest_kvcache.engines.counters import in_flight, recounted, tokens_by_engine
from pytest_kvcache.engines.histograms import histograms
from pytest_kvcache.errors import KVCacheError
from pytest_kvcache.pressure import pressure
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import Snapshot, spellings

DATA = Path(__file__).parent.parent / "data"
PAIRS = {
    "vllm": ("vllm-0.32.0/02_after_first.prom", "vllm-0.32.0/03_after_identical.prom"),
    "sglang": ("sglang-0.5.23/02_after_first.prom", "sglang-0.5.23/03_after_identical.prom"),
    "llamacpp": ("llamacpp-b11434/03_after_first.prom", "llamacpp-b11434/04_after_identical.prom"),
    "dynamo": (
        "dynamo-mocker-1.6.1/02_frontend_after_first.prom",
        "dynamo-mocker-1.6.1/03_frontend_after_identical.prom",
    ),
}
NASTY = [
    "NaN",
    "+Inf",
    "-Inf",
    "-1",
    "1e309",
    "1e400",
    "0x10",
    "",
    "1 2 3 4",
    "٣",
    "1_000",
    '"',
    "}",
    "{",
    "#",
    "\x00",
    "\r",
]


def snapshot(text: str, names: frozenset[str]) -> Snapshot:
    samples, kinds = parse(text, spellings(names), "page")
    return Snapshot(0.0, samples, "page", kinds=kinds)


def read_strictly(text: str, sample: str) -> float:
    """The sum of one sample by a reader of our own for well-formed lines; anything else is not a number."""
    total = 0.0
    for line in text.split("\n"):
        if re.match(re.escape(sample) + r"[{ \t]", line):
            found = re.fullmatch(r'[\w:]+(\{(?:[^"{}]|"(?:\\.|[^"\\])*")*\})?[ \t]+(\S+)([ \t].*)?\r?', line)
            total += float(found[2]) if found else float("nan")
    return total


@st.composite
def damaged(draw: st.DrawFn, text: str, hot: tuple[str, ...]) -> str:
    """The page after a few accidents, most of them in the lines that matter."""
    lines = text.split("\n")
    matter = [i for i, line in enumerate(lines) if line.startswith(hot)] or [0]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(matter)) if draw(st.booleans()) else draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        accident = draw(st.sampled_from(["flip", "cut", "twice", "drop", "value", "swap", "insert"]))
        if accident == "flip" and line:
            where = draw(st.integers(0, len(line) - 1))
            lines[at] = line[:where] + draw(st.characters(codec="utf-8")) + line[where + 1 :]
        elif accident == "cut":
            lines[at] = line[: draw(st.integers(0, len(line)))]
        elif accident == "twice":
            lines[at] = line + "\n" + line
        elif accident == "drop":
            lines[at] = ""
        elif accident == "value":
            lines[at] = line.rpartition(" ")[0] + " " + draw(st.sampled_from(NASTY))
        elif accident == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], line
        else:
            lines[at] = line + draw(st.sampled_from(NASTY))
    whole = "\n".join(lines)
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 9)) == 0 else whole


@pytest.mark.parametrize("engine", PAIRS)
@settings(max_examples=120, derandomize=True)
@given(data=st.data())
def test_a_damaged_page_is_an_error_or_says_what_it_says(engine: str, data: st.DataObject) -> None:
    profile = shipped().get(engine)
    first, last = ((DATA / name).read_text() for name in PAIRS[engine])
    names = profile.samples()
    before = snapshot(first, names)
    variant = profile.variant(None, before.names())
    assert variant is not None
    queries = {s.sample for s in variant.query}
    hits = {s.sample for tier in variant.hits.values() for s in tier}
    text = data.draw(damaged(last, tuple(queries | hits)))
    reader = Reader(MetricsSource("http://h"), profile, variant)
    try:
        after = snapshot(text, names)
        found = tokens_by_engine(reader, before, after)
        recounted(reader, before, after)
        in_flight(reader, after)
        histograms(reader, before, after)
        pressure((reader,), (before,), (after,))
    except KVCacheError:
        return
    if engine != "sglang":  # there only some label values of a sample are hits; its numbers are tested on whole pages
        for counted, samples in (
            (sum(t.query for t in found.values()), queries),
            (sum(t.hit for t in found.values()), hits),
        ):
            moved = sum(read_strictly(text, s) - read_strictly(first, s) for s in samples)
            assert counted == round(moved)


@settings(max_examples=300, derandomize=True)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=50).map(lambda b: b"\x1f\x8b" + b)))
def test_bytes_that_are_no_page(content: bytes) -> None:
    names = shipped().get("vllm").samples()
    try:
        found = parse(content.decode("utf-8", "replace"), spellings(names), "page")[0]
    except KVCacheError:
        return
    assert not found
