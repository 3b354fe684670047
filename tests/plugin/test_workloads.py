"""Every shape of synthetic traffic hits, on a server, what is predicted: to the token, request by request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_kvcache.simulate.process import SimProcess

from ..conftest import FAST
from .conftest import Run

SHAPES = {
    "cold": "shared_prefix(10, 4 * B + 5, prefix_len=2 * B + 3, prefill=False, output_len=1)",
    "warm": "shared_prefix(10, 4 * B, 0.5, prefixes=3, output_len=1)",
    "unaligned": "shared_prefix(6, 5 * B + 1, 0.47, align=None, output_len=1)",
    "zipf": "shared_prefix(20, 4 * B, 0.5, prefixes=5, weights='zipf', output_len=1)",
    "weighted": "shared_prefix(12, 4 * B, 0.75, prefixes=3, weights=[3, 0, 1], output_len=1)",
    "tree": "shared_prefix(12, 6 * B + 7, tree=[(1, B), (2, B + 5), (6, 2 * B - 2)], output_len=1)",
    "cold tree": "shared_prefix(12, 5 * B, tree=[(1, B), (3, 2 * B)], prefill=False, output_len=1)",
    "rates": "shared_prefix(12, 4 * B, {0: 0.25, 0.25: 0.25, 0.75: 0.5}, prefixes=2, output_len=1)",
    "cold rates": "shared_prefix(12, 4 * B, [0.0, 0.25, 0.75], prefixes=2, prefill=False, output_len=1)",
    "lengths": "shared_prefix(12, {2 * B: 0.75, 8 * B: 0.25}, 0.5, prefixes=2, output_len=1)",
    "text": "shared_prefix(8, 4 * B, 0.5, send='text', output_len=1)",
    "chat": "shared_prefix(8, 6 * B + 60, prefix_len=4 * B, prefixes=2, send='chat', output_len=1)",
    "chat tree": "shared_prefix(8, 6 * B + 60, tree=[(2, 2 * B + 50), (4, B)], send='chat', output_len=1)",
    "cold chat": "shared_prefix(6, 6 * B + 60, prefix_len=4 * B, send='chat', prefill=False, output_len=1)",
    "set": "working_set(4 * 4 * B, 4 * B, 0.5, output_len=1)",
    "set drawn": "working_set(3 * 5 * B, 5 * B, 0.7, requests=9, selection='random', output_len=1)",
    "set in chunks": "working_set(3 * 9 * B, 9 * B, 0.9, chunk=2 * B + 2, output_len=1)",
    "set as text": "working_set(3 * 4 * B, 4 * B, 1.0, send='text', output_len=1)",
    "set as chats": "working_set(2 * (4 * B + 60), 4 * B + 60, 0.5, send='chat', output_len=1)",
}
NOTHING = {"cold misses": "shared_prefix(6, 3 * B, 0, output_len=1)", "set misses": "working_set(9 * B, 3 * B, 0.0)"}

TEST = """
import pytest

B = {block}

@pytest.mark.parametrize("shape", {shapes!r})
@pytest.mark.hit_rate(min={least})
def test_shape(kv, kv_workload, shape):
    workload = eval("kv_workload." + shape)
    result = kv.run(workload, concurrency=1)
    seen, predicted = result.measurement, result.measurement.prediction
    assert [e.cached_tokens for e in seen.exchanges] == list(predicted.per_request)
    assert (result.hit_tokens, result.query_tokens) == (predicted.hit_tokens, predicted.query_tokens)
    cached = sum(e.cached_tokens for e in seen.prefill)
    # a chat's header is predicted as warm; the first chat may find it cold
    assert predicted.prefill_hit_tokens - cached in (0, B if "chat" in shape else 0)
    assert "KV301" not in [finding.code for finding in result.verdict.findings]
    assert all(tokens % B == 0 for tokens in predicted.per_request)
    assert {least} == 0 or predicted.hit_tokens > 0
    assert {least} > 0 or predicted.hit_tokens == 0
"""


@pytest.fixture(scope="module", params=[64, 256])
def blocks(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A simulated engine of its own block size, without delays."""
    with SimProcess(*FAST, "--block-size", str(request.param)) as process:
        yield process.url, request.param


