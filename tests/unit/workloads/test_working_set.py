"""A warmed set of contexts: what is warmed when, what each run adds, and what is never shared."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Request, ServerFacts
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.working_set import WorkingSet

from ..forecast import forecast
from ..tokenizers_zoo import builtin

BUILD = WorkloadBuilder()
FACTS = ServerFacts("sim", "m", block_size=16)


def compose(shape: WorkingSet, nonce: str = "n", *, series: str = "s", is_warm: bool = False) -> ComposedPrefix:
    return shape.compose(FACTS, builtin(), nonce, as_ids=True, series=series, is_warm=is_warm)


def ids(requests: Iterable[Request]) -> list[tuple[int, ...]]:
    return [tuple(request.prompt.ids) for request in requests]


def test_the_whole_set_is_warmed_and_each_request_is_a_part_of_a_context() -> None:
    composed = compose(BUILD.working_set(tokens=1050, context=100, hit_rate=0.5, output_len=3))
    contexts = ids(composed.prefill())
    assert [len(context) for context in contexts] == [100] * 10
    load = list(composed.load())
    assert [r.group for r in load] == list(range(10))
    assert [tuple(r.prompt.ids[:48]) for r in load] == [context[:48] for context in contexts]
    assert all(r.prompt.ids[48] != context[48] for r, context in zip(load, contexts, strict=True))
    assert {(len(r.prompt.ids), r.max_tokens, r.phase) for r in load} == {(100, 3, "load")}
    assert [(r.max_tokens, r.phase) for r in composed.prefill()] == [(1, "prefill")] * 10
    prediction = forecast(composed, 16)
    assert (prediction.per_request, prediction.prefill_hit_tokens) == ((48,) * 10, 0)


def test_more_requests_than_contexts_take_them_in_turn_or_as_drawn() -> None:
    in_turn = compose(BUILD.working_set(300, 100, 0.5, requests=7))
    assert [r.group for r in in_turn.load()] == [0, 1, 2, 0, 1, 2, 0]
    drawn = BUILD.working_set(300, 100, 0.5, requests=300, selection="random")
    groups = [r.group for r in compose(drawn).load()]
    assert groups == [r.group for r in compose(drawn, "other").load()]
    assert set(Counter(groups)) == {0, 1, 2}
    assert sorted(Counter(groups).values()) != [100, 100, 100]
    assert groups != sorted(groups, key=lambda group: group or 0)
    seeded = BUILD.working_set(300, 100, 0.5, requests=300, selection="random", seed=5)
    assert [r.group for r in compose(seeded).load()] != groups


def test_few_requests_warm_the_whole_set_all_the_same() -> None:
    composed = compose(BUILD.working_set(1000, 100, 0.5, requests=2))
    assert (len(list(composed.prefill())), len(list(composed.load())), len(composed)) == (10, 2, 2)


def test_zero_is_not_one_token() -> None:
    composed = compose(BUILD.working_set(3000, 100, 0.0, requests=200))
    first = [prompt[0] for prompt in ids([*composed.load(), *composed.prefill()])]
    assert len(first) == len(set(first)) == 230
    assert forecast(composed, 1).hit_tokens == 0
    assert {r.group for r in composed.load()} == {None}


def test_one_leaves_a_last_token() -> None:
    composed = compose(BUILD.working_set(480, 160, 1.0))
    assert (composed.prefix_len, forecast(composed, 16).per_request) == (144, (144,) * 3)
    assert composed.notes[0] == "hit rate 1.00 is 0.900 in chunks of 16: 144 of 160 tokens"


@pytest.mark.parametrize(
    ("chunk", "notes"),
    [
        (256, ["hit rate 0.70 is 0.688 in chunks of 256: 11,008 of 16,000 tokens"]),
        (64, []),
        # 11,200 // 100 * 100 tokens are shared, of which whole blocks are hit
        (1100, ["hit rate 0.70 is 0.687 in chunks of 1100 and blocks of 16: 10,992 of 16,000 tokens"]),
    ],
)
def test_rounding_is_told(chunk: int, notes: list[str]) -> None:
    composed = compose(BUILD.working_set(16_000, 16_000, 0.7, chunk=chunk))
    highest = "highest rate in reach: 0.999 (a prompt's last token is always computed, blocks of 16)"
    assert list(composed.notes) == [*notes, highest]


def test_title() -> None:
    assert compose(BUILD.working_set(64_000, 16_000, 0.7, requests=9, chunk=256)).title == (
        "working_set: 9 x 16,000 tokens, 11,008 of a set of 4 contexts (0.688), 128 out, as ids"
    )


def the_set(reinit: Any, rate: float = 0.5, nonce: str = "n", **more: Any) -> list[tuple[int, ...]]:
    return ids(compose(BUILD.working_set(300, 100, rate, reinit=reinit, **more), nonce).prefill())


def test_when_the_set_is_another() -> None:
    once = the_set("once")
    assert once == the_set("once", 0.25, "m") == the_set("once", requests=50, selection="random")
    assert the_set("per_rate") == the_set("per_rate", nonce="m", chunk=1)
    assert the_set("per_test") == the_set("per_test", 0.25)
    others = [
        once, the_set("per_rate"), the_set("per_rate", 0.25), the_set("per_test"), the_set("per_test", nonce="m"),
        the_set("once", seed=1), the_set("once", seed=2),
        ids(compose(BUILD.working_set(300, 100, 0.5, reinit="once"), series="t").prefill()),
        [prompt[:80] for prompt in ids(compose(BUILD.working_set(480, 160, 0.5, reinit="once")).prefill())],
    ]  # fmt: skip
    beginnings = [prompt[:16] for found in others for prompt in found]
    assert len(set(beginnings)) == len(beginnings) == 27
    assert the_set("once", seed=1) == the_set("once", seed=1, nonce="m")
    assert the_set("per_test", seed=1) == the_set("per_test", seed=1, nonce="m")


def test_what_is_named_as_warm() -> None:
    def name(reinit: Any, rate: float = 0.5, **more: Any) -> str | None:
        return compose(BUILD.working_set(**{"tokens": 300, "context": 100, **more}, hit_rate=rate, reinit=reinit)).warms

    assert name("per_test") is None
    assert name("once") == name("once", 0.25) == name("once", chunk=3, requests=9)
    assert name("per_rate", 0) == name("per_rate", 0.0)
    names = [name("once"), name("per_rate"), name("per_rate", 0.25), name("once", seed=3), name("once", send="text"),
             name("once", tokens=400), name("once", tokens=450, context=150)]  # fmt: skip
    assert len(set(names)) == len(names)


def test_a_warm_set_is_not_sent_again_and_still_predicted() -> None:
    shape = BUILD.working_set(300, 100, 0.5, reinit="once")
    first, second = compose(shape, "a"), compose(shape, "b", is_warm=True)
    assert list(second.prefill()) == []
    assert ids(second.warmed()) == ids(first.prefill())
    assert list(first.warmed()) == []
    assert second.prefix_len == first.prefix_len == 48
    assert [prompt[:48] for prompt in ids(first.load())] == [prompt[:48] for prompt in ids(second.load())]


def test_what_follows_is_new_in_each_run_whatever_the_seed() -> None:
    for seed in (None, 1):
        runs = [compose(BUILD.working_set(300, 100, 0.5, reinit="once", seed=seed), nonce) for nonce in "ab"]
        pairs = itertools.product(ids(runs[0].load()), ids(runs[1].load()))
        assert all(one[48:64] != other[48:64] for one, other in pairs)
        again = compose(BUILD.working_set(300, 100, 0.5, reinit="once", seed=seed), "a")
        assert ids(again.load()) == ids(runs[0].load())


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"tokens": 0}, "tokens=0 must be a whole number of at least 1"),
        ({"tokens": 99}, "tokens=99 must be at least one context of 100 tokens"),
        ({"context": True}, "context=True must be a whole number of at least 1"),
        ({"hit_rate": 1.1}, "hit_rate=1.1 must be a ratio between 0 and 1"),
        ({"hit_rate": [0.5]}, "hit_rate=[0.5] must be a ratio between 0 and 1"),
        ({"requests": 0}, "requests=0 must be a whole number of at least 1, or None"),
        ({"chunk": 1.5}, "chunk=1.5 must be a whole number of at least 1, or None"),
        ({"selection": "lru"}, "selection='lru' must be"),
        ({"reinit": "never"}, "reinit='never' must be"),
        ({"output_len": 0}, "output_len=0 must be a whole number of at least 1"),
        ({"seed": "x"}, "seed='x' must be a whole number or None"),
        ({"send": "post"}, "send='post' must be"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named(wrong: dict[str, Any], allowed: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        BUILD.working_set(**{"tokens": 1000, "context": 100, "hit_rate": 0.5, **wrong})
    assert f"working_set: {allowed}" in str(caught.value)


def test_too_long_for_the_model() -> None:
    facts = ServerFacts("sim", "m", block_size=16, max_model_len=200)
    with pytest.raises(WorkloadError, match="working_set: 100 prompt and 101 output tokens are more than the 200"):
        BUILD.working_set(1000, 100, 0.5, output_len=101).compose(facts, builtin(), "n", as_ids=True)
