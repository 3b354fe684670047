"""How probes search, against caches that are one line of arithmetic, and how they compare answers and tell of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import ConfigurationError, MeasurementError, ProbeFailed, WorkloadError
from pytest_kvcache.model import Exchange, Grain, Request, ServerFacts
from pytest_kvcache.probes import Capacity, Equivalence, Granularity, Isolation, Lifetime, granularity
from pytest_kvcache.probes.answered import Difference, Said, difference, said
from pytest_kvcache.probes.capacity import _Rounds
from pytest_kvcache.probes.capacity import search as search_capacity
from pytest_kvcache.probes.granularity import MOST, search
from pytest_kvcache.probes.lifetime import _moments, _watch
from pytest_kvcache.probes.prober import Prober, Terms
from pytest_kvcache.workloads.frame import Frame
from pytest_kvcache.workloads.vocabulary import Vocabulary

Answer = Callable[[int], int]


def asked(answer: Answer) -> tuple[Callable[[int], Awaitable[int]], list[int]]:
    """An asynchronous question, and what was asked so far; each thing is asked once, as probes remember."""
    seen: list[int] = []

    async def ask(value: int) -> int:
        if value not in seen:
            seen.append(value)
        return answer(value)

    return ask, seen


def cache(block: int, minimum: int, hidden: int = 0) -> Answer:
    """Tokens credited to a shared length, by counting whole blocks one after the other."""

    def credit(shared: int) -> int:
        blocks = 0
        while (blocks + 1) * block <= shared + hidden:
            blocks += 1
        return blocks * block if blocks * block >= minimum else 0

    return credit


# --- granularity -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 512), st.integers(0, 1500), st.integers(3000, 4200))
@settings(max_examples=200)
def test_step_and_minimum_are_found_whatever_they_are(block: int, minimum: int, reach: int) -> None:
    ask, seen = asked(cache(block, minimum))
    first = next(size for size in range(block, 5000, block) if size >= minimum)
    assert asyncio.run(search(ask, reach)) == (block, first)
    assert len(seen) <= 16
    assert all(0 < shared <= reach for shared in seen)


@given(st.integers(1, 300), st.integers(0, 1500), st.integers(0, 60), st.data())
@settings(max_examples=200)
def test_a_frame_at_an_unknown_place_hides_nothing_but_a_minimum_below_it(
    block: int, minimum: int, slack: int, data: st.DataObject
) -> None:
    hidden = data.draw(st.integers(0, slack))
    ask, seen = asked(cache(block, minimum, hidden))
    step, least = asyncio.run(search(ask, 4000, slack))
    first = next(size for size in range(block, 5000, block) if size >= minimum)
    assert step == block
    assert least == first or (least == block and first <= block + hidden)
    assert 2 * len(seen) + 2 <= MOST


def test_by_hand() -> None:
    ask, seen = asked(cache(128, 1024))
    assert asyncio.run(search(ask, 4096)) == (128, 1024)
    assert seen[:3] == [4096, 4095, 128]  # on a boundary, before it, and one step alone
    assert len(seen) == 8  # then 31 boundaries are halved five times
    ask, seen = asked(cache(16, 0))
    assert asyncio.run(search(ask, 4093)) == (16, 16)
    assert seen == [4093, 4079, 4080, 16]
    assert asyncio.run(search(asked(cache(1, 0))[0], 4093)) == (1, 1)


@pytest.mark.parametrize(
    ("block", "minimum", "reach", "found"),
    [
        (5000, 0, 4096, (None, None)),  # not even one block is in reach
        (2048, 0, 4095, (2048, 2048)),  # 2,048 divides itself and exceeds the 2,047 tokens that were not credited
        (128, 1024, 1100, (None, 1024)),  # 128, 256, 512 and 1,024 fit
        (1024, 0, 1100, (None, 1024)),
        (1000, 0, 1999, (1000, 1000)),
        (7, 0, 13, (7, 7)),
        (2, 0, 2, (None, 2)),  # or token by token from 2 on
        (1, 2, 2, (None, 2)),
    ],
)
def test_what_one_credit_alone_shows(
    block: int, minimum: int, reach: int, found: tuple[int | None, int | None]
) -> None:
    assert asyncio.run(search(asked(cache(block, minimum))[0], reach)) == found


def test_credits_that_do_not_grow() -> None:
    with pytest.raises(MeasurementError, match=r"shares 63 tokens was credited 64, no less than one that shares 4,096"):
        asyncio.run(search(asked(lambda _: 64)[0], 4096))


def grained(**more: Any) -> Granularity:
    return Granularity(**{"step": 128, "minimum": 1024, "full_hit": "L-1", "up_to": 4093, "requests": 18, **more})


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (grained(), "credits in 128-token steps from 1,024 on, a full hit is L-1 (18 requests)"),
        (grained(step=1, minimum=1), "credits token by token, a full hit is L-1 (18 requests)"),
        (
            grained(told=64, full_hit="L", requests=1),
            "credits in 128-token steps from 1,024 on, a full hit is L, while the server tells blocks of 64"
            " (1 request)",
        ),
        (grained(told=128), "credits in 128-token steps from 1,024 on, a full hit is L-1 (18 requests)"),
        (grained(step=None), "credits 1,024 tokens, and nothing else up to 4,093 (18 requests)"),
        (grained(step=None, minimum=None), "nothing was cached up to 4,093 tokens (18 requests)"),
        (
            grained(step=None, minimum=None, engines=2),
            "nothing was cached up to 4,093 tokens; 2 engines share the requests (18 requests)",
        ),
        (
            grained(step=None, minimum=None, points=((4093, 16),)),
            "nothing but the 16 tokens that every prompt begins with was cached up to 4,093 tokens (18 requests)",
        ),
    ],
)
def test_a_granularity_in_words(found: Granularity, sentence: str) -> None:
    assert str(found) == f"granularity: {sentence}"


def test_one_credit_that_others_contradict_is_no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two caches behind one endpoint: the first pair met in one, the others did not."""
    made = prober(500, Frame((), ()), most=MOST)
    asked_for: list[Sequence[int]] = []

    def cached(ids: Sequence[int]) -> int:
        asked_for.append(ids)
        return 192 if len(asked_for) == 2 else 0

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Prober]:
        yield made

    Answering(made, cached)
    monkeypatch.setattr(import_module("pytest_kvcache.probes.granularity"), "opened", opened)
    endpoint: Any = None
    with pytest.raises(MeasurementError, match=r"192 shared tokens were credited 0: do several caches share"):
        asyncio.run(granularity(endpoint, made.terms, up_to=200))