def test_hits_are_what_is_predicted(pytester: pytest.Pytester, run: Run, blocks: tuple[str, int]) -> None:
    url, block = blocks
    pytester.makepyfile(
        test_some=TEST.format(block=block, shapes=list(SHAPES.values()), least=0.01),
        test_none=TEST.format(block=block, shapes=list(NOTHING.values()), least=0),
    )
    run(f"--kv-endpoint={url}", "--kv-sample-interval=0").assert_outcomes(passed=len(SHAPES) + len(NOTHING))


def test_the_built_in_engine(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(TEST.format(block=16, shapes=list(SHAPES.values()), least=0.01))
    run("--kv-endpoint=sim", "--kv-sample-interval=0").assert_outcomes(passed=len(SHAPES))


def test_figures_by_hand(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hit_rate(target=0.5, tol=0.0)
        def test_tree(kv, kv_workload):
            # three paths of 64 + 64 of 256 tokens; the second and third prefill find the root
            tree = kv_workload.shared_prefix(9, 256, tree=[(1, 64), (3, 64)], output_len=1)
            result = kv.run(tree)
            assert (result.hit_tokens, result.query_tokens) == (9 * 128, 9 * 256)
            assert result.measurement.prediction.prefill_hit_tokens == 2 * 64

        @pytest.mark.hit_rate(target=0.21875, tol=0.0)
        def test_three_quarters_at_zero(kv, kv_workload):
            result = kv.run(kv_workload.shared_prefix(16, 128, {0.0: 0.75, 1 - 1/8: 0.125, 0.5: 0.0, 0.99: 0.125},
                            tol=0.2, output_len=1))
            cached = sorted(e.cached_tokens for e in result.exchanges)
            assert cached == [0] * 12 + [112] * 4
            assert result.hit_tokens == 4 * 112

        @pytest.mark.hit_rate(target=0.5, tol=0.0)
        def test_chat(kv, kv_workload):
            assert kv.run(kv_workload.shared_prefix(4, 512, 0.5, send="chat", output_len=1)).hit_tokens == 4 * 256
        """
    )
    run("--kv-endpoint=sim", "--kv-sample-interval=0").assert_outcomes(passed=3)


REINIT = """
import pytest

@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reinit", ["once", "per_rate", "per_test"])
@pytest.mark.hit_rate(min=0)
def test_set(kv, kv_workload, reinit, rate):
    for _ in range(2):
        workload = kv_workload.working_set(640, 160, rate, reinit=reinit, output_len=1)
        result = kv.run(workload)
        expected = {0.0: 0, 0.5: 80, 1.0: 144}[rate]  # of 160, in whole blocks, never the last token
        assert [e.cached_tokens for e in result.exchanges] == [expected] * 4
        predicted = result.measurement.prediction
        assert predicted.per_request == (expected,) * 4
        print("WARMED", reinit, rate, [len(result.measurement.prefill), predicted.prefill_hit_tokens])
"""


def test_a_set_is_warmed_as_often_as_asked(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(REINIT)
    result = run("--kv-endpoint=sim", "--kv-sample-interval=0", "-s")
    result.assert_outcomes(passed=9)
    seen = [line for line in result.outlines if "WARMED" in line]
    warmed = {name: [line.endswith("[4, 0]") for line in seen if f"WARMED {name} " in line] for name in
              ("once", "per_rate", "per_test")}  # fmt: skip
    assert warmed["once"] == [True] + [False] * 5
    assert warmed["per_rate"] == [True, False] * 3
    assert warmed["per_test"] == [True] * 6
    assert sum(line.endswith("[0, 0]") for line in seen) == 5 + 3


def test_a_set_larger_than_the_cache_is_predicted_as_if_it_fitted(
    pytester: pytest.Pytester, run: Run, start_sim: object
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hit_rate(max=0.0)
        def test_set(kv, kv_workload):
            result = kv.run(kv_workload.working_set(10 * 160, 160, 0.5, output_len=1), concurrency=1)
            assert result.predicted == 0.5
            assert result.hit_tokens == 0  # in turn, through a cache of three contexts: always the next to be evicted
        """
    )
    url = start_sim("--capacity-blocks", "30")  # type: ignore[operator] # the fixture's function
    run(f"--kv-endpoint={url}", "--kv-sample-interval=0").assert_outcomes(passed=1)
