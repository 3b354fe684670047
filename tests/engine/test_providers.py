"""Hosted providers: the URLs that follow from the bases in their documentation, and servers that play their forms.

Nothing outside of this machine is contacted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from pytest_kvcache.calls import Calls
from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint, parse_base_url
from pytest_kvcache.engines import Catalogue, shipped
from pytest_kvcache.errors import ConfigurationError, EndpointError
from pytest_kvcache.experiment import Plan
from pytest_kvcache.experiment import run as run_workload
from pytest_kvcache.model import Measurement, Prompt, Request, ServerFacts
from pytest_kvcache.pace import Pace
from pytest_kvcache.target import inspect
from pytest_kvcache.workloads.bodies import Bodies

from ..cases.conftest import Measure, measure  # noqa: F401 - a fixture
from ..cases.stage import Reply, Stage
from ..cases.stage import playing as staged
from ..plugin.conftest import _clean_environment, run  # noqa: F401 - fixtures

# --- where --------------------------------------------------------------------------------------------------------

GEMINI = "https://generativelanguage.googleapis.com"
AZURE = "https://name.openai.azure.com"
BEDROCK = "https://bedrock-runtime.us-west-2.amazonaws.com"


def url(base: str, api: str, model: str = "m") -> str:
    """The URL of a form, for a base as a user gives it and the provider that its host belongs to."""
    endpoint = Endpoint(parse_base_url(base, "a test"))
    profile = shipped().provider(urlsplit(endpoint.base).hostname or "")
    assert profile is not None
    client = Client(endpoint)
    client.speak(profile.auth, profile.headers, profile.paths, profile.auth_for)
    return client.url(api, model)


@pytest.mark.parametrize(
    ("base", "root"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com", "https://api.openai.com/v1"),
        (f"{AZURE}/openai/v1", f"{AZURE}/openai/v1"),
        (f"{AZURE}/openai/v1/", f"{AZURE}/openai/v1"),
        (f"{AZURE}/", f"{AZURE}/openai/v1"),  # as its portal shows it
        (f"{AZURE}/openai/v1/chat/completions", f"{AZURE}/openai/v1"),
        ("https://r.services.ai.azure.com/openai/v1", "https://r.services.ai.azure.com/openai/v1"),
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1"),
        ("https://api.fireworks.ai/inference/v1", "https://api.fireworks.ai/inference/v1"),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://api.deepseek.com", "https://api.deepseek.com/v1"),
        ("https://api.anthropic.com", "https://api.anthropic.com/v1"),
        (f"{BEDROCK}/openai/v1", f"{BEDROCK}/openai/v1"),
        (f"{GEMINI}/v1beta/openai/", f"{GEMINI}/v1beta/openai"),
        (f"{GEMINI}/v1beta/openai/chat/completions", f"{GEMINI}/v1beta/openai"),
        (f"{GEMINI}/v1beta", f"{GEMINI}/v1beta/openai"),
        (GEMINI, f"{GEMINI}/v1beta/openai"),
    ],
)
def test_bases_as_vendors_write_them(base: str, root: str) -> None:
    assert url(base, "chat") == f"{root}/chat/completions"
    assert url(base, "models") == f"{root}/models"


@pytest.mark.parametrize(
    ("base", "api", "expected"),
    [
        ("https://api.anthropic.com", "messages", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/messages", "messages", "https://api.anthropic.com/v1/messages"),
        ("https://api.openai.com/v1", "responses", "https://api.openai.com/v1/responses"),
        (f"{AZURE}/openai/v1", "responses", f"{AZURE}/openai/v1/responses"),
        (AZURE, "completions", f"{AZURE}/openai/v1/completions"),
    ],
)
def test_other_forms(base: str, api: str, expected: str) -> None:
    assert url(base, api) == expected


@pytest.mark.parametrize(
    "path", ["", "/v1beta", "/v1beta/", "/v1beta/openai", "/v1beta/models", "/v1beta/models/gemini-9:generateContent"]
)
def test_gemini_itself_from_any_of_its_bases(path: str) -> None:
    expected = f"{GEMINI}/v1beta/models/gemini-2.5-flash:generateContent"
    assert url(GEMINI + path, "gemini", "gemini-2.5-flash") == expected


def test_a_model_in_a_path_is_encoded() -> None:
    arn = "arn:aws:bedrock:us-west-2:1:inference-profile/us.a.b-v1:0"
    expected = "arn%3Aaws%3Abedrock%3Aus-west-2%3A1%3Ainference-profile%2Fus.a.b-v1%3A0"
    assert url(BEDROCK, "converse", arn) == f"{BEDROCK}/model/{expected}/converse"


OWN = {
    "id": "own",
    "title": "own",
    "kind": "provider",
    "instead": "usage",
    "paths": {"chat": "/openai/deployments/{model}/chat/completions?api-version=1", "models": "/list"},
}


def test_a_profile_of_ones_own_names_its_paths() -> None:
    profile = Catalogue([OWN]).get("own")
    client = Client(Endpoint("http://h/gw"))
    client.speak(profile.auth, profile.headers, profile.paths)
    assert client.url("chat", "a/b") == "http://h/gw/openai/deployments/a%2Fb/chat/completions?api-version=1"
    assert (client.url("models"), client.url("responses")) == ("http://h/gw/list", "http://h/gw/v1/responses")


@pytest.mark.parametrize("paths", [{"chats": "/x"}, {"chat": "x"}, {"chat": "http://h/x"}, {"chat": "/a b"}])
def test_paths_are_of_known_forms_and_begin_at_the_base(paths: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="paths"):
        Catalogue([{**OWN, "paths": paths}])


# --- what -----------------------------------------------------------------------------------------------------------


def call(profile: str, api: str, body: Mapping[str, Any], stream: bool = True) -> tuple[str, Mapping[str, Any]]:
    calls = Calls(shipped().get(profile), ServerFacts(engine=profile, model="m"), stream)
    made = calls(Request(Prompt(()), 0, "load", api=api, body=body, whole=True))
    return made.model, made.body


@pytest.mark.parametrize(
    ("api", "body", "model", "sent"),
    [
        ("gemini", {"contents": []}, "m", {"contents": []}),
        ("gemini", {"contents": [], "model": "o", "stream": True}, "o", {"contents": []}),
        ("converse", {"messages": [], "model": "o", "stream": True}, "o", {"messages": []}),
        ("ollama", {"prompt": "a"}, "m", {"model": "m", "prompt": "a", "stream": False}),
        ("ollama", {"prompt": "a", "model": "o", "stream": True}, "o", {"model": "o", "prompt": "a", "stream": False}),
        ("chat", {"messages": [], "stream": False}, "m", {"model": "m", "messages": [], "stream": False}),
        ("generate", {"text": "a"}, "m", {"model": "m", "text": "a", "stream": True}),
        ("generate", {"text": ["a", "b"]}, "m", {"model": "m", "text": ["a", "b"]}),  # a list is read whole
        ("generate", {"input_ids": [[1], [2]]}, "m", {"model": "m", "input_ids": [[1], [2]]}),
        ("generate", {"input_ids": [1, 2]}, "m", {"model": "m", "input_ids": [1, 2], "stream": True}),
    ],
)
def test_bodies(api: str, body: dict[str, Any], model: str, sent: dict[str, Any]) -> None:
    assert call("usage", api, body) == (model, sent)


# --- asked ----------------------------------------------------------------------------------------------------------

Play = Callable[[web.Request, Any], Any]


@asynccontextmanager
async def playing(play: Play, seen: list[web.Request]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        seen.append(request)
        told = play(request, body)
        return told if isinstance(told, web.StreamResponse) else web.json_response(told)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def measured(
    play: Play, engine: str, api: str, bodies: list[dict[str, Any]], *, path: str = "", model: str = "some/model:1"
) -> tuple[Measurement, list[str]]:
    seen: list[web.Request] = []
    async with playing(play, seen) as base:
        endpoint = Endpoint(parse_base_url(base + path, "a test"), engine=engine, model=model, api_key="secret-key")
        done = await run_workload(endpoint, Bodies(tuple(bodies), api), Plan("n", Pace(1), counters=False))
    posted = [request for request in seen if request.method == "POST"]
    keys = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "anthropic-version")
    heads = [" ".join(f"{k}={r.headers[k]}" for k in keys if k in r.headers) for r in posted]
    return done, [f"{r.raw_path} {head}" for r, head in zip(posted, heads, strict=True)]


def numbers(measurement: Measurement) -> list[tuple[int | None, int | None, int | None, int | None]]:
    assert [e.failure for e in measurement.exchanges] == [None] * len(measurement.exchanges)
    return [(e.prompt_tokens, e.cached_tokens, e.written_tokens, e.completion_tokens) for e in measurement.exchanges]


def not_found() -> web.Response:
    return web.json_response({"message": "not found"}, status=404)


def gemini(request: web.Request, body: Any) -> Any:
    if request.path == "/v1beta/openai/models":
        return {"object": "list", "data": [{"id": "models/gemini-9"}, {"id": "models/gemini-8"}]}
    if request.path != "/v1beta/models/gemini-9:generateContent" or set(body) != {"contents"}:
        return not_found()
    usage = {"promptTokenCount": 2000, "candidatesTokenCount": 3}
    if body["contents"][0]["parts"][0]["text"] == "warm":  # a zero is left out
        usage["cachedContentTokenCount"] = 1800
    parts = {"parts": [{"text": "hi"}], "role": "model"}
    return {"candidates": [{"content": parts, "finishReason": "STOP"}], "usageMetadata": usage}


class PlayedGemini(Stage):
    """Every second request finds 1800 of its 2000 tokens."""

    def post(self) -> Reply:
        self.served += 1
        usage = {"promptTokenCount": 2000} | ({"cachedContentTokenCount": 1800} if self.served % 2 == 0 else {})
        candidate = {"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}
        return Reply(200, json.dumps({"candidates": [candidate], "usageMetadata": usage}))


def test_gemini_from_the_command_line(measure: Measure) -> None:  # noqa: F811 - the fixture
    stage = PlayedGemini()
    body = """
