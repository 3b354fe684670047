"""One LRU budget of a trace by libraries that know blocks, in the fewest calls that give the answer.

    python benchmarks/peers_libraries.py plain|libcachesim-loop|libcachesim-run FILE SLOTS

prints the hits. It runs in the environment of the peers, so nothing of this project is imported.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from array import array
from collections import OrderedDict
from collections.abc import Iterator

BLOCK = 512


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
