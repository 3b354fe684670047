"""What counts into a stretch: ends where they were, first tokens where they came, tokens when they came out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pytest_kvcache.model import Exchange, Failure, Level, PerRequest, Stretch
from pytest_kvcache.production import Production
from pytest_kvcache.stretch import is_good, overdue, stretch_of

LEVEL = Level(concurrency=4)


def exchange(sent: float, first: float, last: float, tokens: int = 5) -> Exchange:
    """Tokens evenly from first to last; the answer ends with the last one."""
    step = (last - first) / (tokens - 1) if tokens > 1 else 0.0
    chunks = tuple(first + step * at for at in range(tokens))
    return Exchange(
        "load",
        sent,
        last,
        None,
        sent,
        first,
        last,
        chunks,
        prompt_tokens=100,
        cached_tokens=60,
        completion_tokens=tokens,
    )


INSIDE = exchange(11.0, 12.0, 14.0)
BEFORE = exchange(8.0, 9.0, 11.0)  # its last two or three tokens come inside
BEHIND = exchange(18.0, 19.0, 23.0)  # first token inside, end behind
ACROSS = exchange(5.0, 6.0, 26.0)
OUTSIDE = exchange(1.0, 2.0, 3.0)
FAILED = replace(
    INSIDE, failure=Failure("http", "x"), first_content=None, last_content=None, chunks=(), completion_tokens=None
)
ALL = [OUTSIDE, BEFORE, INSIDE, BEHIND, ACROSS, FAILED]


def stretch(exchanges: list[Exchange], **more: object) -> Stretch:
    produced = Production()
    for e in exchanges:
        produced.add(e, Counter(e.chunks))
    return stretch_of(exchanges, produced, LEVEL, 10.0, 20.0, **more)  # type: ignore[arg-type] # keywords of the tests


def test_requests_in_flight_at_the_edges_count_by_what_happened_inside() -> None:
    seen = stretch(ALL)
    assert (seen.requests, seen.failed) == (2, 1)  # BEFORE and INSIDE ended whole
    assert seen.output_tokens == pytest.approx(3 + 5 + 1 + 2)  # 10.0 10.5 11.0; all; 19, as 20 is behind; 11 and 16
    assert seen.output_tok_s == pytest.approx(1.1)
    assert list(seen.ttft.samples) == [1.0, 1.0]  # INSIDE and BEHIND had their first token inside
    assert (seen.input_tokens, seen.hit_tokens, seen.hit_rate) == (200, 120, 0.6)
    assert list(seen.e2e.samples) == [3.0, 3.0]
    assert list(seen.tpot.samples) == [0.5, 0.5]
    assert list(seen.tokens_per_s.samples) == [pytest.approx(5 / 3)] * 2
    assert (seen.seconds, seen.requests_per_s, seen.input_tok_s) == (10.0, 0.2, 20.0)


def test_strict_counts_only_what_began_and_ended_inside() -> None:
    seen = stretch(ALL, strict=True)
    assert (seen.requests, seen.failed, seen.output_tokens, seen.input_tokens) == (1, 1, 5, 100)
    assert (list(seen.ttft.samples), list(seen.e2e.samples), seen.strict) == ([1.0], [3.0], True)


LOST = replace(FAILED, queued=19.0, sent=19.0, end=400.0)  # in flight at the end, and never answered
HUNG = exchange(17.0, 25.0, 26.0)  # nothing for 3 s at the end, where others had their first token after 1 s
SLOW = exchange(13.9, 14.5, 26.0)  # its first token came in time, its answer not in twice the 3 s of others


def test_the_last_stretch_counts_what_failed_or_hung_when_it_was_over() -> None:
    seen = stretch([*ALL, LOST, HUNG, SLOW], last=True)
    assert (seen.requests, seen.failed) == (4, 2)
    assert list(seen.ttft.samples) == [pytest.approx(0.6), 1.0, 1.0, 8.0]
    assert list(seen.e2e.samples) == [3.0, 3.0, 9.0, pytest.approx(12.1)]
    assert (len(seen.tpot), len(seen.tokens_per_s)) == (4, 4)
    before = stretch([*ALL, LOST, HUNG, SLOW])
    assert (before.requests, before.failed, len(before.ttft)) == (2, 1, 3)  # SLOW had its first token
    assert seen.output_tokens == before.output_tokens
    assert seen.input_tokens == before.input_tokens


def test_who_waits_as_others_did_is_not_overdue() -> None:
    close = exchange(18.0, 20.5, 23.0)  # 2 s without a first token: twice that of others, and no more
    assert overdue([INSIDE, close, exchange(14.0, 15.0, 21.0)], 10.0, 20.0) == []  # 6 s: twice the 3 s
    assert overdue([replace(close, queued=17.9, sent=17.9), INSIDE], 10.0, 20.0) != []
    assert overdue([HUNG], 10.0, 20.0) == []  # nothing to compare it with
    assert overdue([LOST, replace(LOST, sent=None)], 10.0, 20.0) == [LOST, replace(LOST, sent=None)]
    assert overdue([replace(LOST, sent=21.0, queued=21.0), replace(LOST, sent=9.0)], 10.0, 20.0) == []  # not its own


def test_who_was_due_in_time_and_sent_behind_is_overdue_too() -> None:
    late = replace(HUNG, scheduled=16.0, sent=24.0)
    seen = stretch([INSIDE, late], last=True)
    assert list(seen.ttft.samples) == [1.0, 9.0]


def test_strict_counts_what_hangs_and_none_of_its_tokens() -> None:
    seen = stretch([*ALL, LOST, HUNG], strict=True, last=True)
    assert (seen.requests, seen.failed, seen.output_tokens, seen.input_tokens) == (2, 2, 5, 100)


def test_what_is_not_told_is_not_zero() -> None:
    seen = stretch([replace(INSIDE, prompt_tokens=None), BEHIND])
    assert (seen.input_tokens, seen.hit_tokens, seen.hit_rate, seen.input_tok_s) == (None, 120, None, None)
    nothing = stretch([])
    assert (nothing.requests, nothing.ttft.p50, nothing.hit_rate, nothing.good) == (0, None, None, None)


@pytest.mark.parametrize(
    ("each", "good"),
    [
        (PerRequest(ttft=1.0), 2),
        (PerRequest(ttft=0.999), 0),
        (PerRequest(ttft=1.0, tpot=0.5), 2),
        (PerRequest(tpot=0.499), 0),
        (PerRequest(e2e=3.0), 2),
        (PerRequest(e2e=2.999), 0),
    ],
)
def test_goodput_is_of_requests_that_meet_every_limit(each: PerRequest, good: int) -> None:
    seen = stretch(ALL, each=each)
    assert (seen.good, seen.goodput) == (good, good / 10)
    assert stretch(ALL, each=PerRequest()).good is None


def test_a_request_is_not_good_by_what_is_not_known_of_it() -> None:
    each = PerRequest(ttft=5.0, tpot=5.0)
    assert is_good(INSIDE, each)
    assert not is_good(FAILED, each)
    assert not is_good(replace(INSIDE, first_content=None), each)
    assert not is_good(replace(INSIDE, completion_tokens=None), each)
    assert is_good(replace(INSIDE, completion_tokens=1), each)  # one token has no time per further token
