"""An overview of requests is what the single functions say, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache import latency
from pytest_kvcache.model import Exchange, Failure
from pytest_kvcache.overview import Overview, together

TIMES = st.floats(0, 100, allow_nan=False)
FAILURES = st.sampled_from([None, None, "http", "timeout", "cut", "connect", "server", "protocol", "process", "odd"])


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    kind = draw(FAILURES)
    earlier = draw(st.lists(st.builds(Exchange, st.just("load"), TIMES, TIMES, sent=st.none() | TIMES), max_size=2))
    return Exchange(
        "load",
        0.0,
        100.0 + draw(TIMES),
        scheduled=draw(st.none() | TIMES),
        sent=draw(st.none() | TIMES),
        first_content=draw(st.none() | TIMES),
        last_content=draw(st.none() | TIMES),
        completion_tokens=draw(st.none() | st.integers(0, 50)),
        finish_reason=draw(st.sampled_from([None, "length", "abort"])),
        status=draw(st.sampled_from([None, 200, 429])),
        failure=None if kind is None else Failure(kind, "x"),
        earlier=tuple(earlier),
    )


def output_rate(exchanges: Sequence[Exchange]) -> float | None:
    """Generated tokens per second, over the time from the first request sent to the last answer; None if unknown."""
    whole = [e for e in exchanges if e.ok and e.sent is not None]
    tokens = [e.completion_tokens for e in whole]
    if not whole or any(count is None for count in tokens):
        return None
    seconds = max(e.end for e in whole) - min(e.sent for e in whole if e.sent is not None)
    return sum(count for count in tokens if count is not None) / seconds if seconds > 0 else None


@given(st.lists(exchanges(), max_size=12))
def test_it_agrees_with_the_functions_for_one_figure(several: Sequence[Exchange]) -> None:
    seen = Overview.of(several)
    assert (seen.total, seen.failed) == (len(several), sum(not e.ok for e in several))
    assert sum(seen.errors.values()) == seen.failed
    assert list(seen.errors.values()) == sorted(seen.errors.values(), reverse=True)
    for name, oracle in (("ttft", latency.ttft), ("tpot", latency.tpot), ("e2e", latency.e2e)):
        assert list(getattr(seen, name).samples) == list(oracle(several).samples)
    assert list(seen.lateness.samples) == list(latency.lateness(several).samples)
    assert seen.output_tok_s == output_rate(several)


@given(st.lists(st.lists(exchanges(), max_size=6), max_size=4))
def test_overviews_together_are_one_of_all(runs: Sequence[Sequence[Exchange]]) -> None:
    whole, parts = Overview.of([e for run in runs for e in run]), together([Overview.of(run) for run in runs])
    for name in ("ttft", "tpot", "e2e", "lateness"):
        assert list(getattr(parts, name).samples) == list(getattr(whole, name).samples)
    assert (parts.total, parts.failed, parts.aborted, dict(parts.errors)) == (
        whole.total, whole.failed, whole.aborted, dict(whole.errors)
    )  # fmt: skip
    assert parts.output_tokens == whole.output_tokens


def test_what_several_runs_generate_a_second_is_without_the_time_between_them() -> None:
    def answer(sent: float, end: float, tokens: int | None) -> Exchange:
        return Exchange("load", sent, end, sent=sent, completion_tokens=tokens)

    first, second = [answer(0.0, 1.0, 30), answer(0.5, 2.0, 70)], [answer(100.0, 103.0, 400)]
    assert together([Overview.of(first), Overview.of([]), Overview.of(second)]).output_tok_s == 500 / 5
    assert together([Overview.of(first), Overview.of([answer(9.0, 10.0, None)])]).output_tok_s is None
    assert together([Overview.of([]), Overview.of([])]).output_tok_s is None


def test_aborted_is_what_was_sent_and_given_up_on() -> None:
    def one(kind: str | None, sent: float | None = 1.0, finish: str | None = None) -> int:
        failure = None if kind is None else Failure(kind, "x")
        return Overview.of([Exchange("load", 0.0, 2.0, sent=sent, failure=failure, finish_reason=finish)]).aborted

    assert [one("timeout"), one("cut"), one(None, finish="abort")] == [1, 1, 1]
    assert [one("timeout", sent=None), one("http"), one("connect"), one(None)] == [0, 0, 0, 0]
