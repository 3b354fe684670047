"""What reuse saved: to plain records, their sum over runs and tests, and to one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from .. import counts
from ..figures import duration, money, plural
from ..savings import prices
from ..savings.saving import Saving
from .plain import Record
from .text import visible


def saved(saving: Saving) -> Record:
    """Return what one window saved; amounts of money as decimal strings, because they are exact."""
    return {
        "prefill_tokens": saving.prefill_tokens,
        "prefill_s": saving.prefill_s,
        "prefill_s_from": visible(saving.prefill_s_from),
        "money": _text(saving.money),
        "cost": _text(saving.cost),
        "currency": saving.currency,
        "price_from": visible(saving.price_from),
    }


def together(several: Iterable[Record | None], *, valid: bool = True) -> Record | None:
    """Return what several windows or tests saved; None of none.

    Those that cannot tell their tokens have saved nothing that can be told, and are left out. Seconds and money are
    told where all the others tell theirs, and the cost where all do: amounts in two currencies make no sum.

    Args:
        several: None: nothing was measured.
        valid: False when they are judged together and the verdict is inconclusive.
    """
    parts = [part for part in several if part is not None]
    if not parts:
        return None
    told = [part for part in parts if valid and part["prefill_tokens"] is not None]
    currencies = {part["currency"] for part in parts if part["currency"] is not None}
    one = currencies.pop() if len(currencies) == 1 else None
    return {
        "prefill_tokens": sum(part["prefill_tokens"] for part in told) if told else None,
        "prefill_s": counts.total(part["prefill_s"] for part in told) if told else None,
        "prefill_s_from": _phrases(told, "prefill_s_from"),
        "money": _sum(told, "money") if one else None,
        "cost": _sum(parts, "cost") if one else None,
        "currency": one,
        "price_from": _phrases(parts, "price_from"),
    }


def of_session(checks: Sequence[Record]) -> Record | None:
    """Return what the reuse of all tests saved, with ``tests``: of so many."""
    parts = [check.get("saved") for check in checks]
    whole = together(parts)
    if whole is None:
        return None
    return whole | {"tests": sum(part is not None and part["prefill_tokens"] is not None for part in parts)}


def line(record: Record | None) -> str:
    """Return what was saved and what was paid; empty when nothing was."""
    if record is None:
        return ""
    return "; ".join(filter(None, [_gain(record), _price(record)]))


def _gain(record: Record) -> str:
    tokens, amount = record["prefill_tokens"], record["money"]
    if not tokens and (amount is None or not Decimal(amount)):
        return ""
    told = f"saved {tokens:,} tokens of prefill"
    if record["prefill_s"]:
        told += f" (about {duration(record['prefill_s'])} of prefill work)"
    if amount is not None:
        told += f", {money(Decimal(amount), record['currency'])}"
        return told + (" because writing to the cache cost more than reading saved" if Decimal(amount) < 0 else "")
    return told + (f" (no money: {record['price_from']})" if record["price_from"] else "")


def _price(record: Record) -> str:
    cost = record["cost"]
    return "" if cost is None else f"what was sent cost {money(Decimal(cost), record['currency'])}"


def line_of_test(record: Record | None) -> str:
    """Return the same of a test, whose hit tokens stand elsewhere: empty when there is nothing but these."""
    if record is None or not (record["prefill_s"] or record["cost"] or record["price_from"]):
        return ""
    return line(record)


def session_line(record: Record | None, checks: Iterable[Record]) -> str:
    """Return the same of a session.

    Args:
        record: of :func:`of_session`.
        checks: its tests.
    """
    told, measured = line(record), sum(check["engine"] is not None for check in checks)
    if not told or record is None or record["tests"] == measured:
        return told
    return f"{told} ({record['tests']} of {plural(measured, 'test')})"


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else prices.plain(amount)


def _sum(parts: Sequence[Record], name: str) -> str | None:
    amounts = [part[name] for part in parts]
    return prices.plain(prices.total(map(Decimal, amounts))) if amounts and None not in amounts else None


def _phrases(parts: Iterable[Record], name: str) -> str:
    return "; ".join(dict.fromkeys(phrase for part in parts for phrase in part[name].split("; ") if phrase))
