"""Recorded requests in a user's project: predicted, replayed as they were recorded, session by session."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pytest_kvcache.workloads import builtin

from .conftest import Run

Start = Callable[..., str]
SYSTEM = " ".join(builtin.common_words()[:200])
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"b": 1, "a": 2.0}}}
CALL = {"id": "call_7Zq", "type": "function", "function": {"name": "look", "arguments": '{"q": "ü"}'}}


@dataclass
class Recorder:
    """Passes everything on to ``target`` and keeps the bodies of what is generated, in their order."""

    target: str
    bodies: list[bytes] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        content = await request.read()
        if request.path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
            self.bodies.append(content)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                self.target + request.path_qs,
                data=content,
                headers={"Content-Type": "application/json"},
            ) as reply,
        ):
            kind = {"Content-Type": reply.headers["Content-Type"]} if "Content-Type" in reply.headers else {}
            return web.Response(body=await reply.read(), status=reply.status, headers=kind)


@contextmanager
def recording(target: str) -> Iterator[tuple[str, Recorder]]:
    """Serve a recorder from a thread of its own."""
    recorder, loop = Recorder(target), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", recorder.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", recorder
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def chat(*said: Any, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [m if isinstance(m, dict) else {"role": roles[at % 2], "content": m} for at, m in enumerate(said)]
    return {"messages": [{"role": "system", "content": SYSTEM}, *turns], "max_tokens": 2, **more}


def written(path: Path, *rows: Any) -> None:
    path.write_bytes(b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows))


def a_test(marker: str, workload: str, run: str = "concurrency=1") -> str:
    return (
        f"import pytest\n\n@pytest.mark.hit_rate({marker})\ndef test_replay(kv, kv_workload):\n"
        f"    kv.run(kv_workload.prompts({workload}), {run})\n"
    )


def test_what_is_reused_is_predicted_to_the_token(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    written(pytester.path / "trace.jsonl", chat("one"), chat("one", "two", "three"), chat("four"))
    pytester.makepyfile(a_test("tol=0.0", "'trace.jsonl', warm=1"))
    result = run(f"--kv-endpoint={start_sim()}", "--kv-report=out.json")
    result.assert_outcomes(passed=1)
    report = (pytester.path / "out.json").read_text()
    (told,) = json.loads(report)["checks"]
    # Two prompts share the system turn and more: whole blocks of 16 of what they share, by hand.
    ids = [
        builtin.load().encode(rendered(body)).ids for body in (chat("one"), chat("one", "two", "three"), chat("four"))
    ]
    hits = sum(max(common(ids[at], ids[before]) for before in range(at)) // 16 * 16 for at in (1, 2))
    assert told["hit_rate"]["predicted"] == told["hit_rate"]["measured"] == hits / (len(ids[1]) + len(ids[2]))
    assert SYSTEM not in report


def rendered(body: dict[str, Any]) -> str:
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in body["messages"])
    return f"{turns}<|im_start|>assistant\n"


def common(a: list[int], b: list[int]) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_bodies_arrive_as_they_were_recorded(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    result_of_tool = {"role": "tool", "tool_call_id": "call_7Zq", "content": "42 °C"}
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    bodies = [
        chat("one", tools=[TOOL], cache_salt="salt-1", user="u", seed=1, temperature=0.0, custom={"z": [1, 2.50]}),
        chat("one", asked, result_of_tool, tools=[TOOL], cache_salt="salt-1", metadata={"b": 1, "a": "é"}),
        {"prompt": "once upon", "max_tokens": 1, "cache_salt": "salt-2", "logit_bias": {"5": -1}},
        {"input": "hi", "max_output_tokens": 2, "previous_response_id": None},
    ]
    written(pytester.path / "trace.jsonl", *({"body": body, "session": "s"} for body in bodies))
    pytester.makepyfile(a_test("min=0.0", "'trace.jsonl'"))
    with recording(start_sim()) as (url, recorder):
        result = run(f"--kv-endpoint={url}")
    result.assert_outcomes(passed=1)
    ours = {"model", "stream", "stream_options"}
    seen = [{name: value for name, value in json.loads(body).items() if name not in ours} for body in recorder.bodies]
    assert [json.dumps(body) for body in seen] == [json.dumps(body) for body in bodies]  # the order of fields too
    for sent, body in zip(recorder.bodies, bodies, strict=True):
        inside = json.dumps(body, separators=(",", ":")).encode()[1:-1]
        assert inside in sent


def test_a_recorded_model_is_kept(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    written(pytester.path / "trace.jsonl", chat("one", model="adapter"), chat("two"))
    pytester.makepyfile(a_test("min=0.0", "'trace.jsonl'"))
    with recording(sim) as (url, recorder):
        run(f"--kv-endpoint={url}").assert_outcomes(failed=1)  # the simulated engine has no such model
    assert [json.loads(body)["model"] for body in recorder.bodies] == ["adapter", "sim"]


def test_requests_of_one_session_keep_their_order(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    rows = [chat(f"{name}{turn}", session=name) for turn in range(4) for name in "abc"]
    written(pytester.path / "trace.jsonl", *rows)
    pytester.makepyfile(a_test("min=0.0", "'trace.jsonl'", "concurrency=3"))
    with recording(start_sim()) as (url, recorder):
        run(f"--kv-endpoint={url}").assert_outcomes(passed=1)
    bodies = [json.loads(body) for body in recorder.bodies]
    said = [body["messages"][-1]["content"] for body in bodies]
    assert not any("session" in body for body in bodies)
    for name in "abc":
        assert [text for text in said if text[0] == name] == [f"{name}{turn}" for turn in range(4)]


def test_salts_are_caches_of_their_own_in_the_prediction_too(
    pytester: pytest.Pytester, run: Run, start_sim: Start
) -> None:
    written(pytester.path / "trace.jsonl", *(chat("salted", cache_salt=salt) for salt in "xyxy"))
    pytester.makepyfile(a_test("tol=0.0", "'trace.jsonl'"))
    run(f"--kv-endpoint={start_sim()}").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("share.json", json.dumps([{"conversations": [{"from": "human", "value": SYSTEM}] * 2}])),
        ("prompts.txt", f"{SYSTEM} one\n{SYSTEM} two\n"),
    ],
)
def test_other_files(pytester: pytest.Pytester, run: Run, start_sim: Start, name: str, content: str) -> None:
    (pytester.path / name).write_text(content, encoding="utf-8")
    pytester.makepyfile(a_test("tol=0.0", f"{name!r}, max_tokens=1"))
    run(f"--kv-endpoint={start_sim()}").assert_outcomes(passed=1)


def test_without_known_tokens_a_rate_must_be_given(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    written(pytester.path / "trace.jsonl", chat("one"), chat("one", n=2, temperature=1))
    pytester.makepyfile(a_test("", "'trace.jsonl'"))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*no rate is asked for and none is predicted here*", "*nothing is predicted: request 1 asks for several*"]
    )


def test_a_damaged_file_fails_the_test_by_its_line(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    (pytester.path / "trace.jsonl").write_text(json.dumps(chat("one")) + '\n{"prompt": "sesame', encoding="utf-8")
    pytester.makepyfile(a_test("min=0.0", "'trace.jsonl'"))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*trace.jsonl, line 2: no JSON*"])
    result.stdout.no_fnmatch_line("*sesame*")


def test_requests_of_ones_own_are_predicted_too(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.hit_rate(tol=0.0)
        def test_own(kv, kv_workload):
            body = {{"prompt": {SYSTEM!r} + " own", "max_tokens": 1}}
            kv.run(kv_workload.requests([body, body, body], api="completions", warm=1), concurrency=1)
        """
    )
    run(f"--kv-endpoint={start_sim()}").assert_outcomes(passed=1)


def test_a_second_run_finds_what_the_first_one_left(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    written(pytester.path / "trace.jsonl", chat("one"), chat("two"), chat("three"))
    pytester.makepyfile(a_test("min=0.5", "'trace.jsonl', warm=1"))
    url = start_sim()
    for _ in range(2):
        run(f"--kv-endpoint={url}").assert_outcomes(passed=1)
