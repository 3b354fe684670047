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

from pytest_kvcache.apis import PATHS
from pytest_kvcache.client import Call, Client, _Body
from pytest_kvcache.endpoint import Endpoint, parse_base_url
from pytest_kvcache.engines.rules import UsageRule
from pytest_kvcache.errors import EndpointError, NoModelList, ProtocolError
from pytest_kvcache.model import Exchange
from pytest_kvcache.replies import readings

pytestmark = pytest.mark.asyncio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CALL = Call("chat", {"model": "m", "stream": True}, prompt_len=10)


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
    assert list(exchange.chunks) == [exchange.first_content]
    assert exchange.last_content == exchange.first_content


async def test_a_large_body_was_sent_when_its_last_part_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("pytest_kvcache.client.time.monotonic", lambda: float(next(clock)))
    parts: list[bytes] = []

    class Writer:
        async def write(self, part: bytes) -> None:
            parts.append(part)

    content = bytes(range(256)) * 9000
    body = _Body(content)
    assert (body.sent, body.size, body.content_type) == (None, len(content), "application/json")
    await body.write(Writer())  # type: ignore[arg-type] # all that is used of one
    assert (b"".join(parts), len(parts), body.sent) == (content, 3, 2.0)


async def test_first_and_last_content_of_a_stream_in_several_pieces() -> None:
    word = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    done = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    exchange = await one(sends(role, word, word + word, word[:20], word[20:] + done))
    assert (exchange.text, len(exchange.chunks), exchange.failure) == ("xxxx", 4, None)
    assert list(exchange.chunks) == sorted(exchange.chunks)
    assert (exchange.first_content, exchange.last_content) == (exchange.chunks[0], exchange.chunks[3])


async def test_a_server_does_not_tell_requests_apart_by_cookies() -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Cookie"))
        response = web.json_response(ANSWERS["chat"])
        response.set_cookie("replica", "1")
        return response

    async with serving(handler) as client:
        client.endpoint = Endpoint(client.endpoint.base.replace("127.0.0.1", "localhost"))
        await client.send(CALL)
        await client.send(CALL)
    assert seen == [None, None]


async def test_requests_share_connections() -> None:
    ports: set[object] = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return await sends(b'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')(request)

    async with serving(handler) as client:
        for _ in range(5):
            assert (await client.send(CALL)).ok
    assert len(ports) == 1


async def test_whole_answers() -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}}
    exchange = await one(answers(body=json.dumps(body).encode(), **{"Content-Type": "application/json"}))
    assert exchange.ok
    assert (exchange.text, exchange.prompt_tokens, exchange.cached_tokens) == ("hi", 4, None)
    assert (exchange.ttft, len(exchange.chunks)) == (None, 0)  # it came at once: no token was first
    assert (exchange.first_content, exchange.last_content) == (None, None)


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


async def test_a_prompt_that_a_server_quotes_stays_out_of_the_failure() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:  # as FastAPI tells of a body that it cannot validate
        detail = [{"type": "missing", "loc": ["body", "x"], "msg": "Field required", "input": await request.json()}]
        return web.json_response({"error": {"message": str(detail)}}, status=400)

    messages = [
        {"role": "user", "content": "the record of a patient\nand more of it"},
        {"role": "user", "content": "no"},
    ]
    exchange = await one(handler, Call("chat", {"model": "m", "messages": messages}))
    assert exchange.failure is not None
    assert exchange.failure.message == (
        "HTTP 400: [{'type': 'missing', 'loc': ['body', 'x'], 'msg': 'Field required', 'input': {'model': 'm',"
        " 'messages': [{'role': 'user', 'content': [prompt]}, {'role': 'user', 'content': [prompt]}]}}]"
    )


async def test_credentials_go_to_our_own_host_only() -> None:
    endpoint = Endpoint("http://me:pw@a:1", headers=(("X-T", "t"),))
    assert endpoint.headers_for("http://a:9/metrics") == {"Authorization": "Basic bWU6cHc=", "X-T": "t"}
    assert endpoint.headers_for("http://b/metrics") == {}
    assert endpoint.headers_for("http://x:y@b/metrics") == {"Authorization": "Basic eDp5"}
    assert Endpoint("http://a", api_key="k").headers_for("http://a/v1") == {"Authorization": "Bearer k"}