def test_a_granularity_for_predictions() -> None:
    assert grained().grain() == Grain(128, 1024, whole=False)
    assert grained(full_hit="L").grain() == Grain(128, 1024, whole=True)
    assert grained(step=None).grain() is None
    assert [grained(told=told).agrees for told in (None, 128, 64)] == [None, True, False]


def test_what_a_probe_found_stands_in_where_the_server_does_not_tell_its_blocks() -> None:
    grain, silent = Grain(128, 1024, whole=True), ServerFacts("usage", "m", step=64, minimum=512)
    assert silent.probed(grain).grain == grain
    assert silent.probed(None) is silent
    telling = ServerFacts("vllm", "m", block_size=16)
    assert telling.probed(grain) is telling


# --- prompts ---------------------------------------------------------------------------------------------------------


def prober(pieces: int, frame: Frame, most: int = 9) -> Prober:
    """One that is never asked to send anything."""
    vocabulary = Vocabulary(tuple(f" w{number}" for number in range(pieces)), tuple(range(pieces)))
    site: Any = SimpleNamespace(facts=ServerFacts("usage", "m"), target=SimpleNamespace(readers=()))
    site.calls = SimpleNamespace(with_zeros=lambda exchanges: exchanges)
    silent: Any = None
    return Prober("probe", most, Terms("n"), site, "chat", vocabulary, frame, silent)


