"""The proof of a vocabulary: done once per tokenizer, and nothing unproven passes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.builtin import common_words
from pytest_kvcache.workloads.proof import prove
from pytest_kvcache.workloads.tokens import LocalTokenizer, learn_server_tokenizer, load_tokenizer
from pytest_kvcache.workloads.vocabulary import Vocabulary

from ..tokenizers_zoo import ZOO, byte_level, sentencepiece

WORDS = [a + b + c for a in "bdfg" for b in "aeiou" for c in "klmnpr"]  # 120
NUMBERS = {word: number for number, word in enumerate(WORDS)}


@dataclass(eq=False)
class Spelled:
    """One token for each word, then whatever ``spoil`` makes of a text's ids."""

    spoil: Callable[[list[int]], list[int]]
    name: str = "spelled"
    calls: int = 0

    def words(self) -> Sequence[str]:
        return WORDS

    def pieces(self) -> Sequence[str]:
        return []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.calls += 1
        return [self.spoil([NUMBERS[word] for word in text.split()]) for text in texts]


@dataclass
class Unhashable(Spelled):
    """A dataclass with ``eq`` has no hash."""


def faithful(ids: list[int]) -> list[int]:
    return ids


def test_a_tokenizer_is_asked_once() -> None:
    tokenizer = Spelled(faithful)
    first = Vocabulary.of(tokenizer)
    asked = tokenizer.calls
    assert Vocabulary.of(tokenizer) is first
    assert tokenizer.calls == asked
    assert len(first) == 120


def test_a_tokenizer_that_cannot_be_remembered_works_too() -> None:
    assert len(Vocabulary.of(Unhashable(faithful))) == 120


def test_words_that_break_only_among_two_others_are_not_taken_for_proven() -> None:
    def spoil(ids: list[int]) -> list[int]:  # every third neighbour changes: no pair shows it
        return ids if len(ids) < 3 else [*ids[:2], 9999, *ids[3:]]

    with pytest.raises(WorkloadError, match="'spelled' holds no pieces"):
        Vocabulary.of(Spelled(spoil))


def test_a_rare_pair_that_escapes_the_proof_is_found_before_sending() -> None:
    def spoil(ids: list[int]) -> list[int]:  # two neighbours that become one token, in long texts only
        return ids if len(ids) < 50 else [*ids[:40], ids[40] + 1000, *ids[42:]]

    with pytest.raises(WorkloadError, match=r"token 40 is 1\d\d\d instead of \d+ \(95 tokens instead of 96\)"):
        SharedPrefix(2, 96, 0.5).compose(ServerFacts("sim", "m", block_size=16), Spelled(spoil), "n", as_ids=False)


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    byte_level().inner.save(str(file))
    first = load_tokenizer(str(file))
    assert load_tokenizer(str(file)) is first
    sentencepiece().inner.save(str(file))
    os.utime(file, ns=(1, 1))  # whatever the clock's resolution
    assert load_tokenizer(str(file)).encode([" the"]) == sentencepiece().encode([" the"]) != first.encode([" the"])


def test_a_server_that_puts_a_space_in_front_teaches_its_words() -> None:
    teacher: LocalTokenizer = ZOO["sentencepiece"]()

    async def tokenize(text: str) -> list[int]:
        return teacher.encode([text])[0]

    learned = asyncio.run(learn_server_tokenizer(tokenize))
    shape = SharedPrefix(4, 128, 0.5, send="text")
    composed = shape.compose(ServerFacts("x", "m", block_size=16), learned, "n", as_ids=False)
    for request in composed.load():
        assert len(request.prompt.ids) == 128
        assert teacher.encode([request.prompt.text or ""]) == [list(request.prompt.ids)]


def test_a_word_that_changes_with_its_neighbours_is_not_learned() -> None:
    async def tokenize(text: str) -> list[int]:  # "able" is itself only at the start of a text or after itself
        words = text.split()
        beside = zip(words, [words[0], *words], strict=False)
        return [9999 if word == "able" != before else common_words().index(word) for word, before in beside]

    learned = asyncio.run(learn_server_tokenizer(tokenize))
    assert set(common_words()) - set(learned.words()) == {"able"}


@pytest.mark.parametrize("answer", [[], [7], [7, 7, 7]], ids=str)
def test_a_server_that_always_answers_the_same_is_a_clear_error(answer: list[int]) -> None:
    async def tokenize(text: str) -> list[int]:
        return answer

    with pytest.raises(WorkloadError, match="does not keep common words as one token each"):
        asyncio.run(learn_server_tokenizer(tokenize))


def test_a_server_whose_answers_shrink_is_a_clear_error() -> None:
    async def tokenize(text: str) -> list[int]:
        return [5] * max(0, 4 - len(text) // 4)

    with pytest.raises(WorkloadError, match="does not keep common words as one token each"):
        asyncio.run(learn_server_tokenizer(tokenize))


def test_every_text_is_encoded_few_at_a_time() -> None:
    asked: list[int] = []

    class Counting(Spelled):
        def encode(self, texts: Sequence[str]) -> list[list[int]]:
            asked.append(len(texts))
            return super().encode(texts)

    vocabulary = Vocabulary.of(Spelled(faithful))
    bodies = [vocabulary.draw(f"{n}", 20_000) for n in range(10)]
    prove(Counting(faithful), vocabulary, iter(bodies))
    assert asked == [4, 4, 2]
    bad = bodies[1]
    wrong = [*vocabulary.encode(bad[:-1]), 9999]
    lying = Spelled(lambda ids: wrong if ids == vocabulary.encode(bad) else ids)
    with pytest.raises(WorkloadError, match=r"token 19999 is 9999 instead of \d+ \(20000 tokens instead of 20000\)"):
        prove(lying, vocabulary, iter(bodies))
