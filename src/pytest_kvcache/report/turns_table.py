"""A record's turns to lines: each turn of a conversation, or of many together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..distribution import Latency
from .columns import aligned
from .plain import Record

_HEADER = ("turn", "prompt", "cached", "hit rate", "predicted", "TTFT")


def turns_table(turns: Sequence[Record]) -> list[str]:
    """Return one aligned line a turn, a header first; of several conversations the sums and the median TTFT; nothing
    without turns.
    """
    if not turns:
        return []
    numbers = sorted({turn["turn"] for turn in turns})
    sessions = len({turn["session"] for turn in turns})
    rows = [_HEADER, *(_row(number, [turn for turn in turns if turn["turn"] == number]) for number in numbers)]
    title = [f"{sessions:,} conversations, summed by turn:"] if sessions > 1 else []
    return title + aligned(rows)


def _row(number: int, turns: Sequence[Record]) -> tuple[str, ...]:
    prompt, cached, predicted = (
        _sum(turn[name] for turn in turns) for name in ("prompt_tokens", "cached_tokens", "predicted_tokens")
    )
    rate = "-" if cached is None or not prompt else f"{cached / prompt:.3f}"
    wait = Latency.of(turn["ttft_s"] for turn in turns).p50
    ttft = "-" if wait is None else f"{wait * 1000:.0f} ms"
    return str(number), _count(prompt), _count(cached), rate, _count(predicted), ttft


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if any(value is None for value in known) else sum(value for value in known if value is not None)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
