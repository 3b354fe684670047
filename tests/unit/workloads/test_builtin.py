"""The simulated engine's tokenizer takes any text and gives it back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.workloads.builtin import common_words, load

SPELLED = ["<0x41>", "a<0x0A>b", "<unk>", "<unk><0xFF>é", "<0x"]


@pytest.mark.parametrize("text", SPELLED)
def test_a_text_that_spells_the_name_of_a_piece_is_not_that_piece(text: str) -> None:
    encoding = load().encode(text)
    assert load().decode(encoding.ids) == text
    assert len(encoding.ids) >= len(text)  # letter by letter, a letter outside ASCII as its bytes


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.sampled_from([*SPELLED, " the", " ", "\n", "▁", "🎉", "\x00"]) | st.text(max_size=5)).map("".join))
def test_any_text_comes_back(text: str) -> None:
    assert load().decode(load().encode(text).ids) == text


def test_every_common_word_is_one_token_behind_a_space_and_no_special_tokens_are_added() -> None:
    words = common_words()
    assert 600 <= len(words) <= 1000
    assert len(set(words)) == len(words)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    encoding = load().encode("".join(f" {word}" for word in words))
    assert encoding.tokens == [f" {word}" for word in words]
    assert load().encode("").ids == []


def test_made_once_per_process() -> None:
    assert load() is load()
