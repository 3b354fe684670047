"""Processes that send, when something goes wrong: nothing hangs, nothing is lost unseen, and none of them is left."""

from __future__ import annotations

import asyncio
import gc
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
from types import SimpleNamespace

import pytest
from aiohttp import web

import pytest_kvcache
from pytest_kvcache.client import Call
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import ConfigurationError, SenderError
from pytest_kvcache.ledger import Ledger
from pytest_kvcache.load import drive
from pytest_kvcache.model import Exchange, Finding, Prompt, Request, Severity
from pytest_kvcache.model.sent import alone
from pytest_kvcache.pace import Pace
from pytest_kvcache.reconcile import Sent, sent
from pytest_kvcache.sending import pool as pool_module
from pytest_kvcache.sending.pool import Pool
from pytest_kvcache.sending.sender import _environment

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(os.name != "posix", reason="one process sends there"),
]
CALL = Call("completions", {"model": "m", "prompt": [1, 2, 3]}, "m", prompt_len=3)
PROC = Path("/proc/self/environ").exists()


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


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked for its status does not."""
    if PROC:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return told.strip()[:1] not in ("", "Z")


def is_known(pid: int) -> bool:
    """Whether the system knows a process of ours: a zombie too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def open_files() -> int:
    gc.collect()
    return sum(1 for _ in Path("/dev/fd").iterdir())


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


def seen_by_others(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))


def folder_of(pid: int) -> Path | None:
    return Path(f"/proc/{pid}/cwd").resolve() if PROC else None


# --- how it starts ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not PROC, reason="it shows what others see of a process")
async def test_no_secret_is_in_what_others_see_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OWN_HEADER", "X-Own: token-of-the-header")
    monkeypatch.setenv("HARMLESS", "stays")
    endpoint = Endpoint(
        "http://user:pass-of-the-url@127.0.0.1:1",
        api_key="sk-very-secret",
        headers=(("X-Own", "token-of-the-header"),),
    )
    async with Pool(endpoint, 1, {"auth": "X-Key", "headers": {"X-More": "1"}}) as pool:
        shown = seen_by_others(pool.pids[0])
    assert b"HARMLESS=stays" in shown
    for secret in (b"sk-very-secret", b"token-of-the-header", b"pass-of-the-url"):
        assert secret not in shown


async def test_what_a_process_needs_stays_whatever_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lib = str(Path("lib").absolute())  # noqa: ASYNC240 - nothing else runs
    monkeypatch.setenv("PATH", "/root-user/bin")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["lib", "", "/abs"]))
    environment = _environment(Endpoint("http://root-user@h"))
    assert environment["PATH"] == "/root-user/bin"
    # It starts in another folder, so relative ones are made whole; an empty one would be that folder.
    assert environment["PYTHONPATH"] == os.pathsep.join([lib, "/abs"])


async def test_files_of_the_users_folder_stand_for_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aiohttp", "json", "pydantic", "pytest_kvcache"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    here = folder_of(os.getpid())
    async with Pool(Endpoint("http://127.0.0.1:1"), 1) as pool:
        failure = (await pool.send(CALL)).failure
        assert failure is not None
        assert failure.kind == "connect"
        # Relative paths of the environment lead where they did.
        assert folder_of(pool.pids[0]) in (None, here)


async def test_a_process_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no library for sk-very-secret >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    before, pool = open_files(), Pool(Endpoint("http://127.0.0.1:1", api_key="sk-very-secret"), 2)
    with pytest.raises(SenderError, match=r"did not start; it said: no library for \*\*\*$"):
        await pool.__aenter__()
    assert not any(map(is_known, pool.pids))
    assert open_files() <= before


async def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    before = open_files()
    with pytest.raises(SenderError, match=r"did not start: .*No such file"):
        await Pool(Endpoint("http://127.0.0.1:1"), 2).__aenter__()
    assert open_files() <= before


async def test_silence_at_the_start_is_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("pytest_kvcache.sending.sender._START_SECONDS", 0.05)
    pool = Pool(Endpoint("http://127.0.0.1:1"), 1)
    with pytest.raises(SenderError, match="did not start; it said: nothing"):
        await pool.__aenter__()
    assert not any(map(is_known, pool.pids))


@pytest.mark.parametrize("off", [100.0, -100.0])
async def test_another_clock_is_refused(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.monotonic
    monkeypatch.setattr("pytest_kvcache.sending.sender.time", SimpleNamespace(monotonic=lambda: real() + off))
    pool = Pool(Endpoint("http://127.0.0.1:1"), 2)
    with pytest.raises(ConfigurationError, match=r"cannot be compared; .*--kv-processes=1"):
        await pool.__aenter__()
    assert not any(map(is_known, pool.pids))


async def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module.os, "name", "nt")
    with pytest.raises(ConfigurationError, match="--kv-processes=1"):
        await Pool(Endpoint("http://127.0.0.1:1"), 2).__aenter__()
