"""Exact percentiles and the definitions of the latencies, by hand."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency
from pytest_kvcache.latency import e2e, itl, ttft
from pytest_kvcache.model import Exchange, Failure
from pytest_kvcache.overview import Overview
from pytest_kvcache.report.text import visible


def test_percentiles_interpolate_between_the_two_nearest() -> None:
    sample = Latency.of([4.0, None, 1.0, 3.0, 2.0])
    assert (sample.p50, sample.percentile(0), sample.percentile(100), sample.percentile(25)) == (2.5, 1.0, 4.0, 1.75)
    assert sample.p95 == pytest.approx(3.85)
    assert (sample.mean, sample.max, len(sample)) == (2.5, 4.0, 4)


def test_no_sample_is_no_number() -> None:
    empty = Latency.of([None])
    assert (empty.p50, empty.p95, empty.p99, empty.mean, empty.max, len(empty)) == (None, None, None, None, None, 0)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50))
def test_quartiles_agree_with_the_standard_library(values: list[float]) -> None:
    expected = statistics.quantiles(values, n=4, method="inclusive")
    sample = Latency.of(values)
    assert [sample.percentile(q) for q in (25, 50, 75)] == pytest.approx(expected)


WHOLE = Exchange("load", 0.0, 5.0, sent=1.0, first_content=2.0, chunks=(2.0, 2.5, 3.5), completion_tokens=3)
BROKEN = Exchange("load", 0.0, 9.0, sent=1.0, first_content=2.0, chunks=(2.0, 8.0), failure=Failure("cut", "x"))


def test_definitions_count_whole_answers_only() -> None:
    both = [WHOLE, BROKEN]
    assert tuple(ttft(both).samples) == (1.0,)
    assert tuple(itl(both).samples) == (0.5, 1.0)
    assert tuple(e2e(both).samples) == (4.0,)
    assert Overview.of(both).output_tok_s == 3 / 4
    assert Overview.of([BROKEN]).output_tok_s is None
    assert Overview.of([Exchange("load", 0.0, 5.0, sent=1.0)]).output_tok_s is None


def test_a_scheduled_request_counts_from_when_it_was_due() -> None:
    late = replace(WHOLE, scheduled=0.25)  # sent at 1, first content at 2, whole at 5
    assert (tuple(ttft([late]).samples), tuple(e2e([late]).samples)) == ((1.75,), (4.75,))
    assert tuple(itl([late]).samples) == (0.5, 1.0)
    assert Overview.of([late]).output_tok_s == 3 / 4  # what was generated per second of sending
    retried = replace(late, earlier=(BROKEN,))
    assert (tuple(ttft([retried]).samples), len(itl([retried]))) == ((1.75,), 2)  # a failed attempt is no sample


def test_hidden_characters_become_visible() -> None:
    assert visible("a\x00\x1b[31m\ud800 ]]> & <b>\n\té") == "a\\x00\\x1b[31m\\ud800 ]]> & <b>\\n\\té"
    assert visible("\u202eliaf\u202c\u2066\u2028") == "\\u202eliaf\\u202c\\u2066\\u2028"  # what reads as another word
