"""How is each figure of a test written, wherever it stands in a table or a line?"""

from __future__ import annotations

from collections.abc import Callable

from ..figures import duration
from .columns import UNKNOWN
from .plain import Record
from .text import shortened

NAME = 60  # characters of a version or a label: all rows of a table are as wide as the widest


def known(value: float | None, shown: Callable[[float], str]) -> str:
    """Return a figure as it is shown."""
    return UNKNOWN if value is None else shown(value)


def rate(value: float | None) -> str:
    """Return a hit rate."""
    return UNKNOWN if value is None else f"{value:.3f}"


def target(rates: Record) -> str:
    """Return what was asked of a hit rate: a target, else bounds."""
    least, most = rates.get("min"), rates.get("max")  # documents of before have none
    bounds = [sign + rate(bound) for sign, bound in (("≥", least), ("≤", most)) if bound is not None]
    return rate(rates["target"]) if rates["target"] is not None or not bounds else " ".join(bounds)


def tokens(record: Record) -> str:
    """Return the two numbers behind a rate: hit/query tokens."""
    return UNKNOWN if record["query_tokens"] is None else f"{record['hit_tokens']:,}/{record['query_tokens']:,}"


def ttft(figures: Record | None) -> str:
    """Return time to first token, p50/p95."""
    p50, p95 = (None, None) if figures is None else (figures["ttft_s"]["p50"], figures["ttft_s"]["p95"])
    return UNKNOWN if p50 is None or p95 is None else f"{duration(p50)}/{duration(p95)}"


def output(figures: Record | None) -> str:
    """Return generated tokens per second."""
    per_s = None if figures is None else figures["output_tok_s"]
    return UNKNOWN if per_s is None else f"{per_s:,.0f} tok/s"


def engine(told: Record | None) -> str:
    """Return what answered: its name, version, block size and what to know before believing it."""
    if told is None:
        return UNKNOWN
    name = f"{told['id']} {shortened(told['version'], NAME)}" if told["version"] else str(told["id"])
    block = f" block {told['block_size']}" if told["block_size"] else ""
    unconfirmed = " (unconfirmed)" if told["unconfirmed"] else ""
    return name + block + (" (simulated)" if told["simulated"] else "") + unconfirmed
