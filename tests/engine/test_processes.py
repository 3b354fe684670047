"""The same load from one process and from several: what is sent, in which order, and what is counted are the same."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from pytest_kvcache import experiment
from pytest_kvcache.calls import Calls
from pytest_kvcache.client import Call, Client
from pytest_kvcache.distribution import Latency
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.engines import shipped
from pytest_kvcache.experiment import Plan
from pytest_kvcache.ledger import Ledger
from pytest_kvcache.load import drive
from pytest_kvcache.lookups import by_time
from pytest_kvcache.model import Exchange, Request
from pytest_kvcache.pace import Pace
from pytest_kvcache.reconcile import sent
from pytest_kvcache.replies import readings
from pytest_kvcache.replies.usage import declared
from pytest_kvcache.sending.pool import Pool
from pytest_kvcache.site import Site
from pytest_kvcache.target import inspect
from pytest_kvcache.workloads.shapes import SharedPrefix

from .wire import Wire

pytestmark = pytest.mark.asyncio
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ENDPOINT = Endpoint("http://127.0.0.1:1", timeout=60.0)


class Run(NamedTuple):
    ledger: Ledger
    moved: dict[str, float]


async def run(url: str, processes: int, concurrency: int, workload: SharedPrefix) -> Run:
    """Play a workload on a cold cache, its load from so many processes; with none from this one, without a pool."""
    server = Wire(url)
    server.raw("/reset_prefix_cache", {})
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(Endpoint(url)))
        target = await inspect(client)
        calls = Calls(target.profile, target.facts)
        composed = await workload.bind(Site(client, target, calls, "nonce"))
        for request in composed.prefill():
            assert (await client.send(calls(request))).ok
        before, ledger = server.counters(), Ledger()
        send = client.send
        if processes:
            send = (await stack.enter_async_context(Pool(client.endpoint, processes))).send

        async def one(request: Request) -> Exchange:
            return await send(calls(request))

        await drive(composed.sessions(), one, Pace(concurrency), into=ledger)
        return Run(ledger, server.moved(before))


def told(exchange: Exchange) -> Exchange:
    """An exchange without its times."""
    stamps = dict.fromkeys(("sent", "first_content", "last_content"), None)
    return replace(exchange, queued=0.0, end=0.0, chunks=(), **stamps)


async def test_one_after_the_other_all_is_the_same_whoever_sends(start_sim: Callable[..., str]) -> None:
    workload = SharedPrefix(requests=12, input_len=100, prefix_len=64, prefixes=3, output_len=3, prefill=False)
    url = start_sim()
    alone = await run(url, 0, 1, workload)
    exchanges = list(alone.ledger.exchanges)
    # Each prefix is computed once and found three times; nobody else's tokens may be among the counted ones.
    assert [e.cached_tokens for e in exchanges] == [0, 0, 0, *[64] * 9]
    assert (alone.moved["q"], alone.moved["h"]) == (1200, 576)
    for processes in (1, 2, 3):
        several = await run(url, processes, 1, workload)
        assert list(map(told, several.ledger.exchanges)) == list(map(told, exchanges))
        assert by_time(several.ledger.exchanges) == list(range(12))
        assert several.moved == alone.moved
        assert sent(several.ledger.exchanges) == sent(exchanges)
        assert len(several.ledger.gaps) == len(alone.ledger.gaps) == 24
        assert several.ledger.produced.between(0.0, 1e12) == 36


async def test_many_at_a_time_the_sets_are_the_same(start_sim: Callable[..., str]) -> None:
    workload = SharedPrefix(requests=60, input_len=(64, 128), hit_rate=0.5, prefixes=4, output_len=2, prefill=True)
    url = start_sim()
    alone = await run(url, 0, 8, workload)
    assert len(alone.ledger) == 60
    for processes in (2, 3):
        several = await run(url, processes, 8, workload)
        assert list(map(told, several.ledger.exchanges)) == list(map(told, alone.ledger.exchanges))
        assert several.moved == alone.moved


async def test_a_measurement_is_as_exact(start_sim: Callable[..., str]) -> None:
    url, measured = start_sim(), []
    for processes in (1, 3):
        workload = SharedPrefix(requests=40, input_len=200, hit_rate=0.64, prefixes=2, output_len=2)
        plan = Plan(nonce="nonce", pace=Pace(4), reset="require", processes=processes)
        measured.append(await experiment.run(Endpoint(url), workload, plan))
    alone, several = measured
    assert (alone.client and alone.client.processes, several.client and several.client.processes) == (1, 3)
    assert several.engines == alone.engines
    assert several.prediction == alone.prediction
    assert [e.cached_tokens for e in several.exchanges] == [128] * 40
    assert several.prediction is not None
    assert several.prediction.hit_tokens == several.counters.hit == 40 * 128
    assert several.findings == ()
    assert several.client is not None
    assert len(several.client.queueing) == 40
    assert several.client.busy is not None


# --- what a server sees ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


EVENTS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_token_ids": [5, 6, 7]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "höm "}}]},
    {"choices": [{"index": 0, "delta": {"content": "a\u2028b"}, "token_ids": [11, 12]}]},
    {"choices": [{"index": 0, "delta": {"content": "\ud83d half"}, "token_ids": [13]}]},
    {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"q": "x"}'}},
                    ]
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    {
        "choices": [],
        "usage": {"prompt_tokens": 3, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
    },
]
STREAM = "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS) + "data: [DONE]\n\n"
CALL = Call("chat", {"model": "m", "messages": [{"role": "user", "content": "secret words"}], "stream": True}, "m")


async def whole(request: web.Request) -> web.StreamResponse:
    return web.Response(body=STREAM.encode(), content_type="text/event-stream")


async def cut(request: web.Request) -> web.StreamResponse:
    return web.Response(
        body=STREAM.partition("data: {")[0].encode() + STREAM[:180].encode(), content_type="text/event-stream"
    )


async def refused(request: web.Request) -> web.StreamResponse:
    said = {"error": {"message": f"no: {await request.text()} {request.headers['Authorization']}"}}
    return web.json_response(said, status=429, headers={"Retry-After": "7"})


async def elsewhere(request: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://elsewhere.invalid/"})


async def nonsense(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"data: {no json\n\n", content_type="text/event-stream")


async def broken(request: web.Request) -> web.StreamResponse:
    said = 'data: {"error": {"message": "engine died"}}\n\n'
    return web.Response(body=said.encode(), content_type="text/event-stream")


OUTCOMES = {
    "whole": (whole, None),
    "cut": (cut, "cut"),
    "refused": (refused, "http"),
    "elsewhere": (elsewhere, "http"),
    "nonsense": (nonsense, "protocol"),
    "broken": (broken, "server"),
}


async def test_every_outcome_is_that_of_the_client() -> None:
    async def any_of_them(request: web.Request) -> web.StreamResponse:
        return await OUTCOMES[(await request.json())["model"]][0](request)

    async with served(any_of_them) as url:
        endpoint = Endpoint(url, api_key="sk-very-secret")
        async with Client(endpoint) as client, Pool(endpoint, 1) as pool:
            for name, (_, kind) in OUTCOMES.items():
                call = replace(CALL, body={**CALL.body, "model": name})
                alone, there = await client.send(call), await pool.send(call)
                assert told(there) == told(alone)
                assert (None if there.failure is None else there.failure.kind) == kind, name
                assert "secret" not in str(there)
                assert there.queued <= (there.sent or there.queued) <= there.end
                assert len(there.chunks) == len(alone.chunks)
                assert ("elsewhere.invalid" in str(there)) == (name == "elsewhere")


async def outcome(handler: Handler, call: Call = CALL) -> Exchange:
    async with served(handler) as url, Pool(Endpoint(url), 1) as pool:
        return await pool.send(call)


async def test_what_an_agent_needs_of_an_answer_comes_through() -> None:
    exchange = await outcome(whole, replace(CALL, prompt_len=3, session=4, turn=5, phase="prefill", lookups=2))
    assert (exchange.text, exchange.reasoning) == ("a\u2028b\ud83d half", "höm ")
    assert exchange.tool_calls[0]["function"] == {"name": "look", "arguments": '{"q": "x"}'}
    assert (list(exchange.prompt_ids or ()), list(exchange.output_ids or ())) == ([5, 6, 7], [11, 12, 13])
    assert (exchange.prompt_tokens, exchange.cached_tokens, exchange.completion_tokens) == (3, 2, 3)
    assert (exchange.session, exchange.turn, exchange.phase, exchange.lookups, exchange.prompt_len) == (
        4,
        5,
        "prefill",
        2,
        3,
    )
    assert (exchange.finish_reason, exchange.status) == ("tool_calls", 200)
    assert len(exchange.chunks) == 4
    assert (exchange.first_content, exchange.last_content) == (exchange.chunks[0], exchange.chunks[-1])


async def test_each_call_has_its_own_way_to_read_usage() -> None:
    uncached = declared(readings("chat"), prompt_is="uncached")
    async with served(whole) as url, Pool(Endpoint(url), 1) as pool:
        told = [await pool.send(replace(CALL, usage=usage)) for usage in ((), uncached, (), uncached)]
    assert [e.prompt_tokens for e in told] == [3, 5, 3, 5]


async def test_nobody_listens_too_slow_and_no_json() -> None:
    released = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    nobody = Endpoint("http://127.0.0.1:1")
    async with Pool(nobody, 1) as pool, Client(nobody) as client:
        for call in (CALL, replace(CALL, body={"prompt": object()})):
            assert told(await pool.send(call)) == told(await client.send(call))
    async with served(slow) as url, Pool(Endpoint(url, timeout=0.1), 1) as pool:
        failure = (await pool.send(CALL)).failure
        released.set()
    assert failure is not None
    assert failure.kind == "timeout"


async def test_the_same_bytes_with_the_same_headers() -> None:
    seen: list[tuple[str, bytes, dict[str, str]]] = []

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append((request.path_qs, await request.read(), dict(request.headers)))
        return await whole(request)

    speaking: dict[str, Any] = {
        "auth": "X-Key",
        "headers": {"X-Version": "7"},
        "paths": {"chat": "/own/{model}/chat"},
        "auth_for": {"completions": "Authorization"},
        "keep_alive": False,
    }
    calls = [
        CALL,
        replace(CALL, api="completions", body={"model": "m", "prompt": list(range(500)), "x": {"y": [1.5, None]}}),
        replace(CALL, body={"prompt": "ü\n" * 300}, usage=readings("chat", (r for p in shipped() for r in p.usage))),
    ]
    async with served(note) as url:
        endpoint = Endpoint(f"{url}/gw", api_key="sk-very-secret", headers=(("X-Own", "own-value"),))
        async with Client(endpoint) as client, Pool(endpoint, 1, speaking) as pool:
            client.speak(**speaking)
            for send in (client.send, pool.send):
                for call in calls:
                    assert (await send(call)).ok
    assert seen[:3] == seen[3:]
    assert [path for path, *_ in seen[:3]] == ["/gw/own/m/chat", "/gw/v1/completions", "/gw/own/m/chat"]
    assert seen[0][2]["X-Key"] == "sk-very-secret"


async def test_the_process_with_the_fewest_in_flight_gets_the_next() -> None:
    """Told by their connections: each process keeps its own alive and opens another only when that is in use."""
    open_now: Counter[Any] = Counter()
    waiting: list[asyncio.Future[None]] = []
    arrived = asyncio.Semaphore(0)

    async def hold(request: web.Request) -> web.StreamResponse:
        open_now[request.transport] += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        arrived.release()
        await future
        return await whole(request)

    async with served(hold) as url, Pool(Endpoint(url), 3) as pool:
        for _ in range(4):  # one after the other: each of the three in turn, and the first again
            task = asyncio.ensure_future(pool.send(CALL))
            await arrived.acquire()
            waiting.pop().set_result(None)
            assert (await task).ok
        assert sorted(open_now.values()) == [1, 1, 2]
        tasks = [asyncio.ensure_future(pool.send(CALL)) for _ in range(6)]
        for _ in tasks:
            await arrived.acquire()
        assert len(open_now) == 6  # two in each, so each opened one more
        for future in waiting:
            future.set_result(None)
        assert all(e.ok for e in await asyncio.gather(*tasks))


async def test_a_request_that_is_cancelled_ends_at_the_server_and_the_others_do_not() -> None:
    ended: list[str] = []
    arrived, over = asyncio.Semaphore(0), asyncio.Event()

    async def hold(request: web.Request) -> web.StreamResponse:
        name = (await request.json())["name"]
        arrived.release()
        try:
            if name == "kept":
                await over.wait()
            else:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(name)
            over.set()
            raise
        return await whole(request)

    async with served(hold) as url, Pool(Endpoint(url), 1) as pool:
        kept, dropped = (
            asyncio.ensure_future(pool.send(replace(CALL, body={"name": name}))) for name in ("kept", "dropped")
        )
        await arrived.acquire()
        await arrived.acquire()
        dropped.cancel()
        assert (await kept).ok
        assert ended == ["dropped"]
        assert dropped.cancelled()


async def test_how_busy_the_processes_were(sim: str) -> None:
    call = Call("completions", {"model": "sim", "prompt": [1, 2, 3], "max_tokens": 1}, "sim")
    async with Pool(Endpoint(sim), 2) as pool:
        await pool.begin()
        assert all(e.ok for e in await asyncio.gather(*(pool.send(call) for _ in range(50))))
        load = await pool.end(Latency.of([1.0]))
        assert (load.processes, pool.problem, load.queueing.max) == (2, None, 1.0)
        assert load.busy is not None
        assert 0 < load.busy < 2
        await pool.begin()
        until = time.monotonic() + 0.25
        while time.monotonic() < until:  # how late they wake is looked at every 50 ms
            await pool.send(call)
        assert len((await pool.end()).lag) > 0


async def test_a_window_that_was_broken_off_is_forgotten(sim: str) -> None:
    async with Pool(Endpoint(sim), 1) as pool:
        assert (await pool.end()).busy is None  # none has begun
        await pool.begin()
        await pool.begin()
        assert (await pool.end()).busy is not None
        await pool.begin()
        ending = asyncio.ensure_future(pool.end())
        await asyncio.sleep(0)
        ending.cancel()  # its reply comes, and is nobody's
        await pool.begin()
        assert (await pool.end()).processes == 1
