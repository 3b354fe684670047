"""Conversations to prediction by their usage alone, where nobody tells the tokens of prompts and answers."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Exchange, Grain, Prediction

TEMPLATE_HEAD = 256  # tokens that a template may put in front of the first word of ours, such as dates and rules


def predict_by_usage(
    exchanges: Sequence[Exchange], grain: Grain, *, exact: bool, head: int = TEMPLATE_HEAD
) -> Prediction | None:
    """Predict what conversations reuse in which every prompt begins with the one before it.

    A turn hits at least the prompt of the turn before, because it begins with it, and at most that prompt with all of
    its answer but the last token, whose KV is never computed: whether the answer stands in the history as it was
    generated is not known. The earliest first turn hits at most its head, and the others anything from nothing on,
    because they may share a system prompt.

    Args:
        exchanges: measured, in the order of their turns within each session; sessions share nothing but their heads.
        grain: how the cache gives credit.
        exact: False when the grain is only a bound.
        head: tokens at the head of every prompt that an earlier run may have cached; 0 where a salt keeps runs apart.

    Returns:
        None when a whole answer does not tell its prompt tokens, looked them up several times, or belongs to no
            conversation.
    """
    if any(e.ok and (e.prompt_tokens is None or e.session is None or e.lookups != 1) for e in exchanges):
        return None
    earliest = min((e.sent for e in exchanges if e.sent is not None), default=None)
    before: dict[int | None, Exchange] = {}
    least: list[int] = []
    room: list[int] = []
    for exchange in exchanges:
        low = high = 0
        if exchange.ok:
            previous = before.get(exchange.session)
            first = head if exchange.sent == earliest else exchange.prompt_tokens or 0
            low, high = _bounds(previous, exchange, grain, first)
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


def _bounds(before: Exchange | None, exchange: Exchange, grain: Grain, first: int) -> tuple[int, int]:
    """Return the least and the most hit tokens of a turn; ``first``: the most shared tokens where none is before it."""
    length = exchange.prompt_tokens or 0
    if before is None:
        return 0, grain.credit(first, length)
    shared = before.prompt_tokens or 0
    said = length if before.completion_tokens is None else max(0, before.completion_tokens - 1)
    return grain.credit(shared, length), grain.credit(shared + said, length)
