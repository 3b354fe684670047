"""Verdicts that say why: the main cause of a missed rate, retries, and the room that unknown tokens leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.judge import judge
from pytest_kvcache.model import Divergence, Expectation, Loss, Measurement, Prediction, Waterfall

from .test_judge import codes, exchange, failed, measurement, prediction

COLD = Loss("cold", 300, "1 of 2 requests was the first to use its prefix", "warm each prefix before the window")
EVICTED = Loss("eviction", 800, "a cache of 4,096 tokens would have kept them; this one has 2,048", "a larger cache")


def with_losses(*losses: Loss, hits: tuple[int, int] = (704, 204)) -> Measurement:
    m = measurement(*(exchange(cached=hit) for hit in hits))
    reused = sum(hits)
    return replace(m, waterfall=Waterfall(reused + sum(loss.tokens for loss in losses), losses, reused))


def test_the_largest_loss_ends_the_sentence() -> None:
    verdict = judge(Expectation(min=0.7), [with_losses(COLD, EVICTED)])
    assert verdict.sentence == (
        "hit rate 0.454, wanted at least 0.700 (0.246 below): 908 of 2,000 tokens hit [KV201]. 800 tokens lost to"
        " eviction; a cache of 4,096 tokens would have kept them; this one has 2,048; a larger cache [KV324]"
    )
    assert [f.code for f in verdict.findings if f.code in ("KV320", "KV324")] == ["KV324"]


def test_what_every_workload_loses_is_told_as_the_cause_and_is_no_finding() -> None:
    assert "KV320" not in codes(with_losses(COLD))
    missed = judge(Expectation(min=0.5), [with_losses(COLD)])
    assert missed.sentence.endswith("; warm each prefix before the window [KV320]")
    assert [f.code for f in missed.findings if f.code.startswith("KV32")] == []


def test_the_cause_is_the_largest_over_all_runs() -> None:
    verdict = judge(Expectation(min=0.6), [with_losses(COLD), with_losses(EVICTED), with_losses(COLD)])
    assert verdict.sentence.endswith("[KV324]")


def test_a_wish_that_no_cache_can_fulfil_is_called_one() -> None:
    m = with_losses(COLD)  # 1,208 of 2,000 tokens are shared
    assert judge(Expectation(min=0.61), [m]).sentence.endswith(
        "908 of 2,000 tokens hit [KV201]. These prompts share 1,208 of 2,000 tokens with each other: no cache reaches"
        " more than 0.604; share more of them, or ask for less [KV315]"
    )
    assert judge(Expectation(min=0.6), [m]).sentence.endswith("[KV320]")
    assert "KV315" not in judge(Expectation(min=0.61), [replace(m, waterfall=None)]).sentence
    assert "KV315" not in judge(Expectation(min=0.61, requests="warm"), [m]).sentence


def test_a_wish_a_little_out_of_reach_does_not_hide_what_went_wrong() -> None:
    m = with_losses(EVICTED, hits=(204, 204))  # 1,208 of 2,000 tokens are shared
    assert judge(Expectation(min=0.61), [m]).sentence.endswith("[KV324]")
    assert judge(Expectation(min=1.0), [m]).sentence.endswith("[KV324]")  # 792 tokens out of reach, 800 evicted
    less = Loss("eviction", 700)
    assert judge(Expectation(min=1.0), [with_losses(less, hits=(254, 254))]).sentence.endswith("[KV315]")


@pytest.mark.parametrize(
    ("pairs", "losses", "code"),
    [
        (1, (EVICTED,), "KV324"),  # 500 tokens in one of four pairs: about 250 of two requests
        (4, (EVICTED,), "KV330"),
        (1, (COLD,), "KV315"),
        (2, (COLD,), "KV330"),
        (1, (replace(EVICTED, cause="template"),), "KV330"),  # as which its cost may appear
        (1, (), "KV330"),
    ],
)
def test_a_harmless_divergence_does_not_hide_what_went_wrong(pairs: int, losses: tuple[Loss, ...], code: str) -> None:
    parted = Divergence("timestamp", "system message", token=100, tokens=1000, recoverable=600, pairs=pairs, of_pairs=4)
    m = replace(with_losses(*losses, hits=(100, 100)), divergence=parted)
    assert judge(Expectation(min=0.6), [m]).sentence.endswith(f"[{code}]")
    assert "KV330" in codes(m)
    assert judge(Expectation(min=0.6), [replace(m, waterfall=None)]).sentence.endswith("[KV330]")


def test_what_a_template_alters_costs_what_turns_lost() -> None:
    """Only the beginning of an answer is lost where requests part, and behind it all of the answer."""
    parted = Divergence("template_history", "message 1 (assistant)", token=100, tokens=1000, recoverable=100, pairs=4)
    m = with_losses(COLD, replace(EVICTED, cause="template"), hits=(100, 100))
    assert judge(Expectation(min=0.6), [replace(m, divergence=parted)]).sentence.endswith("[KV330]")
    m = with_losses(EVICTED, replace(COLD, cause="template"), hits=(100, 100))
    assert judge(Expectation(min=0.6), [replace(m, divergence=parted)]).sentence.endswith("[KV324]")


def test_a_wish_is_weighed_against_what_was_answered() -> None:
    m = with_losses(COLD)
    m = replace(m, exchanges=(*m.exchanges, failed()), prediction=prediction(704, 704, 0))
    sentence = judge(Expectation(min=0.61, max_failed=1), [m]).sentence
    assert "These prompts share 1,208 of 2,000 tokens with each other" in sentence


def test_a_cache_that_is_off_is_why_nothing_was_reused() -> None:
    m = with_losses(Loss("unexplained", 1408), hits=(0, 0))
    assert {"KV305", "KV312", "KV326"} <= set(codes(m))
    assert codes(replace(m, facts=replace(m.facts, caching=False))) == ["KV107"]


def test_a_wait_is_advised_that_has_an_effect() -> None:
    """Only what was warmed first can be waited for with ``settle``."""
    m = with_losses(Loss("unexplained", 1408), hits=(0, 0))
    for prefill, advised in (((), "think_time=30"), (m.exchanges, "kv.run(..., settle=30)")):
        findings = judge(Expectation(min=0.6), [replace(m, prefill=prefill)]).findings
        (advice,) = [finding.advice for finding in findings if finding.code == "KV312"]
        assert advised in advice


def test_turns_that_are_left_out_are_told() -> None:
    turns = [replace(exchange(cached=hit), session=0, turn=number) for number, hit in enumerate((0, 704))]
    verdict = judge(Expectation(min=0.7, skip_turns=1), [measurement(*turns, prediction=prediction(0, 704))])
    assert verdict.sentence == "hit rate 0.704, wanted at least 0.700 from turn 1 on: 704 of 1,000 tokens hit"


def test_a_pass_has_no_cause_in_its_sentence() -> None:
    verdict = judge(Expectation(min=0.4), [with_losses(COLD, EVICTED)])
    assert verdict.status == "pass"
    assert verdict.sentence.endswith("tokens hit")


def test_more_than_predicted_is_no_loss() -> None:
    assert codes(with_losses(Loss("surplus", -16))) == codes(with_losses())


def test_a_prediction_with_room_is_met_within_it() -> None:
    def of(cached: int, slack: int) -> str:
        m = measurement(exchange(cached=cached), prediction=Prediction(704, 1000, (704,), 16, slack=slack))
        return judge(Expectation(tol=0.0), [m]).status

    assert of(704, 0) == of(704, 96) == of(800, 96) == "pass"
    assert of(688, 96) == "fail"
    assert of(720, 0) == of(816, 96) == "inconclusive"  # above what any cache can reach


def test_retried_requests_are_told() -> None:
    again = replace(exchange(), earlier=(failed(), failed()))
    (told,) = [f for f in judge(Expectation(target=0.7), [measurement(exchange(), again)]).findings if "314" in f.code]
    assert told.sentence.startswith("1 of 2 requests were tried again, first because of HTTP 429: slow down")


def test_one_token_by_chance_is_no_warm_start_where_credit_is_given_by_the_token() -> None:
    def warmed(cached: int, block: int) -> bool:
        prefill = (replace(exchange(cached=cached), phase="prefill"),)
        facts = replace(measurement(exchange()).facts, block_size=block)
        return "KV301" in codes(measurement(exchange(), prefill=prefill, facts=facts))

    assert not warmed(1, block=1)
    assert warmed(2, block=1)
    assert warmed(16, block=16)
