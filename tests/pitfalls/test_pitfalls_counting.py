"""What is counted: repeated, in other units, as gauges, in overlapping parts, in several series."""

from __future__ import annotations

import pytest

from pytest_kvcache.engines import shipped
from pytest_kvcache.errors import CounterMissing, EndpointError
from pytest_kvcache.replies.usage import UsageMeter, readings

from .playback import HITS, QUERIES, Engine, measured, naive, naive_rate, prompts, rest, versioned, window

SGLANG = "sglang:cached_tokens_total", "sglang:prompt_tokens_total"


def vllm(query: int, hit: int, more: str = "") -> str:
    return f'{QUERIES}{{engine="0"}} {query}\n{HITS}{{engine="0"}} {hit}\n{more}{rest()}'


# --- P1: a waiting request is looked up again ------------------------------------------------------------------------

NO_CONNECTOR = (
    'vllm:external_prefix_cache_queries_total{engine="0"} 0\nvllm:external_prefix_cache_hits_total{engine="0"} 0\n'
)


def by_source(computed: int, cached: int) -> str:
    sources = {"local_compute": computed, "local_cache_hit": cached, "external_kv_transfer": 0}
    return f'{NO_CONNECTOR}vllm:prompt_tokens_total{{engine="0"}} {computed + cached}\n' + "".join(
        f'vllm:prompt_tokens_by_source_total{{engine="0",source="{source}"}} {tokens}\n'
        for source, tokens in sources.items()
    )


def test_p01_prompts_that_are_looked_up_again_while_they_wait() -> None:
    # Two prompts of 129 in blocks of 128; the second finds 128 and is looked up five times.
    before, after = vllm(0, 0, by_source(0, 0)), vllm(129 * 6, 128 * 5, by_source(130, 128))
    assert naive_rate(before, after) == pytest.approx(640 / 774)
    seen = measured(Engine(window(before, after, 2), prompts(129), versioned("0.20.2")), 2)
    verdict = seen.exactly(128, 258)
    assert [f.code for f in verdict.findings if f.code == "KV306"] == ["KV306"]


def test_p01_without_counters_that_count_once_there_is_no_rate() -> None:
    prompt = NO_CONNECTOR + 'vllm:prompt_tokens_total{engine="0"} %d\n'
    before, after = vllm(0, 0, prompt % 0), vllm(774, 640, prompt % 258)
    seen = measured(Engine(window(before, after, 2), prompts(129), versioned("0.14.1")), 2)
    assert "counted requests more than once: its prompt counter shows 258" in seen.refused("KV103")


# --- P2: blocks, items, keys -----------------------------------------------------------------------------------------

BLOCKS = "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"


def blocks(query: int, hit: int, size: str = "16") -> str:
    config = f'vllm:cache_config_info{{block_size="{size}",enable_prefix_caching="True"}} 1.0\n'
    return f'{BLOCKS[1]}{{model_name="m"}} {query}\n{BLOCKS[0]}{{model_name="m"}} {hit}\n{config}{rest()}'


def test_p02_blocks_are_no_tokens() -> None:
    # vLLM 0.8.5: of 47 tokens two whole blocks are looked up. The second prompt finds both, 32 of 94 tokens.
    before, after = blocks(100, 90), blocks(104, 92)
    assert naive_rate(before, after, *BLOCKS) == 0.5
    measured(Engine(window(before, after, 2), prompts(47), versioned("0.8.5")), 2).exactly(32, 94)


def test_p02_blocks_of_unknown_size_are_refused() -> None:
    pages = window(blocks(100, 90, "None"), blocks(104, 92, "None"), 2)
    seen = measured(Engine(pages, prompts(47), versioned("0.8.5")), 2)
    assert "does not tell how many tokens a block has" in seen.refused("KV101")


def test_p02_names_that_do_not_tell_their_unit_are_refused() -> None:
    with pytest.raises(EndpointError, match=r"blocks before 0.9.0 and tokens after, and the server does not tell"):
        measured(Engine([blocks(100, 90)], prompts(47)))


