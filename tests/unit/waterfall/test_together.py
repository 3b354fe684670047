"""Several causes at once: every part is what was planted, and whatever the numbers are, the parts add up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.model import Failure, Finding, Lookup, Tokens, Waterfall
from pytest_kvcache.waterfall import explain

from .fleet import BLOCK, Engine, Fleet, fresh
from .test_each_cause import amounts, told


def planted(fleet: Fleet) -> dict[str, int]:
    return {cause: tokens for cause, tokens in fleet.lost.items() if tokens}


def test_cold_rounding_duplicates_routing_and_eviction_at_once() -> None:
    """Two engines in turn, each with room for 24 blocks; prefixes of 53 tokens, prompts of 80."""
    fleet = Fleet([Engine(24), Engine(24)], joins=False)
    warm, cold = fresh(53), fresh(53)
    fleet.warm([*warm, *fresh(27)])  # engine 0
    fleet.send([*warm, *fresh(27)])  # engine 1 does not have it: routing 48, rounding 5
    fleet.send([*cold, *fresh(27)])  # engine 0: cold 53
    fleet.gap = 0.0
    burst = fresh(80)
    fleet.send(burst, burst, burst)  # engines 1, 0 and 1 at once: cold 79; twice duplicate 64, rounding 15
    fleet.gap = 2.0
    fleet.now += 2.0
    fleet.send(*(fresh(160) for _ in range(7)))  # ten blocks each: four on engine 0, three on engine 1
    fleet.send([*warm, *fresh(27)])  # engine 1: eviction 48, rounding 5
    waterfall = told(fleet)
    assert amounts(waterfall) == {
        "cold": 53 - 53 + 79,  # nobody else begins as cold does
        "rounding": 5 + 2 * 15 + 5,
        "duplicates": 2 * 64,
        "routing": 48,
        "eviction": 48,
    }
    assert planted(fleet) == {"duplicates": 2 * 64, "routing": 48, "eviction": 48}
    assert waterfall.ceiling == 53 + 3 * 79 + 53
    assert waterfall.measured == 0
    (evicted,) = (loss for loss in waterfall.losses if loss.cause == "eviction")
    # engine 1 since then: 5 blocks of the burst, 3 x 10, and the 3 blocks themselves
    assert f"a cache of {38 * BLOCK} tokens would have kept it, each of 2 engines has {24 * BLOCK}" in evicted.evidence


HEADS = [[head * 1000 + token for token in range(length)] for head, length in enumerate((32, 50, 64, 90))]


def traffic(fleet: Fleet, choices: Sequence[tuple[int, int]]) -> None:
    """Each request: a head (which nests in none) and so many tokens of its own, at least one."""
    fleet.send(*([*HEADS[head], *fresh(own)] for head, own in choices))


CHOICES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=20)


@given(CHOICES, st.integers(1, 3), st.none() | st.integers(8, 30), st.booleans())
@settings(max_examples=150)
def test_engines_in_turn_give_exactly_what_was_planted(
    choices: list[tuple[int, int]], engines: int, capacity: int | None, warm: bool
) -> None:
    fleet = Fleet([Engine(capacity) for _ in range(engines)])
    if warm:
        fleet.warm(*([*head, *fresh(7)] for head in HEADS))
    traffic(fleet, choices)
    assert _late(told(fleet)) == planted(fleet)


@given(CHOICES, st.floats(0.1, 2.0), st.booleans())
def test_on_one_engine_duplicates_are_told_from_the_times(
    choices: list[tuple[int, int]], gap: float, joins: bool
) -> None:
    fleet = Fleet(gap=gap, joins=joins)
    traffic(fleet, choices)
    assert _late(told(fleet)) == {cause: n for cause, n in planted(fleet).items() if not joins}


@given(CHOICES, st.integers(1, 12))
def test_a_capacity_that_is_not_known_claims_nothing_that_was_not_evicted(
    choices: list[tuple[int, int]], capacity: int
) -> None:
    fleet = Fleet([Engine(capacity)])
    fleet.warm(*([*head, *fresh(7)] for head in HEADS))
    traffic(fleet, choices)
    found = _late(told(fleet, fleet.measured(capacity=None)))
    assert sum(found.values()) == fleet.lost["eviction"]
    assert set(found) <= {"eviction", "unexplained", "reset"}


@given(CHOICES, st.integers(1, 3), st.none() | st.integers(8, 30))
def test_totals_alone_are_enough_where_a_replay_gives_them(
    choices: list[tuple[int, int]], engines: int, capacity: int | None
) -> None:
    fleet = Fleet([Engine(capacity) for _ in range(engines)])
    fleet.warm(*([*head, *fresh(7)] for head in HEADS))
    traffic(fleet, choices)
    waterfall = told(fleet, fleet.measured(told=False))
    assert _late(waterfall) == planted(fleet)
    for loss in waterfall.losses:
        exact = "by a replay in order of sending" in loss.evidence
        assert exact == (loss.cause in ("routing", "eviction"))


SESSIONS = st.lists(
    st.tuples(
        st.integers(0, 3),  # head
        st.integers(1, 40),  # own tokens
        st.none() | st.integers(0, 140),  # hit
        st.none() | st.integers(0, 2),  # session
        st.integers(0, 40),  # generated
        st.booleans(),  # told
        st.sampled_from(["ok", "ok", "ok", "timeout", "http", "bypass", "longer"]),
        st.floats(0, 20),  # sent
        st.none() | st.floats(0, 3),  # first content after
    ),
    max_size=14,
)
FACTS = st.fixed_dictionaries(
    {
        "capacity": st.none() | st.integers(0, 600),
        "block_size": st.sampled_from([None, 1, 16, 32]),
        "minimum": st.sampled_from([None, 48]),
        "whole_prompt_hits": st.booleans(),
    }
)


@given(SESSIONS, FACTS, st.integers(0, 3), st.booleans(), st.integers(0, 2))
@settings(max_examples=300)
def test_whatever_is_measured_the_parts_add_up(
    given_: list[tuple[int, int, int | None, int | None, int, bool, str, float, float | None]],
    facts: dict[str, Any],
    rows: int,
    fell: bool,
    warm: int,
) -> None:
    fleet = Fleet()
    fleet.warm(*([*head, *fresh(7)] for head in HEADS[:warm]))
    exchanges, load = [], []
    for head, own, hit, session, generated, known, how, sent, first in given_:
        output = tuple(fresh(generated))
        ids = [*HEADS[head], *fresh(own)]
        lookup = Lookup(ids, output, session=session) if known else Lookup(ids, untold=generated, session=session)
        fleet.send(lookup)
        load.append(lookup)
        exchange = replace(
            fleet.exchanges[-1],
            cached_tokens=hit,
            sent=100 + sent,
            first_content=None if first is None else 100 + sent + first,
            end=104 + sent,
            lookups=0 if how == "bypass" else 1,
            prompt_tokens=len(ids) + (how == "longer"),
            failure=Failure(how, "no") if how in ("timeout", "http") else None,
        )
        exchanges.append(exchange)
    measured = fleet.measured(*([Finding("KV102", "fell")] if fell else []), **facts)
    counted = random.Random(len(load)).randrange(400)
    engines = {str(n): Tokens(100 * (n + 1), {"local": counted + n}) for n in range(rows)}
    measured = replace(measured, exchanges=tuple(exchanges), engines=engines)
    found = explain(measured, load, prefill=fleet.prefill)
    mine = [e for e in exchanges if e.failure is None and e.lookups == 1]
    told_hits = [e.cached_tokens for e in mine if e.cached_tokens is not None]
    complete = len(told_hits) == len(mine)
    if not mine or (not complete and not rows):
        assert found is None
        return
    assert found is not None
    assert found.measured == (sum(told_hits) if complete else sum(e.hit for e in engines.values()))
    _sound(found)


def _sound(found: Waterfall) -> None:
    order = ("cold", "rounding", "template", "tokenizer", "duplicates", "routing", "eviction", "reset", "surplus")
    causes = [loss.cause for loss in found.losses]
    assert found.ceiling - sum(loss.tokens for loss in found.losses) == found.measured
    assert causes == [cause for cause in (*order, "unexplained") if cause in causes]
    for loss in found.losses:
        assert (loss.tokens < 0) == (loss.cause == "surplus")
        assert loss.tokens
        assert loss.evidence


def _late(waterfall: Waterfall) -> dict[str, int]:
    early = ("cold", "rounding", "template")
    return {cause: tokens for cause, tokens in amounts(waterfall).items() if cause not in early}
