"""Traffic that the test sends itself: kv.measure(), kv_metrics, and tests without any kv fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Run

SEND = """
import json, urllib.request
import pytest

def send(base, ids, **more):
    body = json.dumps({"model": "sim", "prompt": ids, "max_tokens": 1, "cache_salt": SALT, **more}).encode()
    request = urllib.request.Request(base + "/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)
"""


def test_a_test_without_kv_is_measured_whole(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    # 1,000 tokens twice at block 16: the second hits floor(999/16)*16 = 992 of 2,000 in all
    pytester.makepyfile(
        SEND
        + f"""
SALT = "whole"

@pytest.mark.hit_rate(target=0.496, tol=0.0)
def test_whole():
    for _ in range(2):
        send({sim!r}, list(range(1000)))

@pytest.mark.hit_rate(max=0.1)
def test_too_warm():
    send({sim!r}, list(range(1000)))
"""
    )
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["hit rate 0.992, wanted at most 0.100 (0.892 above): 992 of 1,000 tokens hit [[]KV202[]]"]
    )
    result.stdout.fnmatch_lines(["*the traffic was not sent by this package*"])


def test_whole_test_without_a_target_asks_for_one(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(SEND + f"SALT = 'n'\n@pytest.mark.hit_rate\ndef test_whole():\n    send({sim!r}, [1, 2, 3])\n")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: no rate is asked for and none is predicted here; give target=*[[]KV115[]]"]
    )


def test_measure_and_window(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        SEND
        + """
SALT = "measure"

def test_blocks(kv, kv_metrics, kv_endpoint):
    with kv.measure() as cold:
        send(kv_endpoint.url, list(range(320)))
    with kv_metrics.window() as warm:
        send(kv_endpoint.url, list(range(320)))
    assert (cold.result.hit_tokens, cold.result.query_tokens) == (0, 320)
    assert (warm.result.hit_tokens, warm.result.query_tokens) == (304, 320)
    assert kv_metrics.snapshot().total("sim:prefix_cache_queries_total") >= 640

def test_too_early(kv):
    with kv.measure() as block:
        with pytest.raises(Exception, match="when the block has ended"):
            block.result
"""
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=2)


@pytest.mark.parametrize("inner", ["kv.run(workload)", "kv.measure().__enter__()"])
def test_one_window_at_a_time(pytester: pytest.Pytester, run: Run, sim: str, inner: str) -> None:
    pytester.makepyfile(
        f"""
        def test_nested(kv, kv_workload):
            workload = kv_workload.shared_prefix(requests=1, input_len=32, hit_rate=0)
            with kv.measure():
                {inner}
        """
    )
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: * inside a measured block: one window at a time; leave the block out*"])


def test_empty_window_is_no_rate(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hit_rate(min=0)\ndef test_nothing(): pass\n")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: nothing was looked up in the window: 0 of 0 tokens is no*[[]KV106[]]"])


def test_usage_engine_cannot_measure_foreign_traffic(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hit_rate(min=0)\ndef test_nothing(): pass\n")
    result = run(f"--kv-endpoint={sim}", "--kv-engine=usage")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "inconclusive: *traffic of your own is measured by counters, and usage only has none;"
            " record its requests and send them with kv_workload.requests or kv_workload.prompts"
        ]
    )


def test_fixtures_can_be_overridden(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makeconftest(
        f"import dataclasses, pytest\n\n@pytest.fixture(scope='session')\ndef kv_settings(kv_settings):\n"
        f"    return dataclasses.replace(kv_settings, endpoint={sim!r}, concurrency=2)\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hit_rate(target=0.5)
        def test_mine(kv, kv_workload):
            kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.usefixtures("impatient")
def test_several_metrics_pages_are_several_engines(
    pytester: pytest.Pytester, run: Run, sim: str, start_sim: Callable[..., str]
) -> None:
    other = start_sim()
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.hit_rate(target=0.5, tol=0.0)
        def test_two_pages(kv, kv_workload):
            result = kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))
            queries = {{name: tokens.query for name, tokens in result.engines.items()}}
            assert queries == {{"{sim}/metrics 0": 1024, "{other}/metrics 0": 0}}
        """
    )
    pages = [f"--kv-metrics={sim}/metrics", f"--kv-metrics={other}/metrics"]
    run(f"--kv-endpoint={sim}", *pages).assert_outcomes(passed=1)
    result = run(f"--kv-endpoint={sim}", pages[1])  # the wrong engine's page: nothing arrives there
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: the server looked up 0 tokens where 144 were sent: 144 fewer; scrape every*KV104*"]
    )
