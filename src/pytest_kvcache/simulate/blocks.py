"""Token ids to chained block keys.

A block is reusable only behind the same prefix, so its key covers the block's own ids and the key of the block before
it. Only full blocks have a key (vLLM 0.32 ``v1/core/kv_cache_utils.py``: partial blocks are not cached).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence


def block_keys(ids: Sequence[int], block_size: int, salt: Hashable = None) -> list[int]:
    """Return the key of every full block of ``ids``, first block first.

    Args:
        ids: token ids, each below 2**32.
        block_size: tokens per block, at least 1.
        salt: separates caches (``cache_salt`` of a request); it enters the first block and so every later one.

    Keys are process-local: ``hash`` of bytes is salted per process, which costs nothing because keys never leave it.
    """
    packed = array("I", ids).tobytes()
    width = array("I").itemsize * block_size
    keys: list[int] = []
    parent = hash(("root", salt))
    for start in range(0, len(packed) - width + 1, width):
        parent = hash((parent, packed[start : start + width]))
        keys.append(parent)
    return keys
