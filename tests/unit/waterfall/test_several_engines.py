"""Which engine served which request: what is believed of a guess, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_kvcache.model import Failure, Grain, Lookup, Prediction, Tokens
from pytest_kvcache.waterfall import explain
from pytest_kvcache.waterfall.account import opened
from pytest_kvcache.waterfall.placement import Fleet as Replayed
from pytest_kvcache.waterfall.placement import Place, off_by
from pytest_kvcache.waterfall.routers import Rooms, Turns
from pytest_kvcache.waterfall.visits import Visit, trace

from .fleet import Engine, Fleet, fresh
from .test_each_cause import amounts, only, told


def two(*order: int, **more: object) -> Fleet:
    return Fleet([Engine(), Engine()], order.__getitem__ if order else None, **more)  # type: ignore[arg-type] # by name


def test_a_burst_that_joins_what_is_in_flight_is_lost_by_routing() -> None:
    fleet, prompt = two(gap=0.1), fresh(65)
    fleet.send(*[prompt] * 6)
    assert amounts(told(fleet)) == {"cold": 64, "routing": 64}


def test_a_burst_that_finds_nothing_in_flight_is_lost_to_duplicates() -> None:
    fleet, prompt = two(gap=0.1, joins=False), fresh(65)
    fleet.send(*[prompt] * 4)
    fleet.now += 2
    fleet.send(*[prompt] * 2)
    assert amounts(told(fleet)) == {"cold": 64, "duplicates": 3 * 64}


def test_a_request_of_which_other_tokens_were_counted_may_have_gone_anywhere() -> None:
    fleet, prefix = two(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])  # engine 0
    fleet.send(fresh(64), *([*prefix, *fresh(16)] for _ in range(3)))  # 1; 0, 1, 0
    exchanges = list(fleet.exchanges)
    exchanges[1] = replace(exchanges[1], prompt_tokens=65, cached_tokens=0)
    measured = replace(fleet.measured(), exchanges=tuple(exchanges))
    rows = {"0": Tokens(129, {"local": 48}), "1": measured.engines["1"]}
    assert amounts(told(fleet, replace(measured, engines=rows))) == {"tokenizer": 48, "routing": 48}


def test_more_misses_than_engines_and_counters_that_do_not_fit_are_not_routing() -> None:
    fleet, prefix = two(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(10)))
    exchanges = tuple(replace(e, cached_tokens=48 * (n % 2)) for n, e in enumerate(fleet.exchanges))
    rows = {"0": Tokens(330, {"local": 125}), "1": Tokens(310, {"local": 115})}
    measured = replace(fleet.measured(), exchanges=exchanges, engines=rows)
    assert only(told(fleet, measured), "unexplained").tokens == 5 * 48


def test_what_a_failed_request_looked_up_is_in_the_counters_of_some_engine() -> None:
    fleet, prefix = two(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))
    failed = replace(fleet.exchanges[5], failure=Failure("timeout", "no answer"), cached_tokens=None)
    measured = replace(fleet.measured(), exchanges=(*fleet.exchanges[:5], failed))
    assert amounts(told(fleet, measured)) == {"routing": 48}


def test_printed_digits_leave_a_row_some_room() -> None:
    fleet, prefix = two(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))
    for error, lost in ((30, "routing"), (0, "unexplained")):
        rows = {
            name: replace(tokens, query=tokens.query + 30, query_error=error, hit_error=0)
            for name, tokens in fleet.measured().engines.items()
        }
        assert only(told(fleet, replace(fleet.measured(), engines=rows)), lost).tokens == 48


def test_a_placement_that_nearly_gives_the_counters_says_by_how_much() -> None:
    fleet, prefix = two(), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))
    rows = {name: replace(tokens, query=tokens.query + 9) for name, tokens in fleet.measured().engines.items()}
    loss = only(told(fleet, replace(fleet.measured(), engines=rows)), "routing")
    assert "gives the counters of each to within 9 tokens" in loss.evidence


def test_an_engine_that_only_served_the_prefill_counts() -> None:
    fleet, prefix = two(0, 1, 1), fresh(48)
    fleet.warm([*prefix, *fresh(16)])
    fleet.send([*prefix, *fresh(16)], [*prefix, *fresh(16)])
    loss = only(told(fleet), "routing")
    assert (loss.tokens, fleet.measured().engines["0"].query) == (48, 0)


def test_of_many_engines_some_are_shown() -> None:
    fleet, prefix = Fleet([Engine() for _ in range(6)]), fresh(48)
    fleet.send(*([*prefix, *fresh(16)] for _ in range(12)))
    (_, loss) = told(fleet).losses
    assert (loss.cause, loss.tokens) == ("routing", 5 * 48)
    assert "engine 3 hit 48 of 128, ...)" in loss.evidence


def spread(fleet: Fleet, prefix: Sequence[int]) -> None:
    fleet.warm([*prefix, *fresh(16)])
    fleet.send(*([*prefix, *fresh(16)] for _ in range(6)))


def test_totals_of_engines_that_were_not_taken_in_turn_still_show_a_spread() -> None:
    fleet, prefix = two(0, 0, 0, 0, 1, 1, 0), fresh(48)
    spread(fleet, prefix)
    prediction = Prediction(6 * 48, 6 * 64, (48,) * 6, 16)
    measured = replace(fleet.measured(told=False), prediction=prediction, prefix_len=48)
    loss = only(told(fleet, measured), "routing")
    assert (loss.tokens, loss.requests) == (48, None)
    assert loss.evidence.startswith("2 engines computed the same prefixes, each for itself (engine 0 hit 192 of 256")
    assert (
        only(told(fleet, fleet.measured(told=False)), "unexplained").tokens == 48
    )  # how long the prefix is, who knows


def test_totals_alone_show_that_nothing_in_flight_was_found() -> None:
    fleet, prompt = Fleet(joins=False, gap=0.25), fresh(65)
    fleet.send(*[prompt] * 6)
    waterfall = told(fleet, fleet.measured(told=False))
    assert amounts(waterfall) == {"cold": 64, "duplicates": 3 * 64}
    assert "by nothing in flight was found, which gives what was counted exactly" not in waterfall.losses[0].evidence
    assert "was found" in waterfall.losses[1].evidence


def test_what_a_decode_engine_says_of_its_cache_is_not_read() -> None:
    fleet, prefix = Fleet(), fresh(48)
    fleet.send(*([*prefix, *fresh(16)] for _ in range(3)))
    exchanges = tuple(replace(e, cached_tokens=64) for e in fleet.exchanges)
    measured = replace(fleet.measured(), exchanges=exchanges, disaggregated=True)
    assert (told(fleet, measured).measured, amounts(told(fleet, measured))) == (96, {"cold": 48})
    assert explain(replace(measured, engines={}), fleet.load) is None


def visits_of(*prompts: Sequence[int]) -> list[Visit]:
    fleet = Fleet()
    fleet.send(*prompts)
    return trace(fleet.measured(), fleet.load)


def test_a_request_goes_where_most_can_have_been_found_when_nothing_fits() -> None:
    prefix = fresh(96)
    visits = visits_of([*prefix[:32], *fresh(64)], prefix, [*prefix, 1], [*prefix, 2])
    offered: list[list[int]] = []

    def by_turn(_visit: Visit, _hit: int, fitting: Sequence[int]) -> int:
        offered.append([*fitting])
        return (len(offered) - 1) % 2

    wants = [None, None, (48, 48), (112, 112)]
    places = Replayed(2, Grain(16)).replay(visits, wants, by_turn)
    assert offered == [[0, 1], [0, 1], [1], [0, 1]]  # 48: engine 0 has 32, engine 1 has 96; then both have 96
    assert [place.unlimited for place in places] == [0, 0, 32, 96]


def test_where_a_minimum_is_credited_more_means_at_least_that() -> None:
    prompt = fresh(97)
    visits = visits_of(prompt, fresh(32), prompt)
    (_, _, again) = Replayed(1, Grain(16, minimum=48)).replay(visits, [None, None, (0, 0)], Turns(1))
    assert again == Place(engine=0, unlimited=96, bounded=96, kept_by=0, lost_by=2 + 3, needed=2 + 6)


def test_the_names_of_engines_do_not_matter() -> None:
    visits = visits_of(fresh(64), fresh(32))
    accounts = opened(visits, Grain(16), {0: 0, 1: 0})
    places = [Place(engine, 0, 0, 0, None, 0) for engine in (0, 1)]
    assert off_by(visits, places, accounts, [(32, 0), (64, 0)]) == (0, 0.0)
    assert off_by(visits, places, accounts, [(32, 0), (60, 0)]) == (4, 4 / 60)
    assert off_by(visits, places, accounts, [(32, 8), (64, 0)], (0, 6)) == (2, 2 / 32)


def test_a_router_by_room_takes_the_engine_that_has_most_of_it_left() -> None:
    (visit,) = visits_of(fresh(64))
    rooms = Rooms([(128, 48), (320, 192), (80, 0)])
    assert [rooms(visit, 48, [0, 1, 2]) for _ in range(3)] == [1, 1, 1]  # room for one, four and none
    assert [rooms(visit, 48, [0, 1, 2]) for _ in range(2)] in ([0, 1], [1, 0])
    assert rooms(visit, 0, [0, 2]) == 2
    warming = replace(visit, at=None)
    assert [Rooms([(1, 0)] * 3, 2)(warming, 0, [0, 1, 2]) for _ in range(2)] == [2, 2]


def test_a_router_in_turn_goes_on_from_where_it_was() -> None:
    (visit,) = visits_of(fresh(64))
    turns = Turns(3)
    assert [turns(visit, 0, fitting) for fitting in ([0, 1, 2], [0, 2], [1], [0, 1], [0, 1, 2])] == [0, 2, 1, 0, 1]


def test_lookups_without_exchanges_warm_in_their_own_order() -> None:
    fleet = Fleet()
    fleet.send(fresh(17))
    visits = trace(fleet.measured(), fleet.load, prefill=[Lookup([1, 2]), Lookup([3])], warmed=[Lookup([4])])
    assert [[*visit.lookup.ids] for visit in visits[:3]] == [[4], [1, 2], [3]]