class Answering:
    """A cache that answers every request as it is told, and remembers what it was asked."""

    def __init__(self, made: Prober, cached: Callable[[Sequence[int]], int] = lambda _: 0, took: float = 0.0) -> None:
        self.prompts: list[list[int]] = []
        self.cached, self.took = cached, took
        made.ask = self.answer

    async def answer(self, request: Request) -> Exchange:
        self.prompts.append(list(request.prompt.ids))
        now = time.monotonic()
        found = self.cached(request.prompt.ids)
        return Exchange("load", now - self.took, now, prompt_tokens=len(request.prompt.ids), cached_tokens=found)


def test_prompts_part_where_they_should() -> None:
    made = prober(2, Frame((7, 7), (8,)))
    for shared in range(2, 12):
        first = made.fresh(14)
        other = made.branch(first, shared, 3)
        assert len(first) + 3 == 14
        assert other[: shared - 2] == first[: shared - 2]
        assert other[shared - 2] != first[shared - 2]
        assert len(other) == shared - 2 + 3
    assert made.longer(first)[:-1] == first
    assert len(made.longer(first)) == 12


def test_the_first_piece_alone_tells_prompts_apart() -> None:
    made = prober(50, Frame((), ()))
    assert len({made.fresh(3)[0] for _ in range(50)}) == 50


def test_prompts_that_cannot_be_made() -> None:
    made = prober(50, Frame((7, 7), (8,)))
    with pytest.raises(WorkloadError, match="probe: 3 tokens leave no room beside the 3 around a text"):
        made.fresh(3)
    for shared in (1, 13):
        with pytest.raises(WorkloadError, match=f"probe: {shared} tokens cannot be shared"):
            made.branch(made.fresh(14), shared, 3)


def test_no_more_requests_than_the_bound() -> None:
    made = prober(50, Frame((), ()), most=2)
    asked_for = Answering(made).prompts

    async def write(times: int) -> None:
        for _ in range(times):
            await made.write(made.fresh(5))

    asyncio.run(write(2))
    with pytest.raises(MeasurementError, match="probe: no answer within 2 requests"):
        asyncio.run(write(1))
    assert (len(asked_for), made.requests) == (2, 2)


# --- capacity --------------------------------------------------------------------------------------------------------


@given(st.sampled_from([1, 16, 32, 128]), st.integers(40, 4000), st.integers(2, 64), st.booleans(), st.data())
@settings(max_examples=200)
def test_capacity_is_found_to_the_block(block: int, blocks: int, long: int, whole: bool, data: st.DataObject) -> None:
    """Caches that forget a prompt from its end, and those that forget it as a whole."""
    holds, length = blocks * block, min(long, blocks) * block
    told = data.draw(st.sampled_from([None, holds, holds + 7 * block, 3 * length]))

    def left(behind: int) -> int:
        kept = max(0, min(holds - behind, length))
        return kept if not whole or kept == length else 0

    ask, rounds = asked(left)
    found = asyncio.run(search_capacity(ask, length, Grain(block), 10**7, told))
    assert found == (holds, holds + block)
    assert len(rounds) <= 40
    assert all(behind % block == 0 for behind in rounds)


def test_the_server_is_asked_where_it_says_its_end_is() -> None:
    ask, rounds = asked(lambda behind: max(0, min(16_000 - behind, 4096)))
    assert asyncio.run(search_capacity(ask, 4096, Grain(16), 262_144, 16_000)) == (16_000, 16_016)
    assert rounds == [0, 13_952]


def test_capacity_beyond_what_is_asked_for() -> None:
    ask, rounds = asked(lambda _: 4096)
    assert asyncio.run(search_capacity(ask, 4096, Grain(16), 20_000)) == (4096 + 15_904, None)
    assert rounds == [0, 8192, 15_904]
    with pytest.raises(MeasurementError, match=r"nothing of a prompt of 4,096 tokens was cached"):
        asyncio.run(search_capacity(asked(lambda _: 0)[0], 4096, Grain(16), 20_000))


