"""Conversations to prediction by their usage alone, where nobody tells the tokens of prompts and answers."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Exchange, Grain, Prediction


def predict_by_usage(exchanges: Sequence[Exchange], grain: Grain, *, exact: bool) -> Prediction | None:
    """Predict what conversations reuse in which every prompt begins with the one before it.

    A turn hits at least the prompt of the turn before, because it begins with it, and at most that prompt with all of
    its answer but the last token, whose KV is never computed: whether the answer stands in the history as it was
    generated is not known. Of first turns the earliest one hits nothing, and the others anything from nothing on,
    because they may share a system prompt.

    Args:
        exchanges: measured, in the order of their turns within each session; sessions share nothing but their heads.
        grain: how the cache gives credit.
        exact: False when the grain is only a bound.

    Returns:
        None when a whole answer does not tell its prompt tokens, or belongs to no conversation.
    """
    if any(e.ok and (e.prompt_tokens is None or e.session is None) for e in exchanges):
        return None
    earliest = min((e.sent for e in exchanges if e.sent is not None), default=None)
    before: dict[int | None, Exchange] = {}
    least: list[int] = []
    room: list[int] = []
    for exchange in exchanges:
        low = high = 0
        if exchange.ok:
            previous = before.get(exchange.session)
            low, high = _bounds(previous, exchange, grain, cold=exchange.sent == earliest)
            before[exchange.session] = exchange
        least.append(low)
        room.append(high - low)
    return Prediction(
        hit_tokens=sum(least),
        query_tokens=sum(e.prompt_tokens or 0 for e in exchanges if e.ok),
        per_request=tuple(least),
        block_size=grain.block,
        exact=exact,
        slack=sum(room),
        room=tuple(room),
    )


def _bounds(before: Exchange | None, exchange: Exchange, grain: Grain, *, cold: bool) -> tuple[int, int]:
    """Return the least and the most hit tokens of a turn."""
    length = exchange.prompt_tokens or 0
    whole = grain.credit(length, length)
    if before is None:
        return 0, 0 if cold else whole
    shared = before.prompt_tokens or 0
    if before.completion_tokens is None:
        return grain.credit(shared, length), whole
    return grain.credit(shared, length), grain.credit(shared + max(0, before.completion_tokens - 1), length)
