"""What is asked of a server before anything is measured, against the recorded pages of a real vLLM 0.32."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import ConfigurationError, CounterMissing, EndpointError, ProtocolError
from pytest_kvcache.target import Target, inspect

pytestmark = pytest.mark.asyncio
DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"
TINY = {"id": "tiny", "parent": None, "max_model_len": 8192}
ADAPTER = {"id": "tuned", "parent": "tiny"}


@asynccontextmanager
async def recorded(page: str, version: str | None, models: list[dict[str, Any]]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            return web.Response(text=page)
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": models})
        if request.path == "/version" and version is not None:
            return web.json_response({"version": version})
        return web.json_response({"detail": "Not Found"}, status=404)

    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(
    name: str = "01_before.prom",
    version: str | None = "0.32.0",
    models: tuple[dict[str, Any], ...] = (TINY,),
    replace: tuple[str, str, int] = ("", "", 0),
    counters: bool = True,
    **endpoint: Any,
) -> Target:
    page = (DATA / name).read_text().replace(*replace)
    async with recorded(page, version, list(models)) as url, Client(Endpoint(url, **endpoint)) as client:
        return await inspect(client, counters=counters)


async def test_facts_of_a_recorded_server() -> None:
    facts = (await ask()).facts
    assert (facts.engine, facts.variant, facts.version, facts.model) == ("vllm", "v1-admission", "0.32.0", "tiny")
    assert (facts.block_size, facts.caching, facts.max_model_len, facts.simulated) == (128, True, 8192, False)


async def test_version_that_is_hidden_is_told_by_the_page() -> None:
    facts = (await ask(version=None)).facts
    assert (facts.version, facts.variant) == (None, "v1-admission")


async def test_two_engines_on_one_page() -> None:
    assert (await ask("40_data_parallel_2_before.prom")).facts.block_size == 32


async def test_caching_that_is_off_is_known() -> None:
    off = ('enable_prefix_caching="True"', 'enable_prefix_caching="False"', -1)
    assert (await ask(replace=off)).facts.caching is False


async def test_engines_with_different_blocks_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"different block sizes \(64, 32\)"):
        await ask("40_data_parallel_2_before.prom", replace=(',block_size="32"', ',block_size="64"', 1))


async def test_version_whose_counters_mean_something_else_is_refused() -> None:
    with pytest.raises(EndpointError, match=r"vLLM 0.6.6 has no counters that can be measured; known are >=0.27.0"):
        await ask(version="0.6.6")
    with pytest.raises(CounterMissing, match="looks like vLLM and has no vllm:gpu_prefix_cache_hits_total"):
        await ask(version="0.8.5")


async def test_page_without_statistics_names_the_ways_out() -> None:
    with pytest.raises(ProtocolError, match=r"none of the samples of a known engine.*--kv-engine=usage"):
        await ask("61_disable_log_stats.prom")
    target = await ask("61_disable_log_stats.prom", counters=False)
    assert (target.facts.engine, target.readers, [f.code for f in target.findings]) == ("usage", (), ["KV302"])


async def test_usage_needs_no_page() -> None:
    target = await ask("61_disable_log_stats.prom", engine="usage")
    assert (target.facts.engine, target.findings, target.first) == ("usage", (), ())


async def test_the_served_model_is_the_base_of_its_adapters() -> None:
    assert (await ask(models=(TINY, ADAPTER))).facts.model == "tiny"
    assert (await ask(models=(TINY, ADAPTER), model="tuned")).facts.model == "tuned"


@pytest.mark.parametrize(("models", "told"), [((), "serves nothing"), ((TINY, {"id": "other"}), "serves tiny, other")])
async def test_no_single_model_asks_for_a_name(models: tuple[dict[str, Any], ...], told: str) -> None:
    with pytest.raises(EndpointError, match=f"{told}; say which one to ask for with --kv-model"):
        await ask(models=models)


async def test_unknown_engine() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown engine 'nope'; known are aibrix,.* vllm"):
        await ask(engine="nope")


async def test_known_defects_are_told_where_they_hold() -> None:
    target = await ask(engine="vllm-ascend", version="0.26.0")
    assert {finding.code for finding in target.findings} == {"KV310"}
    assert any("#16639" in finding.sentence for finding in target.findings)
    assert not (await ask()).findings