def test_p02_items_of_another_cache_are_not_tokens() -> None:
    media = 'vllm:mm_cache_queries_total{engine="0"} %d\nvllm:mm_cache_hits_total{engine="0"} %d\n'
    before, after = vllm(0, 0, media % (0, 0)), vllm(1000, 0, media % (90, 90))

    def anything(page: str, kind: str) -> float:
        return sum(float(line.split()[-1]) for line in page.splitlines() if f"cache_{kind}_total" in line)

    assert anything(after, "hits") / anything(after, "queries") == pytest.approx(90 / 1090)
    measured(Engine(window(before, after), prompts(1000))).exactly(0, 1000)


def test_p02_keys_of_a_store_are_refused() -> None:
    page = "mem_cache_hit_nums_ 80\nvalid_get_nums_ 100\ntotal_get_nums_ 100\n"
    assert naive(page, "mem_cache_hit_nums_") / naive(page, "total_get_nums_") == 0.8
    with pytest.raises(EndpointError, match="counts operations on keys, not tokens"):
        measured(Engine([page], prompts(1000)))


# --- P3: a gauge of the last batch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["0.95", "0", "NaN"])
def test_p03_a_rate_of_the_last_batch_is_not_the_windows(last: str) -> None:
    def page(query: int, hit: int, rate: str) -> str:
        return f"{SGLANG[1]} {query}\n{SGLANG[0]} {hit}\nsglang:cache_hit_rate {rate}\n{rest('sglang')}"

    before, after = page(1000, 900, "0.90"), page(3000, 1500, last)
    assert naive(after, "sglang:cache_hit_rate") != 0.3
    engine = Engine(window(before, after, 2), prompts(1000), versioned("0.5.10", "/get_server_info"))
    measured(engine, 2).exactly(600, 2000)


@pytest.mark.parametrize(
    "page",
    [
        f"sglang:cache_hit_rate 0.95\n{rest('sglang')}",
        "trtllm_kv_cache_hit_rate 0.95\ntrtllm_kv_cache_iter_reuse_rate 1.0\n",
        f"lmdeploy:prefix_cache_hit_rate 0.95\n{rest('lmdeploy')}",
        f"vllm:gpu_prefix_cache_hit_rate 0.95\n{rest()}",
        'npu_prefix_cache_hit_rate{model_name="m"} 0.95\n',
    ],
)
def test_p03_where_there_is_only_a_gauge_there_is_no_rate(page: str) -> None:
    with pytest.raises(EndpointError, match="gauge"):
        measured(Engine([page], prompts(1000)))


# --- P4: the tiers look up the same tokens ---------------------------------------------------------------------------


def test_p04_the_external_tier_looks_up_what_was_looked_up_before() -> None:
    # Two prompts of 500: 192 tokens from the device; of the other 808 the connector has 288.
    def page(local: int, external: int, total: int, found: int) -> str:
        tier = f'vllm:external_prefix_cache_queries_total{{engine="0"}} {external}\n'
        return vllm(total, local, f'{tier}vllm:external_prefix_cache_hits_total{{engine="0"}} {found}\n')

    before, after = page(0, 0, 0, 0), page(192, 808, 1000, 288)
    assert naive_rate(before, after) == 0.192
    hits = naive(after, HITS) + naive(after, "vllm:external_prefix_cache_hits_total")
    assert hits / (1000 + naive(after, "vllm:external_prefix_cache_queries_total")) == pytest.approx(480 / 1808)
    seen = measured(Engine(window(before, after, 2), prompts(500), versioned("0.32.0")), 2)
    seen.exactly(480, 1000)
    assert seen.verdict(target=0.288, tol=0.0, tier="external").status == "pass"
    assert seen.verdict(target=0.192, tol=0.0, tier="local").status == "pass"


# --- P5: the denominator is what was missed --------------------------------------------------------------------------


def test_p05_a_prompt_counter_that_leaves_the_cached_tokens_out() -> None:
    names = "llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens_total"
    before, after = (f"{names[0]} {hit}\n{names[1]} {miss}\n{rest('llamacpp')}" for hit, miss in ((0, 0), (800, 200)))
    assert naive_rate(before, after, *names) == 4.0
    measured(Engine(window(before, after), prompts(1000))).exactly(800, 1000)


