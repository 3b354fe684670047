"""Recorded pages of real engines to tokens. The right numbers are the recordings' own probes, added by hand."""

from __future__ import annotations

import json

import pytest

from pytest_kvcache.engines import Reader
from pytest_kvcache.engines.counters import in_flight, recounted, tokens_by_engine
from pytest_kvcache.errors import CounterReset
from pytest_kvcache.model import Tokens
from pytest_kvcache.scrape import Snapshot

from .pages import DATA, reader, recorded, written

VLLM = reader("vllm", "v1-admission")
EFFECTIVE, FINISH = reader("sglang", "effective"), reader("sglang", "finish")
LLAMACPP = reader("llamacpp", "cached")
DYNAMO = reader("dynamo", "frontend")


def replayed(engine: Reader, folder: str, before: str, after: str) -> dict[str, Tokens]:
    return tokens_by_engine(engine, recorded(f"{folder}/{before}"), recorded(f"{folder}/{after}"))


def vllm(query: int, local: int, external: int = 0) -> Tokens:
    return Tokens(query=query, hits={"local": local, "external": external}, prompt=query)


@pytest.mark.parametrize(
    ("before", "after", "engines"),
    [
        ("01_before", "02_after_first", {"0": vllm(801, 0)}),
        ("02_after_first", "03_after_identical", {"0": vllm(801, 6 * 128)}),  # floor(800 / 128) blocks
        # 29,281 prompt tokens with 8 preemptions: a request that is resumed is not looked up again
        ("20_small_kv_before", "21_small_kv_after_eviction_and_preemption", {"0": vllm(29281, 8192)}),
        # eight prompts of 600; twice 576 tokens came from files
        ("30_external_example_connector_before", "30_external_example_connector_after", {"0": vllm(4800, 1440, 1152)}),
        # on each engine two hits of 576 without a pinned rank, one with; the rest is new
        (
            "40_data_parallel_2_before",
            "40_data_parallel_2_after",
            {"0": vllm(26400, 3 * 576), "1": vllm(25800, 3 * 576)},
        ),
        ("41_api_server_count_2_before", "41_api_server_count_2_after", {"0": vllm(50400, 6 * 576)}),
    ],
)
def test_vllm(before: str, after: str, engines: dict[str, Tokens]) -> None:
    assert replayed(VLLM, "vllm-0.32.0", before, after) == engines


def test_vllm_connector_steps_add_up_to_the_page() -> None:
    steps = json.loads((DATA / "vllm-0.32.0/30_external_example_connector.json").read_text())
    deltas = [part for step in _flat(steps) for part in [step] if "q" in part]
    found = replayed(
        VLLM, "vllm-0.32.0", "30_external_example_connector_before", "30_external_example_connector_after"
    )["0"]
    for key, told in (("q", found.query), ("h", found.hits["local"]), ("xh", found.hits["external"])):
        assert sum(part.get(key, 0) for part in deltas) == told


def _flat(value: object) -> list[dict[str, float]]:
    if isinstance(value, dict):
        return [value, *(found for inner in value.values() for found in _flat(inner))]
    return [found for inner in value for found in _flat(inner)] if isinstance(value, list) else []


def test_vllm_without_prefix_caching_looks_nothing_up() -> None:
    after = recorded("vllm-0.32.0/50_prefix_caching_off_after")  # a fresh server, then one prompt of 600 twice
    fresh = {key: 0.0 if key[0].endswith("_total") else value for key, value in after.samples.items()}
    found = tokens_by_engine(VLLM, Snapshot(0.0, fresh, kinds=after.kinds), after)
    assert found == {"0": Tokens(query=0, hits={"local": 0, "external": 0}, prompt=1200)}


def test_vllm_with_a_connector_alone_is_measured_by_what_the_connector_was_asked() -> None:
    def page(asked: int, found: int) -> Snapshot:
        return written(
            'vllm:prefix_cache_queries_total{engine="0"} 0',
            'vllm:prefix_cache_hits_total{engine="0"} 0',
            f'vllm:external_prefix_cache_queries_total{{engine="0"}} {asked}',
            f'vllm:external_prefix_cache_hits_total{{engine="0"}} {found}',
        )

    assert tokens_by_engine(VLLM, page(600, 0), page(1200, 576)) == {
        "0": Tokens(query=600, hits={"local": 0, "external": 576})
    }


