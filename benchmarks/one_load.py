"""One run of ours under load, as a user writes it: a test. `load_cost.py` and `load_timing.py` run it with pytest."""

from __future__ import annotations

import json
import os
from pathlib import Path

REQUESTS, CONCURRENCY, TOKENS = (int(os.environ[f"LOAD_{name}"]) for name in ("REQUESTS", "CONCURRENCY", "TOKENS"))


def test_prompts_of_a_file(kv, kv_workload):
    sent = kv.run(kv_workload.prompts("prompts.jsonl"), concurrency=CONCURRENCY)
    kept(sent.exchanges)


def test_shared_prefix(kv, kv_workload):
    shape = {"prefix_len": 1024, "output_len": TOKENS, "prefill": False, "send": "text"}
    sent = kv.run(kv_workload.shared_prefix(REQUESTS, 2048, **shape), concurrency=CONCURRENCY)
    kept(sent.exchanges)


def kept(exchanges):
    """Check that nothing is missing, and note what was timed where that is asked for."""
    assert len(exchanges) == REQUESTS
    assert {(exchange.failure, exchange.completion_tokens) for exchange in exchanges} == {(None, TOKENS)}
    if "LOAD_OUT" in os.environ:
        rows = [[exchange.text.split()[0], exchange.ttft, exchange.tpot] for exchange in exchanges]
        Path(os.environ["LOAD_OUT"]).write_text(json.dumps(rows))
