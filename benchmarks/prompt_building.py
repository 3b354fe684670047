"""CPU time to make the prompts of a shared_prefix workload, against generators that check nothing or everything.

    python benchmarks/prompt_building.py [--tokenizer FILE_OR_FOLDER] [--requests N] [--input-len N] [--hit-rate R]

Loading the tokenizer is not counted; proving its vocabulary and all checks before sending are.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from statistics import median

from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.tokens import LocalTokenizer, load_tokenizer
from pytest_kvcache.workloads.vocabulary import Vocabulary

FACTS = ServerFacts(engine="sim", model="m", block_size=16)


def drawn(tokenizer: LocalTokenizer, choice: list[int], shape: SharedPrefix) -> list[tuple[str, list[int]]]:
    """What a plain generator does: draw ids of whole words, decode, hope that the server encodes them back."""
    rng = random.Random(0)
    shared = round((shape.hit_rate or 0) * shape.input_len)
    prefixes = [rng.choices(choice, k=shared) for _ in range(shape.prefixes)]
    prompts = []
    for index in range(shape.requests):
        ids = prefixes[index % shape.prefixes] + rng.choices(choice, k=shape.input_len - shared)
        prompts.append((tokenizer.inner.decode(ids), ids))
    return prompts


def encoded_again(tokenizer: LocalTokenizer, choice: list[int], shape: SharedPrefix) -> None:
    for text, ids in drawn(tokenizer, choice, shape):
        if tokenizer.encode([text]) != [ids]:
            raise SystemExit("a prompt of the plain generator does not encode to its ids")


def ours(tokenizer: LocalTokenizer, shape: SharedPrefix) -> None:
    fresh = LocalTokenizer(tokenizer.name, tokenizer.inner)  # nothing is proven about it yet
    composed = shape.compose(FACTS, fresh, "benchmark", as_ids=True)
    tokens = sum(len(request.prompt.ids) for request in composed.load())
    if tokens != shape.requests * shape.input_len or any(len(r.prompt.ids) == 0 for r in composed.prefill()):
        raise SystemExit(f"composed {tokens} tokens")


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds to make prompts.")
    parser.add_argument("--tokenizer", default="builtin", help="builtin, a tokenizer.json, its folder, or a hub id")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--input-len", type=int, default=8192)
    parser.add_argument("--hit-rate", type=float, default=0.5)
    parser.add_argument("--prefixes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="the median counts")
    asked = parser.parse_args()

    start = time.process_time()
    tokenizer = load_tokenizer(asked.tokenizer)
    if not isinstance(tokenizer, LocalTokenizer):
        raise SystemExit(f"{asked.tokenizer} is no local tokenizer")
    print(f"tokenizer {asked.tokenizer}: loaded in {time.process_time() - start:.2f} s CPU (not counted below)")
    choice = list(Vocabulary.of(tokenizer).ids)

    def shape(send: str) -> SharedPrefix:
        count, length, rate = asked.requests, asked.input_len, asked.hit_rate
        return SharedPrefix(count, length, rate, prefixes=asked.prefixes, send=send)  # type: ignore[arg-type] # a Literal

    ways: dict[str, Callable[[], object]] = {
        "ours, checked, as ids": lambda: ours(tokenizer, shape("ids")),
        "ours, checked, as text": lambda: ours(tokenizer, shape("text")),
        "plain generator, unchecked": lambda: drawn(tokenizer, choice, shape("text")),
        "plain generator, all encoded again": lambda: encoded_again(tokenizer, choice, shape("text")),
    }
    found = {name: cpu_seconds(work, asked.rounds) for name, work in ways.items()}
    plain = found["plain generator, unchecked"]
    print(f"{asked.requests} prompts x {asked.input_len} tokens, hit rate {asked.hit_rate}, {asked.prefixes} prefixes")
    for name, seconds in found.items():
        print(f"{name:36} {seconds:7.3f} s CPU   {seconds / plain:6.2f} x the plain generator")


if __name__ == "__main__":
    main()