def test_what_is_read_again_is_whole_steps_whatever_stands_behind_a_text() -> None:
    made = prober(50, Frame((7,), (8, 8)))
    asked_for = Answering(made, len).prompts
    rounds = _Rounds(made, Grain(16), 100)
    assert rounds.length == 96
    assert asyncio.run(rounds.survived(160)) == 96
    first, *others, again = asked_for
    assert [len(prompt) for prompt in others] == [96, 64]
    assert len(first) == 98
    assert (again[:96], len(again)) == (first[:96], 99)
    assert again[96:] != first[96:]
    assert rounds.tokens == sum(map(len, asked_for))


def test_capacity_in_words() -> None:
    assert str(Capacity(16_000, 16_016, 8, 30_338, 16_000)) == (
        "capacity: 16,000 tokens survive, 16,016 do not; the server tells 16,000 (8 requests, 30,338 tokens)"
    )
    assert str(Capacity(8192, None, 1, 9)) == "capacity: at least 8,192 tokens (1 request, 9 tokens)"


# --- lifetime and isolation ------------------------------------------------------------------------------------------


def test_moments_double_up_to_the_last() -> None:
    assert _moments(1.0, 8.0) == [1.0, 2.0, 4.0, 8.0]
    assert _moments(1.0, 9.0) == [1.0, 2.0, 4.0, 8.0, 9.0]
    assert _moments(3.0, 3.0) == [3.0]
    assert len(_moments(1e-30, 1e30)) == 32
    for first, last in ((0.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(ConfigurationError, match="lifetime: first="):
            _moments(first, last)


def test_a_lifetime_is_told_by_what_is_certain() -> None:
    """Each request took five seconds: for so long it is open when a prompt was cached."""
    made = prober(50, Frame((), ()))
    seen: list[Sequence[int]] = []

    def cached(ids: Sequence[int]) -> int:
        seen.append(ids)
        return 0 if len(seen) == 5 else 100  # three are written, the first one is there, the next one is not

    asked_for = Answering(made, cached, took=5.0).prompts
    found = asyncio.run(_watch(made, [0.001, 0.002, 0.003], 100))
    last, middle, first, *read = asked_for[:5]
    assert read == [first, middle]
    assert last not in read
    pushed, pushing, *again = asked_for[5:]  # that it was time is shown by two more, as old as the first one was
    assert again == [pushing, pushed]
    assert len({tuple(prompt) for prompt in asked_for}) == 5
    assert 0 < found.there < 5
    assert found.gone is not None
    assert found.gone >= 5
    assert found.requests == 9


@pytest.mark.parametrize("there", [{4}, {5}, {4, 8}], ids=["there and gone", "absent and there", "pushed out"])
def test_what_another_prompt_of_that_age_contradicts_is_no_lifetime(there: set[int]) -> None:
    made = prober(50, Frame((), ()), most=12)
    seen: list[Sequence[int]] = []

    def cached(ids: Sequence[int]) -> int:
        seen.append(ids)
        return 100 if len(seen) in there else 0

    Answering(made, cached)
    age = 0.001 if 4 in there else 0.002
    with pytest.raises(MeasurementError, match=f"of two prompts that were {age} s old, one was found in the cache"):
        asyncio.run(_watch(made, [0.001, 0.002, 0.003], 100))


def test_lifetime_in_words() -> None:
    assert str(Lifetime(8.04, None, None, 8)) == "lifetime: still there after 8.0 s (8 requests)"
    assert str(Lifetime(0.2, 4.0, None, 8)) == "lifetime: gone between 0.20 and 4.0 s (8 requests)"
    assert str(Lifetime(4.0, 8.0, 2.0, 8)) == (
        "lifetime: gone between 4.0 and 8.0 s, not readable yet after 2.0 s (8 requests)"
    )


@pytest.mark.parametrize(
    ("by", "leaked", "sentence"),
    [
        (
            "cache_salt",
            {"another": 1008, "to none": 0, "from none": 0},
            "1,008 of 1,024 tokens cached under another cache_salt were reused [KV205] (6 requests)",
        ),
        (
            "header:X-Tenant",
            {"another": 0, "to none": 512, "from none": 1008},
            "512 of 1,024 tokens cached under a X-Tenant were reused without one, from none 1,008 [KV205] (6 requests)",
        ),
        (
            "model",
            {"another": 0, "from none": 16},
            "16 of 1,024 tokens cached without a model were reused under one [KV205] (6 requests)",
        ),
    ],
)
def test_a_leak_fails_and_says_what_went_where(by: str, leaked: dict[str, int], sentence: str) -> None:
    found = Isolation(by, 1024, 1008, leaked, (), 6)
    assert found.leaked_tokens == max(leaked.values())
    with pytest.raises(ProbeFailed) as failed:
        found.check()
    assert (str(failed.value), failed.value.code, failed.value.result) == (f"isolation: {sentence}", "KV205", found)


def test_a_border_that_holds() -> None:
    found = Isolation("cache_salt", 1024, 1008, {"another": 0}, ("a request without cache_salt",), 4)
    assert found.check() is found
    assert str(found) == (
        "isolation: cache_salt separates: 1,008 tokens under its own, 0 across; refused by the server: a request"
        " without cache_salt (4 requests)"
    )
    assert str(Isolation("cache_salt", 1024, 1008, {"another": 0}, (), 4, engines=2)) == (
        "isolation: cache_salt separates: 1,008 tokens under its own, 0 across; 2 engines share the requests"
        " (4 requests)"
    )


# --- equivalence -----------------------------------------------------------------------------------------------------


def words(*texts: str, at: float = -1.0, second: float = 0.5, other: str = "other", **more: Any) -> Said:
    """An answer of tokens with equal log probabilities, and ``other`` as the second best of each."""
    best = tuple({text: at, other: at - second} for text in texts)
    return Said("".join(texts), texts, None, (at,) * len(texts), best, **more)


def test_differences_by_hand() -> None:
    cold = words("a", "b", "c")
    assert difference(cold, words("a", "b", "c", at=-1.25)) == Difference(None, None, 0.25)
    assert difference(cold, words("a", "x", "y", at=-1.25)) == Difference(1, None, 0.25)
    assert difference(cold, words("a", "other", "c")) == Difference(1, 0.5, 0.0)
    assert difference(cold, words("a", "b")) == Difference(2, None, 0.0)
    assert difference(cold, words("other")) == Difference(0, 0.5, 0.0)
    assert difference(Said("abc"), Said("abd")) == Difference(2)
    assert difference(Said("ab"), Said("abc")) == Difference(2)
    assert difference(Said("abc"), words("a", "b", "c")) == Difference(None)
    numbers = Said("ab", ids=(1, 2)), Said("ab", ids=(1, 3))  # other tokens may be the same text
    assert difference(*numbers) == Difference(1)
    assert difference(words("a", at=math.nan), words("a")).logprobs == math.inf


def test_tokens_are_compared_by_their_ids_where_these_are_told() -> None:
    cold = Said("xx", ("x", "x"), (1, 1), (-1.0, -1.0), ({"x": -1.0}, {"x": -1.0}))
    warm = Said("xx", ("x", "x"), (1, 2), (-1.0, -3.0), ())
    assert difference(cold, warm) == Difference(1, 0.0, 0.0)


COMPLETION = {
    "choices": [
        {
            "text": " c c",
            "token_ids": [285, 285],
            "logprobs": {
                "text_offset": [0, 2],
                "token_logprobs": [-7.5, -7.25],
                "tokens": [" c", " c"],
                "top_logprobs": [{" c": -7.5, "datetime": -7.75}, {" c": -7.25}],
            },
        }
    ]
}
CHAT = {
    "choices": [
        {
            "message": {"content": "\n\n"},
            "token_ids": None,
            "logprobs": {
                "content": [
                    {"token": "\n", "logprob": -7.5, "top_logprobs": [{"token": "\n", "logprob": -7.5}]},
                    {"token": "\n", "logprob": -7, "top_logprobs": [{"token": " pat", "logprob": -7.75}]},
                ]
            },
        }
    ]
}


def test_what_answers_say() -> None:
    assert said(COMPLETION) == Said(
        " c c", (" c", " c"), (285, 285), (-7.5, -7.25), ({" c": -7.5, "datetime": -7.75}, {" c": -7.25})
    )
    assert said(CHAT) == Said("\n\n", ("\n", "\n"), None, (-7.5, -7.0), ({"\n": -7.5}, {" pat": -7.75}))


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "a"},
        {"text": "a", "logprobs": None, "token_ids": []},
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [None]}},
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1.0, -2.0]}},
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [True]}},
        {"text": "a", "logprobs": {"content": ["a"]}, "token_ids": ["1"]},
        {"message": {"content": "a"}, "logprobs": {"content": []}},
        {"message": {"content": "a"}, "logprobs": "none"},
    ],
)
def test_numbers_that_are_not_told(choice: dict[str, Any]) -> None:
    assert said({"choices": [choice]}) == Said("a")


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": []}, {"choices": ["a"]}, {"choices": [{}]}])
def test_bodies_that_say_nothing(body: dict[str, Any]) -> None:
    assert said(body) == Said("")