async def test_a_key_goes_where_the_provider_wants_it() -> None:
    endpoint = Endpoint("http://a", api_key="k", headers=(("Anthropic-Version", "mine"),))
    wanted = {"anthropic-version": "2023-06-01", "x-more": "1"}
    assert endpoint.headers_for("http://a/v1", "x-api-key", wanted) == {
        "x-api-key": "k",
        "Anthropic-Version": "mine",
        "x-more": "1",
    }
    assert endpoint.headers_for("http://b/v1", "x-api-key", wanted) == {}
    assert endpoint.headers_for("http://a/v1", "authorization")["authorization"] == "Bearer k"
    own = Endpoint("http://a", api_key="k", headers=(("authorization", "Basic x"),))
    assert own.headers_for("http://a/v1") == {"authorization": "Basic x"}


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        (answers(404, b'{"detail":"Not Found"}'), NoModelList, "answered 404: Not Found; expected a list of models"),
        (answers(405, b""), NoModelList, r"answered 405: \(empty body\); expected a list of models"),
        (answers(500, b"no"), EndpointError, "answered 500: no; expected a list of models"),
        (answers(200, b"hello"), ProtocolError, "expected JSON"),
        (answers(200, b"[]"), ProtocolError, "expected an object with a list of models under 'data'"),
        (answers(200, b'{"data":[{"name":"x"}]}'), ProtocolError, "a list of models"),
    ],
)
async def test_model_list_that_is_none(handler: Handler, error: type[Exception], message: str) -> None:
    async with serving(handler) as client:
        with pytest.raises(error, match=message.replace("'", "'")):
            await client.models()


# --- forms -----------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, Any] = {
    "completions": {"choices": [{"text": "hi", "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}},
    "chat": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"text": "hi"}]}],
        "usage": {"input_tokens": 4},
    },
    "messages": {
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 0},
    },
    "generate": {"text": "hi", "meta_info": {"prompt_tokens": 4, "finish_reason": {"type": "stop"}}},
    "completion": {"content": "hi", "stop": True, "tokens_evaluated": 4},
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 4},
    },
    "converse": {
        "output": {"message": {"content": [{"text": "hi"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 4, "cacheReadInputTokens": 0},
    },
    "ollama": {"response": "hi", "done": True, "done_reason": "stop", "prompt_eval_count": 4},
}


@pytest.mark.parametrize("base", ["/gw/m", "/gw/m/", "/gw/m/v1", "/gw/m/v1/chat/completions"])
@pytest.mark.parametrize("api", sorted(PATHS))
async def test_every_form_has_one_url_however_the_base_was_written(api: str, base: str) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.raw_path)
        return web.json_response(ANSWERS[api])

    async with serving(handler) as client:
        client.endpoint = Endpoint(parse_base_url(client.endpoint.base + base, "a test"))
        exchange = await client.send(Call(api, {}, model="a/b c", lookups=3))
    assert asked == [f"/gw/m{PATHS[api]}".replace("{model}", "a%2Fb%20c")]
    assert (exchange.failure, exchange.text, exchange.prompt_tokens, exchange.lookups) == (None, "hi", 4, 3)


async def test_usage_by_rules_in_body_and_headers() -> None:
    body = {**ANSWERS["chat"], "usage": {"prompt_tokens": 4, "c": 3, "w": 2, "completion_tokens": 1}}
    told = UsageRule(api="chat", prompt=("usage.prompt_tokens",), cached=("usage.c",), written=("usage.w",))
    call = Call("chat", {}, usage=readings("chat", (told.model_copy(update={"prompt_is": "uncached"}),)))
    exchange = await one(answers(body=json.dumps(body).encode(), **{"Content-Type": "application/json"}), call)
    assert (exchange.prompt_tokens, exchange.cached_tokens, exchange.written_tokens) == (9, 3, 2)
    assert exchange.completion_tokens == 1
    header = UsageRule(api="chat", prompt=("x-prompt",), cached=("x-cached",), headers=True)
    exchange = await one(
        answers(body=json.dumps(body).encode(), **{"X-Prompt": "80", "X-Cached": "64"}),
        Call("chat", {}, usage=readings("chat", (header,))),
    )
    assert (exchange.prompt_tokens, exchange.cached_tokens, exchange.failure) == (80, 64, None)


async def test_usage_that_is_no_number_fails_the_request() -> None:
    body = {**ANSWERS["chat"], "usage": {"prompt_tokens": True}}
    exchange = await one(answers(body=json.dumps(body).encode()))
    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.ok, exchange.prompt_tokens) == ("protocol", False, None)
    assert exchange.failure.message == "usage.prompt_tokens: expected a whole number of tokens, got True"