def retried(recomputed: bool) -> tuple[Snapshot, Snapshot]:
    """129 tokens in blocks of 128, twice; the second waited for one step and was looked up twice."""
    hit = 129 if recomputed else 128  # with the last token, which is computed again
    zero = [
        'vllm:prefix_cache_queries_total{engine="0"} 0',
        'vllm:prefix_cache_hits_total{engine="0"} 0',
        'vllm:external_prefix_cache_hits_total{engine="0"} 0',
        'vllm:prompt_tokens_total{engine="0"} 0',
        'vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 0',
        'vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 0',
        'vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 0',
        *(['vllm:prompt_tokens_recomputed_total{engine="0"} 0'] if recomputed else []),
    ]
    ends = [3 * 129, 2 * 128, 0, 2 * 129, 129 + 1, hit, 0, 1]
    return written(*zero), written(*(f"{line[:-1]}{end}" for line, end in zip(zero, ends, strict=False)))


@pytest.mark.parametrize(("variant", "recomputed"), [("v1-lookup-recomputed", True), ("v1-lookup-by-source", False)])
def test_vllm_counts_a_retried_prompt_once_in_the_recount(variant: str, recomputed: bool) -> None:
    engine = reader("vllm", variant)
    before, after = retried(recomputed)
    assert tokens_by_engine(engine, before, after)["0"].query == 3 * 129
    again = recounted(engine, before, after)["0"]
    assert (again.query, again.hits) == (2 * 129, {"local": 128, "external": 0})


@pytest.mark.parametrize(
    ("before", "after", "query", "hit"),
    [
        ("01_before", "02_after_first", 801, 0),
        ("02_after_first", "03_after_identical", 801, 800),
        ("01_before", "09_after_all", 47670 + 1638, 17490),  # not streamed, streamed
    ],
)
def test_sglang_counts_the_same_by_both_families(before: str, after: str, query: int, hit: int) -> None:
    effective = replayed(EFFECTIVE, "sglang-0.5.23", before, after)
    finish = replayed(FINISH, "sglang-0.5.23", before, after)
    assert effective == {"0": Tokens(query=query, hits={"local": hit, "host": 0, "storage": 0}, prompt=query)}
    assert finish == {"0": Tokens(query=query, hits={"local": hit}, prompt=query)}


def test_sglang_hits_without_a_tier_are_not_lost() -> None:
    def page(*hits: int) -> Snapshot:
        labels = ('{model_name="m"}', '{cache_source="total"}', '{cache_source="device"}', '{cache_source="host"}')
        lines = [f"sglang:cached_tokens_total{label} {hit}" for label, hit in zip(labels, hits, strict=True) if hit]
        return written('sglang:prompt_tokens_total{model_name="m"} 1000', *lines)

    before, after = page(0, 0, 0, 0), page(1, 20, 300, 4000)
    assert tokens_by_engine(FINISH, before, after)["0"].hits == {"local": 321, "host": 4000}


def test_sglang_ranks_of_one_engine_count_once_and_data_parallel_engines_apart() -> None:
    def page(factor: int) -> Snapshot:
        lines = []
        for dp, tp in ((0, 0), (0, 1), (1, 2), (1, 3)):  # two engines of two tensor-parallel ranks
            labels = f'dp_rank="{dp}",tp_rank="{tp}",pp_rank="0",moe_ep_rank="{tp}"'
            for mode, tokens in (("input", 10 + dp), ("device_hit", 90), ("host_hit", 5), ("storage_hit", 0)):
                lines.append(f'sglang:prefill_effective_tokens_total{{mode="{mode}",{labels}}} {factor * tokens}')
        return written(*lines)

    found = tokens_by_engine(EFFECTIVE, page(1), page(2))
    assert {name: (tokens.query, dict(tokens.hits)) for name, tokens in found.items()} == {
        "0": (105, {"local": 90, "host": 5, "storage": 0}),
        "1": (106, {"local": 90, "host": 5, "storage": 0}),
    }