def compared(*found: Difference, **more: Any) -> Equivalence:
    given_ = {"cached": 4032, "output": 16, "tol": 0.2, "ties": False, "tokens": True, "requests": 8, **more}
    return Equivalence(found, **given_)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            compared(Difference(None, None, 0.0), Difference(3, None, 0.01)),
            "1 of 2 prompts: the warm answer leaves the cold one at token 3 of 16 tokens",
        ),
        (
            compared(Difference(3, 0.01, 0.0)),
            "1 of 1 prompt: the warm answer leaves the cold one at token 3 of 16 tokens, which held the two 0.0100"
            " apart, a tie that rounding may decide: ties=True lets it pass",
        ),
        (
            compared(Difference(3, 0.3, 0.0), ties=True),
            "1 of 1 prompt: the warm answer leaves the cold one at token 3 of 16 tokens, which held the two 0.3000"
            " apart",
        ),
        (
            compared(Difference(3, 0.1, 0.25), ties=True),
            "1 of 1 prompt: the warm answer leaves the cold one at token 3 of 16 tokens, which held the two 0.1000"
            " apart, a tie that rounding may decide: ties=True lets it pass, logprobs are up to 0.2500 apart before"
            " that, more than 0.2",
        ),
        (
            compared(Difference(3), ties=True, tokens=False),
            "1 of 1 prompt: the warm answer leaves the cold one at character 3 of 16 tokens",
        ),
        (
            compared(Difference(None, None, math.inf)),
            "1 of 1 prompt: logprobs are up to inf apart, more than 0.2",
        ),
    ],
)
def test_answers_that_differ(found: Equivalence, sentence: str) -> None:
    with pytest.raises(ProbeFailed) as failed:
        found.check()
    assert failed.value.code == "KV206"
    assert str(failed.value) == f"equivalence: {sentence} [KV206] (8 requests, 4,032 cached tokens)"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (compared(Difference(None, None, 0.2)), "equal the cold ones, largest difference of logprobs 0.2000"),
        (compared(Difference(3, 0.2, 0.0), ties=True), "equal the cold ones, largest difference of logprobs 0.0000"),
        (compared(Difference(None), tokens=False), "equal the cold ones as text, logprobs are not told"),
    ],
)
def test_answers_that_do_not(found: Equivalence, sentence: str) -> None:
    assert found.check() is found
    assert str(found) == f"equivalence: warm answers to 1 prompt {sentence} (8 requests, 4,032 cached tokens)"
