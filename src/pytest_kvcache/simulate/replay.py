"""Workload to prediction: what an unlimited cache reuses, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from ..model import Composed, Prediction, Request
from .blocks import block_keys, reusable_tokens


def predict(workload: Composed, block_size: int | None) -> Prediction:
    """Replay ``workload`` through an unlimited cache, prefill first, every request after the one before it.

    Order among the measured requests matters only where they share more than was warmed; a real engine admits them in
    nearly that order and lets concurrent identical prompts hit the first one's blocks (vLLM 0.32, 27 bursts).

    Args:
        workload: composed for the server.
        block_size: tokens per block; None when unknown: blocks of one token give an upper bound, and the prediction
            says that it is not exact.
    """
    size = block_size or 1
    cache: set[int] = set()
    prefill_hit = sum(hit for _, hit in _hits(workload.prefill(), cache, size))
    per_request: list[int] = []
    query = 0
    for request, hit in _hits(workload.load(), cache, size):
        per_request.append(hit)
        query += len(request.prompt.ids)
    return Prediction(
        hit_tokens=sum(per_request),
        query_tokens=query,
        per_request=tuple(per_request),
        block_size=size,
        exact=block_size is not None,
        prefill_hit_tokens=prefill_hit,
    )


def _hits(requests: Iterator[Request], cache: set[int], size: int) -> Iterator[tuple[Request, int]]:
    for request in requests:
        keys = block_keys(request.prompt.ids, size)
        matched = sum(1 for _ in takewhile(cache.__contains__, keys))  # an unlimited cache is the set of all keys
        yield request, reusable_tokens(matched * size, len(request.prompt.ids), size)
        cache.update(keys)
