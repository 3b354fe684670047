"""Counters that count a prompt more than once, or in blocks: what can be made of them, and what cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.model import Exchange, Failure, Finding, Measurement, ServerFacts, Tokens
from pytest_kvcache.reconcile import Sent, compare, corrected, counted_once, doubtful, in_tokens, sent

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
        ({"0": Tokens(9, {"local": 5})}, 16, Sent(164, 264, (100, 64)), "KV101"),  # likely not, but who knows
    ],
)
def test_blocks_that_cannot_become_tokens(blocks: dict[str, Tokens], size: int | None, sent: Sent, code: str) -> None:
    found = in_tokens(blocks, size, sent)
    assert isinstance(found, Finding)
    assert found.code == code


# --- retries ---------------------------------------------------------------------------------------------------------

ANSWERED = Exchange("load", 0.0, 1.0, sent=0.1, prompt_len=100, prompt_tokens=100)
REFUSED = Exchange("load", 0.0, 1.0, sent=0.1, prompt_len=100, status=429, failure=Failure("http", "HTTP 429"))
NEVER_SENT = Exchange("load", 0.0, 1.0, prompt_len=100, failure=Failure("connect", "refused"))


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (ANSWERED, Sent(100, 100, (100,))),
        (replace(ANSWERED, earlier=(REFUSED,)), Sent(100, 200, (100,))),
        (replace(ANSWERED, earlier=(REFUSED, NEVER_SENT, REFUSED)), Sent(100, 300, (100,))),
        (replace(REFUSED, earlier=(REFUSED,)), Sent(0, 200)),
        (replace(NEVER_SENT, earlier=(REFUSED,)), Sent(0, 100)),
        # only the answer tells how long the prompt was that all of them sent
        (replace(ANSWERED, prompt_len=None, earlier=(replace(REFUSED, prompt_len=None),)), Sent(100, 200, (100,))),
        # a stream tells its prompt's tokens first, whatever comes after
        (replace(REFUSED, prompt_len=None, prompt_ids=(1, 2, 3)), Sent(0, 3)),
        (replace(ANSWERED, prompt_tokens=None, prompt_len=None, prompt_ids=(1, 2, 3)), Sent(3, 3, (3,))),
        (replace(REFUSED, prompt_len=None, prompt_ids=(1, 2, 3), partial=True), Sent(0, 0)),
        (replace(ANSWERED, lookups=2, earlier=(REFUSED,)), Sent(200, 400, (100, 100))),
        (replace(ANSWERED, lookups=0, earlier=(REFUSED,)), Sent(0, 0)),
    ],
)
def test_an_earlier_attempt_may_have_been_looked_up(exchange: Exchange, expected: Sent) -> None:
    assert sent([exchange]) == expected


@pytest.mark.parametrize(
    ("query", "hit", "codes", "left_open"),
    [
        (200, 140, [], (0, 0)),  # refused before admission: nothing of it was counted
        # The gateway lost an answer that the engine had computed: 70 of its 100 hit, and 99 of the retry's.
        (300, 239, [], (100, 100)),
        (250, 169, [], (50, 50)),  # cut off inside
        (301, 239, ["KV103"], (101, 100)),
        (199, 140, ["KV104"], (0, 0)),
    ],
)
def test_what_a_retry_leaves_open(query: int, hit: int, codes: list[str], left_open: tuple[int, int]) -> None:
    cached = 70 if query <= 200 else 99
    first = replace(ANSWERED, cached_tokens=70)
    retried = replace(ANSWERED, cached_tokens=cached, earlier=(replace(REFUSED, status=504),))
    measured = Measurement(
        title="t",
        facts=ServerFacts(engine="vllm", model="m", caching=True),
        engines={"0": Tokens(query, {"local": hit}, query)},
        exchanges=(first, retried),
    )
    assert [finding.code for finding in compare(measured)] == codes
    assert doubtful(measured, hit) == left_open


def test_an_answer_without_usage_that_tells_its_tokens_can_be_checked() -> None:
    told = replace(ANSWERED, prompt_tokens=None, prompt_len=None, prompt_ids=tuple(range(100)))
    measured = Measurement("t", ServerFacts("sim", "m"), {"0": Tokens(100, {"local": 0})}, exchanges=(told,))
    assert not list(compare(measured))
    (finding,) = compare(replace(measured, exchanges=(replace(told, prompt_ids=None),)))
    assert finding.code == "KV111"
