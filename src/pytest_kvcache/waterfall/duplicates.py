"""What was missed because the request that had it was not answered yet.

Hosted caches and SGLang find a prefix only once its prefill is over; vLLM lets a request join the blocks of one that is
still running. So nothing follows from the times alone: only what was really missed, and was in flight, counts.

With several engines a request may also miss because another engine has what is in flight. Where routing alone gives
every request's hit, that is the simpler reason and nothing is claimed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Grain
from .account import Account
from .sharing import with_answered
from .visits import Visit


def in_flight(visits: Sequence[Visit], accounts: Sequence[Account | None], grain: Grain) -> list[int]:
    """Return how much of each visit's prediction only requests had that were not answered yet."""
    found = []
    for visit, account, answered in zip(visits, accounts, with_answered(visits), strict=True):
        there = grain.credit(answered, visit.length)
        found.append(max(0, account.predicted - there) if account else 0)
    return found


def take_duplicates(accounts: Sequence[Account | None], flying: Sequence[int]) -> int:
    """Move what was missed in flight from what is left to ``duplicates`` and return how much."""
    pairs = zip(accounts, flying, strict=True)
    return sum(account.take("duplicates", tokens) for account, tokens in pairs if account is not None)
