"""One cause at a time, with amounts worked out by hand. A block has 16 tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.model import Exchange, Failure, Finding, Lookup, Loss, Measurement, Pressure, Tokens, Waterfall
from pytest_kvcache.waterfall import explain

from .fleet import Engine, Fleet, fresh


def told(fleet: Fleet, measured: Measurement | None = None) -> Waterfall:
    found = explain(measured or fleet.measured(), fleet.load, prefill=fleet.prefill)
    assert found is not None
    assert found.ceiling - sum(loss.tokens for loss in found.losses) == found.measured
    return found


def amounts(waterfall: Waterfall) -> dict[str, int]:
    return {loss.cause: loss.tokens for loss in waterfall.losses}


def only(waterfall: Waterfall, cause: str) -> Loss:
    (loss,) = waterfall.losses
    assert loss.cause == cause
    return loss


def test_nothing_is_lost_where_everything_was_warm() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(4)))
    assert told(fleet) == Waterfall(4 * 48, (), 4 * 48)


def test_cold_is_the_first_use_of_each_prefix() -> None:
    fleet, one, two = Fleet(), fresh(48), fresh(32)
    fleet.send(*([*head, *fresh(16)] for head in (one, two, one, two, one)), fresh(64))
    waterfall = told(fleet)
    assert (waterfall.ceiling, waterfall.measured) == (3 * 48 + 2 * 32, 2 * 48 + 32)
    loss = only(waterfall, "cold")
    assert (loss.tokens, loss.requests) == (48 + 32, 2)
    assert loss.evidence == "2 of 6 requests were the first to use tokens that others share"
    assert "requests='warm'" in loss.advice


def test_rounding_is_what_does_not_fill_a_block() -> None:
    fleet, prefix = Fleet(), fresh(50)
    fleet.warm([*prefix, *fresh(14)])
    fleet.send(*([*prefix, *fresh(30)] for _ in range(4)))
    waterfall = told(fleet)
    assert (waterfall.ceiling, waterfall.measured) == (4 * 50, 4 * 48)
    loss = only(waterfall, "rounding")
    assert (loss.tokens, loss.requests) == (4 * 2, 4)
    assert "in 16-token steps: 4 of 4 requests" in loss.evidence


def test_the_last_token_is_no_loss_where_no_cache_gives_it() -> None:
    fleet, prompt = Fleet(), fresh(64)
    fleet.warm(prompt)
    fleet.send(prompt)
    assert (told(fleet).ceiling, amounts(told(fleet))) == (63, {"rounding": 15})  # 48 of at most 63
    whole = fleet.measured(whole_prompt_hits=True)
    exchange = replace(whole.exchanges[0], cached_tokens=64)
    assert told(fleet, replace(whole, exchanges=(exchange,))) == Waterfall(64, (), 64)


def test_less_than_the_least_that_is_credited_is_rounding_too() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send([*prefix, *fresh(16)])
    hosted = fleet.measured(block_size=None, step=16, minimum=64)
    loss = only(told(fleet, replace(hosted, exchanges=_hits(fleet, 0))), "rounding")
    assert loss.tokens == 48
    assert "in 16-token steps from 64 on" in loss.evidence


def _hits(fleet: Fleet, *tokens: int | None) -> tuple[Exchange, ...]:
    return tuple(replace(e, cached_tokens=hit) for e, hit in zip(fleet.exchanges, tokens, strict=True))


def test_duplicates_in_flight_miss_what_is_still_being_computed() -> None:
    fleet, prompt = Fleet(joins=False, gap=0.25, seconds=1.0), fresh(65)
    fleet.send(*[prompt] * 6)  # sent at 0, 0.25, ... 1.25; the first answer comes at 1
    waterfall = told(fleet)
    assert [e.cached_tokens for e in fleet.exchanges] == [0, 0, 0, 0, 64, 64]
    assert amounts(waterfall) == {"cold": 64, "duplicates": 3 * 64}
    loss = waterfall.losses[1]
    assert loss.requests == 3
    assert loss.evidence.startswith("3 requests were sent while")
    assert loss.advice.startswith("send duplicates after the first answer")


def test_a_duplicate_that_joins_the_one_in_flight_is_no_loss() -> None:
    fleet, prompt = Fleet(joins=True, gap=0.25), fresh(65)
    fleet.send(*[prompt] * 6)
    assert amounts(told(fleet)) == {"cold": 64}


def test_who_came_first_of_a_burst_is_told_by_who_missed() -> None:
    fleet, prompt, other = Fleet(joins=True, gap=0.2), fresh(65), fresh(65)
    fleet.send(prompt, other, prompt, other, prompt)
    measured = replace(fleet.measured(), exchanges=_hits(fleet, 64, 64, 64, 0, 0))
    assert amounts(told(fleet, measured)) == {"cold": 2 * 64}
    late = replace(fleet.exchanges[4], sent=fleet.exchanges[0].end)  # when the first one was answered already
    measured = replace(measured, exchanges=(*measured.exchanges[:4], replace(late, cached_tokens=0)))
    assert amounts(told(fleet, measured)) == {"cold": 2 * 64, "surplus": -64, "unexplained": 64}


def test_an_answer_that_is_not_streamed_is_ready_at_its_end() -> None:
    fleet, prompt = Fleet(joins=False, gap=0.25), fresh(65)
    fleet.send(*[prompt] * 5)
    exchanges = tuple(replace(e, first_content=None) for e in fleet.exchanges)
    measured = replace(fleet.measured(), exchanges=exchanges)
    assert amounts(told(fleet, measured)) == {"cold": 64, "duplicates": 3 * 64}


def test_what_was_ready_before_is_no_duplicate() -> None:
    fleet, prompt = Fleet(gap=0.7), fresh(65)
    fleet.send(prompt, prompt)
    for first_content, lost in ((100.6, "unexplained"), (100.8, "duplicates")):
        answered = replace(fleet.exchanges[0], first_content=first_content)
        exchanges = (answered, replace(fleet.exchanges[1], cached_tokens=0))
        assert amounts(told(fleet, replace(fleet.measured(), exchanges=exchanges))) == {"cold": 64, lost: 64}


def test_routing_over_two_engines_computes_a_prefix_twice() -> None:
    fleet, prefix = Fleet([Engine(), Engine()]), fresh(48)
    fleet.warm([*prefix, *fresh(16)])  # engine 0
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))  # 1, 0, 1, 0, 1, 0
    loss = only(told(fleet), "routing")
    assert (loss.tokens, loss.requests) == (48, 1)
    assert "(engine 0 hit 144 of 192, engine 1 hit 96 of 192)" in loss.evidence
    assert loss.advice == "route by prefix or session"


def test_routing_is_found_whatever_the_router_does() -> None:
    order = [1, 1, 0, 1, 1, 1, 0, 1, 1, 0]
    fleet, one, two = Fleet([Engine(), Engine()], order.__getitem__), fresh(48), fresh(32)
    fleet.warm([*one, *fresh(16)])
    fleet.send(*([*head, *fresh(16)] for head in (two, one, two, one, two, one, two, one, two)))
    # engine 1 has one from the prefill and two from its first request; engine 0 computes each once more
    assert fleet.lost["routing"] == 48 + 32
    assert amounts(told(fleet)) == {"cold": 32, "routing": 48 + 32}


def test_a_placement_that_no_counter_confirms_is_no_evidence() -> None:
    fleet, prefix = Fleet([Engine(), Engine()]), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))
    measured = fleet.measured()
    rows = {"0": replace(measured.engines["0"], query=100), "1": replace(measured.engines["1"], query=284)}
    loss = only(told(fleet, replace(measured, engines=rows)), "unexplained")
    assert loss.tokens == 48
    assert "no distribution over the 2 engines gives the counters of each" in loss.evidence


def evicting(capacity: int | None) -> tuple[Fleet, list[list[int]]]:
    """Three prompts of four blocks in turn, twice, after a prefill: each comes back after eleven blocks."""
    fleet, heads = Fleet([Engine(capacity)]), [fresh(48) for _ in range(3)]
    fleet.warm(*([*head, *fresh(16)] for head in heads))
    fleet.send(*([*head, *fresh(16)] for head in heads * 2))
    return fleet, heads


def test_eviction_names_the_capacity_that_would_have_kept_it() -> None:
    fleet, _ = evicting(10)
    loss = only(told(fleet), "eviction")
    assert fleet.lost["eviction"] == loss.tokens == 6 * 16  # the third block of each
    # between two uses: its own 3 blocks, and 4 of each of the others
    assert "a cache of 176 tokens would have kept it, this one has 160" in loss.evidence
    assert loss.advice.startswith("give the cache 176 tokens")
    assert not told(evicting(11)[0]).losses


def test_exchanges_may_come_in_any_order() -> None:
    fleet, _ = evicting(10)
    measured = replace(fleet.measured(), exchanges=tuple(reversed(fleet.exchanges)))
    found = explain(measured, fleet.load[::-1], prefill=fleet.prefill)
    assert found is not None
    assert amounts(found) == {"eviction": 6 * 16}


def test_behind_a_second_tier_the_size_of_the_device_is_not_that_of_the_cache() -> None:
    fleet, _ = evicting(10)
    measured = fleet.measured()
    rows = {"0": replace(measured.engines["0"], hits={"local": 90, "external": 102})}
    loss = only(told(fleet, replace(measured, engines=rows, pressure=Pressure(evictions=3))), "eviction")
    assert "one of 160 to 175 explains every hit and miss; the engine counted 3 evictions" in loss.evidence


def test_of_a_prompt_that_is_cut_the_head_is_still_found() -> None:
    fleet, prompt = Fleet([Engine(6)]), fresh(81)
    fleet.send(prompt, fresh(48), prompt)
    assert [e.cached_tokens for e in fleet.exchanges] == [0, 0, 48]
    waterfall = told(fleet)
    assert amounts(waterfall) == {"cold": 80, "eviction": 32}
    assert "a cache of 128 tokens would have kept it" in waterfall.losses[1].evidence  # 5 blocks and 3 of the other


def test_a_cache_that_is_off_has_one_reason_and_no_account() -> None:
    fleet, prompt = Fleet([Engine(6)]), fresh(81)
    fleet.send(prompt, prompt)
    assert explain(fleet.measured(caching=True), fleet.load) is not None
    assert explain(fleet.measured(caching=False), fleet.load) is None


def test_the_room_that_answers_take_evicts_too() -> None:
    fleet, prompt = Fleet([Engine(6)]), fresh(49)
    fleet.send(prompt, Lookup(fresh(33), fresh(32)), prompt)  # 2 blocks of prompt, 4 with the answer
    assert amounts(told(fleet)) == {"cold": 48, "eviction": fleet.lost["eviction"]} == {"cold": 48, "eviction": 16}
    untold = [fleet.load[0], Lookup(fleet.load[1].ids, untold=32), fleet.load[2]]
    found = explain(fleet.measured(), untold)
    assert found is not None
    assert amounts(found) == {"cold": 48, "eviction": 16}
    exchanges = [replace(e, completion_tokens=n) for e, n in zip(fleet.exchanges, (1, 32, 1), strict=True)]
    composed = [Lookup(lookup.ids) for lookup in fleet.load]
    found = explain(replace(fleet.measured(), exchanges=tuple(exchanges)), composed)
    assert found is not None
    assert amounts(found) == {"cold": 48, "eviction": 16}


def test_an_unknown_capacity_that_explains_every_hit_and_miss_is_eviction() -> None:
    fleet, heads = evicting(10)
    fleet.send(*([*heads[2], *fresh(16)] for _ in range(3)))
    loss = only(told(fleet, fleet.measured(capacity=None)), "eviction")
    assert loss.tokens == fleet.lost["eviction"]
    assert "a cache of 176 tokens would have kept it; one of 160 to 175 explains" in loss.evidence


def test_an_unknown_capacity_that_no_hit_bounds_is_not_guessed() -> None:
    fleet, _ = evicting(8)
    assert not any(e.cached_tokens for e in fleet.exchanges)
    measured = fleet.measured(capacity=None)
    loss = only(told(fleet, measured), "unexplained")
    assert "capacity" in loss.advice
    counted = told(fleet, replace(measured, pressure=Pressure(evictions=17)))
    assert "the size of this one is not known; the engine counted 17" in only(counted, "eviction").evidence


def test_misses_that_no_single_capacity_explains_are_not_eviction() -> None:
    fleet, heads = evicting(None)
    fleet.send(*([*head, *fresh(16)] for head in heads))
    hits = [48] * 9
    hits[4] = hits[6] = hits[8] = 0  # after as many blocks as those that hit
    measured = replace(fleet.measured(), exchanges=_hits(fleet, *hits))
    assert only(told(fleet, measured), "unexplained").tokens == 3 * 48


def forgetting(prefixes: int) -> Fleet:
    fleet, heads = Fleet(), [fresh(48) for _ in range(prefixes)]
    fleet.warm(*([*head, *fresh(16)] for head in heads))
    fleet.send(*([*head, *fresh(16)] for head in heads * 2))
    fleet.clear()
    fleet.send(*([*head, *fresh(16)] for head in heads * 2))
    return fleet


def test_a_reset_is_told_by_several_prefixes_that_were_found_before_and_after() -> None:
    fleet = forgetting(3)
    loss = only(told(fleet), "reset")
    assert (loss.tokens, loss.requests) == (3 * 48, 3) == (fleet.lost["reset"], 3)
    assert loss.evidence.startswith("from 12.0 s on, 3 requests missed 3 prefixes")


def test_one_prefix_alone_is_a_reset_only_where_the_counters_fell() -> None:
    fleet = forgetting(1)
    assert only(told(fleet), "unexplained").tokens == 48
    fell = Finding("KV102", "a counter fell")
    assert "the counters fell too" in only(told(fleet, fleet.measured(fell)), "reset").evidence


def test_what_was_never_found_before_was_not_forgotten() -> None:
    fleet, heads = Fleet(), [fresh(48) for _ in range(3)]
    fleet.warm(*([*head, *fresh(16)] for head in heads))
    fleet.clear()
    fleet.send(*([*head, *fresh(16)] for head in heads * 2))
    assert only(told(fleet), "unexplained").tokens == 3 * 48


def test_what_was_found_in_between_was_not_forgotten() -> None:
    fleet = forgetting(3)
    hits = [e.cached_tokens for e in fleet.exchanges]
    hits[7] = 48
    measured = replace(fleet.measured(), exchanges=_hits(fleet, *hits))
    assert only(told(fleet, measured), "unexplained").tokens == 2 * 48


def test_what_was_missed_after_it_was_computed_again_was_not_forgotten() -> None:
    fleet = forgetting(3)
    hits = [e.cached_tokens for e in fleet.exchanges]
    hits[10] = 0
    measured = replace(fleet.measured(), exchanges=_hits(fleet, *hits))
    assert only(told(fleet, measured), "unexplained").tokens == 4 * 48


def test_a_small_cache_and_a_reset_that_explain_the_same_are_told_apart_by_counters_alone() -> None:
    fleet, heads = Fleet(), [fresh(48) for _ in range(3)]
    fleet.warm(*([*head, *fresh(16)] for head in heads))
    fleet.send(*([*head, *fresh(16)] for head in heads), fresh(480))
    fleet.clear()
    fleet.send(*([*head, *fresh(16)] for head in heads * 2))
    measured = fleet.measured()
    loss = only(told(fleet, measured), "unexplained")
    assert (loss.tokens, loss.advice) == (3 * 48, "")
    assert "a small cache explains it as well as a reset does" in loss.evidence
    assert only(told(fleet, replace(measured, pressure=Pressure(evictions=9))), "eviction").tokens == 3 * 48
    assert only(told(fleet, fleet.measured(Finding("KV102", "fell"))), "reset").tokens == 3 * 48


def test_a_template_that_changes_the_history_loses_what_stood_behind() -> None:
    fleet = Fleet()
    system, question, answer, more = fresh(48), fresh(16), fresh(33), fresh(16)
    fleet.send(Lookup([*system, *question], answer, session=0))
    fleet.send(Lookup([*system, *question, *answer[8:], *more], session=0))  # its first 8 tokens were dropped
    waterfall = told(fleet)
    # 64 and 32 of the answer were cached; the next prompt begins with 64 of them
    assert waterfall.ceiling == 64 + 32
    assert amounts(waterfall) == {"template": 32}
    assert waterfall.losses[0].evidence.startswith("1 of 2 requests did not repeat the turn before")


def test_a_turn_that_repeats_the_one_before_loses_nothing_but_whole_blocks() -> None:
    fleet = Fleet()
    first = fresh(64)
    answer = fresh(21)
    fleet.send(Lookup(first, answer, session=0))
    fleet.send(Lookup([*first, *answer, *fresh(11)], session=0))
    assert fleet.exchanges[1].cached_tokens == 80
    assert (told(fleet).ceiling, amounts(told(fleet))) == (84, {"rounding": 4})


def test_an_answer_whose_tokens_nobody_told_is_proven_by_a_hit() -> None:
    fleet, first, answer = Fleet(), fresh(64), fresh(21)
    fleet.send(Lookup(first, answer, session=0))
    fleet.send(Lookup([*first, *answer, *fresh(11)], session=0))
    untold = [Lookup(first, untold=21, session=0), Lookup(fleet.load[1].ids, session=0)]
    for hit, ceiling, lost in ((80, 84, {"rounding": 4}), (64, 64, {}), (48, 64, {"unexplained": 16})):
        measured = replace(fleet.measured(), exchanges=_hits(fleet, 0, hit))
        found = explain(measured, untold)
        assert found is not None
        assert (found.ceiling, amounts(found)) == (ceiling, lost)


def test_a_prompt_that_was_not_repeated_is_the_templates_whatever_was_answered() -> None:
    fleet, first = Fleet(), fresh(64)
    fleet.send(Lookup(first, untold=21, session=0), Lookup([*first[:48], *fresh(80)], session=0))
    assert (told(fleet).ceiling, amounts(told(fleet))) == (84, {"template": 36})


def test_a_composed_conversation_goes_on_with_answers_of_its_own() -> None:
    fleet, first = Fleet(), fresh(64)
    fleet.send(Lookup(first, session=0), Lookup([*first, *fresh(40)], session=0))
    exchanges = (replace(fleet.exchanges[0], completion_tokens=21), fleet.exchanges[1])
    assert told(fleet, replace(fleet.measured(), exchanges=exchanges)) == Waterfall(64, (), 64)


def test_later_turns_do_not_make_a_first_turn_cold_but_other_conversations_do() -> None:
    fleet, system = Fleet(), fresh(32)
    for session in (0, 1):
        first = [*system, *fresh(32)]
        fleet.send(Lookup(first, session=session))
        fleet.send(Lookup([*first, *fresh(32)], session=session))
    assert (told(fleet).ceiling, amounts(told(fleet))) == (2 * 32 + 2 * 64, {"cold": 32})


def test_another_prompt_length_is_the_tokenizers() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(3)))
    exchanges = [replace(e, prompt_tokens=66, cached_tokens=0) for e in fleet.exchanges[:2]]
    measured = replace(fleet.measured(), exchanges=(*exchanges, fleet.exchanges[2]))
    loss = only(told(fleet, measured), "tokenizer")
    assert (loss.tokens, loss.requests) == (96, 2)


def test_more_than_the_requests_explain_is_surplus() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.send([*prefix, *fresh(16)], [*prefix, *fresh(16)], [*prefix, *fresh(16)])
    measured = replace(fleet.measured(), exchanges=_hits(fleet, 48, 48, 32))
    assert amounts(told(fleet, measured)) == {"cold": 48, "surplus": -48, "unexplained": 16}


def test_a_failed_request_is_in_no_sum_and_may_have_cached_its_prompt() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.send(*([*prefix, *fresh(16)] for _ in range(3)))
    for kind, lost in (("timeout", {}), ("http", {"cold": 48, "surplus": -48})):
        failed = replace(fleet.exchanges[0], failure=Failure(kind, "no"), cached_tokens=None, prompt_tokens=None)
        waterfall = told(fleet, replace(fleet.measured(), exchanges=(failed, *fleet.exchanges[1:])))
        assert (waterfall.ceiling, waterfall.measured, amounts(waterfall)) == (96, 96, lost)


def test_a_retry_finds_what_its_failed_attempt_computed() -> None:
    fleet, prompt = Fleet(), fresh(65)
    fleet.send(prompt, prompt)
    for kind, ceiling, lost in (("cut", 64, {}), ("http", 0, {"surplus": -64})):
        attempt = replace(fleet.exchanges[0], failure=Failure(kind, "no"), cached_tokens=None)
        again = replace(fleet.exchanges[1], earlier=(attempt,))
        found = explain(replace(fleet.measured(), exchanges=(again,)), fleet.load[1:])
        assert found is not None
        assert (found.ceiling, amounts(found), found.measured) == (ceiling, lost, 64)


@pytest.mark.parametrize("lookups", [0, 2])
def test_a_request_that_is_not_looked_up_once(lookups: int) -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.send(*([*prefix, *fresh(16)] for _ in range(3)))
    exchanges = (replace(fleet.exchanges[0], lookups=lookups, cached_tokens=0), *fleet.exchanges[1:])
    found = explain(replace(fleet.measured(), exchanges=exchanges), fleet.load)
    assert found == (None if lookups else Waterfall(96, (), 96))


def test_spaces_share_nothing() -> None:
    fleet, prompt = Fleet(), fresh(65)
    fleet.send(Lookup(prompt, space="a"), Lookup(prompt, space="b"), Lookup(prompt, space="a"))
    measured = replace(fleet.measured(), exchanges=_hits(fleet, 0, 0, 64))
    assert amounts(told(fleet, measured)) == {"cold": 64}


def test_what_an_earlier_run_cached_is_not_cold() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.send([*prefix, *fresh(16)], [*prefix, *fresh(16)])
    measured = replace(fleet.measured(), exchanges=_hits(fleet, 48, 48))
    assert explain(measured, fleet.load, warmed=[Lookup(prefix)]) == Waterfall(96, (), 96)


def test_nothing_is_said_without_numbers_or_requests() -> None:
    fleet = Fleet()
    assert explain(fleet.measured(), []) is None
    fleet.send(fresh(32))
    measured = fleet.measured()
    assert explain(measured, []) is None
    assert explain(measured, [Lookup(())]) is None
    assert explain(replace(measured, exchanges=_hits(fleet, None), engines={}), fleet.load) is None
    failed = replace(fleet.exchanges[0], failure=Failure("cut", "ended"))
    assert explain(replace(measured, exchanges=(failed,)), fleet.load) is None


@pytest.mark.parametrize(
    ("moments", "waited"),
    [
        ([(100.0, 101.0, 110.0), (102.0, 111.0, 112.0)], True),  # Y is sent before that answer ends, admitted after it
        ([(100.0, 101.0, 102.2), (102.0, 102.1, 102.3)], False),  # the client reads the end of it after sending Y
    ],
)
def test_an_answer_that_has_not_ended_for_the_client_may_have_taken_its_room(
    moments: list[tuple[float, float, float]], waited: bool
) -> None:
    # 8 blocks. The prefix has 4 of them, X takes 2 and its answer 4 more, so the prefix loses its last two.
    fleet, prefix = Fleet([Engine(8)]), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    x, y = Lookup(fresh(32), output=fresh(65)), Lookup([*prefix, *fresh(16)])

    def sent(at: float, first: float, end: float, prompt: int, cached: int) -> Exchange:
        seen = {"prompt_len": prompt, "prompt_tokens": prompt, "cached_tokens": cached}
        return Exchange("load", at, end, sent=at, first_content=first, **seen)

    measured = replace(
        fleet.measured(),
        exchanges=(sent(*moments[0], 32, 0), sent(*moments[1], 64, 32)),
        engines={"0": Tokens(96, {"local": 32})},
    )
    waterfall = explain(measured, [x, y], prefill=fleet.prefill)
    assert waterfall is not None
    loss = only(waterfall, "eviction")
    assert loss.tokens == 16
    assert loss.evidence.endswith("requests waited for room meanwhile") is waited
