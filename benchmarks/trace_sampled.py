"""What a sampled curve costs and how wrong it is: chat traffic, made as it is read, beside the exact curve of the same.

    python benchmarks/trace_sampled.py [--requests N] [--max-blocks N] [--seed N]

No file is written and no request is kept. Each curve is made in a process of its own; what making the requests costs is
told apart. Ends with 1 when a goal is missed: the sampled curve is less than 0.01 of hit rate wrong at every budget of
the table, it never holds more blocks than it was allowed, and ten times the requests take no more than 1.5 times the
memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spent import Spent, spent
from traffic import BLOCK, chats

from pytest_kvcache.capacity.rules import REFERENCE
from pytest_kvcache.capacity.stack import StackPass

BUDGETS = [2**power for power in range(10, 25, 2)]
GOAL_ERROR, GOAL_MEMORY = 0.01, 1.5


@dataclass(frozen=True)
class Asked:
    """How many requests, of which seed, and how many blocks a sample may hold."""

    requests: int
    seed: int
    max_blocks: int


def nothing(asked: Asked) -> dict[str, Any]:
    """Make the requests, and drop them."""
    return {"tokens": sum(row.input_length for row in chats(asked.requests, asked.seed))}


def exact(asked: Asked) -> dict[str, Any]:
    from pytest_kvcache.capacity.stack import stack_pass

    found = stack_pass(chats(asked.requests, asked.seed), BLOCK, REFERENCE)
    return {**told(found), "blocks": found.blocks}


def sampled(asked: Asked) -> dict[str, Any]:
    from pytest_kvcache.capacity.sampled import sampled_pass

    found = sampled_pass(
        chats(asked.requests, asked.seed), BLOCK, REFERENCE, max_blocks=asked.max_blocks, seed=asked.seed
    )
    assert found.errors is not None
    stated = [found.errors(blocks) / found.input_tokens for blocks in BUDGETS]
    return {**told(found), "errors": stated, "share": found.share, "held": found.held, "blocks": found.blocks}


def told(found: StackPass) -> dict[str, Any]:
    return {"tokens": found.input_tokens, "rates": [found.tokens(blocks) / found.input_tokens for blocks in BUDGETS]}


WAYS: dict[str, Callable[[Asked], dict[str, Any]]] = {"nothing": nothing, "exact": exact, "sampled": sampled}


def run(way: str, asked: Asked) -> tuple[Spent, dict[str, Any]]:
    arguments = (str(asked.requests), str(asked.seed), str(asked.max_blocks))
    took = spent([sys.executable, __file__, "--way", way, *arguments])
    return took, json.loads(took.printed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost and error of a sampled curve.")
    parser.add_argument("--requests", type=int, default=10_000_000, help="the exact curve of 10 million needs 3.5 GiB")
    parser.add_argument("--max-blocks", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    asked = Asked(given.requests, given.seed, given.max_blocks)

    costs, told = {}, {}
    for way in WAYS:
        costs[way], told[way] = run(way, asked)
    costs["tenth"], _ = run("sampled", replace(asked, requests=asked.requests // 10))
    goals = report(asked, costs, told)
    for goal in goals:
        print(f"\nMISSED: {goal}")
    sys.exit(bool(goals))


def report(asked: Asked, costs: dict[str, Spent], told: dict[str, dict[str, Any]]) -> list[str]:
    """Print what was found; the goals that were missed."""
    one, all_of = told["sampled"], told["exact"]
    print(f"{asked.requests:,} requests, {all_of['tokens']:,} input tokens, {all_of['blocks']:,} blocks of {BLOCK}\n")
    print("| | CPU s | of it making requests | peak MiB |")
    print("|---|---|---|---|")
    for way in ("exact", "sampled"):
        print(f"| {way} | {costs[way].cpu:.0f} | {costs['nothing'].cpu:.0f} | {costs[way].peak_mib:.0f} |")
    print(f"| sampled, a tenth of them | {costs['tenth'].cpu:.0f} | | {costs['tenth'].peak_mib:.0f} |")
    print(f"\nFollowed at the end: {one['share']:.3g} of the sessions; held at most {one['held']:,} blocks of them.\n")
    print("| budget, blocks | exact | sampled | true error | stated |")
    print("|---|---|---|---|---|")
    errors = [mine - right for mine, right in zip(one["rates"], all_of["rates"], strict=True)]
    for blocks, right, mine, error, stated in zip(
        BUDGETS, all_of["rates"], one["rates"], errors, one["errors"], strict=True
    ):
        print(f"| {blocks:,} | {right:.4f} | {mine:.4f} | {error:+.4f} | {stated:.4f} |")
    return list(missed(asked, costs, one["held"], errors))


def missed(asked: Asked, costs: dict[str, Spent], held: int, errors: list[float]) -> list[str]:
    worst, memory = max(map(abs, errors)), costs["sampled"].peak_mib / costs["tenth"].peak_mib
    found = []
    if worst >= GOAL_ERROR:
        found.append(f"it is {worst:.4f} wrong, wanted less than {GOAL_ERROR}")
    if held > asked.max_blocks:
        found.append(f"it held {held:,} blocks, wanted at most {asked.max_blocks:,}")
    if memory > GOAL_MEMORY:
        found.append(f"ten times the requests took {memory:.2f} times the memory, wanted at most {GOAL_MEMORY}")
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        print(json.dumps(WAYS[sys.argv[2]](Asked(*map(int, sys.argv[3:6])))))
    else:
        main()
