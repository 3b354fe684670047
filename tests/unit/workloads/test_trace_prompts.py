"""Whatever the trace: any two of its prompts share the tokens of the blocks that they share, and nothing after them."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Prompt, Request, Row, ServerFacts
from pytest_kvcache.workloads import trace_prompts
from pytest_kvcache.workloads.frame import frame_of
from pytest_kvcache.workloads.trace_prompts import TracePrompts, branches, crowded
from pytest_kvcache.workloads.trace_replay import ComposedTrace, TraceReplay
from pytest_kvcache.workloads.vocabulary import Vocabulary
from pytest_kvcache.workloads.wording import Wording

from ..forecast import forecast
from ..tokenizers_zoo import ZOO
from .fake_site import TEMPLATES, FakeSite
from .test_calibrated import SHORT, Cost, Words, spaced
from .test_predicted_reuse import brute_force
from .test_proof import Spelled

CHATS = FakeSite(ZOO["bos-eos"](), TEMPLATES["trimming"])
FRAME = asyncio.run(frame_of(CHATS, Vocabulary.of(ZOO["bos-eos"]())))
FACTS = ServerFacts("sim", "m", block_size=16)
WAYS = [("builtin", "ids"), ("builtin", "text"), ("bos-eos", "text"), ("sentencepiece", "text"), ("bos-eos", "chat")]


@dataclass(frozen=True)
class Listed:
    """Rows in memory."""

    rows: Sequence[Row]
    block_size: int | None = 4
    name: str = "t"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def row(length: int, *ids: int, scope: Hashable = None, weights: Sequence[int] | None = None) -> Row:
    return Row(1, length, array("q", ids), scope=scope, weights=None if weights is None else array("q", weights))


def compose(
    rows: Sequence[Row], block: int = 4, way: tuple[str, str] = WAYS[0], nonce: str = "n", facts: ServerFacts = FACTS
) -> ComposedTrace:
    tokenizer, send = way
    shape = TraceReplay(Listed(rows, block), clock=False, send=send)  # type: ignore[arg-type] # a Literal
    frame = FRAME if send == "chat" else None
    return shape.compose(facts, ZOO[tokenizer](), nonce, as_ids=True, frame=frame)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def shared(one: Row, other: Row, block: int, lead: int = 0, trail: int = 0) -> int:
    """Tokens that two prompts have in common: block by block, as long as ids, scopes and what is before are the same.

    Of the last common block that is what both have of it.
    """
    ends = [r.input_length - trail for r in (one, other)]
    at = 0
    blocks = [zip(r.ids, r.weights or [block] * len(r.ids), strict=True) for r in (one, other)]
    for (left, left_tokens), (right, right_tokens) in zip(*blocks, strict=False):
        if left != right or one.scope != other.scope:
            break
        sizes = [min(tokens, end - at) for tokens, end in zip((left_tokens, right_tokens), ends, strict=True)]
        at += min(sizes)
        if sizes[0] != sizes[1]:
            break
    at = max(at, lead)
    return at + trail if ends == [at, at] else at


@st.composite
def rows_of_blocks(draw: st.DrawFn, least: int = 1) -> tuple[list[Row], int]:
    """Traces with few ids, so that much is shared: partial and missing last ids, ids too many, scopes, weights."""
    block = draw(st.integers(1, 9))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        ids = draw(st.lists(st.integers(-1, 2), max_size=6))
        kind = draw(st.sampled_from(["ceil", "floor", "beyond", "weights"]))
        weights = None
        covered = block * len(ids)
        if kind == "weights":
            weights = [draw(st.integers(0, block)) for _ in ids]
            covered = sum(weights)
        length = covered + draw(st.integers(0, 2 * block))
        if kind == "ceil":
            length = covered - draw(st.integers(0, block - 1))
        elif kind == "beyond":
            length = draw(st.integers(1, covered + 1))
        scope = draw(st.sampled_from([None, None, "x", 0]))
        rows.append(row(max(length, least), *ids, scope=scope, weights=weights))
    return rows, block


def check(rows: Sequence[Row], block: int, way: tuple[str, str]) -> None:
    composed = compose(rows, block, way)
    lead, trail = len(composed.prompts.wording.lead), len(composed.prompts.wording.trail)
    prompts = [composed.prompts[number] for number in range(len(rows))]
    assert [len(prompt.ids) for prompt in prompts] == [r.input_length for r in rows]
    for (one, left), (other, right) in itertools.combinations(zip(rows, prompts, strict=True), 2):
        assert common(left.ids, right.ids) == shared(one, other, block, lead, trail), (one, other)
    texts = [prompt.text for prompt in prompts if prompt.text is not None]
    assert bool(texts) == (way[1] != "ids")
    if way[1] == "text":
        assert ZOO[way[0]]().encode(texts) == [list(prompt.ids) for prompt in prompts]
    elif way[1] == "chat":
        messages = [{"messages": [{"role": "user", "content": text}]} for text in texts]
        assert [CHATS.tokens(body) for body in messages] == [list(prompt.ids) for prompt in prompts]


@settings(max_examples=300, derandomize=True)
@given(rows_of_blocks())
def test_ids_share_what_the_trace_says(made: tuple[list[Row], int]) -> None:
    check(*made, WAYS[0])


@pytest.mark.parametrize("way", WAYS[1:], ids=" ".join)
@settings(max_examples=80, derandomize=True)
@given(data=st.data())
def test_texts_and_chats_share_it_within_what_stands_around_them(way: tuple[str, str], data: st.DataObject) -> None:
    around = len(FRAME) if way[1] == "chat" else 2
    rows, block = data.draw(rows_of_blocks(around + 1))
    check([*rows, row(around + 30, 0, 1, 2)], block, way)


@settings(max_examples=60, derandomize=True)
@given(rows_of_blocks(), st.sampled_from([1, 4, 16]))
def test_the_prediction_is_what_brute_force_finds(made: tuple[list[Row], int], block: int) -> None:
    composed = compose(*made)
    assert list(forecast(composed, block).per_request) == brute_force(composed.load(), block)


def test_by_hand() -> None:
    """Blocks of 4: one that is cut, one that goes on, tokens without an id, a prompt that is another's beginning."""
    rows = [row(10, 1, 2, 3), row(12, 1, 2, 3), row(12, 1, 2), row(14, 1, 2, 4, 5), row(8, 1, 2), row(4, 2), row(7)]
    found = [[common(a.ids, b.ids) for b in map(compose(rows).prompts.__getitem__, range(7))] for a in prompts_of(rows)]
    assert found == [
        [10, 10, 8, 8, 8, 0, 0],
        [10, 12, 8, 8, 8, 0, 0],
        [8, 8, 12, 8, 8, 0, 0],
        [8, 8, 8, 14, 8, 0, 0],
        [8, 8, 8, 8, 8, 0, 0],
        [0, 0, 0, 0, 0, 4, 0],
        [0, 0, 0, 0, 0, 0, 7],
    ]


