"""Words that stay themselves when they are joined, for every kind of tokenizer."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.workloads.vocabulary import Vocabulary

from ..tokenizers_zoo import ZOO, byte_level, sentencepiece, toy, with_bos_and_eos


@pytest.mark.parametrize("name", ZOO)
def test_any_joined_sequence_encodes_to_its_ids(name: str) -> None:
    tokenizer = ZOO[name]()
    vocabulary = Vocabulary.of(tokenizer)
    assert len(vocabulary) >= 64
    for seed in range(20):
        numbers = vocabulary.draw(f"any {seed}", random.Random(seed).randrange(1, 400))
        text = vocabulary.prompt_text(vocabulary.text(numbers))
        expected = [*vocabulary.lead, *vocabulary.encode(numbers), *vocabulary.trail]
        assert tokenizer.encode([text]) == [expected]


def test_special_tokens_are_found_and_none_are_needed() -> None:
    bos, eos = (with_bos_and_eos().inner.token_to_id(token) for token in ("<s>", "</s>"))
    assert (Vocabulary.of(with_bos_and_eos()).lead, Vocabulary.of(with_bos_and_eos()).trail) == ((bos,), (eos,))
    assert (Vocabulary.of(byte_level()).lead, Vocabulary.of(byte_level()).trail) == ((), ())
    assert Vocabulary.of(sentencepiece()).lead == (1,)
    assert Vocabulary.of(sentencepiece()).drop_space


def test_toy_bpe_whose_encode_is_not_the_inverse_of_decode() -> None:
    tokenizer = toy()
    assert tokenizer.encode([tokenizer.inner.decode([0]) + tokenizer.inner.decode([1])]) == [[2]]  # [a, b] becomes [ab]
    vocabulary = Vocabulary.of(tokenizer)
    prompts = [vocabulary.draw(f"prompt {n}", 7) for n in range(1000)]
    encoded = tokenizer.encode([vocabulary.text(numbers) for numbers in prompts])
    assert {len(ids) for ids in encoded} == {7}
    assert encoded == [vocabulary.encode(numbers) for numbers in prompts]
    assert len({tuple(ids) for ids in encoded}) > 100


LETTERS = "abcdefghijklmnopqrst"
MERGING = {word: n for n, word in enumerate(["ten", "odd", *(f"w{a}{b}" for a in LETTERS for b in LETTERS)])}


class Merging:
    """Words that are one token alone, but ``odd`` swallows its left neighbour."""

    name = "merging"

    def words(self) -> Sequence[str]:
        return list(MERGING)

    def pieces(self) -> Sequence[str]:
        return []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._one(text.split()) for text in texts]

    def _one(self, words: list[str]) -> list[int]:
        found: list[int] = []
        for word in words:
            if word == "odd" and found:
                found[-1] = 9999
            else:
                found.append(MERGING[word])
        return found


def test_words_that_break_beside_others_are_dropped() -> None:
    vocabulary = Vocabulary.of(Merging())
    assert " odd" not in vocabulary.texts
    assert len(vocabulary) > 300


class Hopeless(Merging):
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(text)] for text in texts]


def test_a_tokenizer_without_closed_pieces_is_a_clear_error() -> None:
    with pytest.raises(WorkloadError, match="'merging' holds no pieces that stay one token each"):
        Vocabulary.of(Hopeless())


def test_digits_are_distinct_for_distinct_numbers() -> None:
    vocabulary = Vocabulary.of(toy())
    found = {tuple(vocabulary.digits(number, 200, 5)) for number in range(200)}
    assert len(found) == 200


def test_draws_are_the_same_everywhere() -> None:
    # the first numbers of this draw, computed once from the definition: two random bytes, little end first, modulo size
    vocabulary = Vocabulary.of(toy())
    raw = random.Random("fixed").randbytes(20)
    expected = [int.from_bytes(raw[i : i + 2], "little") % len(vocabulary) for i in range(0, 20, 2)]
    assert vocabulary.draw("fixed", 10) == expected
