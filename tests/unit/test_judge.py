"""Verdicts by hand: what is measured, is it valid, is it what was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.diagnose import findings
from pytest_kvcache.errors import ExpectationFailed, MeasurementError
from pytest_kvcache.judge import judge
from pytest_kvcache.model import (
    Exchange,
    Expectation,
    Failure,
    Finding,
    Loss,
    Measurement,
    Prediction,
    ServerFacts,
    Tokens,
    Waterfall,
)
from pytest_kvcache.result import Result

FACTS = ServerFacts(engine="vllm", model="tiny", variant="v1-admission", version="0.32.0", block_size=16, caching=True)


def exchange(prompt: int = 1000, cached: int | None = 704, **more: object) -> Exchange:
    seen = {"prompt_tokens": prompt, "prompt_len": prompt, "cached_tokens": cached, "sent": 0.0, "status": 200}
    return Exchange(phase="load", queued=0.0, end=1.0, **{**seen, **more})  # type: ignore[arg-type] # a test's shorthand


def failed(message: str = "HTTP 429: slow down", **more: object) -> Exchange:
    failure = Failure("http", message, more.pop("retry_after", None))  # type: ignore[arg-type] # a test's shorthand
    return exchange(prompt_tokens=None, cached_tokens=None, status=429, failure=failure, **more)


def prediction(*hits: int, query: int = 1000) -> Prediction:
    return Prediction(sum(hits), query * len(hits), hits, 16)


def measurement(*exchanges: Exchange, **more: object) -> Measurement:
    whole = [e for e in exchanges if e.ok]
    query = sum(e.prompt_tokens or 0 for e in whole)
    hit = sum(e.cached_tokens or 0 for e in whole)
    seen = {
        "engines": {"0": Tokens(query, {"local": hit, "external": 0}, query)},
        "exchanges": exchanges,
        "prediction": prediction(*[704] * len(exchanges)),
    }
    return Measurement(title="t", **{"facts": FACTS, **seen, **more})  # type: ignore[arg-type] # a test's shorthand


NOTHING = {"0": Tokens(0, {"local": 0})}
GOOD = measurement(exchange(), exchange())


def codes(m: Measurement) -> list[str]:
    return [finding.code for finding in findings(m)]


def test_pass_says_what_was_measured() -> None:
    verdict = judge(Expectation(target=0.7), [GOOD])
    assert verdict.status == "pass"
    assert verdict.sentence == "hit rate 0.704, wanted 0.700 ± 0.020: 1,408 of 2,000 tokens hit"
    assert (verdict.hit_tokens, verdict.query_tokens, verdict.source) == (1408, 2000, "counters")
    assert verdict.findings == ()
    verdict.check()


@pytest.mark.parametrize(
    ("expectation", "status", "code"),
    [
        (Expectation(target=0.724), "pass", None),  # exactly tol away
        (Expectation(target=0.7241), "fail", "KV201"),
        (Expectation(target=0.684), "pass", None),
        (Expectation(target=0.6839), "fail", "KV202"),
        (Expectation(min=0.704), "pass", None),
        (Expectation(min=0.7041), "fail", "KV201"),
        (Expectation(max=0.704), "pass", None),
        (Expectation(max=0.7039), "fail", "KV202"),
        (Expectation(target=0.7, tol=0.05, min=0.71), "fail", "KV201"),
        (Expectation(), "pass", None),  # the prediction is the target
    ],
)
def test_bounds_are_inclusive(expectation: Expectation, status: str, code: str | None) -> None:
    verdict = judge(expectation, [GOOD])
    assert verdict.status == status
    assert [f.code for f in verdict.findings] == ([code] if code else [])


def test_a_sentence_says_what_was_wanted_only_where_a_rate_was() -> None:
    told = [measurement(exchange())]
    assert judge(Expectation(min=0.0), told).sentence == "hit rate 0.704: 704 of 1,000 tokens hit"
    assert "wanted at least 0.000 and at most 0.800:" in judge(Expectation(min=0.0, max=0.8), told).sentence


def test_failure_sentence_begins_with_hit_rate() -> None:
    verdict = judge(Expectation(target=0.8), [GOOD])
    assert verdict.sentence == "hit rate 0.704, wanted 0.800 ± 0.020 (0.096 below): 1,408 of 2,000 tokens hit [KV201]"
    with pytest.raises(ExpectationFailed) as caught:
        verdict.check()
    assert caught.value.verdict is verdict


def test_two_windows_are_summed_never_averaged() -> None:
    small = measurement(exchange(prompt=100, cached=0), prediction=prediction(0, query=100))
    assert judge(Expectation(min=0), [GOOD, small]).hit_rate == 1408 / 2100


@pytest.mark.parametrize(
    ("block", "hit", "valid"), [(1, 16, True), (2, 16, True), (1, 17, False), (3, 3, False), (16, 16, False)]
)
def test_where_blocks_are_a_token_or_two_distinct_prompts_may_begin_alike(block: int, hit: int, valid: bool) -> None:
    cold = Prediction(0, 8000, (0,) * 8, block)
    m = measurement(*[exchange(cached=None)] * 8, engines={"0": Tokens(8000, {"local": hit})}, prediction=cold)
    assert ("KV108" not in [f.code for f in judge(Expectation(max=1.0), [m]).findings]) is valid


def test_ceiling_whatever_the_marker_asked() -> None:
    # eight identical prompts of 1000 tokens at block 16: at most 7 x 992 = 6,944 of 8,000 hit; 7,690 were reported
    m = measurement(
        *[exchange(cached=None)] * 8, engines={"0": Tokens(8000, {"local": 7690})}, prediction=prediction(0, *[992] * 7)
    )
    verdict = judge(Expectation(min=0.5), [m])
    assert verdict.status == "inconclusive"
    assert verdict.ceiling == 0.868
    assert "KV108" in verdict.sentence
    assert verdict.sentence.startswith("inconclusive: the measured rate 0.9613 is above 0.8680")


@pytest.mark.parametrize(
    ("m", "code"),
    [
        (replace(GOOD, engines={"0": Tokens(2600, {"local": 1408})}), "KV103"),
        (replace(GOOD, engines={"0": Tokens(1400, {"local": 1408})}), "KV104"),
        (replace(GOOD, engines={"0": Tokens(2000, {"local": 1392})}), "KV114"),
        (replace(GOOD, engines={}, findings=(Finding("KV102", "fell"),)), "KV102"),
        (replace(GOOD, engines=NOTHING, exchanges=(), facts=replace(FACTS, caching=False)), "KV107"),
        (replace(GOOD, engines=NOTHING, exchanges=()), "KV106"),
        (measurement(failed(), failed(), engines=NOTHING), "KV109"),
        (measurement(exchange(cached=1001)), "KV112"),
        (measurement(exchange(prompt=0, cached=5), engines={}), "KV112"),
        (measurement(exchange(prompt_len=990)), "KV113"),
        (replace(GOOD, findings=(Finding("KV116", "interrupted after 1 of 2 requests"),)), "KV116"),
    ],
)
def test_invalid_measurements_are_inconclusive_and_never_give_a_number(m: Measurement, code: str) -> None:
    verdict = judge(Expectation(min=0.0), [m])
    assert verdict.status == "inconclusive"
    assert verdict.sentence.startswith("inconclusive: ")
    assert f"[{code}]" in verdict.sentence
    with pytest.raises(MeasurementError):
        _ = Result(m).hit_rate


def test_foreign_traffic_shows_the_arithmetic() -> None:
    m = replace(GOOD, engines={"0": Tokens(2600, {"local": 1408})})
    assert "looked up 2,600 tokens where 2,000 were sent: 600 more" in judge(Expectation(), [m]).sentence


def test_failed_requests_may_or_may_not_have_been_looked_up() -> None:
    for query in (1000, 1500, 2000):
        m = measurement(exchange(), failed(), engines={"0": Tokens(query, {"local": 704})})
        assert not {"KV103", "KV104"} & set(codes(m))
    assert "KV103" in codes(measurement(exchange(), failed(), engines={"0": Tokens(2001, {"local": 704})}))
    assert "KV104" in codes(measurement(exchange(), failed(), engines={"0": Tokens(999, {"local": 704})}))
    never_sent = measurement(exchange(), failed(sent=None), engines={"0": Tokens(1001, {"local": 704})})
    assert "KV103" in codes(never_sent)


def test_some_failed_requests_fail_the_test_with_their_own_count() -> None:
    ok, bad = [exchange(100, 80)] * 25, [failed(prompt_len=100, retry_after=2.0)] * 5
    m = measurement(*ok, *bad, prediction=prediction(*[80] * 30, query=100))
    verdict = judge(Expectation(target=0.8), [m])
    assert (verdict.status, verdict.hit_rate) == ("fail", 0.8)
    assert "5 of 30 requests failed: 5 x HTTP 429: slow down; the server asked to wait 2 s" in verdict.sentence
    assert verdict.sentence.startswith("hit rate 0.800")


def test_usage_alone() -> None:
    facts = ServerFacts(engine="usage", model="m")
    m = replace(GOOD, facts=facts, engines={})
    verdict = judge(Expectation(target=0.7), [m])
    assert (verdict.status, verdict.source, verdict.hit_tokens) == ("pass", "usage", 1408)


def test_unreported_cached_tokens_are_not_zero() -> None:
    m = replace(
        GOOD, facts=ServerFacts(engine="usage", model="m"), engines={}, exchanges=(exchange(), exchange(cached=None))
    )
    verdict = judge(Expectation(max=0.9), [m])
    assert verdict.status == "inconclusive"
    assert "only 1 of 2 replies report cached_tokens" in verdict.sentence
    assert "[KV111]" in verdict.sentence


def test_usage_without_prompt_tokens_is_no_rate() -> None:
    facts = ServerFacts(engine="usage", model="m")
    m = replace(GOOD, facts=facts, engines={}, exchanges=(exchange(), exchange(prompt_tokens=None)))
    verdict = judge(Expectation(min=0.0), [m])
    assert verdict.status == "inconclusive"
    assert "no prompt_tokens" in verdict.sentence


def test_zero_is_a_number() -> None:
    m = measurement(exchange(cached=0), prediction=prediction(0))
    verdict = judge(Expectation(target=0.0), [m])
    assert (verdict.status, verdict.hit_rate) == ("pass", 0.0)


def test_lost_counters_are_not_replaced_by_usage_in_silence() -> None:
    m = replace(GOOD, engines={}, findings=(Finding("KV117", "the counters could not be read at the end: gone"),))
    verdict = judge(Expectation(), [m])
    assert verdict.status == "inconclusive"
    assert verdict.sentence.startswith("inconclusive: the counters could not be read at the end")


def test_tiers() -> None:
    engines = {"0": Tokens(1000, {"local": 512, "external": 192})}
    m = measurement(exchange(cached=None), engines=engines, prediction=prediction(704))
    assert judge(Expectation(min=0), [m]).hit_tokens == 704
    assert judge(Expectation(min=0, tier="local"), [m]).hit_tokens == 512
    assert judge(Expectation(min=0, tier="external"), [m]).hit_tokens == 192
    none = replace(m, engines={"0": Tokens(1000, {"local": 512})})
    assert judge(Expectation(min=0, tier="external"), [none]).status == "inconclusive"


def test_request_weight_counts_requests_with_any_hit() -> None:
    m = measurement(exchange(cached=16), exchange(cached=0), exchange(cached=992), prediction=prediction(992, 992, 992))
    verdict = judge(Expectation(min=0, weight="request"), [m])
    assert (verdict.hit_tokens, verdict.query_tokens) == (2, 3)
    assert "2 of 3 requests hit" in verdict.sentence


def test_no_target_and_no_prediction_is_inconclusive() -> None:
    verdict = judge(Expectation(), [replace(GOOD, prediction=None, own_traffic=False)])
    assert "[KV115]" in verdict.sentence


def test_own_traffic_is_judged_with_a_doubt() -> None:
    verdict = judge(Expectation(min=0.7), [replace(GOOD, prediction=None, own_traffic=False, exchanges=())])
    assert verdict.status == "pass"
    assert [f.code for f in verdict.findings] == ["KV304"]


def test_prefix_shorter_than_one_block_is_no_fault_of_the_engine() -> None:
    # 20 requests of 500 tokens share 240; the block is 784
    facts = replace(FACTS, block_size=784)
    m = measurement(*[exchange(500, 0)] * 20, facts=facts, prefix_len=240, prediction=prediction(*[0] * 20, query=500))
    verdict = judge(Expectation(target=0.4), [m])
    assert verdict.status == "fail"
    assert "shorter than one block of 784" in next(f.sentence for f in verdict.findings if f.code == "KV303")


def test_warm_start_is_flagged() -> None:
    m = replace(GOOD, prefill=(exchange(cached=704),))
    assert "KV301" in codes(m)
    assert "KV301" not in codes(replace(GOOD, prefill=(exchange(cached=0),)))


def test_requests_below_their_prediction_are_named() -> None:
    m = measurement(exchange(), exchange(cached=0), exchange())
    sentence = next(f.sentence for f in findings(m) if f.code == "KV305")
    assert sentence == "1 of 3 requests hit less than predicted, first: request 1 with 0 of 704"


def test_nothing_measured_is_inconclusive() -> None:
    assert judge(Expectation(min=0), []).status == "inconclusive"


def test_an_engine_that_is_only_known_from_hearsay_is_marked() -> None:
    unconfirmed = replace(GOOD, facts=replace(FACTS, engine="mine", unconfirmed=True))
    verdict = judge(Expectation(target=0.7), [unconfirmed])
    assert (verdict.status, [finding.code for finding in verdict.findings]) == ("pass", ["KV310"])
    assert "unconfirmed: how mine reports reuse" in verdict.findings[0].sentence


@pytest.mark.parametrize(("allowed", "status"), [(1, "pass"), (0, "fail")])
def test_failed_requests_widen_the_rate_by_what_they_may_have_looked_up(allowed: int, status: str) -> None:
    # answered: 704 of 1,000. The failed one of 1,000 was looked up and hit 704: 1,408 of 2,000 on the counters, and the
    # rate of the answered one alone lies between (1408-1000)/(2000-1000) and 1408/1000
    m = measurement(exchange(), failed(), engines={"0": Tokens(2000, {"local": 1408})})
    verdict = judge(Expectation(min=0.4, max_failed=allowed), [m])
    assert verdict.status == status
    assert (verdict.low, verdict.high) == (0.408, 1.0)
    inside = judge(Expectation(min=0.5, max_failed=1), [m])
    assert (inside.status, inside.findings[0].code) == ("inconclusive", "KV123")


# --- against a cache of the server's size -----------------------------------------------------------------------------

SIMULATED = Expectation(target="simulated", tol=0.03)


def simulated(*hits: int, query: int = 1000, **more: object) -> Prediction:
    return replace(prediction(*hits, query=query), capacity=1584, **more)  # type: ignore[arg-type] # a shorthand


def small(*cached: int, hits: tuple[int, ...] = (416, 416), **more: object) -> Measurement:
    """Requests of 1,000 tokens on a cache of 1,584, where an unlimited one would reuse 704 of each."""
    given = {"facts": replace(FACTS, capacity=1584), "simulated": simulated(*hits), **more}
    return measurement(*(exchange(cached=tokens) for tokens in cached), **given)


@pytest.mark.parametrize(
    ("cached", "status", "code"),
    [
        ((416, 416), "pass", None),
        ((386, 386), "pass", None),  # exactly tol away
        ((385, 386), "fail", "KV201"),
        ((446, 446), "pass", None),
        ((447, 446), "fail", "KV202"),
    ],
)
def test_simulated_target_is_two_sided(cached: tuple[int, int], status: str, code: str | None) -> None:
    verdict = judge(SIMULATED, [small(*cached)])
    assert (verdict.status, verdict.target, verdict.target_from, verdict.simulated) == (
        status, 0.416, "simulated", 0.416
    )  # fmt: skip
    assert verdict.predicted == 0.704
    assert [f.code for f in verdict.findings if f.code.startswith("KV2")] == ([code] if code else [])
    assert "wanted 0.416 ± 0.030 (simulated)" in verdict.sentence


def test_simulated_target_is_that_of_all_runs() -> None:
    one, other = small(416, 416), small(0, 0, 0, hits=(0, 96, 96), prediction=prediction(0, 704, 704))
    verdict = judge(SIMULATED, [one, other])
    assert (verdict.target, verdict.hit_rate) == ((2 * 416 + 2 * 96) / 5000, 832 / 5000)
    assert verdict.status == "fail"
    assert judge(replace(SIMULATED, tol=0.0384), [one, other]).status == "pass"


@pytest.mark.parametrize(
    ("expectation", "origin"),
    [(Expectation(), "predicted"), (Expectation(target=0.4), "given"), (Expectation(min=0.1), None)],
)
def test_other_targets_are_told_beside_the_simulated_rate(expectation: Expectation, origin: str | None) -> None:
    verdict = judge(expectation, [small(416, 416)])
    assert (verdict.simulated, verdict.target_from) == (0.416, origin)


def test_simulated_counts_the_requests_that_are_counted() -> None:
    cold = small(0, 704, 96, hits=(0, 704, 96), prediction=prediction(0, 704, 704))
    assert judge(SIMULATED, [cold]).target == pytest.approx(800 / 3000)
    warm = judge(replace(SIMULATED, requests="warm"), [cold])
    assert (warm.status, warm.target, warm.hit_rate) == ("pass", 0.4, 0.4)
    by_request = judge(replace(SIMULATED, weight="request", source="usage"), [cold])
    assert (by_request.status, by_request.target, by_request.hit_rate) == ("pass", 2 / 3, 2 / 3)
    turns = [exchange(cached=hit, session=0, turn=turn) for turn, hit in enumerate((0, 704, 96))]
    later = judge(replace(SIMULATED, skip_turns=2), [replace(cold, exchanges=tuple(turns))])
    assert (later.status, later.target, later.hit_rate) == ("pass", 0.096, 0.096)


def test_answers_that_nobody_told_leave_room_above_the_simulated_rate() -> None:
    room = {"slack": 200, "room": (0, 200)}
    m = small(416, 616, simulated=simulated(416, 416, **room), prediction=replace(prediction(704, 704), **room))
    assert judge(replace(SIMULATED, tol=0.0), [m]).status == "pass"
    more = small(416, 632, simulated=m.simulated, prediction=m.prediction)
    assert [f.code for f in judge(replace(SIMULATED, tol=0.0), [more]).findings] == ["KV305", "KV202"][::-1]
    own = small(416, 616, simulated=simulated(416, 416), prediction=replace(prediction(704, 704), **room))
    assert judge(replace(SIMULATED, tol=0.0), [own]).status == "fail"  # the room is that of the simulation


def test_prompts_that_may_be_warm_may_hit_more_than_simulated() -> None:
    m = small(700, 700, prediction=replace(prediction(704, 704), fresh=False))
    assert judge(SIMULATED, [m]).status == "pass"
    assert judge(SIMULATED, [small(300, 300, prediction=m.prediction)]).status == "fail"


@pytest.mark.parametrize(
    ("m", "said", "advice"),
    [
        (small(416, 416, simulated=None, facts=FACTS), "vllm does not tell how many tokens it holds", "as a number"),
        (
            small(416, 416, simulated=None, facts=replace(FACTS, capacity=1584, block_size=None)),
            "the cache's block size, and vllm does not tell it",
            "kv.probe.granularity()",
        ),
        (small(416, 416, simulated=None), "the tokens of every prompt", "kv.replay"),
        (
            small(416, 416, engines={"0": Tokens(2000, {"local": 416, "external": 416}, 2000)}),
            "416 tokens were hit behind the device cache",
            "tier='local'",
        ),
        (small(416, 416, simulated=simulated(query=0)), "none was sent that counts", ""),
    ],
)
def test_simulated_rate_that_is_not_known_is_inconclusive(m: Measurement, said: str, advice: str) -> None:
    verdict = judge(SIMULATED, [m])
    assert verdict.status == "inconclusive"
    assert (verdict.target, verdict.target_from, verdict.simulated) == (None, None, None)
    (finding,) = (f for f in verdict.findings if f.code == "KV115")
    assert finding.sentence.startswith("target='simulated' needs ")
    assert said in finding.sentence
    assert advice in finding.advice
    assert verdict.sentence.endswith("[KV115]")


def test_one_of_several_runs_without_a_simulation_is_enough() -> None:
    assert judge(SIMULATED, [small(416, 416), small(416, 416, simulated=None)]).status == "inconclusive"


def test_simulated_by_request_needs_answers_that_are_known() -> None:
    m = small(416, 416, simulated=simulated(416, 416, slack=16, room=(0, 16)))
    verdict = judge(replace(SIMULATED, weight="request"), [m])
    assert verdict.status == "inconclusive"
    assert "weight='request'" in verdict.sentence


def test_the_device_cache_alone_is_judged_beside_other_tiers() -> None:
    m = small(832, 0, engines={"0": Tokens(2000, {"local": 416, "external": 416}, 2000)}, hits=(416, 0))
    verdict = judge(replace(SIMULATED, tier="local"), [m])
    assert (verdict.status, verdict.hit_rate, verdict.target) == ("pass", 0.208, 0.208)
    assert judge(Expectation(min=0.2, tier="external"), [m]).simulated is None


def lost(*losses: Loss) -> Waterfall:
    return Waterfall(1408, losses, 1408 - sum(loss.tokens for loss in losses))


def test_cause_is_what_a_cache_of_that_size_does_not_lose() -> None:
    # of 1,408 predicted tokens 576 are evicted in the simulation too; 288 more are missing, most by routing
    routed = lost(Loss("cold", 900), Loss("routing", 200, "two engines", "route"), Loss("eviction", 664, "too small"))
    verdict = judge(SIMULATED, [small(272, 272, waterfall=routed)])
    assert verdict.status == "fail"
    assert "(0.144 below)" in verdict.sentence
    assert verdict.sentence.endswith("200 tokens lost to routing over engines; two engines; route [KV308]")
    evicted = lost(Loss("routing", 87, "two engines"), Loss("eviction", 664, "too small", "give it more"))
    verdict = judge(SIMULATED, [small(272, 272, waterfall=evicted)])
    assert verdict.sentence.endswith("664 tokens lost to eviction; too small; give it more [KV324]")
    ordinary = lost(Loss("cold", 900), Loss("rounding", 50), Loss("template", 60), Loss("eviction", 576))
    verdict = judge(SIMULATED, [small(272, 272, waterfall=ordinary)])
    assert verdict.sentence.endswith("of 2,000 tokens hit [KV201]")


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"min": 0.9}, "and at least 0.900 (0.484 below)"),
        ({"max": 0.1}, "and at most 0.100 (0.316 above)"),
        ({"min": 0.43}, "and at least 0.430 (0.014 below)"),  # within the tolerance of the target
    ],
)
def test_a_bound_beside_a_target_that_is_met_is_what_is_missed(bounds: dict[str, float], said: str) -> None:
    assert said in judge(replace(SIMULATED, **bounds), [small(416, 416)]).sentence  # type: ignore[arg-type] # as above
    target = judge(replace(SIMULATED, min=0.2), [small(300, 300)])
    assert "and at least 0.200 (0.116 below)" in target.sentence


def test_what_a_cache_of_that_size_loses_too_is_why_a_higher_bound_is_missed() -> None:
    evicted = lost(Loss("cold", 400), Loss("eviction", 576, "too small", "give it more"))
    verdict = judge(replace(SIMULATED, min=0.6), [small(416, 416, waterfall=evicted)])
    assert verdict.sentence.endswith("576 tokens lost to eviction; too small; give it more [KV324]")
    verdict = judge(replace(SIMULATED, min=0.1), [small(300, 300, waterfall=lost(Loss("eviction", 576)))])
    assert verdict.sentence.endswith("of 2,000 tokens hit [KV201]")


def test_what_was_cached_before_is_why_more_hit() -> None:
    warm = lost(Loss("eviction", 576), Loss("surplus", -300))
    verdict = judge(SIMULATED, [small(566, 566, waterfall=warm)])
    assert verdict.status == "fail"
    assert "[KV202]. 300 tokens more were cached than these requests explain; were they sent before" in verdict.sentence
    verdict = judge(SIMULATED, [small(566, 566, waterfall=lost(Loss("eviction", 276)))])
    assert verdict.sentence.endswith("[KV202]")


def test_no_rate_where_more_was_left_out_than_had_been_looked_up() -> None:
    off = {"facts": replace(FACTS, caching=False), "engines": {"0": Tokens(0, {"local": 0}, 0)}}
    m = measurement(exchange(cached=0), exchange(cached=0), prediction=prediction(0, 704), **off)
    assert judge(Expectation(min=0.0), [m]).warm is None


def test_result_tells_the_simulated_rate_and_the_schedule_that_was_kept() -> None:
    again = exchange(scheduled=1.0, sent=9.0, earlier=(failed(sent=1.5),))
    late = [exchange(scheduled=1.0, sent=1.25), again, exchange(scheduled=3.0, sent=None), exchange(sent=7.0)]
    result = Result(measurement(*late, facts=FACTS, simulated=simulated(416, 416, 416, 416)))
    assert result.simulated == 0.416
    assert tuple(result.arrival.samples) == (0.25, 0.5)
    assert Result(GOOD).simulated is None
    assert tuple(Result(GOOD).arrival.samples) == ()
