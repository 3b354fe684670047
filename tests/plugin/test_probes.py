"""``kv.probe`` and ``kv.aprobe`` in a user's tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run

SILENT = ("--fault", "metrics_drop=sim:cache_config_info")


def test_probes_alone_pass_without_a_verdict(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import asyncio

        def test_granularity(kv):
            grain = kv.probe.granularity()
            assert (grain.step, grain.minimum, grain.full_hit) == (16, 16, "L-1")

        def test_others(kv):
            assert kv.probe.isolation(by="cache_salt").own == 1008
            assert kv.probe.equivalence(prompts=1, output=2).wrong == ()
            assert kv.probe.lifetime(first=0.01, at_most=0.02).gone is None
            assert kv.probe.capacity(at_most=5000).lost is None

        def test_async(kv):
            asyncio.run(asked(kv))

        async def asked(kv):
            assert (await kv.aprobe.granularity(up_to=100)).up_to == 100
            assert (await kv.aprobe.isolation()).leaked_tokens == 0
            assert (await kv.aprobe.equivalence(prompts=1)).logprobs == 0.0
            assert (await kv.aprobe.lifetime(first=0.01, at_most=0.01)).gone is None
            assert (await kv.aprobe.capacity(at_most=5000)).lost is None
        """
    )
    result = run(f"--kv-endpoint={sim}", "-rP", "--kv-report=kv.json")
    result.assert_outcomes(passed=3)
    checks = {check["nodeid"].partition("::")[2]: check for check in json.loads(Path("kv.json").read_text())["checks"]}
    assert {check["verdict"] for check in checks.values()} == {"pass"}
    assert {check["hit_rate"]["measured"] for check in checks.values()} == {None}
    assert len(checks["test_others"]["probes"]) == 4
    result.stdout.fnmatch_lines(
        [
            "*granularity: credits in 16-token steps, a full hit is L-1 (8 requests)",
            "*isolation: cache_salt separates: 1,008 tokens under its own, 0 across (6 requests)",
            "*equivalence: warm answers to 1 prompt equal the cold ones, largest difference of logprobs 0.0000*",
            "*lifetime: still there after * s (4 requests)",
            "*capacity: at least 5,* tokens; the server tells 16,000,000 *",
        ]
    )
    assert "inconclusive" not in result.stdout.str()


def test_a_leak_and_wrong_kv_fail_in_the_tests_name(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest

        def test_leak(kv):
            kv.probe.isolation()

        def test_wrong(kv):
            kv.probe.equivalence(prompts=1)

        def test_leak_async(kv):
            asyncio.run(asked(kv))

        async def asked(kv):
            await kv.aprobe.isolation()

        @pytest.mark.xfail(strict=True)
        def test_expected(kv):
            kv.probe.isolation()
        """
    )
    faulty = start_sim("--fault", "isolation_leak", "--fault", "wrong_kv")
    result = run(f"--kv-endpoint={faulty}", "--kv-report=kv.json")
    result.assert_outcomes(failed=3, xfailed=1)
    checks = json.loads(Path("kv.json").read_text())["checks"]
    assert {check["verdict"] for check in checks} == {"fail"}
    assert sorted(finding["code"] for check in checks for finding in check["findings"]) == ["KV205"] * 3 + ["KV206"]
    result.stdout.fnmatch_lines(
        [
            "isolation: 1,008 of 1,024 tokens cached under another cache_salt were reused*[[]KV205[]]*",
            "equivalence: 1 of 1 prompt: the warm answer leaves the cold one at token 0 of 16 tokens*[[]KV206[]]*",
        ]
    )
    shown = result.stdout.str()
    assert "probing.py" not in shown
    assert "Traceback" not in shown


def test_what_cannot_be_probed_is_inconclusive(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    pytester.makepyfile(
        """
        def test_isolation(kv):
            kv.probe.isolation()

        def test_settle(kv):
            kv.probe.granularity(settle=-1)

        def test_api(kv):
            kv.probe.granularity(api="messages")

        def test_block(kv):
            with kv.measure():
                kv.probe.granularity()

        async def coroutine(kv):
            kv.probe.granularity()

        def test_in_a_loop(kv):
            import asyncio
            asyncio.run(coroutine(kv))
        """
    )
    result = run(f"--kv-endpoint={start_sim('--no-prefix-caching')}")
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "inconclusive: isolation: of 1,024 tokens nothing is cached even under the same cache_salt*",
            "inconclusive: kv.probe: settle=-1; expected seconds, 0 or more",
            "inconclusive: kv.probe: api='messages'; expected 'completions' or 'chat'",
            "inconclusive: kv.probe inside a measured block: *",
            "inconclusive: this is an async test: write `await kv.aprobe.granularity(...)`",
        ]
    )


PREDICTED = """
import pytest

{probe}

@pytest.mark.hit_rate(min=0.0)
def test_run(kv, kv_workload):
    result = kv.run(kv_workload.shared_prefix(requests=4, input_len=1000, prefix_len=500, output_len=1, align=None))
    print("predicted", result.predicted)
"""
PROBE = "def test_grain(kv):\n    kv.probe.granularity()"


@pytest.mark.parametrize(("probe", "predicted"), [("", "None"), (PROBE, "0.384")], ids=["unknown", "probed"])
def test_later_runs_predict_with_what_a_probe_found(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str], probe: str, predicted: str
) -> None:
    """Of 500 shared tokens 384 are three steps of 128, which this server does not tell."""
    pytester.makepyfile(PREDICTED.format(probe=probe))
    url = start_sim("--block-size", "128", *SILENT)
    result = run(f"--kv-endpoint={url}", "--kv-engine=sim", "-rP")
    shown = re.findall(r"^predicted (\S+)$", result.stdout.str(), re.MULTILINE)
    assert shown == [predicted]


def test_a_fixed_seed_does_not_let_a_probe_find_its_own_past(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("def test_grain(kv):\n    assert kv.probe.granularity().step == 16")
    for _ in range(2):
        run(f"--kv-endpoint={sim}", "--kv-seed=1").assert_outcomes(passed=1)


def test_more_fields_reach_the_server(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        def test_refused(kv):
            kv.probe.granularity(body={"max_tokens": 0})

        def test_tokens(kv):
            assert kv.probe.isolation(tokens=100, api="chat").tokens == 100
        """
    )
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: granularity: request 1 failed: HTTP 400: max_tokens must be at least 1*"]
    )
