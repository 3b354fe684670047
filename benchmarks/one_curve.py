"""The whole exact LRU curve of a trace, in one command: what `trace_curve.py` compares with others' single budgets.

    python benchmarks/one_curve.py FILE SLOTS [SLOTS ...]

prints the hit tokens at each of these budgets, in blocks of 512 tokens, and of an unlimited cache.
"""

from __future__ import annotations

import sys

from pytest_kvcache.traces import open_trace

curve = open_trace(sys.argv[1], block_size=512).sweep()
print(*(curve.hit_tokens(blocks=int(slots)) for slots in sys.argv[2:]), curve.ceiling_tokens)