import pytest

@pytest.mark.hit_rate(target=0.45, tol=0.0)
def test_case(kv, kv_workload):
    bodies = [{"contents": [{"parts": [{"text": "a"}]}]}] * 4
    kv.run(kv_workload.requests(bodies, api="gemini"), concurrency=1)
"""
    with staged(stage) as base:
        outcome = measure(base, body, "--kv-engine=gemini", "--kv-model=gemini-9")
    assert (outcome.verdict, outcome.tokens, outcome.check["source"]) == ("pass", (3600, 8000), "usage")
    paths = [path for path, _ in stage.seen]
    assert paths == ["/v1beta/openai/models", *["/v1beta/models/gemini-9:generateContent"] * 4]


def contents(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


@pytest.mark.asyncio
@pytest.mark.parametrize("model", ["gemini-9", "models/gemini-9"])
@pytest.mark.parametrize("path", ["", "/v1beta/openai/"])
async def test_gemini(path: str, model: str) -> None:
    bodies = [contents("cold"), contents("warm") | {"stream": True}]
    done, asked = await measured(gemini, "gemini", "gemini", bodies, path=path, model=model)
    assert numbers(done) == [(2000, 0, None, 3), (2000, 1800, None, 3)]
    assert asked == ["/v1beta/models/gemini-9:generateContent x-goog-api-key=secret-key"] * 2
    assert [e.text for e in done.exchanges] == ["hi", "hi"]
    assert [e.ttft for e in done.exchanges] == [None, None]  # nothing was streamed
    assert (done.facts.engine, done.facts.model) == ("gemini", "gemini-9")


@pytest.mark.asyncio
@pytest.mark.parametrize("model", ["gemini-9", "models/gemini-9"])
async def test_gemini_where_the_models_are_not_listed(model: str) -> None:
    def play(request: web.Request, body: Any) -> Any:
        return not_found() if request.method == "GET" else gemini(request, body)

    done, _ = await measured(play, "gemini", "gemini", [contents("warm")], model=model)
    assert (numbers(done), done.facts.model) == ([(2000, 1800, None, 3)], "gemini-9")


@pytest.mark.asyncio
async def test_the_openai_compatible_route_of_gemini() -> None:
    def play(request: web.Request, body: Any) -> Any:
        if request.path == "/v1beta/openai/models":
            return gemini(request, body)
        usage = {"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 1800}}
        return {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}

    done, asked = await measured(play, "gemini", "chat", [{"messages": []}], path="/v1beta/openai", model="gemini-9")
    assert numbers(done) == [(2000, 1800, None, None)]
    assert asked == ["/v1beta/openai/chat/completions authorization=Bearer secret-key"]


@pytest.mark.asyncio
async def test_a_model_that_gemini_does_not_list() -> None:
    with pytest.raises(EndpointError, match="serves models/gemini-9, models/gemini-8, not 'gemini-7'"):
        await measured(gemini, "gemini", "gemini", [contents("cold")], model="gemini-7")


@pytest.mark.asyncio
@pytest.mark.parametrize("model", [None, "models/tiny"])
async def test_an_engine_that_serves_a_folder_called_models_is_asked_for_it(model: str | None) -> None:
    listed = {"data": [{"id": "models/tiny"}]}
    async with playing(lambda *_: listed, []) as base, Client(Endpoint(base, engine="usage", model=model)) as client:
        assert (await inspect(client)).facts.model == "models/tiny"


@pytest.mark.asyncio
async def test_bedrock() -> None:
    def play(request: web.Request, body: Any) -> Any:
        if request.raw_path != "/model/some%2Fmodel:1/converse" or set(body) != {"messages"}:
            return not_found()
        cached = 1800 if body["messages"] else 0
        usage = {"inputTokens": 50, "outputTokens": 3, "cacheReadInputTokens": cached}
        usage["cacheWriteInputTokens"] = 1950 - cached
        message = {"role": "assistant", "content": [{"text": "hi"}]}
        return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}

    done, asked = await measured(play, "bedrock", "converse", [{"messages": []}, {"messages": [{}], "stream": True}])
    assert numbers(done) == [(2000, 0, 1950, 3), (2000, 1800, 150, 3)]
    assert asked == ["/model/some%2Fmodel:1/converse authorization=Bearer secret-key"] * 2


@pytest.mark.asyncio
async def test_ollama() -> None:
    def play(request: web.Request, body: Any) -> Any:
        if request.path == "/v1/models":
            return {"data": [{"id": "some/model:1"}]}
        if request.path != "/api/generate" or body != {"model": "some/model:1", "prompt": "a", "stream": False}:
            return not_found()
        return {"response": "hi", "done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 3}

    done, asked = await measured(play, "ollama", "ollama", [{"prompt": "a"}])
    assert numbers(done) == [(26, None, None, 3)]
    assert asked == ["/api/generate authorization=Bearer secret-key"]


@pytest.mark.asyncio
async def test_anthropic_and_its_headers() -> None:
    seen: list[str] = []

    def play(request: web.Request, body: Any) -> Any:
        seen.append(f"{request.method} {request.path} {request.headers.get('x-api-key')}")
        if request.path == "/v1/models":
            return {"data": [{"id": "some/model:1", "type": "model"}], "has_more": False}
        usage = {"input_tokens": 50, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 150}
        return {
            "type": "message",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "usage": usage,
        }

    done, asked = await measured(play, "anthropic", "messages", [{"messages": [], "max_tokens": 1}])
    assert numbers(done) == [(2000, 1800, 150, None)]
    assert asked == ["/v1/messages x-api-key=secret-key anthropic-version=2023-06-01"]
    assert seen == ["GET /v1/models secret-key", "POST /v1/messages secret-key"]


@pytest.mark.asyncio
async def test_azure_takes_the_bare_key_and_may_be_given_without_its_path() -> None:
    def play(request: web.Request, body: Any) -> Any:
        if request.path == "/openai/v1/models":
            return {"data": [{"id": "some/model:1"}]}
        choices = [{"message": {"content": "hi"}, "finish_reason": "stop"}]
        return {"choices": choices, "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}

    done, asked = await measured(play, "azure", "chat", [{"messages": []}])
    assert numbers(done) == [(9, 0, None, None)]
    assert asked == ["/openai/v1/chat/completions api-key=secret-key"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("engine", "api", "status", "body", "message"),
    [
        ("gemini", "gemini", 400, {"error": {"message": "bad key", "status": "INVALID_ARGUMENT"}}, "HTTP 400: bad key"),
        ("gemini", "chat", 404, [{"error": {"code": 404, "message": "no model"}}], "HTTP 404: no model"),
        ("bedrock", "converse", 403, {"message": "no access to secret-key"}, "HTTP 403: no access to ***"),
        ("bedrock", "converse", 403, {"Message": "no access"}, "HTTP 403: no access"),
    ],
)
async def test_errors_are_told_in_the_providers_words(
    engine: str, api: str, status: int, body: Any, message: str
) -> None:
    done, _ = await measured(lambda *_: web.json_response(body, status=status), engine, api, [{}])
    (failure,) = (e.failure for e in done.exchanges)
    assert failure is not None
    assert (failure.kind, failure.message) == ("http", message)


def sglang(prompts: int, samples: int) -> Any:
    meta = {"prompt_tokens": 100, "cached_tokens": 64, "completion_tokens": 2, "finish_reason": {"type": "length"}}
    return [{"text": "hi", "meta_info": meta}] * (prompts * samples)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "told", "numbers_"),
    [
        ({"text": ["a", "b", "c"]}, sglang(3, 1), (300, 192, None, 6)),
        ({"input_ids": [[1], [2]]}, sglang(2, 1), (200, 128, None, 4)),
        ({"text": "a", "sampling_params": {"n": 3}}, sglang(1, 3), (100, None, None, 6)),
        ({"text": ["a", "b"], "sampling_params": [{"n": 2}, {"n": 2}]}, sglang(2, 2), (200, None, None, 8)),
        ({"text": ["a", "b"], "stream": True}, sglang(1, 1)[0], (None, None, None, 2)),  # the last chunk's are not all
        ({"text": "a", "stream": True}, sglang(1, 1)[0], (100, 64, None, 2)),
    ],
)
async def test_lists_of_sglang(body: dict[str, Any], told: Any, numbers_: tuple[int | None, ...]) -> None:
    own: Mapping[str, Any] = {"id": "own", "title": "own", "inherits": "sglang", "variants": [], "instead": "usage"}

    def play(request: web.Request, _: Any) -> Any:
        return {"data": [{"id": "m"}]} if request.path == "/v1/models" else told

    async with playing(play, []) as base:
        endpoint = Endpoint(base, engine="own", profiles=(own,))
        async with Client(endpoint) as client:
            target = await inspect(client)
            request = Request(Prompt(()), 0, "load", api="generate", body=body, whole=True)
            exchange = await client.send(Calls(target.profile, target.facts)(request))
    assert exchange.failure is None
    told_ = (exchange.prompt_tokens, exchange.cached_tokens, exchange.written_tokens, exchange.completion_tokens)
    assert told_ == numbers_
