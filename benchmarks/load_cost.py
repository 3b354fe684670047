"""What does it cost to send load? CPU, memory and start of each client, beside the floor, in interleaved rounds.

    python load_cost.py [--peers DIR] [--only NAME ...] [--kinds KIND ...] [--rounds N]

Burst: 2,000 requests, 64 at once, whole answers of 128 events from nginx. Paced: 64 events, 20 ms apart, each arriving
alone, 32 and 256 at once. CPU seconds are user and system time of all processes of a client; its start, its report and
all that it does are in "whole run". DIR has an environment for each peer (see requirements-load.txt). Ends with 1 when
a goal is missed; goals that are ratios are judged on medians of the same rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from burst_server import Burst
from load_asked import end, parser
from load_clients import FLOOR, KEPT, OURS, SENT, SHARED, Run, clients, run, warm
from load_inputs import Inputs, inputs
from paced_server import Paced
from peers_load import Job
from spent import three

Runs = dict[str, list[Run]]
BURST = "burst, 64 at once"
KINDS = {BURST: (2000, 64, 128), "paced, 32 at once": (480, 32, 64), "paced, 256 at once": (1536, 256, 64)}
OURSELVES = (FLOOR, SENT, KEPT, OURS, SHARED)
TO_FLOOR = {FLOOR: 1.35, KEPT: 1.35}
TO_PEER = {BURST: 1 / 3, "paced, 32 at once": 0.85, "paced, 256 at once": 0.85}
"""At most so many times each floor, and the cheapest peer, while sending."""
WHOLE, START = 2.0, 1.5  # CPU seconds of 2,000 requests, seconds to the first answer with a tokenizer
MEMORY = {OURS: 100, SHARED: 260}  # MiB


def measured(kind: str, asked: argparse.Namespace, made: Inputs) -> Runs:
    """Run every client once a round."""
    requests, concurrency, tokens = KINDS[kind]
    taken: Runs = {}
    for number in range(asked.rounds):
        print(f"{kind}: round {number + 1}, load average {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        for name, client in clients(asked.peers, asked.only).items():
            if client.most < requests and kind != BURST:
                continue
            with tempfile.TemporaryDirectory(prefix="load-") as folder:
                job = Job("", min(requests, client.most), concurrency, tokens, made, Path(folder))
                server = Burst(tokens) if kind == BURST else Paced(events=tokens)
                taken.setdefault(name, []).append(run(name, client, asked.peers, server, job))
    return taken


def table(kind: str, runs: Runs) -> dict[str, float]:
    """Print what each client used; the medians of CPU ms a request while sending."""
    sending = {name: statistics.median(run.sending for run in found) for name, found in runs.items()}
    best = min((cpu for name, cpu in sending.items() if name not in OURSELVES), default=None)
    print(f"\n{kind}, {KINDS[kind][0]} requests; min / median / max\n")
    head = "client | CPU ms a request | to floor | to the one that keeps | to best peer | whole run, CPU s"
    print(f"| {head} | first answer, s | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for name, found in runs.items():
        few = f", {found[0].requests} requests" if found[0].requests < KINDS[kind][0] else ""
        row = [f"{name}{few}", three([run.sending for run in found])]
        row += [f"{sending[name] / of:.2f}" if of else "-" for of in (sending.get(FLOOR), sending.get(KEPT), best)]
        row += [three([run.used.cpu for run in found]), three([run.start for run in found])]
        print(f"| {' | '.join(row)} | {max(run.used.peak_mib for run in found):.0f} |", flush=True)
    return sending


def missed(kind: str, runs: Runs, sending: dict[str, float]) -> Iterator[str]:
    """Yield each goal that ours misses."""
    peers = {name: cpu for name, cpu in sending.items() if name not in OURSELVES}
    cheapest = min(peers, key=peers.__getitem__, default=None)
    for other, limit in (*TO_FLOOR.items(), (cheapest, TO_PEER[kind])):
        if OURS in sending and other in sending and sending[OURS] > limit * sending[other]:
            yield f"{kind}: {sending[OURS] / sending[other]:.2f} times {other} while sending, wanted {limit:.2f}"
    for name in (OURS, SHARED) if kind == BURST else ():
        found = runs.get(name, [])
        yield from over(f"{kind}: MiB of {name}", [run.used.peak_mib for run in found], MEMORY[name])
        yield from over(f"{kind}: CPU s of a whole run of {name}", [run.used.cpu for run in found], WHOLE)
        yield from over(f"{kind}: s to the first answer of {name}", [run.start for run in found], START)


def over(what: str, values: list[float], limit: float) -> Iterator[str]:
    if values and statistics.median(values) > limit:
        yield f"{what}: {statistics.median(values):.2f}, wanted at most {limit}"


def main() -> None:
    asking = parser("What load clients cost.")
    asking.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    asked = asking.parse_args()

    made = inputs(asked.inputs)
    warm(made)
    goals = []
    for kind in asked.kinds:
        runs = measured(kind, asked, made)
        goals += missed(kind, runs, table(kind, runs))
    end(goals)


if __name__ == "__main__":
    main()
