"""Pages to samples: recorded pages, OpenMetrics, every spelling of a name, and damaged pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_kvcache.engines import shipped
from pytest_kvcache.errors import ProtocolError
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import Labels, spellings

DATA = Path(__file__).parent.parent.parent / "data"
Q, H = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
NAMES = spellings([Q, H])


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.prom")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_scan_finds_what_a_parse_of_the_whole_page_finds(path: Path) -> None:
    text, names = path.read_text(), shipped().samples()
    whole = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in names
    }
    assert values(text, spellings(names)) == whole


def values(text: str, names: dict[str, str] = NAMES) -> dict[tuple[str, Labels], float]:
    return parse(text, names)[0]


EXEMPLARS = f"""# TYPE vllm:prefix_cache_queries counter
{Q}{{engine="0"}} 1000.0 # {{trace_id="a b # c"}} 16.0 1.7e9
# TYPE vllm:prefix_cache_hits counter
{H}{{engine="0"}} 640.0 # {{trace_id="x"}} 16.0
# EOF
"""


def test_exemplars_and_timestamps_are_no_values() -> None:
    labels = (("engine", "0"),)
    assert values(EXEMPLARS) == {(Q, labels): 1000.0, (H, labels): 640.0}
    assert parse(EXEMPLARS, NAMES)[1] == {Q: "counter", H: "counter"}


@pytest.mark.parametrize(
    ("written", "renamed"),
    [
        ("vllm:prefix_cache_queries", None),
        ("vllm_prefix_cache_queries_total", None),
        ("vllm_prefix_cache_queries", None),
        ("ray_vllm_prefix_cache_queries_total", None),
        ("aibrix:prefix_cache_queries_total", ("vllm:", "aibrix:")),
    ],
)
def test_a_name_has_many_spellings(written: str, renamed: tuple[str, str] | None) -> None:
    page = f"{written} 5.12e+08\n{written}_created 7\n{written}_bucket 7\n"
    assert values(page, spellings([Q], renamed=renamed)) == {(Q, ()): 512_000_000.0}


def test_the_name_that_the_profile_writes_wins_over_other_spellings() -> None:
    assert values(f"vllm:prefix_cache_queries 3\n{Q} 7\n") == {(Q, ()): 7.0}
    with pytest.raises(ProtocolError, match="stands twice"):
        values("vllm:prefix_cache_queries 3\nvllm_prefix_cache_queries_total 7\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<!DOCTYPE html>\n<html></html>\n", "line 1: expected a Prometheus sample, got '<!DOCTYPE html>'"),
        ("", "holds no samples"),
        ("# HELP only\n# TYPE comments\n", "holds no samples"),
        (f"{Q} 5\n{H} 1", f"cut off in the middle of a line: '{H} 1'"),
        (f'{Q}{{engine="0 5\n', "line not understood"),
        (f"{Q} five\n", "line not understood"),
        (f"{Q} 5\n{Q} 6\n", "stands twice"),
        ("{json: 1}\n", "line 1: expected a Prometheus sample"),
    ],
)
def test_bad_pages_name_the_offending_line(text: str, complaint: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(text, NAMES, "http://h/metrics")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("http://h/metrics")


def test_what_is_not_needed_may_be_odd() -> None:
    text = f'gauge NaN\nother{{a="}} # ,"}} 1\nodd_created 3\n{Q}{{m="a\\"b"}} 7 1700000000000\n{Q}_created 9\n'
    assert values(text) == {(Q, (("m", 'a"b'),)): 7.0}


def test_every_needed_line_cut_anywhere_is_an_error_or_absent() -> None:
    line = f'{Q}{{engine="0",model_name="tiny"}} 383018.0\n'
    for cut in range(1, len(line) - 1):
        with pytest.raises(ProtocolError):
            values("up 1\n" + line[:cut])
