"""Look-ups to prediction: what an unlimited cache reuses, request by request."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..model import Grain, Lookup, Prediction
from .tree import PrefixTree, common_prefix


def predict(
    load: Iterable[Lookup], grain: Grain, *, prefill: Iterable[Lookup] = (), warmed: Iterable[Lookup] = (), exact: bool
) -> Prediction:
    """Replay look-ups through an unlimited cache, every request after the one before it.

    Order among the measured requests matters only where they share more than was warmed; a real engine admits them in
    nearly that order and lets concurrent identical prompts hit the first one's blocks (vLLM 0.32, 27 bursts).

    Args:
        load: measured, in order.
        grain: how the cache gives credit.
        prefill: sent before, not measured.
        warmed: cached before that.
        exact: False when the grain is only a bound.
    """
    cache = UnlimitedCache(grain)
    for lookup in warmed:
        cache.look_up(lookup)
    prefill_hit = sum(cache.look_up(lookup) for lookup in prefill)
    per_request: list[int] = []
    query = 0
    for lookup in load:
        per_request.append(cache.look_up(lookup))
        query += len(lookup.ids)
    return Prediction(
        hit_tokens=sum(per_request),
        query_tokens=query,
        per_request=tuple(per_request),
        block_size=grain.block,
        exact=exact,
        slack=cache.slack,
        prefill_hit_tokens=prefill_hit,
    )


class UnlimitedCache:
    """Remembers every prefix of every prompt, and what was generated after it.

    Attributes:
        slack: hit tokens that may have come on top, because what was generated is not known token by token.
    """

    def __init__(self, grain: Grain) -> None:
        self.grain = grain
        self.slack = 0
        self._trees: dict[Hashable, PrefixTree] = {}
        self._untold: dict[int, Lookup] = {}  # the last look-up of each session whose output is not known

    def look_up(self, lookup: Lookup) -> int:
        """Return the hit tokens of a prompt, and remember it with its output."""
        tree = self._trees.setdefault(lookup.space, PrefixTree())
        shared = tree.insert(lookup.ids)
        hit = self.grain.credit(shared, len(lookup.ids))
        self.slack += self._more(lookup, hit)
        if len(lookup.output) > 1:  # the KV of the last generated token is never computed
            tree.insert([*lookup.ids, *lookup.output[:-1]])
        return hit

    def _more(self, lookup: Lookup, hit: int) -> int:
        """Return what more may hit if the previous answer's tokens stand in this prompt as they were generated."""
        if lookup.session is None:
            return 0
        before = self._untold.pop(lookup.session, None)
        if lookup.untold:
            self._untold[lookup.session] = lookup
        if before is None or common_prefix(before.ids, lookup.ids) < len(before.ids):
            return 0
        most = len(before.ids) + max(0, before.untold - 1)
        return max(0, self.grain.credit(most, len(lookup.ids)) - hit)
