"""What is sent again, when, and what is told of it. No test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pytest_kvcache.model import Exchange, Failure, Prompt, Request
from pytest_kvcache.retry import Retrying, for_the_moment

REQUEST = Request(Prompt(range(10)), 1, "load")
OK = Exchange("load", 0.0, 1.0, sent=0.5, status=200)


def refused(status: int | None = 429, wait: float | None = None, kind: str = "http", end: float = 1.0) -> Exchange:
    failure = Failure(kind, f"HTTP {status}: slow down", wait)
    return Exchange("load", 0.0, end, sent=0.5, status=status, failure=failure)


NOBODY = Exchange("load", 0.0, 1.0, failure=Failure("connect", "refused"))


def attempt(answers: Sequence[Exchange], retries: int, seed: str = "") -> tuple[Exchange, list[float], int]:
    """Return the final exchange, the waits, and how many answers were not asked for."""
    left, waits = list(answers), []

    async def send(request: Request) -> Exchange:
        assert request is REQUEST
        return left.pop(0)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return asyncio.run(_one(Retrying(send, retries, seed=seed, sleep=sleep))), waits, len(left)


async def _one(send: Retrying) -> Exchange:
    return await send(REQUEST)


@pytest.mark.parametrize("status", [429, 502, 503, 504, 529])
def test_busy_servers_and_gateways_are_asked_again(status: int) -> None:
    first = refused(status, 2.0)
    final, waits, left = attempt([first, OK], retries=1)
    assert (final.ok, final.earlier, waits, left) == (True, (first,), [2.0], 0)
    assert final.ttft == OK.ttft


@pytest.mark.parametrize(
    "stands",
    [
        *(refused(status) for status in (400, 401, 404, 408, 409, 413, 422, 425, 500, 501, 307)),
        refused(None, kind="timeout"),
        refused(200, kind="cut"),
        refused(None, kind="cut"),
        refused(200, kind="server"),
        refused(200, kind="protocol"),
        refused(200, kind="connect"),  # the connection was reset inside an answer
        refused(429, kind="timeout"),
        OK,
    ],
)
def test_all_else_stands(stands: Exchange) -> None:
    assert not for_the_moment(stands)
    assert attempt([stands, OK], retries=3) == (stands, [], 1)


def test_no_connection_is_tried_again() -> None:
    final, waits, _ = attempt([NOBODY, NOBODY, OK], retries=3)
    assert (final.ok, final.earlier, len(waits)) == (True, (NOBODY, NOBODY), 2)


def test_attempts_end_and_the_last_failure_stands() -> None:
    answers = [refused(429, 0.0, end=float(number)) for number in range(5)]
    final, waits, left = attempt(answers, retries=3)
    assert (final.failure, final.end) == (answers[3].failure, 3.0)
    assert [e.end for e in final.earlier] == [0.0, 1.0, 2.0]  # oldest first, the last one not among them
    assert (waits, left) == ([0.0] * 3, 1)


def test_a_retry_that_fails_for_good_ends_it() -> None:
    final, _, left = attempt([refused(503, 1.0), refused(400), OK], retries=3)
    assert (final.status, len(final.earlier), left) == (400, 1, 1)


def test_off_is_off() -> None:
    assert attempt([refused(429, 0.0), OK], retries=0) == (refused(429, 0.0), [], 1)


def test_waits_double_up_to_a_bound_with_jitter_that_is_seeded() -> None:
    answers = [refused()] * 12
    _, waits, _ = attempt(answers, retries=11, seed="s")
    for wait, longest in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30], strict=True):
        assert longest / 2 <= wait <= longest
    assert attempt(answers, retries=11, seed="s")[1] == waits
    assert attempt(answers, retries=11, seed="t")[1] != waits
    assert len({wait / 30 for wait in waits[6:]}) == 5
    assert len(attempt([refused()] * 3000, retries=2999)[1]) == 2999  # 2 ** 2999 is no float


@pytest.mark.parametrize(("asked", "waits"), [(0.0, [0.0]), (7.25, [7.25]), (120.0, [120.0])])
def test_the_server_is_waited_for_as_long_as_it_asks(asked: float, waits: list[float]) -> None:
    assert attempt([refused(429, asked), OK], retries=1)[1] == waits


def test_a_server_that_asks_for_too_long_is_not_waited_for() -> None:
    final, waits, left = attempt([refused(503, 1.0), refused(429, 120.5), OK], retries=3)
    assert (waits, left, len(final.earlier)) == ([1.0], 1, 1)
    assert final.failure == Failure("http", "HTTP 429: slow down (not tried again: a retry waits 120 s at most)", 120.5)
    alone = attempt([refused(429, 120.5)], retries=0)[0]
    assert alone.failure == Failure("http", "HTTP 429: slow down", 120.5)  # nobody meant to try again
