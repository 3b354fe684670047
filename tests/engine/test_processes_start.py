"""How processes that send are started: without secrets in sight, from no folder of the user's, and with one clock."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_kvcache.client import Call
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import ConfigurationError, SenderError
from pytest_kvcache.sending import pool as pool_module
from pytest_kvcache.sending.pool import Pool
from pytest_kvcache.sending.sender import _environment

from .processes import PROC, folder_of, is_known, open_files, seen_by_others

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(os.name != "posix", reason="one process sends there"),
]
CALL = Call("completions", {"model": "m", "prompt": [1, 2, 3]}, "m", prompt_len=3)


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