def prompts_of(rows: Sequence[Row], nonce: str = "n", way: tuple[str, str] = WAYS[0]) -> list[Prompt]:
    composed = compose(rows, way=way, nonce=nonce)
    return [composed.prompts[number] for number in range(len(rows))]


TREE = [row(40, *ids) for ids in itertools.product(range(3), repeat=4)]


def test_prompts_are_the_same_in_whatever_order_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_prompts, "_KEPT", 200)  # three prompts or so
    composed = compose(TREE)
    expected = prompts_of(TREE)
    assert [composed.prompts[number] for number in reversed(range(len(TREE)))] == expected[::-1]
    assert [composed.prompts[number] for number in range(len(TREE))] == expected
    assert len(composed.prompts._kept) < 5
    kept = composed.prompts._kept.values()
    assert composed.prompts._size == sum(len(own.ids) + 64 for own in kept)


def test_long_chains_of_turns_are_made_without_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_prompts, "_KEPT", 1)
    turns = [row(4 * n + 1, *range(n)) for n in range(1, 1200)]
    last = of_pieces(turns, 5)[1198]
    assert len(last.ids) == 4_797


def test_runs_part_at_the_first_token_and_everywhere() -> None:
    for one, other in zip(prompts_of(TREE, "run 1"), prompts_of(TREE, "run 2"), strict=True):
        assert common(one.ids, other.ids) == 0
        alike = sum(a == b for a, b in zip(one.ids, other.ids, strict=True))
        assert alike <= 2  # by chance


def test_a_seed_is_stronger_than_the_nonce() -> None:
    shape = TraceReplay(Listed(TREE), clock=False, seed=7)
    one, other = (list(shape.compose(FACTS, ZOO["builtin"](), nonce, as_ids=True).load()) for nonce in "ab")
    assert one == other
    third = replace(shape, seed=8).compose(FACTS, ZOO["builtin"](), "a", as_ids=True)
    assert next(third.load()).prompt.ids[0] != one[0].prompt.ids[0]


def test_a_block_has_the_same_tokens_whoever_sends_it() -> None:
    """The first request has a part of block 2, the second one more of it, the third all."""
    first, second, third, fourth = (list(p.ids) for p in prompts_of([row(n, 1, 2, 3) for n in (5, 7, 12, 10)]))
    assert third[:7] == second
    assert second[:5] == first
    assert fourth == third[:10]


# --- few pieces ------------------------------------------------------------------------------------------------------


