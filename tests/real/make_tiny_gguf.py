#!/usr/bin/env python3
"""Make a tiny Llama with random weights and a vocabulary of its own as a GGUF file, for a llama.cpp server.

usage: make_tiny_gguf.py OUT.gguf

Two layers, hidden size 64, a byte-level BPE of 4096 tokens made of the most frequent words of the Python standard
library, a ChatML template. Needs the packages gguf and numpy, which install_llamacpp.sh puts into FOLDER/venv; takes
one second. The same Python gives the same bytes.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import gguf
import numpy as np

VOCABULARY = 4096
POSITIONS = 32768
LAYERS, HIDDEN, FEED_FORWARD = 2, 64, 128
HEADS, KV_HEADS, HEAD = 2, 1, 32
SEED = 0
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """Return the letter that stands for each byte in a byte-level BPE: itself where it prints, else one above 255."""
    printing = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printing else next(others)) for byte in range(256)]


def frequent_words() -> list[str]:
    """Return the words that stand behind a space in the standard library's sources, most frequent first."""
    counts: Counter[str] = Counter()
    for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        counts.update(re.findall(r" ([a-z]{2,12})\b", source.read_text(encoding="utf-8")))
    return sorted(counts, key=lambda word: (-counts[word], word))


def vocabulary() -> tuple[list[str], list[str]]:
    """Return all tokens and all merges.

    Each word becomes a chain of merges, letter by letter from its space on. As every merge begins with that space, none
    can start inside a word, and a word behind a space always is its longest known beginning and then single bytes.
    """
    letters = byte_letters()
    tokens = dict.fromkeys([*SPECIAL, *letters])
    merges: list[str] = []
    for word in frequent_words():
        known = letters[ord(" ")]
        for letter in word:
            if known + letter not in tokens:
                if len(tokens) == VOCABULARY:
                    return list(tokens), merges
                tokens[known + letter] = None
                merges.append(f"{known} {letter}")
            known += letter
    raise SystemExit(f"the standard library's words gave {len(tokens)} tokens, not {VOCABULARY}")


def describe(writer: gguf.GGUFWriter) -> None:
    """Write the architecture and the tokenizer."""
    writer.add_name("tiny-random")
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    tokens, merges = vocabulary()
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_pad_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)


def add_weights(writer: gguf.GGUFWriter) -> None:
    """Write seeded random weights."""
    random = np.random.default_rng(SEED)

    def matrix(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(f"{name}.weight", (random.standard_normal((rows, columns)) * 0.02).astype(np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))

    matrix("token_embd", VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm")
        matrix(f"{block}.attn_q", HEADS * HEAD, HIDDEN)
        matrix(f"{block}.attn_k", KV_HEADS * HEAD, HIDDEN)
        matrix(f"{block}.attn_v", KV_HEADS * HEAD, HIDDEN)
        matrix(f"{block}.attn_output", HIDDEN, HEADS * HEAD)
        norm(f"{block}.ffn_norm")
        matrix(f"{block}.ffn_gate", FEED_FORWARD, HIDDEN)
        matrix(f"{block}.ffn_up", FEED_FORWARD, HIDDEN)
        matrix(f"{block}.ffn_down", HIDDEN, FEED_FORWARD)
    norm("output_norm")
    matrix("output", VOCABULARY, HIDDEN)


def main(out: Path) -> None:
    """Write beside ``out`` and move into place, so that half a file is never found."""
    writing = out.with_name(f"{out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(str(writing), "llama")
    describe(writer)
    add_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    writing.replace(out)
    print(f"{out}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_tiny_gguf.py OUT.gguf")
    main(Path(sys.argv[1]))