@pytest.mark.parametrize(
    ("before", "after", "query", "hit"),
    [
        ("01_before", "03_after_first", 801, 0),
        ("03_after_first", "04_after_identical", 801, 800),
        ("01_before", "13_after_all", 17469 + 18601, 18601),  # computed and cached
    ],
)
def test_llamacpp(before: str, after: str, query: int, hit: int) -> None:
    assert replayed(LLAMACPP, "llamacpp-b11434", before, after) == {"0": Tokens(query=query, hits={"local": hit})}


def test_llamacpp_prints_six_digits() -> None:
    def page(computed: str, cached: str) -> Snapshot:
        return written(f"llamacpp:prompt_tokens_total {computed}", f"llamacpp:prompt_tokens_cached_total {cached}")

    found = tokens_by_engine(LLAMACPP, page("8.56286e+06", "100"), page("8.56386e+06", "4100"))["0"]
    assert (found.query, found.hit) == (5000, 4000)
    assert (found.query_error, found.hit_error) == (10, 0)  # five at each end of what is printed in tens


@pytest.mark.parametrize(
    ("before", "after", "query", "hit"),
    [
        ("01_frontend_before", "02_frontend_after_first", 819, 0),
        ("02_frontend_after_first", "03_frontend_after_identical", 3 * 819, 3 * 800),
        # five times 819, once 823, then each length twice; the second of each finds floor((L - 1) / 32) blocks
        (
            "01_frontend_before",
            "05_frontend_after_all",
            5 * 819 + 823 + 2 * (31 + 32 + 33 + 64 + 65 + 100 + 320 + 321),
            5 * 800 + 0 + 0 + 32 + 32 + 64 + 96 + 288 + 320,
        ),
    ],
)
def test_dynamo_frontend(before: str, after: str, query: int, hit: int) -> None:
    found = replayed(DYNAMO, "dynamo-mocker-1.6.1", before, after)
    assert found == {"0": Tokens(query=query, hits={"local": hit})}


def test_trtllm_by_tokens_and_by_blocks() -> None:
    def page(tokens: int, cached: int, reused: int, missed: int) -> Snapshot:
        return written(
            f"trtllm_prompt_tokens_total {tokens}",
            f"trtllm_prompt_cached_tokens_total {cached}",
            f"trtllm_kv_cache_reused_blocks_total {reused}",
            f"trtllm_kv_cache_missed_blocks_total {missed}",
        )

    before, after = page(100, 0, 2, 8), page(1100, 640, 22, 20)
    by_tokens = tokens_by_engine(reader("trtllm", "request-tokens"), before, after)["0"]
    by_blocks = tokens_by_engine(reader("trtllm", "blocks"), before, after)["0"]
    assert (by_tokens.query, by_tokens.hit) == (1000, 640)
    assert (by_blocks.query, by_blocks.hit) == (32, 20)


@pytest.mark.parametrize(
    ("engine", "page"),
    [(DYNAMO, "dynamo-mocker-1.6.1/01_frontend_before"), (FINISH, "sglang-0.5.23/01_before")],
)
def test_series_that_are_not_there_yet_are_zero(engine: Reader, page: str) -> None:
    assert engine.variant is not None
    assert engine.variant.needed() == frozenset()
    assert sum(tokens.query for tokens in tokens_by_engine(engine, recorded(page), recorded(page)).values()) == 0


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (VLLM, "vllm-0.32.0/03_after_identical"),
        (VLLM, "vllm-0.32.0/40_data_parallel_2_after"),
        (EFFECTIVE, "sglang-0.5.23/09_after_all"),
        (LLAMACPP, "llamacpp-b11434/13_after_all"),
    ],
)
def test_engines_at_rest_say_so(engine: Reader, name: str) -> None:
    assert in_flight(engine, recorded(name)) == 0


def test_a_restarted_engine_is_no_measurement() -> None:
    with pytest.raises(CounterReset):
        replayed(VLLM, "vllm-0.32.0", "10_after_semantics", "03_after_identical")
