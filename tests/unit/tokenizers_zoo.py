"""Tokenizers of the kinds that servers use, made in a moment."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from pytest_kvcache.workloads.builtin import common_words
from pytest_kvcache.workloads.tokens import LocalTokenizer, load_tokenizer

CORPUS = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("a*.py"))


@cache
def byte_level() -> LocalTokenizer:
    """Byte-level BPE with a space in front of words (GPT-2, Qwen, Llama 3), no special tokens around a text."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    inner.train([str(path) for path in CORPUS], trainer)
    return LocalTokenizer("byte-level", inner)


@cache
def with_bos_and_eos() -> LocalTokenizer:
    """The same with special tokens around every text."""
    inner = Tokenizer.from_str(byte_level().inner.to_str())
    inner.add_special_tokens(["<s>", "</s>"])
    specials = [("<s>", inner.token_to_id("<s>")), ("</s>", inner.token_to_id("</s>"))]
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    return LocalTokenizer("bos-eos", inner)


@cache
def sentencepiece() -> LocalTokenizer:
    """Llama 2's kind: no pre-tokenizer, a space put in front of every text, a BOS token."""
    words = [f"▁{word}" for word in common_words()[:300]]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), *((chr(c), -9.0) for c in range(33, 127)), ("▁", -9.0)]
    inner = Tokenizer(models.Unigram([*pieces, *((word, -5.0) for word in words)], unk_id=0))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    inner.decoder = decoders.Metaspace()
    return LocalTokenizer("sentencepiece", inner)


@cache
def toy() -> LocalTokenizer:
    """``a``, ``b``, ``ab`` with the merge (a, b): encoding is not the inverse of decoding."""
    return LocalTokenizer("toy", Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")])))


def builtin() -> LocalTokenizer:
    found = load_tokenizer("builtin")
    assert isinstance(found, LocalTokenizer)
    return found


ZOO = {"builtin": builtin, "byte-level": byte_level, "bos-eos": with_bos_and_eos, "sentencepiece": sentencepiece}
