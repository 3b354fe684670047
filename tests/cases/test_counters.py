"""Counters that mislead: counted again, renamed, gauges, ranks, restarts, exemplars, ceilings, compressed pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from .conftest import Measure, Play, own, shared
from .stage import AT_REST, BLOCKS_OF_16, SGLANG_AT_REST, Stage, versioned, window

Start = Callable[..., str]
QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
BUILTIN = "--kv-tokenizer=builtin"


def vllm(query: object, hit: object, more: str = "") -> str:
    return f'{QUERIES}{{engine="0"}} {query}\n{HITS}{{engine="0"}} {hit}\n{more}{AT_REST}'


def prompts(*lengths: int) -> list[dict[str, int]]:
    return [{"prompt_tokens": length} for length in lengths]


# --- preempted requests that find their own blocks (M01) -------------------------------------------------------------


def recomputed(preemptions: str) -> Stage:
    before = vllm(0, 0, BLOCKS_OF_16 + (preemptions and f"{preemptions} 0\n"))
    after = vllm(102400, 30720, BLOCKS_OF_16 + (preemptions and f"{preemptions} 41\n"))
    return Stage(window(before, after, 100), prompts(1024))


@pytest.mark.parametrize("marker", ["min=0.25", "target=0.3, tol=0.0", ""])
def test_m01_recomputation_is_above_the_ceiling(measure: Measure, play: Play, marker: str) -> None:
    # 30,720 of 100 x 1,024 is 0.30, and nothing is shared.
    url = play(recomputed("vllm:num_preemptions_total"))
    outcome = measure(url, shared(marker, "requests=100, input_len=1024, hit_rate=0"), BUILTIN)
    assert outcome.verdict == "inconclusive"
    assert outcome.sentence.startswith("inconclusive: the measured rate 0.3000 is above 0.0000, the most that any")
    assert "41 preemptions" in outcome.sentence
    assert "[KV108]" in outcome.sentence
    assert outcome.rate == 0.3
    assert outcome.tokens == (30720, 102400)
    assert outcome.check["hit_rate"]["ceiling"] == 0.0
    assert outcome.check["pressure"]["preemptions"] == 41


def test_m01_without_preemptions_none_are_blamed(measure: Measure, play: Play) -> None:
    outcome = measure(play(recomputed("")), shared("min=0.25", "requests=100, input_len=1024, hit_rate=0"), BUILTIN)
    assert "[KV108]" in outcome.sentence
    assert "preempt" not in outcome.sentence


# --- other spellings of the names (M03) ------------------------------------------------------------------------------

LABELS = '{engine="0",model_name="m"}'
MILLION = {"prompt_tokens": 1_000_000}


def spelled(query: str, hit: str) -> list[str]:
    return window(
        f"{query}{LABELS} 5.12e+08\n{hit}{LABELS} 4.57e+08\n{AT_REST}",
        f"{query}{LABELS} 5.13e+08\n{hit}{LABELS} 4.578e+08\n{AT_REST}",
    )


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        (QUERIES, HITS),
        ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
        ("vllm:prefix_cache_queries", HITS),  # one of each
        ("vllm_prefix_cache_queries_total", "vllm_prefix_cache_hits_total"),  # OpenTelemetry
    ],
)
def test_m03_a_counter_with_and_without_its_suffix(measure: Measure, play: Play, query: str, hit: str) -> None:
    outcome = measure(play(Stage(spelled(query, hit), [MILLION])), own("target=0.8, tol=0.0"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (800_000, 1_000_000))


@pytest.mark.parametrize("version", ["0.32.0", None])
def test_m03_without_the_pair_there_is_no_rate(measure: Measure, play: Play, version: str | None) -> None:
    page = f"{AT_REST}vllm:prefix_cache_lookups_total{LABELS} 1\nvllm:prompt_tokens_total{LABELS} 10\n"
    stage = Stage([page], [MILLION], versioned(version) if version else {})
    outcome = measure(play(stage), own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    assert outcome.rate is None
    if version:
        assert "vllm:prefix_cache_hits_total, vllm:prefix_cache_queries_total" in outcome.sentence
    else:
        assert "vLLM (version unknown) has no counters that can be measured" in outcome.sentence


# --- a gauge of the last batch (M05) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gauge", ["0.0", "1.0", "NaN"])
def test_m05_counters_are_used_and_the_gauge_is_not(measure: Measure, play: Play, gauge: str) -> None:
    pages = window(
        "sglang:cached_tokens_total 1000\nsglang:prompt_tokens_total 2000\nsglang:cache_hit_rate 0.91\n"
        f"{SGLANG_AT_REST}",
        f"sglang:cached_tokens_total 1900\nsglang:prompt_tokens_total 3000\nsglang:cache_hit_rate {gauge}\n"
        f"{SGLANG_AT_REST}",
    )
    stage = Stage(pages, prompts(1000), versioned("0.5.10", "/get_server_info"))
    outcome = measure(play(stage), own("target=0.9, tol=0.0"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (900, 1000))
    assert outcome.check["engine"]["id"] == "sglang"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (f"# TYPE sglang:cache_hit_rate gauge\nsglang:cache_hit_rate 0.91\n{SGLANG_AT_REST}", "a gauge of the last"),
        (f"vllm:gpu_prefix_cache_hit_rate 0.91\n{AT_REST}", "only a gauge"),  # vLLM's first engine
    ],
)
def test_m05_the_gauge_alone_is_no_rate(measure: Measure, play: Play, page: str, reason: str) -> None:
    outcome = measure(play(Stage([page], prompts(1000))), own("min=0.0"))
    assert (outcome.verdict, outcome.rate) == ("inconclusive", None)
    assert reason in outcome.sentence


def test_m05_a_gauge_by_the_name_of_a_counter_is_not_differenced(measure: Measure, play: Play) -> None:
    gauge = f"# TYPE {HITS} gauge\n"
    outcome = measure(play(Stage(window(gauge + vllm(0, 0), gauge + vllm(100, 90)), prompts(100))), own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    assert "is a gauge" in outcome.sentence


# --- a series for each rank (M07) ------------------------------------------------------------------------------------

# Deltas of queries and hits of ranks 0 to 3: together 7,300 of 10,000, sent as ten prompts of 1,000.
RANKS = ((8000, 7200), (1000, 0), (1000, 100), (0, 0))
STARTS = ((50_000, 10), (0, 0), (7, 3), (900, 900))


def ranked(values: Sequence[Sequence[int]], query: str, hit: str, label: str, rest: str) -> str:
    lines = []
    for column, name in enumerate((query, hit)):
        lines += [f'{name}{{{label}="{rank}"}} {value[column]}' for rank, value in enumerate(values)]
    return "\n".join([*lines, rest])


@pytest.mark.parametrize(
    ("query", "hit", "label", "rest"),
    [
        (QUERIES, HITS, "engine", AT_REST),
        ("sglang:prompt_tokens_total", "sglang:cached_tokens_total", "dp_rank", SGLANG_AT_REST),
    ],
)
def test_m07_deltas_by_rank_then_the_sum(
    measure: Measure, play: Play, query: str, hit: str, label: str, rest: str
) -> None:
    ends = [[start + grown for start, grown in zip(*both, strict=True)] for both in zip(STARTS, RANKS, strict=True)]
    pages = window(ranked(STARTS, query, hit, label, rest), ranked(ends, query, hit, label, rest), 10)
    outcome = measure(play(Stage(pages, prompts(1000))), own("target=0.73, tol=0.0", 10))
    assert (outcome.verdict, outcome.tokens) == ("pass", (7300, 10000))
    assert {name: engine["hit_rate"] for name, engine in outcome.check["engines"].items()} == {
        "0": 0.9, "1": 0.0, "2": 0.1, "3": None,
    }  # fmt: skip


def test_m07_rates_by_rank_are_shown(measure: Measure, play: Play) -> None:
    pages = window(ranked([(0, 0)] * 4, QUERIES, HITS, "engine", AT_REST),
                   ranked(RANKS, QUERIES, HITS, "engine", AT_REST), 10)  # fmt: skip
    outcome = measure(play(Stage(pages, prompts(1000))), own("target=0.9", 10))
    assert outcome.sentence.startswith("hit rate 0.730")
    rows = [line.split() for line in outcome.output.splitlines() if line.startswith("  engine ")]
    assert [(row[1], row[-1]) for row in rows] == [("0", "0.900"), ("1", "0.000"), ("2", "0.100"), ("3", "-")]
    assert "0.333" not in outcome.output  # the mean of the rates


# --- an engine that restarts (M11) -----------------------------------------------------------------------------------


def started(query: int, hit: int, at: int | None) -> str:
    return vllm(query, hit, "" if at is None else f"process_start_time_seconds {at}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (started(5000, 4000, 1000), started(800, 600, 2000)),
        (started(5000, 4000, None), started(800, 600, None)),
        (started(5000, 4000, 1000), started(800, 600, 1000)),  # behind a proxy that answers with its own start
        (started(5000, 4000, 1000), started(5800, 4600, 2000)),  # the new counters have overtaken the old ones
        (started(5000, 4000, None), started(5800, 600, None)),  # one of the two is enough
        (started(5000, 4000, 1000), started(0, 0, 2000)),
    ],
)
def test_m11_counters_that_fell_are_no_rate(measure: Measure, play: Play, before: str, after: str) -> None:
    outcome = measure(play(Stage(window(before, after), prompts(800))), own("min=0.0"))
    assert (outcome.verdict, outcome.rate) == ("inconclusive", None)
    assert "the engine restarted" in outcome.finding("KV102")
    assert outcome.sentence.endswith("[KV102]")
    for wrong in ("0.8095", "0.810", "0.75"):  # (-3400)/(-4200), and "end minus 0": 600/800
        assert wrong not in outcome.output
    assert outcome.tokens == (None, None)


@pytest.mark.parametrize("counter", [0, 1])
def test_m11_one_of_two_engines_is_enough_and_named(measure: Measure, play: Play, counter: int) -> None:
    last = [[6000, 4800], [6000, 4800]]
    last[1][counter] = 600
    pages = window(ranked([(5000, 4000)] * 2, QUERIES, HITS, "engine", AT_REST),
                   ranked(last, QUERIES, HITS, "engine", AT_REST))  # fmt: skip
    outcome = measure(play(Stage(pages, prompts(1000))), own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    assert 'engine="1"' in outcome.finding("KV102")
    assert 'engine="0"' not in outcome.finding("KV102")


def test_m11_a_series_that_vanished_is_a_restart_too(measure: Measure, play: Play) -> None:
    pages = window(ranked([(5000, 4000)] * 2, QUERIES, HITS, "engine", AT_REST),
                   ranked([(6000, 4800)], QUERIES, HITS, "engine", AT_REST))  # fmt: skip
    outcome = measure(play(Stage(pages, prompts(1000))), own("min=0.0"))
    assert 'engine="1"' in outcome.finding("KV102")


# --- exemplars (M12) -------------------------------------------------------------------------------------------------


def exemplars(query: float, hit: float, buckets: str) -> str:
    return (
        f"{buckets}{AT_REST}# TYPE vllm:prefix_cache_queries counter\n"
        f'{QUERIES}{{engine="0"}} {query} # {{trace_id="a b # c"}} 16.0 1.7e9\n'
        f"# TYPE vllm:prefix_cache_hits counter\n"
        f'{HITS}{{engine="0"}} {hit} # {{trace_id="x"}} 16.0\n# EOF\n'
    )


def buckets(count: float) -> str:
    name = "vllm:time_to_first_token_seconds"
    return (
        f'# TYPE {name} histogram\n{name}_bucket{{engine="0",le="0.1"}} {count} # {{trace_id="y # z"}} 0.05 1.7e9\n'
        f'{name}_bucket{{engine="0",le="+Inf"}} {count} # {{trace_id="}}"}} 0.05\n'
        f'{name}_count{{engine="0"}} {count}\n{name}_sum{{engine="0"}} {count / 20}\n'
    )


def test_m12_values_are_read_before_exemplars(measure: Measure, play: Play) -> None:
    pages = window(exemplars(0.0, 0.0, buckets(0.0)), exemplars(1000.0, 640.0, buckets(1.0)))
    outcome = measure(play(Stage(pages, prompts(1000))), own("target=0.64, tol=0.0"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (640, 1000))
    assert outcome.check["server_latency_s"]["ttft"]["count"] == 1
    assert outcome.check["server_latency_s"]["ttft"]["mean"] == pytest.approx(0.05)


def test_m12_simulated_openmetrics_page(measure: Measure, start_sim: Start) -> None:
    url = start_sim("--fault", "metrics_openmetrics")
    outcome = measure(url, shared("target=0.5, tol=0.0", "requests=4, input_len=256, hit_rate=0.5"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (512, 1024))


# --- the cold request in the denominator (M15) -----------------------------------------------------------------------

# Three prompts of 16,007 tokens, one after another, blocks of 256: the second and the third find
# floor(15900/256)*256 = 15,872 tokens, 31,744 of 48,021 (0.6610) or of the warm 32,014 (0.9916).
HYBRID = "requests=3, input_len=16007, prefix_len=15900, prefill=False"


@pytest.mark.parametrize(
    ("marker", "tokens", "rate"),
    [
        ("tol=0.0", (31744, 48021), 0.6610),
        ("target=0.661, tol=0.0001", (31744, 48021), 0.6610),
        ("requests='warm', tol=0.0", (31744, 32014), 0.9916),
        ("requests='warm', min=0.99", (31744, 32014), 0.9916),
        ("requests='warm', source='usage', min=0.99", (31744, 32014), 0.9916),
    ],
)
def test_m15_all_requests_and_warm_ones(
    measure: Measure, start_sim: Start, marker: str, tokens: tuple[int, int], rate: float
) -> None:
    outcome = measure(start_sim("--block-size", "256"), shared(marker, HYBRID))
    assert (outcome.verdict, outcome.tokens) == ("pass", tokens)
    assert outcome.rate == pytest.approx(rate, abs=5e-5)
    assert outcome.check["hit_rate"]["warm"] == pytest.approx(0.9916, abs=5e-5)  # whichever is judged


def test_m15_a_gate_on_all_requests_does_not_take_the_warm_rate(measure: Measure, start_sim: Start) -> None:
    outcome = measure(start_sim("--block-size", "256"), shared("min=0.99", HYBRID))
    assert outcome.verdict == "fail"
    assert "0.992 over the requests that had something to hit" in outcome.output


@pytest.mark.parametrize(("scope", "queries"), [("all", 48021), ("warm", 32014)])
def test_m15_an_engine_that_finds_nothing_fails(measure: Measure, start_sim: Start, scope: str, queries: int) -> None:
    url = start_sim("--block-size", "256", "--fault", "readable_after=3600")
    outcome = measure(url, shared(f"requests='{scope}'", HYBRID))
    assert (outcome.verdict, outcome.tokens) == ("fail", (0, queries))
    assert outcome.check["hit_rate"]["warm"] == 0.0
    assert f"0 of {queries:,} tokens hit" in outcome.sentence
    assert "0 of 31,744 tokens" in outcome.finding("KV305")  # the expected hit tokens
    assert "0 of 31,744 tokens" in outcome.output


# --- a rate above the ceiling (M20) ----------------------------------------------------------------------------------

# Eight prompts of 1,000 tokens that share all that can be shared, one after another: 7 x floor(999/16)*16 = 6,944.
EIGHT = "requests=8, input_len=1000, prefix_len=999, prefill=False"


@pytest.mark.parametrize("marker", ["min=0.5", "target=0.961", ""])
def test_m20_above_the_ceiling_is_the_instruments_error(measure: Measure, play: Play, marker: str) -> None:
    pages = window(vllm(0, 0, BLOCKS_OF_16), vllm(8000, 7690, BLOCKS_OF_16), 8)
    outcome = measure(play(Stage(pages, prompts(1000))), shared(marker, EIGHT), BUILTIN)
    assert outcome.verdict == "inconclusive"
    assert outcome.sentence.startswith("inconclusive: the measured rate 0.9613 is above 0.8680")
    assert "[KV108]" in outcome.sentence
    assert outcome.check["hit_rate"]["ceiling"] == 0.868
    assert outcome.tokens == (7690, 8000)


def test_m20_usage_above_the_ceiling(measure: Measure, play: Play) -> None:
    # Every reply, the first one included, claims 992 of its 1,000 tokens.
    usage = {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 992}}
    pages = window(vllm(0, 0, BLOCKS_OF_16), vllm(8000, 6944, BLOCKS_OF_16), 8)
    outcome = measure(play(Stage(pages, [usage])), shared("min=0.5, source='usage'", EIGHT), BUILTIN)
    assert outcome.verdict == "inconclusive"
    assert "the measured rate 0.9920 is above 0.8680" in outcome.finding("KV108")


def test_m20_the_ceiling_itself_is_reached(measure: Measure, start_sim: Start) -> None:
    outcome = measure(start_sim(), shared("target=0.868, tol=0.0", EIGHT))
    assert (outcome.verdict, outcome.tokens) == ("pass", (6944, 8000))


# --- compressed pages, NaN and Inf (M24) -----------------------------------------------------------------------------


def noisy(query: object, hit: object) -> str:
    return "some_gauge NaN\n" + vllm(query, hit)


@pytest.mark.parametrize("compressed", [True, False])
def test_m24_a_compressed_page_with_a_nan_elsewhere(measure: Measure, play: Play, compressed: bool) -> None:
    stage = Stage(window(noisy(0, 0), noisy(100, 25)), prompts(100), compressed=compressed)
    outcome = measure(play(stage), own("target=0.25, tol=0.0"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (25, 100))


@pytest.mark.parametrize("marker", ["min=0.0", "max=1.0", "target=0.5"])
@pytest.mark.parametrize(
    ("query", "hit", "named"),
    [("+Inf", 25, QUERIES), ("NaN", 25, QUERIES), (100, "NaN", HITS), (100, "+Inf", HITS), (100, "-Inf", HITS)],
)
def test_m24_a_needed_counter_that_is_no_count(
    measure: Measure, play: Play, query: object, hit: object, named: str, marker: str
) -> None:
    stage = Stage(window(noisy(0, 0), noisy(query, hit)), prompts(100), compressed=True)
    outcome = measure(play(stage), own(marker))
    assert (outcome.verdict, outcome.rate) == ("inconclusive", None)
    assert f"{named} is " in outcome.sentence
    assert "which is no count" in outcome.sentence


def test_m24_simulated_proxy_that_compresses(measure: Measure, start_sim: Start) -> None:
    url = start_sim("--fault", "metrics_gzip")
    assert measure(url, shared("tol=0.0", "requests=4, input_len=256, hit_rate=0.5")).verdict == "pass"
