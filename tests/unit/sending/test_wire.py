"""Calls and exchanges through the pipe: what comes out is what one process alone would have had."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.apis import PATHS
from pytest_kvcache.client import Call
from pytest_kvcache.distribution import Latency
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.engines import shipped
from pytest_kvcache.model import Exchange, Failure
from pytest_kvcache.replies import UsageReading, readings
from pytest_kvcache.replies.usage import declared
from pytest_kvcache.sending import wire
from pytest_kvcache.sending.frames import Frame, Frames, framed

MOMENTS = st.floats(0, 1e9)
MAYBE = st.none() | MOMENTS
COUNTS = st.none() | st.integers(0, 1 << 40)
IDS = st.none() | st.lists(st.integers(0, (1 << 32) - 1)).map(lambda ids: array("I", ids))
# As JSON decodes them: halves of surrogate pairs too.
TEXTS = st.text(st.characters(exclude_categories=()))
CALLS = st.builds(
    lambda identity, name, arguments: {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    TEXTS,
    TEXTS,
    TEXTS,
)
EXCHANGES = st.builds(
    Exchange,
    phase=st.sampled_from(["load", "prefill"]),
    queued=MOMENTS,
    end=MOMENTS,
    sent=MAYBE,
    first_content=MAYBE,
    last_content=MAYBE,
    chunks=st.lists(MOMENTS).map(lambda stamps: array("d", stamps)),
    prompt_len=COUNTS,
    prompt_tokens=COUNTS,
    cached_tokens=COUNTS,
    completion_tokens=COUNTS,
    written_tokens=COUNTS,
    lookups=st.integers(0, 8),
    partial=st.booleans(),
    finish_reason=st.none() | TEXTS,
    status=st.none() | st.integers(100, 599),
    failure=st.none() | st.builds(Failure, st.sampled_from(["http", "cut", "server"]), TEXTS, MAYBE),
    text=TEXTS,
    reasoning=TEXTS,
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    prompt_ids=IDS,
    output_ids=IDS,
    session=COUNTS,
    turn=COUNTS,
)


def through(packed: Frame) -> Frame:
    (frame,) = Frames().feed(framed(packed))
    return frame[0]


@given(EXCHANGES)
def test_an_exchange_comes_back_as_it_was(exchange: Exchange) -> None:
    kept = ("phase", "prompt_len", "lookups", "partial", "session", "turn")
    call = Call("chat", {"model": "m"}, **{name: getattr(exchange, name) for name in kept})
    back = wire.exchange_of(call, exchange.queued, through(wire.packed_exchange(exchange)))
    assert back == exchange
    assert isinstance(back.chunks, array)
    assert type(back.failure) is type(exchange.failure)


def test_nothing_new_is_left_behind() -> None:
    """A field that is added to one of these has to travel, or to be known not to."""
    here = {"queued", "phase", "prompt_len", "lookups", "partial", "session", "turn"}  # of the parent's own
    later = {"scheduled", "earlier"}  # set where it was sent from
    names = ("end", "sent", "first_content", "last_content", "chunks", "prompt_tokens", "cached_tokens", "failure")
    told = {*names, "completion_tokens", "written_tokens", "finish_reason", "status", "text", "reasoning"}
    ids = {"tool_calls", "prompt_ids", "output_ids"}
    assert {f.name for f in fields(Exchange)} == here | later | told | ids
    assert {f.name for f in fields(Failure)} == {"kind", "message", "retry_after"}
    assert {f.name for f in fields(Call)} == here - {"queued"} | {"api", "body", "model", "samples", "usage"}
    unused = {"metrics", "engine", "profiles", "prices"}  # by who only sends
    assert {f.name for f in fields(Endpoint)} == {"base", "model", "api_key", "headers", "timeout"} | unused
    assert {f.name for f in fields(UsageReading) if f.init} == {"rule", "absent_is_zero"}


@pytest.mark.parametrize("ids", [[1, 2], (1, 2), range(1, 3), array("I", [1, 2]), array("q", [1, 2])])
def test_ids_of_any_kind_keep_their_numbers(ids: Sequence[int]) -> None:
    call = Call("chat", {})
    given = Exchange("load", 1.0, 2.0, prompt_ids=ids, output_ids=[])
    back = wire.exchange_of(call, 1.0, through(wire.packed_exchange(given)))
    assert back.prompt_ids is not None
    assert list(back.prompt_ids) == [1, 2]
    assert back.output_ids is not None  # told, and empty
    assert not back.output_ids


def test_what_the_child_does_not_know_is_the_calls() -> None:
    call = Call("chat", {}, phase="prefill", prompt_len=9, lookups=3, partial=True, session=4, turn=5)
    childs = Exchange("load", 100.0, 102.0, sent=101.0)  # as a client that knows none of it makes it
    back = wire.exchange_of(call, 99.0, through(wire.packed_exchange(childs)))
    assert back == Exchange(
        "prefill",
        99.0,
        102.0,
        sent=101.0,
        chunks=array("d"),
        prompt_len=9,
        lookups=3,
        partial=True,
        session=4,
        turn=5,
    )
    assert back.queueing == 2.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
TOKENS = st.lists(st.integers(-2, 1 << 33), min_size=1, max_size=3).map(lambda few: few * 64)


@given(st.dictionaries(TEXTS, JSON | TOKENS, max_size=5))
def test_a_body_is_the_same_json_in_the_same_order(body: dict[str, Any]) -> None:
    back = wire.body_of(through(wire.packed_body(body)))
    assert json.dumps(back) == json.dumps(body)


@pytest.mark.parametrize(
    "prompt",
    [
        [7] * 8192,
        [0, (1 << 32) - 1] * 100,
        [1 << 32] * 100,
        [-1] * 100,
        [1] * 99 + [1.5],
        [1] * 99 + ["a"],
        [[1] * 100] * 2,
        [1],
        [],
        "word " * 1000,
    ],
)
def test_prompts_of_every_form(prompt: Any) -> None:
    body = {"model": "m", "prompt": prompt, "max_tokens": 1}
    assert wire.body_of(through(wire.packed_body(body))) == body


def test_token_ids_travel_in_four_bytes_each() -> None:
    assert len(framed(wire.packed_body({"prompt": [150_000] * 10_000}))) < 41_000


def test_a_body_of_other_mappings_is_sent_as_json_has_it() -> None:
    class Words(str):
        pass

    class Fields(dict[str, Any]):
        pass

    body = Fields(model=Words("m"), options=Fields(stop=(Words("a"), Words("b"))))
    assert wire.body_of(through(wire.packed_body(body))) == {"model": "m", "options": {"stop": ["a", "b"]}}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_what_json_has_no_form_for(value: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        wire.packed_body({"prompt": value})


@pytest.mark.parametrize("api", PATHS)
def test_how_usage_is_read(api: str) -> None:
    rules = [rule for profile in shipped() for rule in profile.usage]
    for usage in (
        readings(api),
        readings(api, rules, "0.11"),
        declared(readings(api, rules), prompt_is="uncached", absent="zero"),
    ):
        assert wire.usage_of(through(wire.packed_usage(usage))) == usage


def test_where_and_as_whom() -> None:
    endpoint = Endpoint("http://u:p@h:8/x", model="m", api_key="key-key", headers=(("A", "b"),), timeout=7.0)
    assert wire.endpoint_of(through(wire.packed_endpoint(endpoint))) == endpoint
    more = replace(endpoint, metrics=(MetricsSource("http://h/metrics"),), profiles=({"id": "x"},), engine="vllm")
    assert wire.endpoint_of(through(wire.packed_endpoint(more))) == endpoint


@given(st.lists(st.floats(0, 10)))
def test_samples(values: list[float]) -> None:
    for latency in (Latency.of(values), Latency.counted(dict.fromkeys(values, 3))):
        back = wire.latency_of(through(wire.packed_latency(latency)))
        assert (list(back.samples), list(back.behind)) == (list(latency.samples), list(latency.behind))
        assert (len(back), back.p95, back.mean) == (len(latency), latency.p95, latency.mean)


def test_a_call_that_no_client_answered() -> None:
    call = Call("chat", {}, phase="prefill", prompt_len=9, lookups=3, partial=True, session=4, turn=5)
    failure = Failure("process", "the process that sent it died")
    lost = wire.failed(call, 1.0, 2.0, failure, sent=1.0)
    assert (lost.phase, lost.queued, lost.end, lost.sent, lost.failure) == ("prefill", 1.0, 2.0, 1.0, failure)
    assert (lost.prompt_len, lost.lookups, lost.partial, lost.session, lost.turn) == (9, 3, True, 4, 5)
    assert wire.failed(call, 1.0, 2.0, failure).sent is None
