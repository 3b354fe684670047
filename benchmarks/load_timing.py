"""How wrong are the times that a client tells? Beside what really happened at a server that notes it.

    python load_timing.py [--peers DIR] [--only NAME ...] [--levels N ...] [--rounds N]

True time to first token: from the poll that completed the request to the hand-over of the first content. The error is
what the client says more than that; so is the bias of its mean time between tokens. Every record is matched to its own
request. Closed loop with equal answers, so requests begin in waves of as many as are going at once: the worst case, and
how every fixed concurrency begins. Ends with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from load_asked import end, parser
from load_clients import OURS, clients, run, warm
from load_inputs import Inputs, inputs
from load_timed import TIMED, Timed
from paced_server import Paced, Served
from peers_load import Job
from spent import three

REQUESTS = {1: 20, 32: 96, 256: 768}
TOKENS = 64
TTFT = {1: (0.4, 0.7), 32: (1.2, 3.0), 256: (4.0, 12.0)}  # ms, p50 and p95
ITL = {1: 0.05, 32: 0.05, 256: 0.25}  # ms, absolute


class Errors(NamedTuple):
    """Errors of one run in ms: of the time to first token at p50, p95 and most, and of the mean time between tokens."""

    p50: float
    p95: float
    most: float
    itl: float | None


def errors(said: list[Timed], served: list[Served], requests: int) -> Errors:
    """Compare what a client says with what happened.

    Raises:
        SystemExit: a record belongs to no request, or the requests have not one record each.
    """
    truth = {key: true for true in served for key in (f"r{true.number}", true.request_id) if key}
    keys = {row.key for row in said}
    if len(keys) != requests or len(said) != requests or not keys <= truth.keys():
        raise SystemExit(f"{len(said)} records of {len(keys & truth.keys())} requests, and {requests} were asked for")
    first, between = [], []
    for row in said:
        true = truth[row.key]
        first.append(1000 * (row.ttft - (true.sent[0] - true.received)))
        if row.itl is not None:
            between.append(1000 * (row.itl - (true.sent[-1] - true.sent[0]) / (len(true.sent) - 1)))
    first.sort(key=abs)
    place = -(-95 * requests // 100) - 1  # nearest rank
    return Errors(statistics.median(first), first[place], first[-1], statistics.median(between) if between else None)


def measured(level: int, asked: argparse.Namespace, made: Inputs) -> dict[str, list[Errors]]:
    """Run every client that tells single requests once a round."""
    taken: dict[str, list[Errors]] = {}
    for number in range(asked.rounds):
        print(
            f"{level} at once: round {number + 1}, load average {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True
        )
        for name, client in clients(asked.peers, asked.only).items():
            if name in TIMED:
                with tempfile.TemporaryDirectory(prefix="load-") as folder:
                    job = Job("", REQUESTS[level], level, TOKENS, made, Path(folder), timed=True)
                    server = Paced(events=TOKENS)
                    run(name, client, asked.peers, server, job)
                    found = errors(list(TIMED[name](job.folder)), server.served, job.requests)
                    taken.setdefault(name, []).append(found)
    return taken


def table(level: int, taken: dict[str, list[Errors]]) -> None:
    print(f"\n{level} at once, {REQUESTS[level]} requests a run; ms, min / median / max of the runs\n")
    print("| client | TTFT error, p50 | p95 | most | bias of mean ITL |")
    print("|---|---|---|---|---|")
    for name, runs in taken.items():
        row = [three([getattr(found, part) for found in runs]) for part in ("p50", "p95", "most")]
        told = [found.itl for found in runs if found.itl is not None]
        print(f"| {name} | {' | '.join(row)} | {three(told, 3) if told else '-'} |", flush=True)


def missed(level: int, runs: list[Errors]) -> Iterator[str]:
    """Yield each goal that ours misses, by the median of its runs."""
    limits = {"p50": TTFT[level][0], "p95": TTFT[level][1], "itl": ITL[level]}
    for part, limit in limits.items():
        what = f"{level} at once: " + ("bias of the mean ITL" if part == "itl" else f"TTFT error, {part}")
        values = [value for found in runs if (value := getattr(found, part)) is not None]
        if not values:
            yield f"{what}: nothing is told"
        elif abs(statistics.median(values)) > limit:
            yield f"{what}: {statistics.median(values):.3f} ms, wanted at most {limit}"


def main() -> None:
    asking = parser("How wrong the times are that load clients tell.")
    asking.add_argument("--levels", nargs="+", type=int, default=list(REQUESTS), choices=REQUESTS)
    asked = asking.parse_args()

    made = inputs(asked.inputs)
    warm(made)
    goals: list[str] = []
    for level in asked.levels:
        taken = measured(level, asked, made)
        table(level, taken)
        goals += missed(level, taken[OURS]) if OURS in taken else []
    end(goals)


if __name__ == "__main__":
    main()
