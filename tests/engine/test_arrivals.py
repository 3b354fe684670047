"""Pieces of an answer are taken as the socket gives them, whatever becomes of its connection."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import random
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from pytest_kvcache import arrivals
from pytest_kvcache.client import Call, Client
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.model import Exchange

pytestmark = pytest.mark.asyncio
Speaker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CALL = Call("chat", {"model": "m", "stream": True})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ALL = b"0\r\n\r\n"
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def says(text: str) -> bytes:
    return b'data: {"choices":[{"delta":{"content":%s}}]}\n\n' % json.dumps(text).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def asked(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    assert length is not None
    await reader.readexactly(int(length[1]))


@asynccontextmanager
async def serving(speaker: Speaker, timeout: float = 30.0) -> AsyncIterator[Client]:
    """Let ``speaker`` answer on every connection, until it is gone."""

    speaking: set[asyncio.Task[None]] = set()

    async def spoken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await speaker(reader, writer)
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        speaking.add(asyncio.ensure_future(spoken(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(Endpoint(url, timeout=timeout)) as client:
            yield client
        await asyncio.gather(*speaking)


def answering(*parts: bytes) -> Speaker:
    """Answer with so many writes, and close the connection."""

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    return speaker


async def one(speaker: Speaker, timeout: float = 30.0) -> Exchange:
    async with serving(speaker, timeout) as client:
        return await client.send(CALL)


async def test_a_piece_is_taken_before_the_next_one_is_sent() -> None:
    taken: list[bytes] = []
    arrived = asyncio.Event()

    def take(piece: bytes, at: float) -> None:
        taken.append(piece)
        arrived.set()

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        for part in (CHUNKED, b"1\r\na", b"\r\n1\r\nb\r\n", b"2\r\ncd\r\n" + ALL):
            writer.write(part)
            if part is not CHUNKED:
                await arrived.wait()
                arrived.clear()

    async with serving(speaker) as client, aiohttp.ClientSession() as session:
        response = await session.post(client.url("chat"), data=b"{}")
        assert response.connection is not None
        transport = response.connection.transport
        assert transport is not None
        usual = transport.get_protocol()
        await arrivals.arrivals(response, take, asyncio.get_running_loop().time() + 30)
        assert transport.get_protocol() in (usual, None)  # None: the server has closed it
    assert taken == [b"a", b"b", b"cd"]


async def test_nothing_of_a_tap_is_left() -> None:
    """The connection has its own protocol before anybody else can use it, and no timer holds what was read."""

    class Takes:
        def __call__(self, piece: bytes, at: float) -> None:
            if piece == b"b":
                asyncio.get_running_loop().call_soon(lambda: found.append(transport.get_protocol()))

    found: list[object] = []
    async with (
        serving(answering(CHUNKED, chunk(b"a"), chunk(b"b") + ALL)) as client,
        aiohttp.ClientSession() as session,
    ):
        response = await session.post(client.url("chat"), data=b"{}")
        assert response.connection is not None
        transport = response.connection.transport
        assert transport is not None
        usual, take = transport.get_protocol(), Takes()
        left = weakref.ref(take)
        await arrivals.arrivals(response, take, asyncio.get_running_loop().time() + 30)
        del take
        gc.collect()
        assert left() is None
    assert found == [usual]


async def test_nobody_is_woken_for_a_piece() -> None:
    """A stamp is of the moment of arrival, even if the task has no turn until the end."""
    steps = 0

    class Counted:
        def __init__(self, awaited: Awaitable[None]) -> None:
            self._steps = awaited.__await__()

        def __await__(self):  # type: ignore[no-untyped-def] # a generator of what asyncio waits for
            nonlocal steps
            for waited in self._steps:
                steps += 1
                yield waited

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED)
        for number in range(20):
            came.clear()
            writer.write(chunk(b"%d" % number))
            await came.wait()
        writer.write(ALL)

    came = asyncio.Event()
    async with serving(speaker) as client, aiohttp.ClientSession() as session:
        response = await session.post(client.url("chat"), data=b"{}")
        deadline = asyncio.get_running_loop().time() + 30
        await Counted(arrivals.arrivals(response, lambda *_: came.set(), deadline))
    assert steps == 1


async def test_a_connection_serves_one_request_after_the_other() -> None:
    connections = 0

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for number in range(4):
            await asked(reader)
            body = says(f"{number}") + END
            if number % 2:
                writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                continue
            writer.write(CHUNKED + chunk(body[:30]))
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(chunk(body[30:]) + ALL)
        await reader.read()

    async with serving(speaker) as client:
        exchanges = [await client.send(CALL) for _ in range(4)]
    assert [(exchange.text, exchange.failure) for exchange in exchanges] == [(f"{n}", None) for n in range(4)]
    assert connections == 1


async def test_a_body_that_breaks_its_own_form_is_cut() -> None:
    """Not only when the time is over: aiohttp closes the connection, and tells nobody who waits for the body."""
    exchange = await one(answering(CHUNKED, chunk(says("a")), b"zz\r\nwhat is no chunk\r\n"))
    assert (exchange.text, exchange.failure and exchange.failure.kind) == ("a", "cut")


@pytest.mark.parametrize(
    ("parts", "kind", "text"),
    [
        ((CHUNKED, chunk(says("a")), chunk(says("b"))[:-9]), "cut", "a"),
        ((HEAD + b"Content-Length: 1000\r\n\r\n", says("a"), says("b")), "cut", "ab"),
        ((HEAD + b"\r\n", says("a"), says("b")), "cut", "ab"),  # to the end of the connection: no last event came
        ((HEAD + b"\r\n", says("a"), END), None, "a"),
        ((CHUNKED + chunk(says("a")) + chunk(END) + ALL,), None, "a"),
        ((CHUNKED, chunk(says("a") + END), ALL[:3], ALL[3:]), None, "a"),
    ],
)
@pytest.mark.parametrize("tapped", [True, False])
async def test_how_a_body_ends(
    parts: tuple[bytes, ...],
    kind: str | None,
    text: str,
    tapped: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not tapped:
        monkeypatch.setattr(arrivals._Tap, "of", lambda *_: None)
    exchange = await one(answering(*parts))
    assert exchange.text == text
    assert (exchange.failure and exchange.failure.kind) == kind
    assert not caplog.records  # the loop logs what is raised inside it


async def test_an_answer_that_stops_in_the_middle_is_given_up_in_time() -> None:
    gone = asyncio.Event()

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED + chunk(says("a")))
        assert await reader.read() == b""
        gone.set()

    async with serving(speaker, timeout=0.1) as client:
        exchange = await client.send(CALL)
        await asyncio.wait_for(gone.wait(), 10)
    assert (exchange.text, exchange.failure and exchange.failure.kind) == ("a", "timeout")
    assert 0.1 <= exchange.end - exchange.queued < 5


async def test_transports_of_others_are_read_in_the_task_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with uvloop, whose transports are none of asyncio's."""
    monkeypatch.setattr(asyncio, "Transport", type("Other", (), {}))
    taken: list[bytes] = []

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED + chunk(b"a"))
        assert await reader.read() == b""

    async with (
        serving(speaker) as client,
        aiohttp.ClientSession() as session,
        session.post(client.url("chat"), data=b"{}") as response,
    ):
        assert arrivals._Tap.of(response, lambda *_: None) is None
        deadline = asyncio.get_running_loop().time() + 0.1
        with pytest.raises(asyncio.TimeoutError):
            await arrivals.arrivals(response, lambda piece, _: taken.append(piece), deadline)
    assert taken == [b"a"]


