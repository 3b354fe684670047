"""The published schema: complete, explained, and what the code writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_kvcache.capacity.outline import outline
from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import (
    ClientLoad,
    Divergence,
    Finding,
    Level,
    Loss,
    Moment,
    Period,
    Prediction,
    Pressure,
    Span,
    Tokens,
    Waterfall,
)
from pytest_kvcache.report import schema
from pytest_kvcache.report.document import SCHEMA, document
from pytest_kvcache.savings.prices import Prices, Rates

from ...documents import errors
from .made import (
    CUT,
    ENTRY,
    FACTS,
    LATE,
    REFUSED,
    TEN,
    WHOLE,
    at,
    judged,
    measured,
    reached,
    regressed,
    samples,
    search,
    stretch,
    swept,
)

PLAIN = {"0": Tokens(1000, {"local": 700, "host": 100}, 1000)}


def everything() -> dict[str, Any]:
    """A document in which every key of the schema has a value."""
    rich = measured(
        PLAIN,
        aside={"d": Tokens(5, {})},
        facts=replace(FACTS, note="counts twice", prices=Prices(Rates(*map(Decimal, (2, 1, 3, 4))), origin="a list")),
        exchanges=(
            replace(WHOLE, scheduled=0.5, session=0, turn=0, cached_tokens=3, prompt_tokens=9),
            LATE,
            CUT,
            REFUSED,
        ),
        prediction=Prediction(6, 10, (6, 0, 0, 0), 16),
        pressure=Pressure(3, 4, 0.5, 4, 9, 10, 1),
        server_latency={"ttft": TEN, "prefill": Histogram((float("inf"),), (2,), 0.4)},
        client=ClientLoad(samples(0.001), samples(0.01), 0.2),
        gaps=samples(0.1),
        simulated=Prediction(6, 10, (6,), 16, capacity=1584),
        waterfall=Waterfall(900, (Loss("cold", 200, "one was first", "warm it", 1),), 700),
        divergence=Divergence(
            "timestamp", "system message", "", 0, 1, 2, 3, 4, 5, 6, 7, "s", "l", "r", "a", (0, 1), 1, 2
        ),
        notes=("a note",),
        begun=Moment(100.0, 1_700_000_000.25),
        phases=(Span("reset", 100.0, 100.5), Span("load", 100.5, 102.0)),
    )
    rates = {
        "target": 0.7,
        "target_from": "given",
        "min": 0.6,
        "max": 0.8,
        "predicted": 0.8,
        "simulated": 0.7,
        "ceiling": 0.9,
    }
    sweep = {"name": "s", "axes": {"rate": 0.5, "kind": "a", "on": True}, "marked": True}
    period = Period(stretch(Level(2), itl=samples(0.1), good=1), "breached", "TTFT", 3)
    checks = [
        judged(rich, findings=(Finding("KV201", "low", "do"),), low=0.69, high=0.71, warm=0.9, **rates),
        judged(at(8, rich, itl=samples(0.1), good=2), objectives=(reached(note="n"),), sweep=sweep),
        judged(at(8), replace(measured(PLAIN), stretch=stretch(Level(rate=2.5)))),
        judged(search(period), sweep=sweep),
        judged(search(held=None, breached=None)),
        judged(rich, regressions=(regressed(where="concurrency 8"),), entry=ENTRY),
        judged(status="inconclusive"),
    ]
    curves = [{"nodeid": "test_a.py::test", **outline(swept(sampled=sampled))} for sampled in (False, True)]
    return document(checks, endpoint="sim", seed=7, interrupted=True, curves=curves)


def objects(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a value, with its place."""
    for name, inner in part.get("properties", {}).items():
        yield f"{path}/{name}", inner
        yield from objects(inner, f"{path}/{name}")
    for name, inner in part.get("$defs", {}).items():
        yield f"#{name}", inner
        yield from objects(inner, f"#{name}")


def test_it_is_a_schema_of_this_version() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["properties"]["schema"]["const"] == SCHEMA


def test_every_key_says_what_it_means() -> None:
    silent = [path for path, part in objects(schema()) if not part.get("description") and set(part) != {"$ref"}]
    assert silent == []
    assert len(list(objects(schema()))) > 250


def test_a_document_with_everything() -> None:
    assert errors(everything()) == []


def test_nothing_is_told_of_that_is_never_there() -> None:
    """Every key of the schema has, in the document with everything, a value that is no null."""
    found: set[str] = set()

    def walk(value: Any, part: dict[str, Any], name: str) -> None:
        for one in part.get("anyOf", [part]):
            if "$ref" in one:
                name = one["$ref"].removeprefix("#/$defs/")
                one = schema_["$defs"][name]
            if isinstance(value, dict) and one.get("type") == "object":
                for key, inner in value.items():
                    known = one.get("properties", {}).get(key) or one.get("additionalProperties")
                    if inner is not None:
                        found.add(f"{name}.{key}")
                        walk(inner, known, f"{name}.{key}")
            if isinstance(value, list) and one.get("type") == "array":
                for inner in value:
                    walk(inner, one["items"], name)

    schema_ = schema()
    walk(everything(), schema_, "")
    wanted = {f"{name}.{key}" for name, part in schema_["$defs"].items() for key in part.get("properties", {})}
    assert wanted - found == set()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "pytest-kvcache/2"),
        (("seed",), -1),
        (("interrupted",), None),
        (("checks", 0, "verdict"), "ok"),
        (("checks", 0, "new"), 1),
        (("checks", 0, "hit_rate", "target"), 1.5),
        (("checks", 0, "hit_rate", "target_from"), "guessed"),
        (("checks", 0, "hit_tokens"), 0.5),
        (("checks", 0, "source"), "logs"),
        (("checks", 0, "engines", "0", "tiers", "local"), None),
        (("checks", 0, "engine", "block_size"), 0),
        (("checks", 0, "errors", "timeout"), 0),
        (("checks", 0, "findings", 0, "code"), "KV1"),
        (("checks", 0, "findings", 0, "severity"), "bad"),
        (("checks", 0, "ttft_s", "p50"), "fast"),
        (("checks", 0, "runs", 0, "divergence", "left"), "text of the user"),
        (("checks", 0, "server_latency_s", "ttft", "p50", "value"), None),
        (("checks", 1, "objectives", 0, "limit"), None),
        (("checks", 1, "sweep", "axes", "rate"), None),
        (("checks", 1, "runs", 0, "level", "concurrency"), 0),
        (("checks", 3, "runs", 0, "limit", "periods", 0, "held"), "maybe"),
        (("sweeps", 0, "cells", 0, "level"), 8),
    ],
)
def test_what_is_no_such_document(path: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(everything())
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(errors(document)) >= 1


def test_every_key_is_always_there() -> None:
    for key in (*everything(), ("checks", 0, "runs"), ("checks", 0, "runs", 0, "turns"), ("sweeps", 0, "axes")):
        document: Any = copy.deepcopy(everything())
        place = document
        path = (key,) if isinstance(key, str) else key
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        assert len(errors(document)) == 1


def test_a_reader_may_meet_further_keys() -> None:
    more = everything() | {"new": 1}
    import json

    assert list(Draft202012Validator(schema()).iter_errors(json.loads(json.dumps(more)))) == []