async def test_every_request_carries_what_the_provider_wants() -> None:
    seen: list[tuple[str, ...]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(
            tuple(request.headers.get(name, "-") for name in ("x-api-key", "authorization", "anthropic-version"))
        )
        return web.json_response(ANSWERS["messages"])

    async with serving(handler, api_key="k") as client:
        await client.get(client.endpoint.route("/metrics"))
        client.speak("x-api-key", {"anthropic-version": "2023-06-01"})
        await client.send(Call("messages", {}))
        await client.get(client.endpoint.route("/metrics"))
    assert seen == [("-", "Bearer k", "-"), ("k", "-", "2023-06-01"), ("k", "-", "2023-06-01")]


async def test_halves_of_surrogate_pairs_in_a_message_can_be_printed() -> None:
    exchange = await one(answers(400, rb'{"error":{"message":"bad \ud800 text"}}'))
    assert exchange.failure is not None
    assert exchange.failure.message == "HTTP 400: bad ? text"


# --- redirects -------------------------------------------------------------------------------------------------------


def redirecting(status: int, target: Callable[[web.Request], str], seen: list[str]) -> Handler:
    """Every path but /end points to ``target``."""

    async def handler(request: web.Request) -> web.StreamResponse:
        body = (await request.read()).decode()
        seen.append(f"{request.method} {request.path} {request.headers.get('authorization')} {body[:20]}".strip())
        if request.path == "/end":
            return web.json_response(ANSWERS["chat"])
        return web.Response(status=status, headers={"Location": target(request)})

    return handler


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_page_behind_a_redirect_is_read(status: int) -> None:
    seen: list[str] = []
    async with serving(redirecting(status, lambda _: "/end", seen), api_key="k") as client:
        page = await client.get(client.endpoint.route("/metrics"))
    assert (page.status, json.loads(page.text)) == (200, ANSWERS["chat"])
    assert seen == ["GET /metrics Bearer k", "GET /end Bearer k"]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://other.invalid/metrics?key=1", "http://other.invalid/metrics:"),
        ("http://u:p@other.invalid/metrics", "http://other.invalid/metrics:"),
        ("https://127.0.0.1:{port}/metrics", "https://127.0.0.1:{port}/metrics:"),
        ("http://127.0.0.1:1/metrics", "http://127.0.0.1:1/metrics:"),
        ("//localhost:{port}/metrics", "http://localhost:{port}/metrics:"),
        ("http://[bad/metrics", "what is no URL:"),
        ("http://127.0.0.1:99999/metrics", "what is no URL:"),
    ],
)
async def test_a_redirect_to_another_origin_is_refused(location: str, shown: str) -> None:
    seen: list[str] = []
    handler = redirecting(307, lambda r: location.replace("{port}", str(r.url.port)), seen)
    async with serving(handler, api_key="sk-secret") as client:
        port = client.endpoint.base.rpartition(":")[2]
        with pytest.raises(EndpointError) as caught:
            await client.get(client.endpoint.route("/metrics"))
        assert f"is redirected to {shown.replace('{port}', port)} another origin" in str(caught.value)
        exchange = await client.send(CALL)
        with pytest.raises(EndpointError, match="another origin"):
            await client.post(client.endpoint.route("/reset"))
    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.status) == ("http", 307)
    assert "another origin" in exchange.failure.message
    assert len(seen) == 3  # nothing came back here, either


async def test_redirects_end() -> None:
    seen: list[str] = []
    async with serving(redirecting(307, lambda r: f"{r.path}x", seen)) as client:
        with pytest.raises(EndpointError, match="more than 5 redirects"):
            await client.get(client.endpoint.route("/a"))
        assert [line.split()[1] for line in seen] == ["/a", "/ax", "/axx", "/axxx", "/axxxx", "/axxxxx"]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("size", [1, 1 << 21])
async def test_a_post_is_repeated_at_the_same_origin_as_it_was(status: int, size: int) -> None:
    seen: list[str] = []
    async with serving(redirecting(status, lambda _: "/end", seen)) as client:
        exchange = await client.send(Call("chat", {"prompt": "x" * size}))
    assert (exchange.failure, exchange.text, exchange.status) == (None, "hi", 200)
    body = json.dumps({"prompt": "x" * size}, separators=(",", ":"))[:20]
    assert seen == [f"POST /v1/chat/completions None {body}", f"POST /end None {body}"]


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_never_becomes_something_else(status: int) -> None:
    seen: list[str] = []
    async with serving(redirecting(status, lambda _: "/end", seen)) as client:
        exchange = await client.send(CALL)
        with pytest.raises(EndpointError, match=f"a POST is not repeated after HTTP {status}"):
            await client.post(client.endpoint.route("/reset"))
    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.status, len(seen)) == ("http", status, 2)


async def test_compressed_pages_are_undone_whatever_was_asked() -> None:
    async with serving(answers(body=gzip.compress(b"a 1\n"), **{"Content-Encoding": "gzip"})) as client:
        page = await client.get(client.endpoint.route("/metrics"))
        client.speak("Authorization", {"Accept-Encoding": "identity"})
        again = await client.get(client.endpoint.route("/metrics"))
    assert (page.text, again.text) == ("a 1\n", "a 1\n")
