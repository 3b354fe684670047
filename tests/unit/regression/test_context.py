"""Circumstances: where they come from, and when they are others."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.model import Expectation, Measurement, ServerFacts, Verdict
from pytest_kvcache.regression.context import NAMES, changes, context_of

from .made import CONTEXT

FACTS = ServerFacts("vllm", "m", variant="v1", version="0.31.0", block_size=16)
RUN = (Measurement("a title", FACTS, {}), Verdict("pass", "", source="counters"))


def test_what_is_told() -> None:
    context = context_of([RUN, RUN], ["d", "d"])
    assert context == {**CONTEXT, "workload": "a title", "sent": "d"}
    assert set(NAMES) == set(context) - {"sent"}
    assert context_of([], []) is None


def test_how_often_the_same_was_sent_is_no_circumstance() -> None:
    one, several = context_of([RUN], ["d"]), context_of([RUN] * 5, ["d"] * 5)
    assert one == several
    other = context_of([RUN, RUN], ["d", "e"])
    assert other is not None
    assert other["sent"] != "d"
    assert len(str(other["sent"])) == 12
    unknown = context_of([RUN, RUN], ["d", None])
    assert unknown is not None
    assert unknown["sent"] is None


def test_titles_are_bounded() -> None:
    runs = [(Measurement(f"{number}" * 80, FACTS, {}), RUN[1]) for number in range(9)]
    context = context_of(runs, ["d"] * 9)
    assert context is not None
    assert len(str(context["workload"])) == 303


@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        (None, "tokens by counters"),
        (Expectation(weight="request"), "requests by counters"),
        (Expectation(tier="local", requests="warm"), "tokens by counters, tier local, warm requests"),
        (Expectation(skip_turns=1), "tokens by counters, from turn 1 on"),
    ],
)
def test_how_the_rate_is_counted_is_a_circumstance(expectation: Expectation | None, told: str) -> None:
    context = context_of([RUN], ["d"], expectation)
    assert context is not None
    assert context["counted"] == told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("engine", "sglang", "engine vllm -> sglang"),
        ("engine_version", "0.32.0", "engine_version 0.31.0 -> 0.32.0"),
        ("engine_version", None, "engine_version 0.31.0 -> unknown"),
        ("block_size", 32, "block_size 16 -> 32"),
        ("simulated", True, "simulated False -> True"),
        ("model", "n", "model m -> n"),
        ("variant", None, "variant v1 -> unknown"),
        ("counted", "tokens by usage", "counted tokens by counters -> tokens by usage"),
    ],
)
def test_each_is_told(name: str, value: Any, told: str) -> None:
    (change,) = changes(CONTEXT, {**CONTEXT, name: value})
    assert (str(change), change.allowed) == (told, False)
    assert changes(CONTEXT, {**CONTEXT, name: value}, {name})[0].allowed
    assert changes(CONTEXT, CONTEXT) == []


def test_a_workload_is_told_by_its_titles_and_compared_by_its_digest() -> None:
    assert changes(CONTEXT, {**CONTEXT, "workload": "other words"}) == []
    (change,) = changes(CONTEXT, {**CONTEXT, "sent": "ba9876543210"})
    title = CONTEXT["workload"]
    assert str(change) == f"workload {title} (0123456789ab) -> {title} (ba9876543210)"
    (change,) = changes(CONTEXT, {**CONTEXT, "sent": "ba9876543210", "workload": "other"})
    assert str(change) == f"workload {title} -> other"
    assert changes({**CONTEXT, "sent": None}, CONTEXT) == []  # the same titles are all that is known
    assert len(changes({**CONTEXT, "sent": None}, {**CONTEXT, "workload": "other"})) == 1