def of_pieces(rows: Sequence[Row], size: int, block: int = 4) -> TracePrompts:
    vocabulary = Vocabulary(tuple(f" w{n}" for n in range(size)), tuple(range(100, 100 + size)))
    return TracePrompts(branches(rows, block), Wording(vocabulary, "ids"), "n")


@settings(max_examples=150, derandomize=True)
@given(st.integers(2, 5), st.integers(1, 40), st.booleans(), st.randoms(use_true_random=False))
def test_more_ways_than_pieces_take_more_digits(size: int, ways: int, has_parent: bool, random: object) -> None:
    head = (9,) if has_parent else ()
    rows = [row(24, *head, n) for n in range(ways)]
    prompts = of_pieces(rows, size)
    made = [tuple(prompts[n].ids[4 * has_parent :]) for n in range(ways)]
    digits = 1
    while size**digits < (ways if not has_parent else (ways - 2) + (ways - 2) // (size - 1) + 2):
        digits += 1
    assert len({ids[:digits] for ids in made}) == ways
    firsts = [ids[0] for ids in made]
    assert len(set(firsts)) == min(size, ways)
    if has_parent:  # whoever was there first is the only one to go on like that
        assert firsts.count(firsts[0]) == 1 or ways == 1


def test_a_crowd_is_told() -> None:
    vocabulary = Vocabulary(tuple(f" w{n}" for n in range(10)), tuple(range(10)))
    assert list(crowded(branches([row(8, n) for n in range(10)], 4), vocabulary)) == []
    assert list(crowded(branches([row(8, n) for n in range(11)], 4), vocabulary)) == [
        "11 requests go on from one token, and 10 pieces tell them apart: some share up to 1 token more than in the"
        " trace"
    ]
    (told,) = crowded(branches([row(12, 7, n) for n in range(101)], 4), vocabulary)
    assert told.startswith(
        "101 requests go on from one token, and 10 pieces tell them apart: some share up to 2 tokens"
    )


def test_who_does_not_go_on_is_in_no_crowd() -> None:
    vocabulary = Vocabulary(tuple(f" w{n}" for n in range(10)), tuple(range(10)))
    behind = [row(4, 9), *(row(8, 9, n) for n in range(10))]  # the first one ends where the others go on
    assert list(crowded(branches(behind, 4), vocabulary)) == []
    assert list(crowded(branches([row(8, 9, 1)] * 30, 4), vocabulary)) == []
    assert len(list(crowded(branches([row(12, 9, n, 1) for n in range(11)], 4), vocabulary))) == 1


@pytest.mark.parametrize(("head", "ways", "digits"), [((), 10, 1), ((), 11, 2), ((9,), 10, 1), ((9,), 11, 2)])
def test_no_more_digits_than_needed(head: tuple[int, ...], ways: int, digits: int) -> None:
    prompts = of_pieces([row(24, *head, n) for n in range(ways)], 10)
    assert {len(prompts._mark(branch)) for branch in prompts.branches.each[1:]} == {digits}


def test_a_part_that_is_shorter_than_its_number() -> None:
    prompts = of_pieces([row(1) for _ in range(30)], 3)
    assert {len(prompts[n].ids) for n in range(30)} == {1}
    assert {len(prompts._own(n).ids) for n in range(30)} == {1}


def test_rows_without_ids_are_like_no_others() -> None:
    prompts = prompts_of([row(30) for _ in range(900)])
    assert len({prompt.ids[0] for prompt in prompts}) == 900  # of 960 pieces
    more = prompts_of([row(30) for _ in range(2000)])
    assert len({prompt.ids[0] for prompt in more}) == 960
    assert len({tuple(prompt.ids[:2]) for prompt in more}) == 2000


# --- what stands around them -----------------------------------------------------------------------------------------


def test_blocks_begin_at_their_multiples_though_something_stands_in_front() -> None:
    lead = len(FRAME.lead)
    assert lead > 8
    size = 16
    rows = [row(48 + len(FRAME.trail), 1, 2, 3), row(48, 1, 2, 4), row(48, 1, 5, 6), row(60, 7)]
    prompts = [compose(rows, size, WAYS[-1]).prompts[n] for n in range(4)]
    assert common(prompts[0].ids, prompts[1].ids) == max(32, lead)
    assert common(prompts[0].ids, prompts[2].ids) == max(16, lead)
    assert common(prompts[0].ids, prompts[3].ids) == lead
    assert [len(prompt.ids) for prompt in prompts] == [48 + len(FRAME.trail), 48, 48, 60]


def test_what_stands_around_is_told_with_what_it_costs() -> None:
    rows = [row(40, *range(10)), row(48, *range(12)), row(44, *range(12))]
    *_, first, last = compose(rows, way=("bos-eos", "text")).notes
    assert first == "the first 1 token of every prompt are the tokenizer's, in place of the trace's"
    assert last == (
        "the last 1 token of every prompt are the tokenizer's, in place of the trace's: 2 of 84 tokens that are shared"
        " in the trace are not"
    )  # the second goes on from 39 tokens of the first instead of 40, the third is 43 tokens of the second
    notes = compose(rows, way=("bos-eos", "chat")).notes
    assert f"the first {len(FRAME.lead)} tokens of every prompt are the chat template's" in notes[-2]
    assert compose(rows).notes == (
        "3 requests of the trace (line 1 first): 1 token generated, the trace says 0 or nothing",
    )


def test_a_chats_header_is_warmed_where_it_fills_a_block() -> None:
    rows = [row(80), row(80)]
    composed = compose(rows, way=WAYS[-1])
    assert composed.header
    (before,), (warming,) = composed.warmed(), composed.prefill()
    assert list(before.prompt.ids) == [*FRAME.lead, *FRAME.trail]
    assert (warming.phase, warming.max_tokens, warming.api) == ("prefill", 1, "chat")
    lead, firsts = len(FRAME.lead), [warming, *composed.load()]
    for one, other in itertools.combinations(firsts, 2):
        assert common(one.prompt.ids, other.prompt.ids) == lead
    assert len(composed) == 2 == len(list(composed.load()))
    assert len(warming.prompt.ids) == len(FRAME) + 16
    cold = compose(rows, way=WAYS[-1], facts=ServerFacts("sim", "m", block_size=128))
    assert not cold.header
    assert list(cold.warmed()) == list(cold.prefill()) == []
    assert list(compose(rows).prefill()) == []


def test_a_tokenizer_that_is_not_the_servers_is_found_out() -> None:
    prompts = of_pieces(TREE, 5)
    with pytest.raises(WorkloadError, match="does not give composed text back"):
        prompts.verify(ZOO["builtin"]())


def test_the_places_where_prompts_part_are_among_what_is_verified() -> None:
    prompts = of_pieces(TREE, 7)
    samples = list(prompts._samples())
    assert len(samples) == len(TREE)
    numbers = [prompt - 100 for prompt in prompts[5].ids]
    assert samples[5] == numbers[prompts.branches.each[5].start - 8 : prompts.branches.each[5].start + 8]
    assert samples[40] == [prompt - 100 for prompt in prompts[40].ids]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_what_is_verified_lies_around_the_place_where_two_part(way: tuple[str, str]) -> None:
    prompts = compose([row(160, *range(40)), row(160, *range(30)), row(160)], way=way).prompts
    lead = len(prompts.wording.lead)
    prompts.branches = replace(prompts.branches, each=(*prompts.branches.each, *prompts.branches.each))  # 3 of 6 whole
    sample = list(prompts._samples())[1]
    assert sample == list(prompts._pieces(1)[120 - lead - 8 : 120 - lead + 8])


def test_a_pair_that_the_server_joins_is_found_before_anything_is_sent() -> None:
    def spoil(ids: list[int]) -> list[int]:
        return ids if len(ids) < 30 else ids[1:]  # only texts longer than any of the vocabulary's proof

    with pytest.raises(WorkloadError, match="does not give composed text back"):
        TraceReplay(Listed(TREE), clock=False).compose(FACTS, Spelled(spoil), "n", as_ids=True)


def site_that_counts(cost: Cost) -> FakeSite:
    return FakeSite(Words(cost), spaced, renders=False, named=False)


def test_words_that_the_server_counted_will_do_where_each_is_a_token() -> None:
    site = site_that_counts(lambda _: 1)
    composed = asyncio.run(TraceReplay(Listed(TREE), clock=False).bind(site))
    requests = list(composed.load())
    assert {request.api for request in requests} == {"chat"}
    assert [len(request.prompt.ids) for request in requests] == [40] * len(TREE)
    assert [site.tokens({"messages": [{"content": r.prompt.text}]}) for r in requests] == [[0] * 40] * len(TREE)
    assert {request.prompt.open for request in requests} == {6}
    assert any("no tokenizer: 192 common words are one token each" in note for note in composed.notes)
    assert common(requests[0].prompt.ids, requests[1].prompt.ids) == 12


def test_words_of_several_tokens_will_not() -> None:
    site = site_that_counts(lambda word: 1 + (word in SHORT and len(word) % 2))
    with pytest.raises(
        WorkloadError, match="blocks need prompts of exactly known tokens, and there is no tokenizer: a"
    ):
        asyncio.run(TraceReplay(Listed(TREE), clock=False).bind(site))


def test_nothing_stands_for_a_trace_in_the_requests_but_its_tokens() -> None:
    request: Request = next(compose(TREE).load())
    assert request.prompt.text is None
    assert request.body == {}
