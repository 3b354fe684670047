"""What is read: samples by name, printed digits, prompts that differ, other names, log lines."""

from __future__ import annotations

import json
import re
from collections import deque

import pytest

from pytest_kvcache.calls import Calls
from pytest_kvcache.engines import shipped
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.tokens import load_tokenizer

from .playback import HITS, QUERIES, Engine, measured, naive, naive_rate, prompts, rest, twice, vllm, window

# --- P21, P22: samples that are not the ones -------------------------------------------------------------------------


def test_p21_a_mean_of_ratios_is_not_weighted_by_tokens() -> None:
    # 900 of 1,000 and 0 of 9,000.
    ratio = "lmdeploy:request_cache_hit_ratio"

    def page(hit: int, query: int, ratios: float, count: int) -> str:
        return (
            f"lmdeploy:cached_tokens_total {hit}\nlmdeploy:prompt_tokens_total {query}\n"
            f"{ratio}_sum {ratios}\n{ratio}_count {count}\n{rest('lmdeploy')}"
        )

    before, after = page(0, 0, 0, 0), page(900, 10_000, 0.9, 2)
    assert naive_rate(before, after, f"{ratio}_sum", f"{ratio}_count") == 0.45
    measured(Engine(window(before, after, 2), prompts(1000, 9000)), 2).exactly(900, 10_000)


def test_p22_samples_whose_names_only_begin_so() -> None:
    # An engine whose first request is in the window brings its `_created` along.
    created = (
        'vllm:prefix_cache_queries_created{engine="1"} 1.7e+09\nvllm:prefix_cache_hits_created{engine="1"} 1.7e+09\n'
    )
    born = f'{QUERIES}{{engine="1"}} 500\n{HITS}{{engine="1"}} 0\n{created}'
    before, after = vllm(0, 0), vllm(500, 200, more=born)
    assert naive_rate(before, after, "vllm:prefix_cache_hits", "vllm:prefix_cache_queries") == pytest.approx(1.0)
    measured(Engine(window(before, after, 2), prompts(500)), 2).exactly(200, 1000)


def test_p22_buckets_and_counts_are_no_sums() -> None:
    names = "dynamo_frontend_cached_tokens", "dynamo_frontend_input_sequence_tokens"

    def page(hit: int, query: int, count: int) -> str:
        return "".join(
            f'{name}_bucket{{model="m",le="+Inf"}} {count}\n{name}_sum{{model="m"}} {total}\n'
            f'{name}_count{{model="m"}} {count}\n'
            for name, total in zip(names, (hit, query), strict=True)
        )

    before, after = page(0, 0, 0), page(64, 100, 1)
    assert naive_rate(before, after, *names) == pytest.approx(66 / 102)
    measured(Engine(window(before, after), prompts(100))).exactly(64, 100)


# --- P23: printed digits ---------------------------------------------------------------------------------------------


def rounded() -> tuple[str, str]:
    """802 of 1,002 tokens, on counters past a million: printed are 810 and 200."""

    def page(cached: int, computed: int) -> str:
        return (
            f"llamacpp:prompt_tokens_cached_total {cached:g}\nllamacpp:prompt_tokens_total {computed:g}\n"
            f"{rest('llamacpp')}"
        )

    return page(1_234_564, 2_000_004), page(1_235_366, 2_000_204)


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({"min": 0.7}, "pass", None),
        ({"max": 0.9}, "pass", None),
        ({"min": 0.9}, "fail", "KV201"),
        ({"max": 0.7}, "fail", "KV202"),
        ({"min": 0.8}, "inconclusive", "KV123"),
        ({"min": 0.802}, "inconclusive", "KV123"),  # the truth is below, what is printed is not
        ({"target": 0.8, "tol": 0.001}, "inconclusive", "KV123"),
    ],
)
def test_p23_digits_that_are_not_printed(wish: dict[str, float], status: str, code: str | None) -> None:
    before, after = rounded()
    names = "llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens"
    assert naive_rate(before, after, *names) == pytest.approx(810 / 1010)  # 0.80198; true are 0.80040
    verdict = measured(Engine(window(before, after), prompts(1002))).verdict(**wish)
    assert verdict.status == status, verdict.sentence
    assert code is None or verdict.findings[0].code == code
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low <= 802 / 1002 <= verdict.high
    assert verdict.high - verdict.low < 0.1


