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


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent.

    Attributes:
        body: as it was sent.
        ids: the tokens that the server made of it; empty: not known.
        session: neighbours of one session are compared, those without one in their order.
        hit: tokens that the server took from its cache; None: not known.
    """

    body: Mapping[str, Any]
    ids: Sequence[int] = ()
    session: Hashable = None
    hit: int | None = None


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
    step = max(1, -(-len(pairs) // _MOST))
    looked = pairs[::step]
    found: list[Divergence] = []
    for one, other in looked:
        a, b = sent[one], sent[other]
        ids = (a.ids, b.ids) if a.ids and b.ids else None
        parted = first(a.body, b.body, ids=ids, block=block, isolation=isolation)
        if parted is not None and not parted.expected and _is_lost(parted, b.hit, block or 1):
            found.append(replace(parted, requests=(one, other)))
    if not found:
        return None
    counted = Counter(parted.cause for parted in found)
    worst = max(found, key=_cost)
    return replace(worst, pairs=counted[worst.cause], of_pairs=len(looked))


def _neighbours(sent: Sequence[Sent]) -> list[tuple[int, int]]:
    sessions: dict[Hashable, list[int]] = {}
    for number, request in enumerate(sent):
        sessions.setdefault(request.session, []).append(number)
    return sorted(pair for numbers in sessions.values() for pair in pairwise(numbers))


def _cost(parted: Divergence) -> int:
    """Return the tokens that would be reusable without it; a pair without tokens counts as costing little."""
    return 0 if parted.recoverable is None else parted.recoverable - (parted.token or 0)


def _is_lost(parted: Divergence, hit: int | None, block: int) -> bool:
    """Tell whether reuse was lost by it: the server found less than what would be there without it."""
    if parted.cause == "image":
        return False  # the miss is right
    if hit is None or parted.recoverable is None or parted.cause == "template_history":
        return True
    return hit // block < parted.recoverable // block
