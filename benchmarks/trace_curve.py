"""What a hit-rate curve costs: the whole of it beside others' single budget, and at small blocks beside large ones.

    python benchmarks/trace_curve.py [--peers PYTHON] [--rounds N] [--slow]

PYTHON is an interpreter whose environment has `requirements-traces.txt`. Each command is a process of its own, reading
of the compressed file and start of the interpreter included; CPU seconds are user and system time of all its
processes. Rounds are interleaved. This project is compiled first, as pip compiles what it installs. Ends with 1 when a
goal is missed; goals are ratios, since seconds are the machine's.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

from peers_libraries import BLOCK
from peers_traces import BASELINE, Peer, clawperf, peers
from spent import Spent, spent, three

import pytest_kvcache
from pytest_kvcache.capacity.rules import REFERENCE
from pytest_kvcache.capacity.stack import stack_pass
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace

TRACES = Path(__file__).parents[1] / "tests" / "data" / "traces"
WHOLE = TRACES / "mooncake_conversation_trace.jsonl.gz"  # 12,031 requests, 288,500 blocks of 512
FIRST = TRACES / "mooncake_conversation_first1000.jsonl"
SLOTS = 16_000
OURS = "this: every budget, exactly"
SMALL = 16
GOAL_PEER, GOAL_BLOCKS = 1.0, 2.0


def ours(file: Path) -> Peer:
    command = [sys.executable, str(Path(__file__).with_name("one_curve.py")), str(file), str(SLOTS)]
    return Peer(OURS, command, lambda printed: int(printed.split()[0]), {}, "tokens")


def interleaved(commands: list[Peer], rounds: int) -> dict[str, list[Spent]]:
    taken: dict[str, list[Spent]] = {peer.name: [] for peer in commands}
    for peer in commands if rounds > 1 else ():  # not counted: reads files, and kvcache-simulator compiles itself
        spent(peer.command)
    for _ in range(rounds):
        for peer in commands:
            taken[peer.name].append(spent(peer.command))
    return taken


def table(title: str, file: Path, commands: list[Peer], rounds: int) -> dict[str, float]:
    """Print what each command took; return the ratio of each median to ours by its name.

    Raises:
        SystemExit: an answer is not what we say under the same rules.
    """
    taken = interleaved(commands, rounds)
    mine = statistics.median(run.cpu for run in taken[OURS])
    print(f"\n{title}, {rounds} round{'s' * (rounds > 1)}\n")
    print("| command | CPU s, min / median / max | to ours | peak MiB | hits |")
    print("|---|---|---|---|---|")
    ratios = {}
    for peer in commands:
        runs = taken[peer.name]
        ratios[peer.name] = statistics.median(run.cpu for run in runs) / mine
        hits = checked(peer, file, runs[-1].printed)
        row = (peer.name, three([run.cpu for run in runs]), f"{ratios[peer.name]:.2f}")
        print(f"| {' | '.join(row)} | {max(run.peak_mib for run in runs):.0f} | {hits} |", flush=True)
    return ratios


def checked(peer: Peer, file: Path, printed: str) -> str:
    """Return the hits that a command found, which have to be ours under its rules."""
    hits = peer.hits(printed)
    if peer.same is not None:
        right = open_trace(file, block_size=BLOCK).simulate(blocks=SLOTS, **peer.same).hit_tokens
        if hits != right:
            raise SystemExit(f"{peer.name} hits {hits:,} tokens, and simulate(blocks={SLOTS}, {peer.same}) {right:,}")
    return f"{hits:,} {peer.rules}"


def split(rows: list[Row], block: int, into: int) -> Iterator[Row]:
    """The same traffic in blocks of ``into`` tokens."""
    parts = block // into
    for row in rows:
        small = (block_id * parts + part for block_id in row.ids for part in range(parts))
        yield row._replace(ids=array("q", list(small)[: -(-row.input_length // into)]))


def small_blocks(rounds: int) -> float:
    """Print the CPU time of the pass alone at both block sizes, from rows in memory; their ratio."""
    large = list(open_trace(WHOLE, block_size=BLOCK))
    sets = {BLOCK: large, SMALL: list(split(large, BLOCK, SMALL))}
    taken: dict[int, list[float]] = {size: [] for size in sets}
    ceilings = set()
    for _ in range(rounds):
        for size, rows in sets.items():
            start = time.process_time()
            found = stack_pass(rows, size, REFERENCE)
            taken[size].append(time.process_time() - start)
            ceilings.add(found.tokens.most)
    if len(ceilings) != 1:
        raise SystemExit(f"the same traffic, but its ceiling is {ceilings}")
    print(f"\nThe pass alone, rows in memory, {rounds} rounds\n")
    print("| block | blocks looked up | CPU s, min / median / max | to 512 |")
    print("|---|---|---|---|")
    medians = {size: statistics.median(seconds) for size, seconds in taken.items()}
    for size, rows in sets.items():
        ratio = medians[size] / medians[BLOCK]
        print(f"| {size} | {sum(len(row.ids) for row in rows):,} | {three(taken[size], 3)} | {ratio:.2f} |")
    return medians[SMALL] / medians[BLOCK]


def compared(python: str, asked: argparse.Namespace) -> list[str]:
    """Print the tables against others; the goals that were missed."""
    compileall.compile_dir(Path(pytest_kvcache.__file__).parent, quiet=1)
    commands = [ours(WHOLE), *peers(python, WHOLE, SLOTS)]
    ratios = table(f"The whole trace; others: one LRU budget of {SLOTS:,} blocks", WHOLE, commands, asked.rounds)
    with tempfile.TemporaryDirectory() as folder:
        slow = clawperf(python, FIRST, SLOTS, Path(folder) / "out")
        ratios |= table("Its first 1,000 requests", FIRST, [ours(FIRST), slow], asked.rounds)
        if asked.slow:
            slow = clawperf(python, WHOLE, SLOTS, Path(folder) / "out")
            table("The whole trace", WHOLE, [ours(WHOLE), slow._replace(name="clawperf, whole")], 1)
    return [
        f"{name} needs {ratio:.2f} times our CPU time, wanted more than {GOAL_PEER}"
        for name, ratio in ratios.items()
        if name not in (OURS, BASELINE) and ratio <= GOAL_PEER
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds and memory of hit-rate curves.")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with the peers; none: no comparison")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow", action="store_true", help="also ClawPerf on the whole trace: five minutes")
    asked = parser.parse_args()

    missed = compared(asked.peers, asked) if asked.peers else []
    ratio = small_blocks(asked.rounds)
    if ratio > GOAL_BLOCKS:
        missed.append(f"blocks of {SMALL} take {ratio:.2f} times what blocks of 512 take, wanted at most {GOAL_BLOCKS}")
    for goal in missed:
        print(f"\nMISSED: {goal}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
