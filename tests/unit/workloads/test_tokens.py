"""Tokenizers by name, and one learned from a server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.builtin import load
from pytest_kvcache.workloads.tokens import LocalTokenizer, learn_server_tokenizer, load_tokenizer

from ..tokenizers_zoo import ZOO, byte_level


@pytest.mark.parametrize(
    "text", ["", " the world", "Hello wörld\n\t漢 🎉", "two  spaces", "\x00\x1b", "<|im_start|>", " a▁b"]
)
def test_builtin_tokenizer_is_lossless(text: str) -> None:
    assert load().decode(load().encode(text).ids) == text


def test_a_file_and_its_folder(tmp_path: Path) -> None:
    byte_level().inner.save(str(tmp_path / "tokenizer.json"))
    for spec in (tmp_path, tmp_path / "tokenizer.json"):
        assert load_tokenizer(str(spec)).encode([" return"]) == byte_level().encode([" return"])


def test_truncation_and_padding_of_the_file_are_undone(tmp_path: Path) -> None:
    inner = load()
    copy = type(inner).from_str(inner.to_str())
    copy.enable_truncation(8)
    copy.enable_padding(length=20)
    copy.save(str(tmp_path / "tokenizer.json"))
    assert len(load_tokenizer(str(tmp_path)).encode([" the" * 50])[0]) == 50


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("./nowhere.json", "there is no file nowhere.json"),
        ("{dir}", "there is no file"),
        ("{file}", "is no tokenizer.json"),
    ],
)
def test_what_is_no_tokenizer_says_what_was_tried(tmp_path: Path, spec: str, complaint: str) -> None:
    (tmp_path / "bad.json").write_text("{}")
    named = spec.format(dir=tmp_path, file=tmp_path / "bad.json")
    with pytest.raises(WorkloadError, match=complaint) as caught:
        load_tokenizer(named)
    assert named in str(caught.value)


@pytest.mark.parametrize("name", ["builtin", "byte-level", "bos-eos"])
def test_a_server_teaches_its_words_in_few_requests(name: str) -> None:
    teacher: LocalTokenizer = ZOO[name]()
    asked: list[str] = []

    async def tokenize(text: str) -> list[int]:
        asked.append(text)
        return teacher.encode([text])[0]

    learned = asyncio.run(learn_server_tokenizer(tokenize))
    assert len(asked) == 5
    assert len(learned.words()) >= 64
    for word, number in learned.ids.items():
        assert teacher.encode([f" {word}"]) == [[*learned.lead, number, *learned.trail]]
    composed = SharedPrefix(5, 128, 0.5, send="text").compose(
        ServerFacts("x", "m", block_size=16), learned, "n", as_ids=True
    )
    for request in composed.load():
        assert teacher.encode([request.prompt.text or ""]) == [list(request.prompt.ids)]


def test_a_server_without_whole_words_is_a_clear_error() -> None:
    async def characters(text: str) -> list[int]:
        return [ord(character) for character in text]

    with pytest.raises(WorkloadError, match="name the model's tokenizer with --kv-tokenizer"):
        asyncio.run(learn_server_tokenizer(characters))
