"""What it costs to make prompts: CPU time beside that of encoding them once, and memory as requests become more.

    python benchmarks/prompt_building.py [--tokenizer FILE_OR_FOLDER] [--requests N] [--input-len N] [--hit-rate R]

Loading the tokenizer is not counted; proving its vocabulary and all checks before sending are. Prompts are dropped as
soon as they are made, as a run does once they are sent.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.tokens import LocalTokenizer, load_tokenizer

FACTS = ServerFacts(engine="sim", model="m", block_size=16)
SAMPLE = 50  # prompts that are encoded to know what all would cost

Make = Callable[[int], ComposedPrefix]


def workloads(tokenizer: LocalTokenizer, asked: argparse.Namespace) -> Iterator[tuple[str, Make]]:
    """Each shape by its name, made from the number of its requests."""
    build, length, rate = WorkloadBuilder(), asked.input_len, asked.hit_rate

    def composing(shape: Callable[[int], Any]) -> Make:
        # a copy of the tokenizer: nothing is proven about it yet
        def make(count: int) -> ComposedPrefix:
            fresh = LocalTokenizer(tokenizer.name, tokenizer.inner)
            composed: ComposedPrefix = shape(count).compose(FACTS, fresh, "benchmark", as_ids=True)
            return composed

        return make

    for send in ("ids", "text"):
        yield (
            f"4 prefixes, as {send}",
            composing(lambda n, send=send: build.shared_prefix(n, length, rate, prefixes=4, send=send)),
        )
    own = [length // 8, length // 8, length // 4]
    tree = list(zip((1, 10, 100), own, strict=True))
    yield (
        "tree of 100, zipf",
        composing(lambda n: build.shared_prefix(n, length, tree=tree, weights="zipf", send="text")),
    )
    yield (
        "a prefix for each request",
        composing(lambda n: build.shared_prefix(n, length, rate, prefixes=n, send="text")),
    )
    mix = [rate / 2, rate, 0.0]
    yield "three hit rates", composing(lambda n: build.shared_prefix(n, length, mix, prefixes=4, send="text"))
    yield (
        "working set of 100 contexts",
        composing(lambda n: build.working_set(100 * length, length, rate, requests=n, send="text")),
    )


def all_prompts(make: Make, count: int) -> None:
    """Make every prompt once, prefill and load, and drop it."""
    composed = make(count)
    warm = sum(1 for request in composed.prefill() if request.prompt.ids)
    tokens = sum(len(request.prompt.ids) for request in composed.load())
    if not warm or tokens != composed.plan.query_tokens:
        raise SystemExit(f"composed {tokens} tokens and {warm} requests that warm")


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak_mib(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def encoding(tokenizer: LocalTokenizer, make: Make, count: int) -> float:
    """CPU seconds of encoding the measured prompts once, by a sample of them."""
    texts = [request.prompt.text or "" for request in islice(make(count).load(), SAMPLE)]

    def encode() -> None:
        for text in texts:
            tokenizer.encode([text])

    encode()  # the tokenizer's cache of words is warm, as in a server
    return cpu_seconds(encode) / len(texts) * count


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds and memory to make prompts.")
    parser.add_argument("--tokenizer", default="builtin", help="builtin, a tokenizer.json, its folder, or a hub id")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--input-len", type=int, default=32_000)
    parser.add_argument("--hit-rate", type=float, default=0.5)
    asked = parser.parse_args()

    tokenizer = load_tokenizer(asked.tokenizer)
    if not isinstance(tokenizer, LocalTokenizer):
        raise SystemExit(f"{asked.tokenizer} is no local tokenizer")
    shapes = dict(workloads(tokenizer, asked))
    few, many = max(1, asked.requests // 10), asked.requests
    plain = encoding(tokenizer, shapes["4 prefixes, as text"], many)
    print(f"{many} prompts x {asked.input_len} tokens, hit rate {asked.hit_rate}, tokenizer {asked.tokenizer}")
    print(f"encoding them once: {plain:.2f} s CPU")
    print(f"{'':30} {'CPU':>8} {'/ encoding':>11} {f'MiB at {few}':>12} {f'MiB at {many}':>12} {'ratio':>6}")
    for name, make in shapes.items():
        seconds = cpu_seconds(lambda make=make: all_prompts(make, many))
        low, high = (peak_mib(lambda make=make, count=count: all_prompts(make, count)) for count in (few, many))
        print(f"{name:30} {seconds:6.2f} s {seconds / plain:11.2f} {low:12.1f} {high:12.1f} {high / low:6.2f}")


if __name__ == "__main__":
    main()
