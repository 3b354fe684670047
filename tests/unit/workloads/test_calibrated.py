"""Words counted by nothing but usage: exact where they are tokens, an interval that holds where some are several."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Exchange, Request
from pytest_kvcache.workloads.builtin import common_words
from pytest_kvcache.workloads.calibrated import Calibration, calibrate, chat_words

from ..tokenizers_zoo import builtin, byte_level
from .fake_site import FakeSite, chatml

Cost = Callable[[str], int]


class Words:
    """``cost`` tokens for each word, one for everything else that stands between white space."""

    name = "words"

    def __init__(self, cost: Cost) -> None:
        self.cost = cost

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] * sum(self.cost(part) if part in KNOWN else 1 for part in text.split()) for text in texts]

    def words(self) -> Sequence[str]:
        return []

    def pieces(self) -> Sequence[str]:
        return []


KNOWN = frozenset(common_words())
SHORT = frozenset(sorted(common_words(), key=len)[:192])


def spaced(body: Mapping[str, Any]) -> str:
    """Five tokens of its own."""
    return f"( u : {body['messages'][0]['content']} ) b"


def calibrated(cost: Cost) -> tuple[Calibration, FakeSite]:
    site = FakeSite(Words(cost), spaced, renders=False, named=False)
    return asyncio.run(calibrate(site)), site


def length(found: Calibration, cost: Cost, numbers: Sequence[int]) -> int:
    """The tokens of a prompt, as the server would count them."""
    content = found.frame.content(found.vocabulary.text(numbers))
    return len(Words(cost).encode([spaced({"messages": [{"content": content}]})])[0])


def test_words_that_are_tokens_are_exact_after_three_chats() -> None:
    found, site = calibrated(lambda _: 1)
    assert found.exact
    assert (len(site.asked), len(found.vocabulary), len(found.frame)) == (3, 192, 6)  # five, and the anchor
    assert found.vocabulary.ids == tuple(range(192))
    assert found.frame.open == 6
    assert found.note.startswith("no tokenizer: 192 common words are one token each by this server's count; the chat")
    assert found.length_note(2000) == ""
    assert found.span(100) == (106, 106)
    assert found.words_for(2000) == 1994
    numbers = found.vocabulary.draw("x", 1994)
    assert length(found, lambda _: 1, numbers) == 2000


def test_samples_differ_in_size_and_do_not_repeat_words() -> None:
    _, site = calibrated(lambda _: 1)
    words = [(request.prompt.text or "").split()[1:] for request in site.asked]
    assert [len(sample) for sample in words] == [96, 96, 192]
    assert words[0] + words[1] == words[2]
    assert set(words[2]) == SHORT


def test_a_half_with_a_word_of_several_tokens_is_not_used() -> None:
    _, site = calibrated(lambda _: 1)
    odd = (site.asked[1].prompt.text or "").split()[50]
    found, site = calibrated(lambda word: 3 if word == odd else 1)
    assert (found.exact, len(site.asked), len(found.vocabulary), len(found.frame)) == (True, 3, 96, 6)
    assert f" {odd}" not in found.vocabulary.texts
    assert length(found, lambda word: 3 if word == odd else 1, found.vocabulary.draw("x", 500)) == 506


def test_smaller_samples_find_the_words_that_are_tokens() -> None:
    _, site = calibrated(lambda _: 1)
    words = (site.asked[2].prompt.text or "").split()[1:]
    odd = {words[0], words[40], words[100], words[101]}  # in the first, the second and the fourth of six samples
    found, site = calibrated(lambda word: 2 if word in odd else 1)
    assert (found.exact, len(site.asked), len(found.vocabulary)) == (True, 9, 96)
    assert [len((request.prompt.text or "").split()) - 1 for request in site.asked[3:]] == [32] * 6
    assert not {f" {word}" for word in odd} & set(found.vocabulary.texts)


@pytest.mark.parametrize(
    "cost",
    [
        len,
        lambda word: 1 + (word[-1] < "h"),
        lambda _: 2,
        lambda word: 1 + 3 * (word[0] in "aeiou"),
    ],
    ids=["letters", "endings", "all two", "vowels"],
)
def test_the_interval_holds_the_length_of_every_drawn_prompt(cost: Cost) -> None:
    found, _ = calibrated(cost)
    assert not found.exact
    assert len(found.frame) == 5 + cost("the")
    for count in (10, 200, 1000):
        low, high = found.span(count)
        seen = [length(found, cost, found.vocabulary.draw(f"draw {seed}", count)) for seed in range(100)]
        assert low <= min(seen)
        assert max(seen) <= high
        assert count < 200 or low > len(found.frame) + count
    low, high = found.span(found.words_for(2000))
    assert low <= 2000 <= high
    assert high - low < 1000
    assert found.length_note(2000) == f"input_len 2,000 is {low:,} to {high:,} tokens by this server's count"


def test_rate_and_variance_by_hand() -> None:
    # Two tokens a word: the six samples are all alike, and at least the variance of independent splits is kept.
    found, _ = calibrated(lambda _: 2)
    assert (found.rate, found.variance) == (2.0, 1.0)
    assert found.note == (
        "no tokenizer: a common word is 2.00 tokens on average by this server's count, so lengths are estimates"
    )
    assert found.span(100) == (7 + 200 - 60, 7 + 200 + 60)  # six standard deviations of ten
    assert replace(found, variance=0.25).span(100) == (7 + 200 - 30, 7 + 200 + 30)
    assert found.words_for(2007) == 1000
    assert found.words_for(3) == 0


def test_the_spread_of_samples_is_the_variance() -> None:
    # Samples of 32 words with 1, 2, 3 and 4 tokens a word in turn: their spread is far above that of splits.
    _, site = calibrated(lambda _: 1)
    words = (site.asked[2].prompt.text or "").split()[1:]
    heavy = set(words[:32]) | set(words[96:128])
    found, _ = calibrated(lambda word: 4 if word in heavy else 2)
    counts = [128, 64, 64, 128, 64, 64]
    mean = sum(counts) / 6
    assert found.rate == mean / 32
    assert found.variance == pytest.approx(sum((c - mean) ** 2 for c in counts) / 5 / 32)


class Moody(FakeSite):
    """Counts otherwise from the ``since``-th chat on."""

    since, more = 3, 1

    async def ask(self, request: Request) -> Exchange:
        seen = await super().ask(request)
        late = len(self.asked) >= self.since
        return replace(seen, prompt_tokens=(seen.prompt_tokens or 0) + self.more * late)


@pytest.mark.parametrize(
    ("since", "more", "told"),
    [
        (3, 500, "counted 102 and 102 tokens for two samples of 96 words and 698 for both together"),
        (3, -190, "counted 102 and 102 tokens for two samples of 96 words and 8 for both together"),
    ],
)
def test_numbers_that_do_not_add_up_are_refused(since: int, more: int, told: str) -> None:
    site = Moody(Words(lambda _: 1), spaced, renders=False, named=False)
    site.since, site.more = since, more
    with pytest.raises(WorkloadError, match=told):
        asyncio.run(calibrate(site))


def test_parts_that_do_not_add_up_are_refused() -> None:
    site = Moody(Words(lambda _: 2), spaced, renders=False, named=False)
    site.since = 9
    with pytest.raises(WorkloadError, match="counted 384 tokens for 192 words and 385 for their parts"):
        asyncio.run(calibrate(site))


# --- which of the ways is taken --------------------------------------------------------------------------------------


def test_a_known_tokenizer_and_a_server_that_renders() -> None:
    site = FakeSite(builtin())
    found = asyncio.run(chat_words(site))
    assert (found.exact, found.frame.exact, found.note, site.asked) == (True, True, "", [])
    numbers = found.vocabulary.draw(f"{random.Random(1).random()}", 50)
    prompt = found.frame.prompt(found.vocabulary.encode(numbers), found.vocabulary.text(numbers))
    assert site.tokens({"messages": [{"role": "user", "content": prompt.text}]}) == list(prompt.ids)


def test_a_known_tokenizer_and_a_server_that_counts() -> None:
    found = asyncio.run(chat_words(FakeSite(byte_level(), renders=False)))
    assert (found.exact, found.frame.exact, found.note) == (True, False, found.frame.note)
    assert found.note


def test_no_tokenizer_at_all() -> None:
    site = FakeSite(builtin(), chatml, renders=False, named=False)
    found = asyncio.run(chat_words(site))
    assert (found.exact, len(site.asked)) == (True, 3)
    assert len(found.frame) == len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n") + len(
        builtin().encode(["the"])[0]
    )


def test_a_tokenizer_that_cannot_be_loaded_is_not_replaced_in_silence() -> None:
    class Broken(FakeSite):
        async def tokenizer(self) -> Any:
            raise WorkloadError("no such file")

    site = Broken(builtin(), renders=False)
    with pytest.raises(WorkloadError, match="no such file"):
        asyncio.run(chat_words(site))
    assert not site.asked
