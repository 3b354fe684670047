"""Whatever the shape: any two prompts share what the description says, and the prediction is what brute force finds."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.lookups import lookups_of
from pytest_kvcache.model import Grain, Prediction, Request, ServerFacts
from pytest_kvcache.simulate.replay import predict
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.frame import frame_of
from pytest_kvcache.workloads.vocabulary import Vocabulary
from pytest_kvcache.workloads.working_set import WorkingSet

from ..tokenizers_zoo import ZOO, builtin
from .fake_site import TEMPLATES, FakeSite
from .test_predicted_reuse import brute_force

CHATS = FakeSite(ZOO["bos-eos"](), TEMPLATES["trimming"])
FRAME = asyncio.run(frame_of(CHATS, Vocabulary.of(ZOO["bos-eos"]())))
LEAD = len(FRAME.lead)
WEIGHTS: list[Any] = ["uniform", "zipf", ("zipf", 2.5)]


def compose(shape: SharedPrefix | WorkingSet, tokenizer: str, block: int) -> ComposedPrefix:
    facts = ServerFacts("sim", "m", block_size=block)
    frame = FRAME if shape.send == "chat" else None
    return shape.compose(facts, ZOO[tokenizer](), "n", as_ids=True, frame=frame)


def shared(left: Request, right: Request) -> int:
    pairs = zip(left.prompt.ids, right.prompt.ids, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def common(composed: ComposedPrefix, left: int, right: int) -> int:
    """Tokens that two prefixes share by the description: level for level, as long as both are under the same node."""
    levels = composed.plan.paths.levels
    count = 0
    nodes = [[left, right]]
    for (above, _), (here, _) in zip(reversed(levels[:-1]), reversed(levels[1:]), strict=True):
        nodes.append([node * above // here for node in nodes[-1]])
    for (_, own), (one, other) in zip(levels, reversed(nodes), strict=True):
        if one != other:
            break
        count += own
    return count or len(composed.wording.lead)


def predicted(composed: ComposedPrefix, block: int) -> Prediction:
    before, prefill, load = (
        lookups_of(requests, lambda _: None) for requests in (composed.warmed(), composed.prefill(), composed.load())
    )
    return predict(load, Grain(block), prefill=prefill, warmed=before, exact=True)


def check(composed: ComposedPrefix, block: int) -> None:
    lead, full = len(composed.wording.lead), composed.plan.paths.length
    load, warm = list(composed.load()), list(composed.prefill())
    places = [(p.leaf, p.prefix_len) for p in composed.plan]
    if composed.paths.length and composed.plan.warm:
        places += [(request.group or 0, full) for request in warm]
    every = [*load, *warm][: len(places)]
    assert len({tuple(request.prompt.ids) for request in every}) == len(every)
    for (one, left), (other, right) in itertools.combinations(zip(every, places, strict=True), 2):
        prefix = common(composed, left[0], right[0])
        expected = max(lead, min(left[1], right[1], prefix))
        assert shared(one, other) == expected, (left, right)
    assert [len(r.prompt.ids) for r in load] == [p.input_len for p in composed.plan]
    assert [r.group for r in load] == [p.leaf if p.prefix_len > lead else None for p in composed.plan]
    before = list(composed.warmed())
    hits = brute_force([*before, *warm, *load], block)[len(before) :]
    prediction = predicted(composed, block)
    assert prediction.prefill_hit_tokens == sum(hits[: len(warm)])
    assert list(prediction.per_request) == hits[len(warm) :]
    if composed.plan.warm:
        deep = [(hit, place.prefix_len) for hit, place in zip(hits[len(warm) :], composed.plan, strict=True)]
        assert all(hit == prefix // block * block for hit, prefix in deep if prefix > lead)
    if composed.header:
        assert all(hit >= lead // block * block for hit in hits)
    texts = [r.prompt.text for r in every if r.prompt.text is not None]
    if composed.wording.way == "text":
        assert composed.wording.name
        assert [list(r.prompt.ids) for r in every] == ZOO[composed.wording.name]().encode(texts)
    if composed.wording.way == "chat":
        messages = [{"messages": [{"role": "user", "content": text}]} for text in texts]
        assert [list(r.prompt.ids) for r in every] == [CHATS.tokens(body) for body in messages]
        assert {r.api for r in every} == {"chat"}


WAYS = st.sampled_from([("builtin", "ids"), ("builtin", "text"), ("bos-eos", "text"), ("sentencepiece", "text"),
                        ("bos-eos", "chat")])  # fmt: skip
BLOCKS = st.sampled_from([1, 5, 16, 64])


@settings(max_examples=60, derandomize=True)
@given(data=st.data(), way=WAYS, block=BLOCKS)
def test_trees(data: st.DataObject, way: tuple[str, str], block: int) -> None:
    tokenizer, send = way
    counts = sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    own = [data.draw(st.integers(1, 40)) for _ in counts]
    own[0] += LEAD if send == "chat" else 1
    weights = data.draw(st.sampled_from([*WEIGHTS, [n % 3 + 1 for n in range(counts[-1])]]))
    length = sum(own) + data.draw(st.integers(1, 30)) + (len(FRAME.trail) if send == "chat" else 1)
    shape = SharedPrefix(
        data.draw(st.integers(1, 20)), length, tree=list(zip(counts, own, strict=True)), weights=weights,
        send=send, prefill=data.draw(st.booleans()), output_len=1,
    )  # type: ignore[arg-type] # a Literal  # fmt: skip
    composed = compose(shape, tokenizer, block)
    assert composed.prefix_len == sum(own)
    check(composed, block)


@settings(max_examples=80, derandomize=True)
@given(data=st.data(), way=WAYS, block=BLOCKS, align=st.sampled_from(["block", None]))
def test_mixes(data: st.DataObject, way: tuple[str, str], block: int, align: Any) -> None:
    tokenizer, send = way
    around = len(FRAME) if send == "chat" else 2
    rates = data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=4, unique=True))
    lengths = data.draw(st.lists(st.integers(around + 1, around + 120), min_size=1, max_size=3, unique=True))
    prefixes = data.draw(st.integers(1, 5))
    requests = data.draw(st.integers(1, 20))
    shape = SharedPrefix(
        requests, {length: at + 1 for at, length in enumerate(lengths)}, rates, prefixes=prefixes, align=align, tol=1.0,
        weights=data.draw(st.sampled_from(WEIGHTS)), send=send, prefill=data.draw(st.booleans()), output_len=1,
    )  # type: ignore[arg-type] # a Literal  # fmt: skip
    composed = compose(shape, tokenizer, block)
    check(composed, block)
    seen = Counter(place.input_len for place in composed.plan)
    for at, length in enumerate(lengths):
        assert abs(seen[length] - requests * (at + 1) / sum(range(len(lengths) + 1))) < 1
    columns = Counter(place.column for place in composed.plan)
    assert all(abs(columns[at] - requests / len(rates)) < 1 for at in range(len(rates)))


@settings(max_examples=40, derandomize=True)
@given(
    way=WAYS, block=BLOCKS, context=st.integers(LEAD + 20, 200), contexts=st.integers(1, 6), rate=st.floats(0.2, 1),
    chunk=st.sampled_from([None, 1, 7, 48]), selection=st.sampled_from(["round_robin", "random"]),
    requests=st.integers(1, 15),
)  # fmt: skip
def test_sets(
    way: tuple[str, str], block: int, context: int, contexts: int, rate: float, chunk: int | None, selection: Any,
    requests: int,
) -> None:  # fmt: skip
    tokenizer, send = way
    context += len(FRAME.trail)
    shape = WorkingSet(
        contexts * context, context, rate, requests, chunk, selection, output_len=1, send=send,  # type: ignore[arg-type] # a Literal
    )  # fmt: skip
    if send == "chat" and rate * context < LEAD:
        return
    composed = compose(shape, tokenizer, block)
    warm = list(composed.prefill())
    assert [r.group for r in warm] == list(range(contexts))
    assert {len(r.prompt.ids) for r in warm} == {context}
    lead, own = len(composed.wording.lead), composed.wording.own
    step = chunk or block
    expected = min(int(context * rate // step), (context - own) // step) * step
    load = list(composed.load())
    for request, place in zip(load, composed.plan, strict=True):
        assert len(request.prompt.ids) == context
        assert place.prefix_len == expected
        for number, warmer in enumerate(warm):
            assert shared(request, warmer) == max(lead, expected if number == place.leaf else 0)
    for one, other in itertools.combinations(load, 2):
        same = one.group == other.group
        assert shared(one, other) == max(lead, expected if same else 0)


@pytest.mark.parametrize("order", [None, 1])
def test_two_parts_of_one_prefix_part_at_the_shorter_ones_end(order: int | None) -> None:
    composed = compose(SharedPrefix(40, 100, [0.16, 0.32, 0.64], tol=0.1, seed=order, output_len=1), "builtin", 16)
    (warm,) = composed.prefill()
    found = {shared(request, warm) for request in composed.load()}
    assert found == {16, 32, 64}


def test_nodes_under_different_parents_have_nothing_in_common_but_their_position() -> None:
    composed = compose(SharedPrefix(4, 100, tree=[(2, 20), (4, 60)], output_len=1), "builtin", 16)
    parts = [tuple(request.prompt.ids[25:80]) for request in composed.prefill()]
    assert len(set(parts)) == 4


def test_rate_zero_among_others_shares_not_even_a_first_token() -> None:
    composed = compose(SharedPrefix(900, 40, {0.0: 0.9, 0.8: 0.1}, prefixes=50, output_len=1), "builtin", 16)
    assert len(composed.wording.vocabulary) == 960
    cold = [r.prompt.ids[0] for r in composed.load() if r.group is None]
    assert len(cold) == len(set(cold)) == 810
    assert not set(cold) & {r.prompt.ids[0] for r in composed.prefill()}


def test_more_cold_prompts_than_pieces_still_begin_unlike_any_prefix() -> None:
    composed = compose(SharedPrefix(3000, 40, {0.0: 0.9, 0.8: 0.1}, prefixes=50, output_len=1), "builtin", 16)
    cold = [tuple(r.prompt.ids[:2]) for r in composed.load() if r.group is None]
    assert len(cold) == len(set(cold)) == 2700
    assert not {first for first, _ in cold} & {r.prompt.ids[0] for r in composed.prefill()}


def test_the_tail_of_a_shorter_part_never_goes_on_as_the_prefix_does() -> None:
    composed = compose(SharedPrefix(2500, 48, {0.35: 0.5, 0.7: 0.5}, tol=0.1, output_len=1), "builtin", 16)
    (warm,) = composed.prefill()
    short = [r for r, place in zip(composed.load(), composed.plan, strict=True) if place.prefix_len == 16]
    assert len(short) == 1250
    assert {shared(request, warm) for request in short} == {16}


def test_builtin_has_enough_pieces_for_these_tests() -> None:
    assert len(Vocabulary.of(builtin())) > 900
