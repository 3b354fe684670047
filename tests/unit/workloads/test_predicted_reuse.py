"""The prediction against a brute-force cache that compares whole prefixes, whatever the shape and the block."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.model import Request, ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.composed import ComposedPrefix

from ..forecast import forecast
from ..tokenizers_zoo import ZOO, builtin, toy

TOKENIZERS = {**ZOO, "toy": toy}


def brute_force(requests: Iterable[Request], block: int) -> list[int]:
    """Hit tokens of each request: the most whole blocks that an earlier prompt began with, never the whole prompt."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for request in requests:
        ids = tuple(request.prompt.ids)
        starts = [ids[:end] for end in range(block, len(ids) + 1, block)]
        hits.append(max((len(start) for start in starts if start in seen and len(start) < len(ids)), default=0))
        seen.update(starts)
    return hits


def compose(
    shape: SharedPrefix, block: int | None = 16, tokenizer: str = "builtin", nonce: str = "n"
) -> ComposedPrefix:
    facts = ServerFacts(engine="sim", model="m", block_size=block)
    return shape.compose(facts, TOKENIZERS[tokenizer](), nonce, as_ids=True)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(max_examples=100, derandomize=True)
@given(
    length=st.integers(8, 200),
    rate=st.floats(0, 1),
    prefixes=st.integers(1, 5),
    requests=st.integers(1, 12),
    block=st.sampled_from([1, 7, 16, 128]),
    send=st.sampled_from(["ids", "text"]),
    prefill=st.booleans(),
)
def test_prediction_is_what_brute_force_finds(
    tokenizer: str, length: int, rate: float, prefixes: int, requests: int, block: int, send: str, prefill: bool
) -> None:
    shape = SharedPrefix(requests, length, rate, prefixes=prefixes, align=None, prefill=prefill, send=send)  # type: ignore[arg-type] # a Literal
    composed = compose(shape, block, tokenizer)
    warm, load = list(composed.prefill()), list(composed.load())
    expected = brute_force([*warm, *load], block)
    prediction = forecast(composed, block)
    assert prediction.prefill_hit_tokens == sum(expected[: len(warm)])
    assert list(prediction.per_request) == expected[len(warm) :]
    assert {len(r.prompt.ids) for r in load} == {length}
    if warm and tokenizer != "toy":  # two pieces cannot tell all boundaries apart at the first token
        assert prediction.per_request == (composed.prefix_len // block * block,) * requests


def test_more_requests_than_pieces_share_one_token_more_and_the_prediction_knows() -> None:
    composed = compose(SharedPrefix(10_000, 24, prefix_len=16, output_len=1), block=1)
    assert len(composed.wording.vocabulary) < 1000  # so a boundary needs two digits
    ids = sorted(tuple(r.prompt.ids) for r in composed.load())
    shared = [next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y) for a, b in itertools.pairwise(ids)]
    assert (min(shared), max(shared)) == (16, 17)  # neighbours in order share the most, so no pair shares more
    expected = brute_force([*composed.prefill(), *composed.load()], 1)
    assert list(forecast(composed, 1).per_request) == expected[1:]


def test_1000_prompts_of_7_tokens_with_a_tokenizer_of_two_pieces() -> None:
    composed = compose(SharedPrefix(1000, 7, prefix_len=3, output_len=1, send="text"), tokenizer="toy")
    texts = [r.prompt.text or "" for r in composed.load()]
    assert {len(ids) for ids in toy().encode(texts)} == {7}
    assert toy().encode(texts) == [list(r.prompt.ids) for r in composed.load()]


@pytest.mark.parametrize(("requests", "digits"), [(1, 1), (2, 2), (14, 4), (15, 4), (16, 5)])
def test_boundaries_of_two_pieces_have_as_many_digits_as_they_need(requests: int, digits: int) -> None:
    composed = compose(SharedPrefix(requests, 64, prefix_len=16, output_len=1), tokenizer="toy")
    boundaries = {tuple(r.prompt.ids[16 : 16 + digits]) for r in [*composed.load(), *composed.prefill()]}
    assert len(boundaries) == requests + 1  # the request that warms the prefix has one of its own


def test_a_rerun_on_a_warm_server_finds_nothing_of_the_run_before() -> None:
    shape = SharedPrefix(400, 64, 0.5, prefixes=8, output_len=1)
    first, second = compose(shape, nonce="first"), compose(shape, nonce="second")
    alone = brute_force([*second.prefill(), *second.load()], 16)
    before = [*first.prefill(), *first.load()]
    assert brute_force([*before, *second.prefill(), *second.load()], 16)[len(before) :] == alone


def test_requests_are_made_as_they_are_asked_for_and_the_same_again() -> None:
    composed = compose(SharedPrefix(10**9, 64, 0.5, prefixes=3, output_len=5))
    assert len(composed) == 10**9
    once, again = composed.load(), composed.load()
    for expected_group in (0, 1, 2, 0, 1):
        request = next(once)
        assert request == next(again)
        assert (request.group, request.phase, request.max_tokens) == (expected_group, "load", 5)


def test_each_prefix_is_warmed_once_by_a_short_request() -> None:
    composed = compose(SharedPrefix(10, 96, 0.5, prefixes=4, output_len=5))
    warm = list(composed.prefill())
    assert [(r.group, r.phase, r.max_tokens) for r in warm] == [(g, "prefill", 1) for g in range(4)]
    assert all(48 < len(r.prompt.ids) < 96 for r in warm)
    load = list(composed.load())
    assert [list(r.prompt.ids[:48]) for r in warm] == [list(r.prompt.ids[:48]) for r in load[:4]]


def test_fewer_requests_than_prefixes_warm_only_what_is_used() -> None:
    composed = compose(SharedPrefix(2, 96, 0.5, prefixes=9, output_len=1))
    assert [r.group for r in composed.prefill()] == [0, 1]


def test_cold_twenty_by_hand() -> None:
    prediction = forecast(compose(SharedPrefix(20, 500, prefix_len=240, output_len=1, prefill=False)), 16)
    assert prediction.hit_rate == 0.456  # 19 x 240 of 20 x 500
    assert prediction.per_request == (0, *(240,) * 19)


def test_length_and_rate_are_told() -> None:
    composed = compose(SharedPrefix(2, 8192, 0.7, output_len=1))
    assert (composed.prefix_len, composed.input_len, composed.rate) == (5728, 8192, 5728 / 8192)
    assert "in 1 prefix," in composed.title


def test_builtin_is_what_the_simulated_engine_speaks() -> None:
    composed = compose(SharedPrefix(3, 100, 0.48, output_len=1, send="text"))
    assert [builtin().encode([r.prompt.text or ""])[0] for r in composed.load()] == [
        list(r.prompt.ids) for r in composed.load()
    ]