# --- P25: prompts that differ ----------------------------------------------------------------------------------------


def test_p25_prompts_that_are_salted_on_their_way_are_told_from_a_cold_cache() -> None:
    # The engine finds nothing, because somebody salts the prompts. Counters alone: 0.0, as of a broken cache.
    assert naive_rate(vllm(1000, 0), vllm(2000, 0)) == 0.0
    verdict = twice(1000, 0).verdict()
    assert (verdict.status, verdict.hit_rate, verdict.predicted) == ("fail", 0.0, 0.992)
    with_usage = measured(
        Engine([vllm(0, 0), vllm(1000, 0), vllm(2000, 0)], prompts(1000, cached=[0])),
        WorkloadBuilder().shared_prefix(requests=1, input_len=1000, prefix_len=999, align=None, output_len=1, seed=1),
    ).verdict()
    assert "first: request 0 with 0 of 992" in str(with_usage.findings)


def test_p25_prompts_that_are_built_are_the_same_again_and_hold_no_time() -> None:
    def bodies() -> list[str]:
        facts = ServerFacts("vllm", "m", block_size=16)
        workload = WorkloadBuilder().shared_prefix(1, 1000, prefix_len=999, align=None, output_len=1, seed=1)
        composed = workload.compose(facts, load_tokenizer("builtin"), "nonce", as_ids=True)
        calls = Calls(shipped().get("vllm"), facts)
        return [json.dumps(calls(request).body) for request in (*composed.prefill(), *composed.load())]

    warm, load = bodies()
    assert (warm, load) == tuple(bodies())
    prompts_ = [json.loads(body)["prompt"] for body in (warm, load)]
    assert prompts_[0][:999] == prompts_[1][:999]
    assert prompts_[0][999:] != prompts_[1][999:]
    assert list(json.loads(warm)) == list(json.loads(load))
    assert "cache_salt" not in warm


# --- P26, P27: other names, other sources ----------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["vllm_", "ray_vllm_"])
def test_p26_names_that_are_written_differently(prefix: str) -> None:
    before, after = (page.replace("vllm:", prefix) for page in (vllm(0, 0), vllm(1000, 400)))
    with pytest.raises(ZeroDivisionError):
        naive_rate(before, after)
    measured(Engine(window(before, after), prompts(1000))).exactly(400, 1000)


def test_p26_a_prefix_of_the_operators_choice() -> None:
    before, after = (page.replace("vllm:", "aibrix:") for page in (vllm(0, 0), vllm(1000, 400)))
    assert naive(after, QUERIES) == 0.0
    renamed = {"renamed": ("vllm:", "aibrix:")}
    measured(Engine(window(before, after), prompts(1000)), engine="vllm", source=renamed).exactly(400, 1000)


def test_p27_the_log_line_is_about_other_requests() -> None:
    recent: deque[tuple[int, int]] = deque([(100, 90)] * 1000, maxlen=1000)  # what the engine logs its rate over
    recent.extend([(100, 20)] * 10)
    rate = 100 * sum(hit for _, hit in recent) / sum(query for query, _ in recent)
    logged = f"Engine 000: Avg prompt throughput: 10.0 tokens/s, Prefix cache hit rate: {rate:.1f}%"
    found = re.search(r"hit rate: ([\d.]+)%", logged)
    assert found is not None
    assert float(found[1]) == 89.3
    before, after = vllm(100_000, 90_000), vllm(101_000, 90_200)
    measured(Engine(window(before, after, 10), prompts(100)), 10).exactly(200, 1000)
