#!/usr/bin/env python3
"""Make a tiny Qwen3 with random weights and a tokenizer of its own: a model for engine tests that needs no hub.

usage: make_tiny_model.py OUTDIR

Two layers, hidden size 64, a byte-level BPE of 4096 tokens trained on the sources of the Python standard library, a
ChatML template. The same Python gives the same bytes. Runs in the virtual environment of vLLM (torch, transformers,
tokenizers); a second call finds its work done.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

VOCABULARY = 4096
POSITIONS = 32768
SEED = 0
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"  # ids 0, 1, 2
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS_FILES = 120  # 4 MB of text: two seconds of training, and enough whole-word tokens


def make_tokenizer(out: Path) -> None:
    """Train the tokenizer and write it with its chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:CORPUS_FILES]
    tokenizer.train([str(source) for source in sources], trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the {len(sources)} sources gave {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, bos_token=None, model_max_length=POSITIONS
    )
    fast.chat_template = CHATML
    fast.save_pretrained(out)


def make_weights(out: Path) -> None:
    """Write the configuration and seeded random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(out)


def main(out: Path) -> None:
    """Build beside ``out`` and move into place, so that a half-made model is never found."""
    version = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()
    stamp = out / "made_by.json"
    if stamp.is_file() and json.loads(stamp.read_text())["version"] == version:
        print(f"{out} is up to date")
        return
    if out.exists() and not stamp.is_file() and any(out.iterdir()):
        raise SystemExit(f"{out} exists and is not of this script's making: remove it or name another directory")
    os.environ["HF_HUB_OFFLINE"] = "1"
    building = out.with_name(f"{out.name}.{os.getpid()}")
    building.mkdir(parents=True)
    make_tokenizer(building)
    make_weights(building)
    (building / stamp.name).write_text(json.dumps({"script": Path(__file__).name, "version": version}))
    if out.exists():
        shutil.rmtree(out)
    building.replace(out)
    print(f"{out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_tiny_model.py OUTDIR")
    main(Path(sys.argv[1]))
