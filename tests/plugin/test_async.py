"""The same objects in async tests, under every runner, and nothing of ours bound to a loop."""

from __future__ import annotations

import pytest

from .conftest import LEAKS, Run

BODY = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
{decorator}
async def test_one(kv, kv_workload{extra}):
    result = await kv.arun(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))
    assert result.hit_tokens == 512

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_two(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))

@pytest.mark.hit_rate(min=0.0, max=0.0)
{decorator}
async def test_three(kv, kv_endpoint{extra}):
    import aiohttp
    async with kv.measure() as m:
        async with aiohttp.ClientSession() as session:
            body = {{"model": "sim", "prompt": list(range(64)), "max_tokens": 1, "cache_salt": "{salt}"}}
            async with session.post(kv_endpoint.api("completions"), json=body) as reply:
                assert reply.status == 200
    assert m.result.query_tokens == 64

@pytest.mark.hit_rate(min=0.0, max=0.0)
{decorator}
async def test_four(kv_endpoint{extra}):
    import aiohttp
    async with aiohttp.ClientSession() as session:
        body = {{"model": "sim", "prompt": list(range(64)), "max_tokens": 1, "cache_salt": "{salt}2"}}
        async with session.post(kv_endpoint.api("completions"), json=body) as reply:
            assert reply.status == 200
"""


@pytest.mark.parametrize("scope", ["function", "session"])
def test_strict_mode(pytester: pytest.Pytester, run: Run, sim: str, scope: str) -> None:
    decorator = f"@pytest.mark.asyncio(loop_scope={scope!r})"
    pytester.makepyfile(BODY.format(decorator=decorator, extra="", salt=f"strict-{scope}"))
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=4)


def test_auto_mode(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(BODY.format(decorator="", extra="", salt="auto"))
    run(f"--kv-endpoint={sim}", "--asyncio-mode=auto").assert_outcomes(passed=4)


def test_anyio_runner(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    backend = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    pytester.makepyfile(BODY.format(decorator="@pytest.mark.anyio", extra="", salt="anyio") + backend)
    pytester.makeini(f"[pytest]\nfilterwarnings =\n    error{LEAKS}\n")
    run(f"--kv-endpoint={sim}", "-p", "no:asyncio").assert_outcomes(passed=4)


def test_run_inside_a_loop_says_what_to_write(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        "async def test_a(kv, kv_workload):\n"
        "    kv.run(kv_workload.shared_prefix(requests=1, input_len=32, hit_rate=0))\n"
    )
    result = run(f"--kv-endpoint={sim}", "--asyncio-mode=auto")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: this is an async test: write `await kv.arun(...)`"])


def test_the_loop_of_a_sync_test_is_left_alone(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import asyncio

        def test_loop(kv, kv_workload):
            mine = asyncio.new_event_loop()
            asyncio.set_event_loop(mine)
            kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0, output_len=1))
            assert asyncio.get_event_loop_policy().get_event_loop() is mine
            asyncio.set_event_loop(None)
            mine.close()
        """
    )
    run(f"--kv-endpoint={sim}", "-W", "ignore::DeprecationWarning").assert_outcomes(passed=1)


def test_runs_side_by_side_in_one_test_wait_for_each_other(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import asyncio

        async def test_both(kv, kv_workload):
            one = kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1)
            two = kv_workload.shared_prefix(requests=4, input_len=512, hit_rate=0.25, output_len=1)
            results = await asyncio.gather(kv.arun(one), kv.arun(two))
            assert [r.hit_rate for r in results] == [0.5, 0.25]
        """
    )
    run(f"--kv-endpoint={sim}", "--asyncio-mode=auto").assert_outcomes(passed=1)
