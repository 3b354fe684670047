"""What replies say of cached tokens: left out, camel-cased, above the prompt, all of the prompt, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Measure, Play, own, shared
from .stage import Stage

Start = Callable[..., str]
BY_USAGE = "--kv-engine=usage"


# --- a zero that is left out (U01) -----------------------------------------------------------------------------------

WARM = {"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 1984}}


@pytest.mark.parametrize(
    "cold",
    [
        {"prompt_tokens": 2000, "prompt_tokens_details": None},
        {"prompt_tokens": 2000},
        {"prompt_tokens": 2000, "prompt_tokens_details": {}},
        {"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": None}},
    ],
)
def test_u01_null_is_unknown_unless_it_is_declared_zero(measure: Measure, play: Play, cold: dict[str, Any]) -> None:
    url = play(Stage(usages=[cold, WARM]))
    unknown = measure(url, own("min=0.4, source='usage'", 2), BY_USAGE)
    assert unknown.verdict == "inconclusive"
    assert unknown.rate is None
    assert "only 1 of 2 replies report cached_tokens" in unknown.finding("KV111")
    assert "--kv-usage-absent=zero" in unknown.finding("KV111")

    zero = measure(url, own("target=0.496, tol=0.0, source='usage'", 2), BY_USAGE, "--kv-usage-absent=zero")
    assert zero.verdict == "pass"
    assert zero.tokens == (1984, 4000)  # 0.496
    assert zero.check["source"] == "usage"


def test_u01_simulated_server_that_drops_zeros(measure: Measure, start_sim: Start) -> None:
    # Blocks of 16: the second of two prompts of 2000 tokens finds floor(1999/16)*16 = 1984 of 4000.
    url = start_sim("--fault", "usage_drop_zero")
    workload = "requests=2, input_len=2000, prefix_len=1999, prefill=False"
    assert "only 1 of 2" in measure(url, shared("source='usage'", workload)).finding("KV111")
    zero = measure(url, shared("source='usage', tol=0.0", workload), "--kv-usage-absent=zero")
    assert (zero.verdict, zero.tokens) == ("pass", (1984, 4000))


def test_u01_null_is_not_the_ceiling_of_a_warm_gate(measure: Measure, start_sim: Start) -> None:
    url = start_sim("--fault", "usage_drop_zero")
    # The cold request, whose zero is left out, is in neither sum: 1984 of 2000, whatever its null means.
    body = shared("requests='warm', source='usage'", "requests=2, input_len=2000, prefix_len=1999, prefill=False")
    for words in ((), ("--kv-usage-absent=zero",)):
        warm = measure(url, body, *words)
        assert (warm.verdict, warm.tokens, warm.rate) == ("pass", (1984, 2000), 0.992)


# --- a provider's own form (U03) -------------------------------------------------------------------------------------

CAMEL = {
    "prompt_tokens": 2181,
    "completion_tokens": 57,
    "total_tokens": 2518,
    "reasoning_tokens": 280,
    "prompt_tokens_details": None,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2181}],
}


@pytest.mark.parametrize(
    "usage",
    [
        CAMEL,
        {**CAMEL, "total_tokens": 0},
        {**CAMEL, "total_tokens": "many"},
        {**CAMEL, "promptTokensDetails": {"cachedTokens": 2181}},  # a key that nobody documents is not guessed
    ],
)
def test_u03_unknown_keys_are_ignored_and_cached_is_unknown(
    measure: Measure, play: Play, usage: dict[str, Any]
) -> None:
    body = own("min=0.0, source='usage'").replace("    kv.run(", "    result = kv.run(")
    body += "    (only,) = result.exchanges\n    assert (only.ok, only.prompt_tokens, only.completion_tokens,"
    body += " only.cached_tokens) == (True, 2181, 57, None)\n"
    outcome = measure(play(Stage(usages=[usage])), body, BY_USAGE)
    assert outcome.verdict == "inconclusive"
    assert "only 0 of 1 replies report cached_tokens" in outcome.finding("KV111")
    assert outcome.rate is None
    assert "assert (only.ok" not in outcome.output


# --- cached above prompt (U04) ---------------------------------------------------------------------------------------

EXCLUSIVE = {"prompt_tokens": 200, "prompt_tokens_details": {"cached_tokens": 1800}}


def test_u04_cached_above_prompt_is_refused_with_a_hint(measure: Measure, play: Play) -> None:
    outcome = measure(play(Stage(usages=[EXCLUSIVE])), own("min=0.5, source='usage'"), BY_USAGE)
    assert outcome.verdict == "inconclusive"
    assert outcome.sentence.startswith("inconclusive: a reply reports 1,800 cached of 200 prompt tokens")
    assert "--kv-usage-prompt=uncached" in outcome.finding("KV112")
    assert "hit rate 9" not in outcome.output
    assert "hit rate 1.0" not in outcome.output  # nor clipped


def test_u04_exclusive_convention_when_it_is_declared(measure: Measure, play: Play) -> None:
    body = own("target=0.9, tol=0.0, source='usage'")
    outcome = measure(play(Stage(usages=[EXCLUSIVE])), body, BY_USAGE, "--kv-usage-prompt=uncached")
    assert (outcome.verdict, outcome.tokens) == ("pass", (1800, 2000))


def test_u04_one_reply_in_ten_is_enough(measure: Measure, play: Play) -> None:
    usages = [{"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 0}}] * 9 + [EXCLUSIVE]
    outcome = measure(play(Stage(usages=usages)), own("min=0.0, source='usage'", 10), BY_USAGE)
    assert "KV112" in outcome.sentence


def test_u04_simulated_server_with_the_exclusive_convention(measure: Measure, start_sim: Start) -> None:
    url = start_sim("--fault", "usage_uncached_prompt")
    body = shared("target=0.5, tol=0.0", "requests=8, input_len=256, hit_rate=0.5")
    assert measure(url, body).verdict == "inconclusive"
    assert measure(url, body, "--kv-usage-prompt=uncached").verdict == "pass"


# --- all of the prompt cached (U07) ----------------------------------------------------------------------------------


def test_u07_a_first_request_cannot_be_cached_whole(measure: Measure, play: Play) -> None:
    usage = {"prompt_tokens": 512, "prompt_tokens_details": {"cached_tokens": 512}}
    outcome = measure(play(Stage(usages=[usage])), own("min=0.5, source='usage'"), BY_USAGE)
    assert outcome.verdict == "inconclusive"
    assert outcome.sentence.startswith("inconclusive: a reply reports all of its 512 prompt tokens as cached")
    assert "decode" in outcome.finding("KV122")


def test_u07_all_but_one_token_is_possible(measure: Measure, play: Play) -> None:
    usage = {"prompt_tokens": 512, "prompt_tokens_details": {"cached_tokens": 511}}
    outcome = measure(play(Stage(usages=[usage])), own("min=0.5, source='usage'"), BY_USAGE)
    assert (outcome.verdict, outcome.tokens) == ("pass", (511, 512))


@pytest.mark.parametrize("source", ["usage", "counters"])
def test_u07_simulated_decode_side(measure: Measure, start_sim: Start, source: str) -> None:
    url = start_sim("--fault", "usage_all_cached")
    outcome = measure(url, shared(f"min=0.0, source='{source}'", "requests=4, input_len=512, hit_rate=0"))
    assert outcome.verdict == "inconclusive"
    assert "KV122" in outcome.codes


# --- refused requests (S12) ------------------------------------------------------------------------------------------

# One request warms the prefix, then 30 are measured; every sixth request of the server's is refused: 5 of the 30.
LOAD = "requests=30, input_len=100, prefix_len=80"


@pytest.fixture
def busy(start_sim: Start) -> str:
    return start_sim("--fault", "status=429", "--fault", "every=6", "--fault", "retry_after=0")


@pytest.mark.parametrize("source", ["usage", "counters"])
def test_s12_a_refused_request_fails_the_gate_and_is_in_no_rate(measure: Measure, busy: str, source: str) -> None:
    outcome = measure(busy, shared(f"target=0.8, tol=0.0, source='{source}'", LOAD))
    assert outcome.verdict == "fail"
    assert outcome.tokens == (2000, 2500)  # 25 x 80 of 25 x 100
    assert outcome.rate == 0.8
    assert (outcome.check["requests"]["total"], outcome.check["requests"]["failed"]) == (30, 5)
    assert outcome.sentence.startswith("hit rate 0.800")
    assert "5 of 30 requests failed: 5 x HTTP 429" in outcome.sentence
    assert "[KV203]" in outcome.sentence
    assert outcome.check["ttft_s"]["count"] == outcome.check["e2e_s"]["count"] == 25


@pytest.mark.parametrize(("allowed", "verdict", "code"), [(5, "pass", "KV313"), (4, "fail", "KV203")])
def test_s12_a_limit_allows_failed_requests(measure: Measure, busy: str, allowed: int, verdict: str, code: str) -> None:
    outcome = measure(busy, shared(f"target=0.8, tol=0.0, max_failed={allowed}", LOAD))
    assert (outcome.verdict, outcome.tokens, outcome.codes) == (verdict, (2000, 2500), {code})


def test_s12_a_limit_is_no_licence_for_another_rate(measure: Measure, busy: str) -> None:
    outcome = measure(busy, shared("target=0.9, max_failed=5", LOAD))
    assert (outcome.verdict, outcome.codes) == ("fail", {"KV201", "KV313"})
