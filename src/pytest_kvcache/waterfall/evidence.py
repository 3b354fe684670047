"""What a measurement says beside each request's own numbers, collected for the steps and for the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Measurement
from ..reconcile import cached_tokens, sent
from .restart import Forgotten
from .routers import Row


@dataclass(slots=True)
class Evidence:
    """Numbers that show a cause; those from ``needed`` on are found on the way.

    Attributes:
        requests: measured ones.
        failed: that have no valid answer.
        grain: how credit is given, in words.
        block: tokens per block, 1 where that is not known.
        rows: query and hit tokens of each engine; one that looked nothing up may have served the prefill.
        slack: how far a row may be off: printed digits, failed requests.
        capacity: tokens of each engine's cache; None: not known, or not all there is.
        evictions: as the engine counts them; None: it does not.
        kv_usage: highest share of the cache that running requests held.
        fell: the counters fell.
        counted / told: hit tokens by the counters, and by all replies.
        started: of the window.
        needed: blocks that would have kept what was evicted.
        between: capacities in blocks that explain every hit and miss.
        ambiguous: a capacity explains what is left, and so does a reset.
        forgotten: what a reset explains.
        unplaced: no distribution over the engines gives their rows.
        off: tokens by which the placement misses an engine's counters at most.
        ungrained: the server does not tell in which steps it gives credit.
        waited: requests are placed in the order in which they were admitted, which fits better.
        assumed: how the requests' hits were found where only totals are known.
        untold: only totals are known, and nothing gives them.
    """

    requests: int
    failed: int
    grain: str
    block: int
    rows: Mapping[str, Row]
    slack: Row
    capacity: int | None
    evictions: int | None
    kv_usage: float | None
    fell: bool
    counted: int | None
    told: int | None
    started: float
    needed: int = 0
    between: tuple[int, int] | None = None
    ambiguous: bool = False
    forgotten: Forgotten | None = field(default=None, repr=False)
    unplaced: bool = False
    off: int = 0
    ungrained: bool = False
    waited: bool = False
    assumed: str = ""
    untold: bool = False

    @classmethod
    def of(cls, m: Measurement, requests: int) -> Evidence:
        """Collect it."""
        expected = sent(m.exchanges)
        counters, pressure = m.counters, m.pressure
        behind = any(tokens.external_hit for tokens in m.engines.values())  # then the device's size is not the cache's
        return cls(
            requests=requests,
            failed=sum(not e.ok for e in m.exchanges),
            grain=str(m.facts.grain),
            block=m.facts.grain.block,
            rows={name: (tokens.query, tokens.hit) for name, tokens in m.engines.items()},
            slack=(
                max((t.query_error for t in m.engines.values()), default=0) + expected.high - expected.low,
                max((t.hit_error for t in m.engines.values()), default=0) + expected.high - expected.low,
            ),
            capacity=None if behind else m.facts.capacity,
            evictions=pressure.evictions if pressure else None,
            kv_usage=pressure.kv_usage_peak if pressure else None,
            fell=any(finding.code == "KV102" for finding in m.findings),
            counted=counters.hit if counters else None,
            told=None if m.disaggregated else cached_tokens(m.exchanges),
            started=m.started,
        )

    @property
    def capacity_blocks(self) -> int | None:
        """Blocks of each engine's cache."""
        return None if self.capacity is None else self.capacity // self.block