def test_p05_a_prompt_number_that_leaves_the_cached_tokens_out() -> None:
    usage = {"input_tokens": 100, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 100}
    assert usage["cache_read_input_tokens"] / usage["input_tokens"] == 8.0
    meter = UsageMeter("messages", readings("messages", shipped().get("anthropic").usage))
    meter.take({"usage": usage})
    assert (meter.read().cached, meter.read().prompt) == (800, 1000)


# --- P6: series that appear late -------------------------------------------------------------------------------------


def test_p06_a_series_that_appears_with_the_first_hit_began_at_zero() -> None:
    before = f'sglang:num_running_reqs{{engine_type="unified"}} 0\n{rest("sglang")}'.replace(
        "sglang:num_running_reqs 0\n", ""
    )
    after = before + f'{SGLANG[1]}{{model_name="m"}} 2000\n{SGLANG[0]}{{model_name="m",cache_source="device"}} 900\n'
    there = {line.split()[0] for line in before.splitlines()}
    known = "\n".join(line for line in after.splitlines() if line.split()[0] in there)
    with pytest.raises(ZeroDivisionError):  # by the series of the start
        naive_rate(before, known, *SGLANG)
    engine = Engine(window(before, after, 2), prompts(1000), versioned("0.5.10", "/get_server_info"))
    measured(engine, 2).exactly(900, 2000)


def test_p06_where_series_are_always_there_a_missing_one_is_no_zero() -> None:
    before, after = (f'{QUERIES}{{engine="0"}} {query}\n{rest()}' for query in (0, 2000))
    assert naive_rate(before, after) == 0.0
    with pytest.raises(CounterMissing, match=HITS):
        measured(Engine(window(before, after, 2), prompts(1000), versioned("0.32.0")), 2)


# --- P8: several series ----------------------------------------------------------------------------------------------


def test_p08_series_of_another_model_are_not_ours() -> None:
    names = "dynamo_frontend_cached_tokens_sum", "dynamo_frontend_input_sequence_tokens_sum"

    def page(ours: tuple[int, int], theirs: tuple[int, int]) -> str:
        return "".join(
            f'{name}{{model="{model}"}} {values[index]}\n'
            for model, values in (("m", ours), ("other", theirs))
            for index, name in enumerate(names)
        )

    before, after = page((0, 0), (0, 0)), page((900, 1000), (0, 1000))
    assert naive_rate(before, after, *names) == 0.45
    measured(Engine(window(before, after), prompts(1000))).exactly(900, 1000)


def test_p08_ranks_that_repeat_the_same_tokens_count_once() -> None:
    # Two data-parallel engines: one of a single rank, one of three tensor-parallel ranks which count the same.
    name = "sglang:prefill_effective_tokens_total"

    def page(first: tuple[int, int], second: tuple[int, int]) -> str:
        lines = []
        for dp, tp, (hit, new) in ((0, 0, first), (1, 1, second), (1, 2, second), (1, 3, second)):
            for mode, tokens in (("device_hit", hit), ("input", new), ("host_hit", 0), ("storage_hit", 0)):
                lines.append(f'{name}{{mode="{mode}",dp_rank="{dp}",tp_rank="{tp}"}} {tokens}\n')
        return "".join(lines) + rest("sglang")

    before, after = page((0, 0), (0, 0)), page((900, 100), (0, 1000))
    assert naive_rate(before, after, f'{name}{{mode="device_hit"', name) == 0.225
    measured(Engine(window(before, after, 2), prompts(1000)), 2).exactly(900, 2000)


def test_p08_rates_of_engines_are_not_averaged() -> None:
    def page(first: tuple[int, int], second: tuple[int, int]) -> str:
        lines = "".join(f'{QUERIES}{{engine="{n}"}} {q}\n' for n, (q, _) in enumerate((first, second)))
        return lines + "".join(f'{HITS}{{engine="{n}"}} {h}\n' for n, (_, h) in enumerate((first, second))) + rest()

    before, after = page((0, 0), (5000, 10)), page((9000, 8100), (6000, 10))
    assert (8100 / 9000 + 0 / 1000) / 2 == 0.45
    measured(Engine(window(before, after, 10), prompts(1000)), 10).exactly(8100, 10000)
