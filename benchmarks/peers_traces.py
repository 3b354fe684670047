"""What others need for one LRU budget of a trace: their cheapest honest commands, and how their answers are read.

    python benchmarks/peers_traces.py plain|libcachesim-loop|libcachesim-run FILE SLOTS

runs one of those that are libraries, which are given the blocks of a request as a cache of tokens would see them.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
KVCACHE_BLOCK_BYTES = 35_979_264  # 512 tokens of its deepseek-v3; it takes budgets in GiB only
LIBRARIES = {
    "plain": "plain Python, OrderedDict",
    "libcachesim-loop": "libcachesim, C++ loop: objects, not leading runs",
    "libcachesim-run": "libcachesim, Python loop: leading runs",
}


class Peer(NamedTuple):
    """A command, and what it says: hit tokens, and of how much of the trace (or blocks, where it counts objects)."""

    name: str
    command: list[str]
    hits: Callable[[str], int]


def peers(python: str, file: Path, slots: int) -> list[Peer]:
    """Each way to one budget of ``slots`` blocks, ``python`` being an interpreter that has the packages."""
    programs = Path(python).parent
    gib = f"{(slots + 0.5) * KVCACHE_BLOCK_BYTES / 2**30:.6f}"
    simulator = [str(programs / "kvcache-simulator"), "run", "--trace", str(file), "--model", "deepseek-v3"]
    simulator += ["--block-size", str(BLOCK), "--budgets-gib", gib, "--policies", "lru", "--no-progress"]
    libraries = [Peer(label, [python, __file__, name, str(file), str(slots)], int) for name, label in LIBRARIES.items()]
    return [Peer("kvcache-simulator, C++", [*simulator, "--format", "json"], _kvcache_hits), *libraries]


def clawperf(python: str, file: Path, slots: int, out: Path) -> Peer:
    """ClawPerf's command: it takes minutes for the whole trace."""
    command = [str(Path(python).parent / "clawperf"), "--mode", "trace", "--trace-file", str(file)]
    command += ["--trace-block-size", str(BLOCK), "--cache-budget-tokens", str(slots * BLOCK), "--output", str(out)]
    return Peer("clawperf", command, _clawperf_hits)


def _kvcache_hits(printed: str) -> int:
    point = json.loads(printed)["points"][0]
    return int(point["results"]["lru"]["hitTokens"])


def _clawperf_hits(printed: str) -> int:
    found = re.search(r"Hit tokens:\s+([\d,]+)", printed)
    if found is None:
        raise SystemExit(f"clawperf printed no hit tokens: {printed[-500:]}")
    return int(found[1].replace(",", ""))


def rows(file: str) -> Iterator[tuple[int, list[int]]]:
    opened = gzip.open if file.endswith(".gz") else open
    with opened(file, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["input_length"], row["hash_ids"]


def plain(file: str, slots: int) -> int:
    """Hit tokens, exactly as the curve's rules say."""
    cache: OrderedDict[int, None] = OrderedDict()
    total = 0
    for length, ids in rows(file):
        hits = 0
        for block in ids:
            if block not in cache:
                break
            hits += 1
        total += min(hits * BLOCK, length)
        for block in reversed(ids[:slots]):  # the head is the youngest
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > slots:
            cache.popitem(last=False)
    return total


def libcachesim_loop(file: str, slots: int) -> int:
    """Hit objects by its own loop, over its own reader of numbers."""
    from libcachesim import LRU, ReaderInitParam, TraceReader, TraceType

    blocks = array("Q")
    for _, ids in rows(file):
        blocks.extend(ids)
    wanted = ReaderInitParam(binary_fmt_str="<Q", ignore_obj_size=True)
    wanted.obj_id_field = 1
    with tempfile.NamedTemporaryFile() as numbers:
        blocks.tofile(numbers)
        numbers.flush()
        missed, _ = LRU(cache_size=slots, hashpower=18).process_trace(
            TraceReader(numbers.name, TraceType.BIN_TRACE, wanted)
        )
    return round((1 - missed) * len(blocks))


def libcachesim_run(file: str, slots: int) -> int:
    """Hit tokens of leading runs. One call a block: the tail becomes the youngest, not the head."""
    from libcachesim import LRU, Request

    get = LRU(cache_size=slots, hashpower=18).get
    asked = Request()
    asked.obj_size = 1
    total = 0
    for length, ids in rows(file):
        leading, hits = True, 0
        for block in ids:
            asked.obj_id = block
            leading = get(asked) and leading
            hits += leading
        total += min(hits * BLOCK, length)
    return total


if __name__ == "__main__":
    ways = {"plain": plain, "libcachesim-loop": libcachesim_loop, "libcachesim-run": libcachesim_run}
    print(ways[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
