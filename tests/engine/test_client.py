"""The client against a server that sends exactly the bytes a test wants, piece by piece."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from pytest_kvcache.client import Call, Client
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import EndpointError, ProtocolError
from pytest_kvcache.load import closed_loop, in_order
from pytest_kvcache.model import Exchange

pytestmark = pytest.mark.asyncio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CALL = Call("chat/completions", {"model": "m", "stream": True}, prompt_len=10)


@asynccontextmanager
async def serving(handler: Handler, **endpoint: Any) -> AsyncIterator[Client]:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Client(Endpoint(f"http://127.0.0.1:{port}", **endpoint)) as client:
            yield client
    finally:
        await runner.cleanup()


def sends(*pieces: bytes, content_type: str = "text/event-stream") -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return handler


def answers(status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    return handler


async def one(handler: Handler, call: Call = CALL, **endpoint: Any) -> Exchange:
    async with serving(handler, **endpoint) as client:
        return await client.send(call)


CRLF = (
    b': keep-alive\r\n\r\ndata: {"choices":[\r\ndata: {"index":0,"delta":{"content":"a"}}]}\r\n\r\n'
    b'data:{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\r\n\r\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":8}}}\r\n\r\ndata: [DONE]\r\n\r\n'
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_stream_in_pieces_of_any_size(size: int) -> None:
    exchange = await one(sends(*(CRLF[i : i + size] for i in range(0, len(CRLF), size))))
    assert exchange.ok
    assert (exchange.text, exchange.prompt_tokens, exchange.cached_tokens) == ("ab", 10, 8)
    assert (exchange.completion_tokens, exchange.finish_reason, len(exchange.chunks)) == (2, "stop", 2)


async def test_stamps_are_in_order_and_ttft_counts_from_the_body_sent() -> None:
    arrived: list[float] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        arrived.append(time.monotonic())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n')
        await asyncio.sleep(0.05)
        await response.write(b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n')
        return response

    call = Call("completions", {"prompt": "x" * 3_000_000})
    exchange = await one(handler, call)
    assert exchange.sent is not None
    assert exchange.first_content is not None
    assert exchange.queued < exchange.sent < exchange.first_content <= exchange.end
    assert exchange.first_content - arrived[0] >= 0.05
    assert exchange.ttft is not None
    assert exchange.ttft >= 0.045  # the role event is no token
    assert exchange.chunks == (exchange.first_content,)


async def test_whole_answers() -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}}
    exchange = await one(answers(body=json.dumps(body).encode(), **{"Content-Type": "application/json"}))
    assert exchange.ok
    assert (exchange.text, exchange.prompt_tokens, exchange.cached_tokens) == ("hi", 4, None)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_compressed_answers_are_undone(kind: str) -> None:
    text = b'{"choices":[{"text":"hi","finish_reason":"stop"}]}'
    body = text if kind == "application/json" else b"data: " + text + b"\n\n"
    exchange = await one(answers(body=gzip.compress(body), **{"Content-Type": kind, "Content-Encoding": "gzip"}))
    assert (exchange.text, exchange.failure) == ("hi", None)


@pytest.mark.parametrize(
    ("handler", "kind", "message"),
    [
        (answers(429, b'{"error":{"message":"slow down"}}'), "http", "HTTP 429: slow down"),
        (
            answers(503, b"<html><title>Bad Gateway</title></html>"),
            "http",
            "HTTP 503: an HTML page titled 'Bad Gateway'",
        ),
        (answers(500, b""), "http", "HTTP 500: (empty body)"),
        (answers(400, b'{"detail":[{"msg":"bad"}]}'), "http", "HTTP 400: [{'msg': 'bad'}]"),
        (
            answers(200, b"<html></html>", **{"Content-Type": "text/html"}),
            "protocol",
            "expected JSON, got an HTML page",
        ),
        (answers(200, b"nope", **{"Content-Type": "application/json"}), "protocol", "not JSON"),
        (answers(200, b"{}", **{"Content-Type": "application/json"}), "cut", "without a finish reason"),
        (sends(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'), "cut", "without a finish reason"),
        (sends(b'data: {"error":{"message":"died"}}\n\n'), "server", "died"),
        (sends(b"data: {broken\n\ndata: [DONE]\n\n"), "protocol", "not JSON"),
    ],
)
async def test_what_servers_do_wrong_is_data(handler: Handler, kind: str, message: str) -> None:
    exchange = await one(handler)
    assert exchange.failure is not None
    assert exchange.failure.kind == kind
    assert message in exchange.failure.message
    assert "\n" not in exchange.failure.message


@pytest.mark.parametrize(
    ("header", "wait"), [("2", 2.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)]
)
async def test_retry_after(header: str, wait: float | None) -> None:
    exchange = await one(answers(429, b"", **{"Retry-After": header}))
    assert exchange.failure is not None
    assert exchange.failure.retry_after == wait


async def test_a_connection_that_breaks_inside_the_answer() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        assert request.transport is not None
        request.transport.abort()
        return response

    exchange = await one(handler)
    assert exchange.failure is not None
    assert exchange.failure.kind == "cut"
    assert exchange.text == "a"


async def test_nobody_listens_and_too_slow() -> None:
    async with Client(Endpoint("http://127.0.0.1:1")) as client:
        exchange = await client.send(CALL)
    assert exchange.failure is not None
    assert exchange.failure.kind == "connect"
    assert exchange.sent is None

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    exchange = await one(handler, timeout=0.1)
    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.failure.message) == ("timeout", "no complete answer within 0.1 s")


async def test_secrets_that_a_server_echoes_are_taken_out() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text=f"bad key {request.headers['Authorization']} {request.headers['X-Team']}")

    exchange = await one(handler, api_key="sk-secret-key", headers=(("X-Team", "team-secret"),))
    assert exchange.failure is not None
    assert exchange.failure.message == "HTTP 401: bad key Bearer *** ***"


async def test_credentials_go_to_our_own_host_only() -> None:
    endpoint = Endpoint("http://me:pw@a:1", headers=(("X-T", "t"),))
    assert endpoint.headers_for("http://a:9/metrics") == {"Authorization": "Basic bWU6cHc=", "X-T": "t"}
    assert endpoint.headers_for("http://b/metrics") == {}
    assert endpoint.headers_for("http://x:y@b/metrics") == {"Authorization": "Basic eDp5"}
    assert Endpoint("http://a", api_key="k").headers_for("http://a/v1") == {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        (answers(404, b'{"detail":"Not Found"}'), EndpointError, "answered 404: Not Found; expected a list of models"),
        (answers(200, b"hello"), ProtocolError, "expected JSON"),
        (answers(200, b"[]"), ProtocolError, "expected an object with a list of models under 'data'"),
        (answers(200, b'{"data":[{"name":"x"}]}'), ProtocolError, "a list of models"),
    ],
)
async def test_model_list_that_is_none(handler: Handler, error: type[Exception], message: str) -> None:
    async with serving(handler) as client:
        with pytest.raises(error, match=message.replace("'", "'")):
            await client.models()


async def test_closed_loop_keeps_the_number_in_flight_and_loses_nothing() -> None:
    flying, most = 0, 0

    async def send(call: Call) -> Exchange:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.001 * (call.prompt_len or 0) % 3)
        flying -= 1
        return Exchange("load", 0.0, 0.0, prompt_len=call.prompt_len)

    done: dict[int, Exchange] = {}
    told: list[int] = []
    calls = (Call("x", {}, prompt_len=n) for n in range(50))
    await closed_loop(calls, send, concurrency=7, into=done, progress=told.append)
    assert [e.prompt_len for e in in_order(done)] == list(range(50))
    assert most == 7
    assert told == list(range(1, 51))


async def test_a_cancelled_loop_keeps_what_it_has() -> None:
    release = asyncio.Event()

    async def send(call: Call) -> Exchange:
        if (call.prompt_len or 0) >= 5:
            await release.wait()
        return Exchange("load", 0.0, 0.0, prompt_len=call.prompt_len)

    done: dict[int, Exchange] = {}
    calls = (Call("x", {}, prompt_len=n) for n in range(50))
    task = asyncio.ensure_future(closed_loop(calls, send, concurrency=2, into=done))
    while len(done) < 5:  # noqa: ASYNC110 - an event would have to be set inside the loop under test
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert len(asyncio.all_tasks()) == 1
