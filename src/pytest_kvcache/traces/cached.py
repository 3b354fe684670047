"""What do caches make of a trace? Its arguments, checked, and the way into ``capacity``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..capacity.budget import Sizes
from ..capacity.curve import Curve
from ..capacity.rules import Rules, rules_of
from ..capacity.stack import StackPass, one_pass, stack_pass
from ..errors import TraceError
from ..garbage import uncollected

if TYPE_CHECKING:
    from ..capacity.simulated import Simulated
    from .trace import Trace


def simulated(
    trace: Trace,
    policy: str,
    *,
    blocks: float | None,
    tokens: float | None,
    gib: float | None,
    rules: str | Rules,
    warm: float,
    engines: int,
    routing: str,
) -> Simulated:
    """See :meth:`~pytest_kvcache.traces.trace.Trace.simulate`."""
    from ..capacity.fleet import fleet
    from ..capacity.routing import check_routing
    from ..capacity.simulate import simulate

    check_routing(routing)
    size = _hittable(trace, "simulate")
    warm_rows = _warm(trace, warm)
    slots = None
    if (blocks, tokens, gib) != (None, None, None):
        slots = Sizes(size, trace.bytes_per_token).blocks(blocks=blocks, tokens=tokens, gib=gib)
    if engines == 1 and not isinstance(engines, bool):
        found = simulate(trace, size, policy, slots=slots, rules=rules, warm_rows=warm_rows)
    else:
        found = fleet(
            trace, size, policy, engines=engines, routing=routing, slots=slots, rules=rules, warm_rows=warm_rows
        )
    return replace(found, notes=(*trace.checked, *found.notes))


def swept(
    trace: Trace,
    policy: str,
    *,
    budgets: Sequence[int] | None,
    rules: str | Rules,
    warm: float,
    processes: int | None,
) -> Curve:
    """See :meth:`~pytest_kvcache.traces.trace.Trace.sweep`."""
    size = _hittable(trace, "sweep")
    warm_rows = _warm(trace, warm)
    rules = rules_of(rules)
    if budgets is None and one_pass(policy, rules):
        with uncollected(trace.files):
            found = stack_pass(trace, size, rules, warm_rows=warm_rows)
        return _curve(trace, found, size, rules, warm)
    from ..capacity.sweep import sweep

    points = sweep(trace, size, policy, budgets=budgets, rules=rules, warm_rows=warm_rows, processes=processes)
    return Curve.of_points(
        points.points,
        policy,
        points.found,
        size,
        name=trace.name,
        rules=rules,
        bytes_per_token=trace.bytes_per_token,
        warm=warm,
        notes=(*trace.checked, *points.notes),
    )


def estimated(
    trace: Trace, *, rules: str | Rules, warm: float, share: float | None, max_blocks: int, seed: int
) -> Curve:
    """See :meth:`~pytest_kvcache.traces.trace.Trace.sweep`, with a sample."""
    from ..capacity.sampled import sampled_pass

    size = _hittable(trace, "sweep")
    warm_rows = _warm(trace, warm)
    rules = rules_of(rules)
    if not one_pass("lru", rules):
        raise TraceError(f"sample=: {rules} take a simulation of each budget; leave sample= out and give budgets=")
    found = sampled_pass(trace, size, rules, share=share, max_blocks=max_blocks, seed=seed, warm_rows=warm_rows)
    return _curve(trace, found, size, rules, warm)


def _curve(trace: Trace, found: StackPass, size: int, rules: Rules, warm: float) -> Curve:
    return Curve.of_stack(
        found,
        size,
        name=trace.name,
        rules=rules,
        bytes_per_token=trace.bytes_per_token,
        warm=warm,
        notes=trace.checked,
    )


def _hittable(trace: Trace, what: str) -> int:
    """Return the block size of a trace with ids."""
    if not trace.block_events or trace.block_size is None:
        raise TraceError(
            f"{trace.name}: {what}() needs block ids, and no row has any: no hit rate can be derived from it"
        )
    return trace.block_size


def _warm(trace: Trace, share: float) -> int:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise TraceError(f"warm={share!r}: expected a share of the rows from 0, below 1")
    if not share:
        return 0
    from fractions import Fraction

    return math.floor(Fraction(str(share)) * len(trace))  # of 0.29 and 100 rows 29, which floats miss
