"""What a server makes of a body: rendered by the simulated engine, by played routes, and by a tokenizer at hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from pytest_kvcache.calls import Calls
from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.engines import Profile, shipped
from pytest_kvcache.errors import EndpointError, ProtocolError
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.simulate.body import render_chat
from pytest_kvcache.site import Site, are_ids
from pytest_kvcache.target import Target, inspect
from pytest_kvcache.tokenizer import NoTokenizer
from pytest_kvcache.workloads.calibrated import calibrate
from pytest_kvcache.workloads.frame import frame_of
from pytest_kvcache.workloads.vocabulary import Vocabulary

from ..unit.tokenizers_zoo import builtin
from .wire import Wire

pytestmark = pytest.mark.asyncio
Answer = Callable[[str, dict[str, Any]], tuple[int, Any]]
HELLO = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello there"}]
TOOLS = [{"type": "function", "function": {"name": "look"}}]


@asynccontextmanager
async def at(url: str, profile: Profile | None = None, spec: str | None = None) -> AsyncIterator[Site]:
    """A site as a run has it; with a profile, the server is asked for nothing at first."""
    async with Client(Endpoint(url)) as client:
        target = (
            await inspect(client) if profile is None else Target(profile, ServerFacts(engine=profile.id, model="m"))
        )
        yield Site(client, target, Calls(target.profile, target.facts, stream=False), "n", spec=spec)


@asynccontextmanager
async def played(answer: Answer, engine: str, spec: str | None = None) -> AsyncIterator[Site]:
    """A site of an engine whose routes are played."""

    async def handle(request: web.Request) -> web.Response:
        status, content = answer(request.path, json.loads(await request.text()))
        return web.json_response(content, status=status)

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with at(f"http://127.0.0.1:{runner.addresses[0][1]}", shipped().get(engine), spec) as site:
            yield site
    finally:
        await runner.cleanup()


# --- the simulated engine --------------------------------------------------------------------------------------------


async def test_a_chat_is_rendered_as_it_is_counted(sim: str) -> None:
    body = {"messages": HELLO, "tools": TOOLS}
    async with at(sim) as site:
        ids = await site.render(body)
    assert ids == builtin().encode([render_chat(HELLO, TOOLS)])[0]
    _, reply = Wire(sim, model="sim").post("/v1/chat/completions", {**body, "max_tokens": 1})
    assert reply["usage"]["prompt_tokens"] == len(ids or ())


async def test_a_text_is_encoded_here_and_ids_are_what_they_are(sim: str) -> None:
    async with at(sim) as site:
        assert await site.render({"prompt": "hello there"}) == builtin().encode(["hello there"])[0]
        assert await site.render({"prompt": [3, 4]}) == [3, 4]
        assert await site.render({"prompt": [[3], [4]]}) is None
        assert await site.render({"prompt": ["a"]}) is None
        assert await site.render({"prompt": ""}) is None
        assert await site.render({"prompt": "\ud800"}) is None
        assert await site.render({"input": "a"}) is None


async def test_the_frame_of_the_simulated_engine_is_exact(sim: str) -> None:
    vocabulary = Vocabulary.of(builtin())
    async with at(sim) as site:
        frame = await frame_of(site, vocabulary, builtin())
        assert not site.asked
    numbers = vocabulary.draw("any", 500)
    prompt = frame.prompt(vocabulary.encode(numbers), vocabulary.text(numbers))
    message = {"role": "user", "content": prompt.text}
    assert builtin().encode([render_chat([message], None)])[0] == list(prompt.ids)
    _, reply = Wire(sim, model="sim").post("/v1/chat/completions", {"messages": [message], "max_tokens": 1})
    assert reply["usage"]["prompt_tokens"] == 500 + len(frame)


async def test_the_same_by_usage_alone(sim: str) -> None:
    vocabulary = Vocabulary.of(builtin())
    async with at(sim) as site:
        exact = await frame_of(site, vocabulary)
    async with at(sim, shipped().get("usage"), "builtin") as site:
        site.target = replace(site.target, facts=replace(site.target.facts, model="sim"))
        site.calls = replace(site.calls, facts=site.target.facts)
        counted = await frame_of(site, vocabulary)
        assert (len(counted), counted.exact, len(site.asked)) == (len(exact), False, 2)
        found = await calibrate(site)
        assert (found.exact, len(found.vocabulary), len(site.asked)) == (True, 192, 5)
        site.spec = None
        with pytest.raises(NoTokenizer, match="name its tokenizer with --kv-tokenizer"):
            await site.tokenizer()


# --- played routes ---------------------------------------------------------------------------------------------------


async def test_vllm_is_handed_what_its_template_heeds() -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        seen.append((path, body))
        return 200, {"count": 3, "tokens": [1, 2, 3]}

    body = {"messages": HELLO, "tools": TOOLS, "chat_template_kwargs": {"a": 1}, "temperature": 0, "cache_salt": "s"}
    async with played(answer, "vllm") as site:
        assert await site.render(body) == [1, 2, 3]
        assert await site.render({**body, "model": "adapter"}) == [1, 2, 3]
        assert await site.render({"prompt": "text"}) == [1, 2, 3]
    handed = {"messages": HELLO, "tools": TOOLS, "chat_template_kwargs": {"a": 1}}
    assert seen == [
        ("/tokenize", {"model": "m", **handed}),
        ("/tokenize", {"model": "adapter", **handed}),
        ("/tokenize", {"model": "m", "prompt": "text"}),
    ]


async def test_llamacpp_makes_a_text_of_it_first() -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        seen.append((path, body))
        return 200, {"prompt": "<rendered>"} if path == "/apply-template" else {"tokens": [7]}

    async with played(answer, "llamacpp") as site:
        assert await site.render({"messages": HELLO, "stream": True}) == [7]
    assert seen == [
        ("/apply-template", {"messages": HELLO}),
        ("/tokenize", {"model": "m", "content": "<rendered>", "add_special": True, "parse_special": True}),
    ]


async def test_a_named_tokenizer_spares_the_requests_for_texts() -> None:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        raise AssertionError(path)

    async with played(answer, "vllm", "builtin") as site:
        assert await site.render({"prompt": "hello there"}) == builtin().encode(["hello there"])[0]


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
@pytest.mark.parametrize("body", [{"messages": HELLO}, {"prompt": "a"}])
async def test_a_route_that_is_not_there_tells_nothing(engine: str, status: int, body: dict[str, Any]) -> None:
    async with played(lambda _, __: (status, {}), engine) as site:
        assert await site.render(body) is None


@pytest.mark.parametrize("engine", ["sglang", "usage"])
async def test_engines_that_do_not_tell(engine: str) -> None:
    async with played(lambda _, __: (500, {}), engine) as site:
        assert await site.render({"messages": HELLO}) is None
        assert await site.render({"prompt": "a"}) is None


@pytest.mark.parametrize("told", [None, [], "secret", ["secret"], [True], [-1], [1 << 32], [1.0]])
async def test_answers_that_are_no_ids_are_refused_and_not_shown(told: Any) -> None:
    async with played(lambda _, __: (200, {"tokens": told}), "vllm") as site:
        with pytest.raises(ProtocolError, match="/tokenize: expected 'tokens', a list of ids") as caught:
            await site.render({"messages": HELLO})
    assert "secret" not in str(caught.value)


async def test_a_template_that_gives_no_text_is_refused() -> None:
    async with played(lambda _, __: (200, {"prompt": ["secret"]}), "llamacpp") as site:
        with pytest.raises(ProtocolError, match="/apply-template: expected 'prompt', a text, got list") as caught:
            await site.render({"messages": HELLO})
    assert "secret" not in str(caught.value)
    async with played(lambda _, __: (200, []), "llamacpp") as site:
        with pytest.raises(ProtocolError, match="a text, got nothing"):
            await site.render({"messages": HELLO})


async def test_a_refusal_is_told() -> None:
    async with played(lambda _, __: (400, {"error": {"message": "no such role"}}), "vllm") as site:
        with pytest.raises(EndpointError, match="/tokenize answered 400: no such role"):
            await site.render({"messages": HELLO})


async def test_what_is_a_list_of_ids() -> None:
    assert are_ids([0, (1 << 32) - 1])
    assert not any(map(are_ids, ([], [1, True], [1 << 32], [-1], (1,), None, "1", [[1]])))
