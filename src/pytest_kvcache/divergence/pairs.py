"""Many requests: which pair of neighbours lost the most by parting, and how many part in the same way?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..model import Divergence
from .first import first

_MOST = 32  # pairs that are looked at, evenly spread: more tell the same and take their time

_LEAST = 16  # tokens that are worth a word
_LEAST_OF_TEXT = 64  # of other conversations, the markup of turns and a few words are the same by chance


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent.

    Attributes:
        body: as it was sent; empty where only the tokens are known, which are then compared within sessions.
        ids: the tokens that the server made of it; empty: not known.
        session: neighbours of one session are compared, those without one in their order.
        hit: tokens that the server took from its cache, or that another request before it had; None: not known.
        number: what it is called; None: its place in the list.
    """

    body: Mapping[str, Any]
    ids: Sequence[int] = ()
    session: Hashable = None
    hit: int | None = None
    number: int | None = None


def between(
    sent: Sequence[Sent], *, block: int | None = None, isolation: Sequence[str] = ("cache_salt",)
) -> Divergence | None:
    """Return the parting of neighbours that cost the most, None when none of them should have shared more.

    Args:
        sent: every request, in the order in which they were sent.
        block: tokens per cache block.
        isolation: fields that separate caches.
    """
    pairs = _neighbours(sent)
    looked = pairs[:: max(1, -(-len(pairs) // _MOST))]
    found = [parted for one, other in looked if (parted := _parted(sent, one, other, block, isolation)) is not None]
    if not found:
        return None
    counted = Counter(parted.cause for parted in found)
    worst = max(found, key=_gain)
    return replace(worst, pairs=counted[worst.cause], of_pairs=len(looked))


def _neighbours(sent: Sequence[Sent]) -> list[tuple[int, int]]:
    """Return the requests that follow one another in a session, and the first ones of sessions among each other."""
    sessions: dict[Hashable, list[int]] = {}
    for number, request in enumerate(sent):
        sessions.setdefault(request.session, []).append(number)
    firsts = [numbers[0] for numbers in sessions.values() if sent[numbers[0]].body]
    rows = [*sessions.values(), firsts]
    return sorted(pair for numbers in rows for pair in pairwise(numbers))


def _parted(
    sent: Sequence[Sent], one: int, other: int, block: int | None, isolation: Sequence[str]
) -> Divergence | None:
    a, b = sent[one], sent[other]
    ids = (a.ids, b.ids) if a.ids and b.ids else None
    parted = first(a.body, b.body, ids=ids, block=block, isolation=isolation)
    if parted is None or parted.expected or not _is_lost(parted, b.hit, block or 1):
        return None
    numbers = (at if request.number is None else request.number for at, request in ((one, a), (other, b)))
    return replace(parted, requests=tuple(numbers))


def _gain(parted: Divergence) -> int:
    """Return the tokens that would be reusable beside those that are; without tokens it is taken to be little."""
    return 0 if parted.recoverable is None else parted.recoverable - (parted.token or 0)


def _is_lost(parted: Divergence, hit: int | None, block: int) -> bool:
    """Tell whether reuse was lost by it: there would be more, and no other request had it."""
    if parted.cause == "image":
        return False  # the miss is right
    if parted.cause == "template_history":
        return True  # what it costs lies in the answer
    if parted.recoverable is None:
        return parted.cause != "text"  # two conversations may have nothing to do with each other
    found = hit is not None and hit // block >= parted.recoverable // block
    by_chance = parted.cause in ("text", "system_prompt")
    least = max(_LEAST_OF_TEXT, (parted.tokens or 0) // 10) if by_chance else _LEAST
    return _gain(parted) >= max(block, least) and not found
