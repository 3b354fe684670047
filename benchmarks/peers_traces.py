"""What others need for one LRU budget of a trace: their cheapest honest commands, and how their answers are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from peers_libraries import BLOCK

from pytest_kvcache import Rules

KVCACHE_BLOCK_BYTES = 35_979_264  # 512 tokens of its deepseek-v3; it takes budgets in GiB only
BASELINE = "plain Python, OrderedDict"  # no tool, but what one budget costs at least


class Peer(NamedTuple):
    """A command, and how its hit tokens are read.

    Attributes:
        name: for the table.
        command: a process of its own.
        hits: from what it prints.
        same: what ``trace.simulate`` is told to hit the same tokens; None: it counts something else.
        rules: the same, for the table.
    """

    name: str
    command: list[str]
    hits: Callable[[str], int]
    same: dict[str, Any] | None
    rules: str


def peers(python: str, file: Path, slots: int) -> list[Peer]:
    """Each way to one budget of ``slots`` blocks, ``python`` being an interpreter that has the packages."""
    gib = f"{(slots + 0.5) * KVCACHE_BLOCK_BYTES / 2**30:.6f}"
    simulator = [
        str(Path(python).with_name("kvcache-simulator")),
        "run",
        "--trace",
        str(file),
        "--model",
        "deepseek-v3",
    ]
    simulator += ["--block-size", str(BLOCK), "--budgets-gib", gib, "--policies", "lru", "--no-progress"]

    def library(name: str) -> list[str]:
        return [python, str(Path(__file__).with_name("peers_libraries.py")), name, str(file), str(slots)]

    return [
        Peer(
            "kvcache-simulator, C++",
            [*simulator, "--format", "json"],
            _kvcache_hits,
            {"warm": 0.5},
            "tokens of the last half",
        ),
        Peer("libcachesim, C++ loop", library("libcachesim-loop"), int, None, "blocks, wherever they stand"),
        Peer(
            "libcachesim, Python loop",
            library("libcachesim-run"),
            int,
            {"rules": Rules(ages="head_first")},
            "tokens, the head oldest",
        ),
        Peer(BASELINE, library("plain"), int, {}, "tokens"),
    ]


def clawperf(python: str, file: Path, slots: int, out: Path) -> Peer:
    """ClawPerf's command: it takes minutes for the whole trace."""
    command = [str(Path(python).with_name("clawperf")), "--mode", "trace", "--trace-file", str(file)]
    command += ["--trace-block-size", str(BLOCK), "--cache-budget-tokens", str(slots * BLOCK), "--output", str(out)]
    return Peer(
        "clawperf", command, _clawperf_hits, {"rules": Rules(charge="tokens")}, "tokens, blocks charged by theirs"
    )


def _kvcache_hits(printed: str) -> int:
    point = json.loads(printed)["points"][0]
    return int(point["results"]["lru"]["hitTokens"])


def _clawperf_hits(printed: str) -> int:
    found = re.search(r"Hit tokens:\s+([\d,]+)", printed)
    if found is None:
        raise SystemExit(f"clawperf printed no hit tokens: {printed[-500:]}")
    return int(found[1].replace(",", ""))
