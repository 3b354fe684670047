"""Chat traffic without end, as rows of a trace: seeded, streaming, in memory that does not grow with it.

A request is one of a few system prompts, one of many documents (both by Zipf's law, nearly), and the turns of its
session so far. Sessions go on at paces of their own. Ids are arithmetic, so nothing has to be remembered but the
sessions that are going on. As engines do, only full blocks have an id.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from pytest_kvcache.rows import Row

BLOCK = 16
SYSTEMS, DOCUMENTS = 40, 1_000_000
GOING = 20_000  # sessions at a time
STOPS = 1 / 6  # chance that a turn was the last
LONGEST = 32_000  # tokens; a session ends before
ROOM = 1 << 12  # ids that one text may have


class Session(NamedTuple):
    """Ids of its system prompt and document, the first id of its own, and its own tokens so far."""

    head: array[int]
    first: int
    tokens: int


def texts(count: int, typical: int, spread: float, seed: str) -> list[int]:
    """Blocks of so many texts; their lengths are log-normal around a median in tokens."""
    draw = Random(seed)
    return [1 + min(ROOM - 2, int(typical * draw.lognormvariate(0, spread)) // BLOCK) for _ in range(count)]


def heads(draw: Random, seed: int) -> Iterator[array[int]]:
    """What sessions begin with. An exponent drawn evenly gives rank r in proportion to 1/r, nearly."""
    systems = texts(SYSTEMS, 700, 0.8, f"systems {seed}")
    pages = texts(997, 400, 0.8, f"documents {seed}")
    while True:
        system = int(SYSTEMS ** draw.random()) - 1
        document = int(DOCUMENTS ** draw.random())
        at = (1 << 32) + document * ROOM
        ids = array("q", range(system * ROOM, system * ROOM + systems[system]))
        ids.extend(range(at, at + pages[document % len(pages)]))
        yield ids


def chats(requests: int, seed: int = 0) -> Iterator[Row]:
    """Yield rows; the same ones for the same arguments."""
    draw = Random(seed)
    random, lognormal = draw.random, draw.lognormvariate
    head = heads(draw, seed)
    fresh = iter(range(1 << 50, 1 << 60, ROOM))  # first ids of sessions
    going = [Session(next(head), next(fresh), 0) for _ in range(GOING)]
    for line in range(1, requests + 1):
        place = int(GOING * random() ** 2)  # some ask again soon, some late
        session = going[place]
        own = session.tokens + 1 + int(60 * lognormal(0, 1))
        ids = session.head + array("q", range(session.first, session.first + own // BLOCK))
        length = len(session.head) * BLOCK + own
        answer = 1 + int(180 * lognormal(0, 0.8))
        yield Row(line, length, ids, answer)
        if random() < STOPS or length + answer > LONGEST:
            going[place] = Session(next(head), next(fresh), 0)
        else:
            going[place] = session._replace(tokens=own + answer)