async def test_who_is_cancelled_leaves_no_connection() -> None:
    began, gone = asyncio.Event(), asyncio.Event()

    async def speaker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(CHUNKED + chunk(says("a")))
        began.set()
        assert await reader.read() == b""
        gone.set()

    async with serving(speaker) as client:
        task = asyncio.ensure_future(client.send(CALL))
        await began.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 10)


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_that_is_larger_than_what_is_held_of_it(packed: bool) -> None:
    """Reading is paused and goes on, also where a few bytes become many."""
    words = [random.Random(0).choice("abc") * 50_000 for _ in range(60)]
    body = b"".join(map(says, words)) + END
    sent = gzip.compress(body) if packed else body
    head = HEAD + (b"Content-Encoding: gzip\r\n" if packed else b"") + b"Content-Length: %d\r\n\r\n" % len(sent)
    exchange = await one(answering(head, sent[: len(sent) // 2], sent[len(sent) // 2 :]))
    assert exchange.failure is None
    assert exchange.text == "".join(words)
    assert len(exchange.chunks) == 60


async def test_an_error_of_who_takes_is_told() -> None:
    def take(piece: bytes, at: float) -> None:
        raise LookupError(piece.decode())

    async with (
        serving(answering(CHUNKED, chunk(b"x"), ALL)) as client,
        aiohttp.ClientSession() as session,
        session.post(client.url("chat"), data=b"{}") as response,
    ):
        with pytest.raises(LookupError, match="x"):
            await arrivals.arrivals(response, take, asyncio.get_running_loop().time() + 30)
