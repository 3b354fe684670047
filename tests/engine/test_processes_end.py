"""Processes that send, when something goes wrong: nothing hangs, nothing is lost unseen, and none of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

import pytest_kvcache
from pytest_kvcache.client import Call
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import SenderError
from pytest_kvcache.ledger import Ledger
from pytest_kvcache.load import drive
from pytest_kvcache.model import Exchange, Finding, Prompt, Request, Severity
from pytest_kvcache.model.sent import alone
from pytest_kvcache.pace import Pace
from pytest_kvcache.reconcile import Sent, sent
from pytest_kvcache.sending import pool as pool_module
from pytest_kvcache.sending.pool import Pool

from .processes import is_known, lives, open_files

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(os.name != "posix", reason="one process sends there"),
]
CALL = Call("completions", {"model": "m", "prompt": [1, 2, 3]}, "m", prompt_len=3)


class Holding:
    """A server that answers when it is told to."""

    def __init__(self) -> None:
        self.arrived = asyncio.Semaphore(0)
        self.gone = asyncio.Semaphore(0)
        self.release = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.arrived.release()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.gone.release()
            raise
        usage = {"prompt_tokens": 3, "completion_tokens": 1}
        return web.json_response({"choices": [{"text": "x", "finish_reason": "length"}], "usage": usage})

    async def wait(self, requests: int) -> None:
        for _ in range(requests):
            await self.arrived.acquire()


@asynccontextmanager
async def holding() -> AsyncIterator[tuple[Holding, str]]:
    server = Holding()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        server.release.set()
        await runner.cleanup()


# --- a process dies --------------------------------------------------------------------------------------------------


async def test_what_is_in_flight_in_a_process_that_dies_has_failed_and_the_rest_goes_on() -> None:
    async with holding() as (server, url), Pool(Endpoint(url), 3) as pool:
        await pool.begin()
        tasks = [asyncio.ensure_future(pool.send(CALL)) for _ in range(6)]
        await server.wait(6)
        os.kill(pool.pids[1], signal.SIGKILL)
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            more, others = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert len(done) == 2  # each of the three had two
        for task in done:
            lost = task.result()
            assert lost.failure is not None
            assert (lost.failure.kind, lost.failure.message) == ("process", "the process that sent it died")
            assert (lost.sent, lost.prompt_len, lost.e2e) == (lost.queued, 3, None)
            assert lost.queued <= lost.end
            assert sent([lost]) == Sent(0, 3)  # it may have been looked up, or not
        server.release.set()
        later = await asyncio.gather(*others, *(pool.send(CALL) for _ in range(5)))
        assert [e.failure for e in later] == [None] * 9
        load = await pool.end()
        assert load.processes == 2
        assert pool.problem == Finding(
            "KV130",
            "1 of 3 sending processes died (SIGKILL: out of memory?): the load was not the one that was asked for",
            "run it again; where memory is short, with fewer of them (--kv-processes)",
        )
        assert pool.problem.severity is Severity.INVALID
        await pool.begin()
        assert (await pool.end()).processes == 2
        assert pool.problem is None  # the next window has not seen it
    assert not any(map(is_known, pool.pids))


async def test_a_process_that_dies_idle_is_told_too() -> None:
    async with holding() as (_, url), Pool(Endpoint(url), 2) as pool:
        await pool.begin()
        os.kill(pool.pids[0], signal.SIGTERM)
        assert (await pool.end()).processes == 1
        assert pool.problem is not None
        assert "1 of 2 sending processes died (SIGTERM)" in pool.problem.sentence


async def test_without_any_process_the_load_ends() -> None:
    requests = (Request(Prompt((1, 2, 3), None), 1, "load") for _ in range(1000))
    ledger = Ledger()
    async with holding() as (server, url), Pool(Endpoint(url), 2) as pool:

        async def send(request: Request) -> Exchange:
            return await pool.send(CALL)

        driving = asyncio.ensure_future(drive(alone(requests), send, Pace(4), into=ledger))
        await server.wait(4)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(SenderError, match="all sending processes have died") as caught:
            await driving
        assert caught.value.code == "KV130"
        assert {e.failure.kind for e in ledger.exchanges if e.failure} == {"process"}


async def test_a_defect_of_ours_ends_the_process_and_is_named_without_what_it_says() -> None:
    async with holding() as (_, url), Pool(Endpoint(url), 1) as pool:
        await pool.begin()
        exchange = await pool.send(replace(CALL, api="no such form"))
        assert exchange.failure is not None
        assert exchange.failure.kind == "process"
        assert (await pool.end()).processes == 0
        assert pool.problem is not None
        assert "1 of 1 sending processes died (exit status 1, KeyError): the load" in pool.problem.sentence


async def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_GRACE", 0.05)
    monkeypatch.setattr(pool_module, "_LOOK", 0.01)
    async with holding() as (_, url), Pool(Endpoint(url, timeout=0.05), 1) as pool:
        await pool.begin()
        os.kill(pool.pids[0], signal.SIGSTOP)
        exchange = await pool.send(CALL)
        await pool.end()
        assert pool.problem is not None
        assert "(it did not answer)" in pool.problem.sentence
    assert exchange.failure is not None
    assert exchange.failure.kind == "process"
    assert exchange.end - exchange.queued >= 0.1


async def test_a_process_that_does_not_tell_how_busy_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kvcache.sending.sender._REPLY_SECONDS", 0.05)
    async with holding() as (_, url), Pool(Endpoint(url), 2) as pool:
        await pool.begin()
        os.kill(pool.pids[0], signal.SIGSTOP)
        assert (await pool.end()).processes == 1
        assert pool.problem is not None
    assert not any(map(is_known, pool.pids))


# --- it ends before its time -----------------------------------------------------------------------------------------


async def test_cancelled_nothing_is_left() -> None:
    async with holding() as (server, url):
        await asyncio.sleep(0)
        before, pools = open_files(), []

        async def load() -> None:
            async with Pool(Endpoint(url), 2) as pool:
                pools.append(pool)
                await asyncio.gather(*(pool.send(CALL) for _ in range(4)))

        task = asyncio.ensure_future(load())
        await server.wait(4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(4):
            await server.gone.acquire()
        assert not any(map(is_known, pools[0].pids))
        assert open_files() <= before


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_cancelled_while_they_start_nothing_is_left(turns: int) -> None:
    before, pool = open_files(), Pool(Endpoint("http://127.0.0.1:1"), 2)
    task = asyncio.ensure_future(pool.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_known, pool.pids))
    assert open_files() <= before


async def test_they_end_by_themselves_also_when_somebody_else_holds_the_socket() -> None:
    async with Pool(Endpoint("http://127.0.0.1:1"), 1) as pool:
        (sender,) = pool._senders
        held = os.dup(sender._socket.fileno())  # as a fork of this process does
    os.close(held)
    assert sender._process.returncode == 0


async def test_cancelled_again_while_they_end_nothing_is_left() -> None:
    async def load() -> None:
        async with Pool(Endpoint("http://127.0.0.1:1"), 2) as pool:
            pools.append(pool)
            os.kill(pool.pids[0], signal.SIGSTOP)  # so that it does not end by itself
            started.set()
            await asyncio.Event().wait()

    pools: list[Pool] = []
    started, before = asyncio.Event(), open_files()
    task = asyncio.ensure_future(load())
    await started.wait()
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_known, pools[0].pids))
    assert open_files() <= before


PARENT = """
import asyncio, signal, sys
from pytest_kvcache.client import Call
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.sending.pool import Pool

async def main():
    async with Pool(Endpoint(sys.argv[1]), 2) as pool:
        print(*pool.pids, flush=True)
        await asyncio.gather(*(pool.send(Call("chat", {}, "m")) for _ in range(4)))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_they_end_with_their_parent_however_it_ends(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(pytest_kvcache.__file__).parents[1])}
    async with holding() as (server, url):
        parent = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
            [sys.executable, "-c", textwrap.dedent(PARENT), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        await server.wait(4)
        parent.send_signal(number)
        said, _ = await asyncio.to_thread(parent.communicate, timeout=60)
        for _ in range(4):
            await server.gone.acquire()  # none of their requests goes on
    children = [int(pid) for pid in said.split()]
    assert len(children) == 2
    deadline = time.monotonic() + 30
    while any(map(lives, children)):
        assert time.monotonic() < deadline, "a process outlives its parent"


async def test_one_that_was_told_nothing_yet_ends_with_its_parent_too() -> None:
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": str(Path(pytest_kvcache.__file__).parents[1])}
    with theirs:
        child = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
            [sys.executable, "-m", "pytest_kvcache.sending"], stdin=theirs.fileno(), env=environment
        )
    ours.close()
    assert await asyncio.to_thread(child.wait, 60) == 0
