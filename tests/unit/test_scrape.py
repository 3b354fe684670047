"""Metrics pages to numbers: recorded pages, damaged pages, and deltas per series."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_kvcache.engines import builtin_profiles, detect
from pytest_kvcache.engines.counters import in_flight, tokens_by_engine
from pytest_kvcache.errors import CounterMissing, CounterReset, ProtocolError
from pytest_kvcache.model import Tokens
from pytest_kvcache.scrape import Snapshot, delta, parse

DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"
VLLM = builtin_profiles()["vllm"]
Q, H = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"


def page(name: str) -> Snapshot:
    return Snapshot(0.0, parse((DATA / name).read_text(), VLLM.samples(), name), name)


def snapshot(**values: float) -> Snapshot:
    return Snapshot(0.0, {(name, ()): value for name, value in values.items()}, "page")


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.prom")))
def test_the_scan_finds_what_a_parse_of_the_whole_page_finds(name: str) -> None:
    text, names = (DATA / name).read_text(), VLLM.samples()
    whole = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in names
    }
    assert parse(text, names) == whole


def tokens(before: str, after: str) -> dict[str, Tokens]:
    variant = VLLM.variant("0.32.0", ())
    assert variant is not None
    return tokens_by_engine(VLLM, variant, page(before), page(after))


def test_first_and_identical_request_of_801_tokens() -> None:
    # block 128: the first misses, the repeat hits floor(800/128)*128 = 768
    assert tokens("01_before.prom", "02_after_first.prom") == {"0": Tokens(801, 0, 0, 801)}
    assert tokens("02_after_first.prom", "03_after_identical.prom") == {"0": Tokens(801, 768, 0, 801)}


def test_two_data_parallel_engines_are_two_rows() -> None:
    rows = tokens("40_data_parallel_2_before.prom", "40_data_parallel_2_after.prom")
    assert sorted(rows) == ["0", "1"]
    whole = page("40_data_parallel_2_after.prom"), page("40_data_parallel_2_before.prom")
    assert sum(row.query for row in rows.values()) == whole[0].total(Q) - whole[1].total(Q)


def test_external_hits_share_the_local_denominator() -> None:
    rows = tokens("30_external_example_connector_before.prom", "30_external_example_connector_after.prom")
    steps = json.loads((DATA / "30_external_example_connector.json").read_text())
    hits = sum(step["delta"].get("h", 0) for step in steps)
    external = sum(step["delta"].get("xh", 0) for step in steps)
    assert (rows["0"].local_hit, rows["0"].external_hit) == (hits, external)
    assert rows["0"].hit == hits + external
    assert rows["0"].query == sum(step["delta"].get("q", 0) for step in steps)


def test_engine_is_detected_and_at_rest() -> None:
    after = page("10_after_semantics.prom")
    assert detect(name for name, _ in after.samples) is VLLM
    assert in_flight(VLLM, after) == 0
    assert after.label("vllm:cache_config_info", "block_size") == ["128"]


def test_page_without_statistics_is_no_known_engine() -> None:
    assert detect(name for name, _ in page("61_disable_log_stats.prom").samples) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<!DOCTYPE html>\n<html></html>\n", "line 1: expected a Prometheus sample, got '<!DOCTYPE html>'"),
        ("", "holds no samples"),
        ("# HELP only\n# TYPE comments\n", "holds no samples"),
        (f"{Q} 5\n{H} 1", f"cut off in the middle of a line: '{H} 1'"),
        (f'{Q}{{engine="0 5\n', "line not understood"),
        (f"{Q} five\n", "line not understood"),
        (f"{Q} NaN\n", "which is no count"),
        (f"{Q} +Inf\n", "which is no count"),
        (f"{Q} 5\n{Q} 6\n", "stands twice"),
        ("{json: 1}\n", "line 1: expected a Prometheus sample"),
    ],
)
def test_bad_pages_name_the_offending_line(text: str, complaint: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(text, {Q, H}, "http://h/metrics")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("http://h/metrics")


def test_what_is_not_needed_may_be_odd() -> None:
    text = f'gauge NaN\nother{{a="}} # ,"}} 1\nodd_created 3\n{Q}{{m="a\\"b"}} 7 1700000000000\n{Q}_created 9\n'
    assert parse(text, {Q}) == {(Q, (("m", 'a"b'),)): 7.0}


def test_every_needed_line_cut_anywhere_is_an_error_or_absent() -> None:
    line = f'{Q}{{engine="0",model_name="tiny"}} 383018.0\n'
    for cut in range(1, len(line) - 1):
        with pytest.raises(ProtocolError):
            parse("up 1\n" + line[:cut], {Q})


def test_delta_is_per_series_before_it_is_a_sum() -> None:
    before = Snapshot(0, {(Q, (("engine", "0"),)): 100.0, (Q, (("engine", "1"),)): 50.0}, "p")
    after = Snapshot(1, {(Q, (("engine", "0"),)): 10.0, (Q, (("engine", "1"),)): 500.0}, "p")
    with pytest.raises(CounterReset, match=r'\{engine="0"\} fell from 100 to 10'):
        delta(before, after, Q)


def test_series_absent_at_the_start_counts_from_zero() -> None:
    assert delta(snapshot(other=1), snapshot(c=7), "c") == {(): 7.0}


def test_series_that_vanishes_is_a_restart() -> None:
    with pytest.raises(CounterReset, match="gone"):
        delta(Snapshot(0, {("c", (("e", "0"),)): 3.0}, "p"), Snapshot(1, {("c", (("e", "1"),)): 9.0}, "p"), "c")


def test_counter_on_neither_page_is_an_error() -> None:
    with pytest.raises(CounterMissing, match="has no c"):
        delta(snapshot(other=1), snapshot(other=1), "c")


def test_delta_filters_by_label() -> None:
    before = Snapshot(0, {}, "p")
    after = Snapshot(1, {("c", (("t", "a"),)): 3.0, ("c", (("t", "b"),)): 4.0}, "p")
    assert delta(before, after, "c", {"t": "b"}) == {(("t", "b"),): 4.0}
