"""Counters that count a prompt more than once, or in blocks: what can be made of them, and what cannot."""

from __future__ import annotations

import pytest

from pytest_kvcache.model import Finding, Tokens
from pytest_kvcache.reconcile import Sent, corrected, counted_once, in_tokens

# 1,000 prompt tokens, 480 hit, each looked up three times while it waited
INFLATED = {"0": Tokens(3000, {"local": 1440}, 1000)}
ONCE = {"0": Tokens(1000, {"local": 480}, 1000)}
SENT = Sent(1000, 1000, (500, 500))


def test_waiting_requests_that_were_counted_again_are_counted_once() -> None:
    engines, finding = corrected(INFLATED, ONCE, SENT)
    assert engines == ONCE
    assert finding is not None
    assert finding.code == "KV306"
    assert "3,000 tokens looked up where 1,000 were sent" in finding.sentence


@pytest.mark.parametrize(
    "recounted",
    [
        {},  # before vLLM 0.16 there are no counters by source
        {"0": Tokens(1300, {"local": 480}, 1300)},  # they show more than was sent, too: another client
    ],
)
def test_what_does_not_fit_what_was_sent_is_no_correction(recounted: dict[str, Tokens]) -> None:
    assert corrected(INFLATED, recounted, SENT) == (INFLATED, None)


def test_counters_that_fit_need_no_correction() -> None:
    assert corrected(ONCE, {"0": Tokens(1000, {"local": 1}, 1000)}, SENT) == (ONCE, None)


def test_traffic_of_others_is_measured_against_the_engines_own_prompt_counter() -> None:
    engines, finding = counted_once(INFLATED, ONCE, repeats=True)
    assert (engines, finding and finding.code) == (ONCE, "KV306")
    engines, finding = counted_once(INFLATED, {}, repeats=True)
    assert (engines, finding and finding.code) == (INFLATED, "KV103")
    assert counted_once(INFLATED, {}, repeats=False) == (INFLATED, None)  # clients that leave do that, too
    assert counted_once(ONCE, {}, repeats=True) == (ONCE, None)


def test_blocks_become_tokens_where_the_prompts_are_known() -> None:
    # prompts of 100 and 64 tokens in blocks of 16: 6 full blocks, and 3 to 4 of the second; 5 hit
    for blocks in (9, 10, 11):
        found = in_tokens({"0": Tokens(blocks, {"local": 5})}, 16, Sent(164, 164, (100, 64)))
        assert found == {"0": Tokens(164, {"local": 80})}


@pytest.mark.parametrize(
    ("blocks", "size", "sent", "code"),
    [
        ({"0": Tokens(8, {"local": 5})}, 16, Sent(164, 164, (100, 64)), "KV104"),
        ({"0": Tokens(12, {"local": 5})}, 16, Sent(164, 164, (100, 64)), "KV103"),
        ({"0": Tokens(9, {"local": 5})}, None, Sent(164, 164, (100, 64)), "KV101"),
        ({"0": Tokens(5, {}), "1": Tokens(4, {})}, 16, Sent(164, 164, (100, 64)), "KV101"),
        ({"0": Tokens(9, {"local": 5})}, 16, Sent(100, 164, (100,)), "KV103"),  # one failed: seen or not?
    ],
)
def test_blocks_that_cannot_become_tokens(blocks: dict[str, Tokens], size: int | None, sent: Sent, code: str) -> None:
    found = in_tokens(blocks, size, sent)
    assert isinstance(found, Finding)
    assert found.code == code
