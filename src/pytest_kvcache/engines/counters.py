"""Two snapshots and a profile to token counts per engine, and whether an engine is at rest."""

from __future__ import annotations

from ..errors import CounterMissing, CounterReset
from ..model import Tokens
from ..scrape import Labels, Snapshot, delta
from .profile import Profile, Variant

ONLY = "0"  # the name of an engine that carries no label to tell it apart


def tokens_by_engine(profile: Profile, variant: Variant, before: Snapshot, after: Snapshot) -> dict[str, Tokens]:
    """Return what each engine of the endpoint looked up and found between two snapshots.

    Raises:
        CounterMissing: the page lacks the variant's counters.
        CounterReset: a counter fell.
    """
    check_same_process(profile, before, after)
    query = _by_engine(profile, delta(before, after, variant.query))
    hit = _by_engine(profile, delta(before, after, variant.hit))
    external = _optional(profile, before, after, profile.external.hit if profile.external else None)
    prompt = _optional(profile, before, after, profile.prompt)
    return {
        engine: Tokens(
            query=tokens,
            local_hit=hit.get(engine, 0),
            external_hit=None if external is None else external.get(engine, 0),
            prompt=None if prompt is None else prompt.get(engine, 0),
        )
        for engine, tokens in sorted(query.items())
    }


def check_same_process(profile: Profile, before: Snapshot, after: Snapshot) -> None:
    """Make sure that no engine restarted, also when its counters have overtaken where they were.

    Raises:
        CounterReset: a start time on the page changed. Pages without one (vLLM in multiprocess mode) tell nothing.
    """
    for name in profile.births():
        last = after.series(name)
        for labels, start in before.series(name).items():
            if last.get(labels, start) != start:
                raise CounterReset(f"{name} changed on {after.origin}: the engine restarted in the window")


def query_tokens(variant: Variant, before: Snapshot, after: Snapshot) -> int:
    """Return the tokens looked up between two snapshots, over all engines.

    Raises:
        CounterMissing, CounterReset: as :func:`tokens_by_engine`.
    """
    return round(sum(delta(before, after, variant.query).values()))


def in_flight(profile: Profile, snapshot: Snapshot) -> int | None:
    """Return how many requests run or wait, None when the engine has no such gauges.

    Raises:
        CounterMissing: the profile names the gauges and the page lacks one.
    """
    if profile.gauges is None:
        return None
    total = 0.0
    for name in (profile.gauges.running, profile.gauges.waiting):
        value = snapshot.total(name)
        if value is None:
            raise CounterMissing(f"{snapshot.origin} has no {name}; it is needed to know when the engine is at rest")
        total += value
    return round(total)


def _optional(profile: Profile, before: Snapshot, after: Snapshot, name: str | None) -> dict[str, int] | None:
    if name is None or not (before.has(name) or after.has(name)):
        return None
    return _by_engine(profile, delta(before, after, name))


def _by_engine(profile: Profile, grown: dict[Labels, float]) -> dict[str, int]:
    sums: dict[str, float] = {}
    for labels, tokens in grown.items():
        known = dict(labels)
        parts = (known.get("page"), known.get(profile.engine_label or "", ONLY))
        engine = " ".join(part for part in parts if part)
        sums[engine] = sums.get(engine, 0.0) + tokens
    return {engine: round(tokens) for engine, tokens in sums.items()}
