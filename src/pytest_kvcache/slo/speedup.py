"""A cold and a warm run of the same prompts -> how much faster is warm, and how sure is that? Pure.

Both runs must have answered every request: a figure over other requests would compare those. The interval joins the
intervals of both runs, each at half the error, which holds however much a request is like itself in the other run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..counts import total
from ..distribution import Latency
from ..figures import plural
from ..model import Attained, Exchange, Finding, Measurement
from . import intervals, wording
from .asked import SpeedUpAsked
from .figures import Figure, bounding, interval_of, statistic
from .judging import Judged, compared

Pair = tuple[Measurement, Measurement]
_COLD = 0.05  # of its prompt tokens may be cached in a cold run: the head of a chat template is in every prompt
_EACH = (1 + intervals.LEVEL) / 2  # confidence of either run's interval


def speed_up_of(asked: SpeedUpAsked, cold: Measurement, warm: Measurement) -> Attained:
    """Return what became of a speed-up: cold over warm, with the theoretical ceiling as its note."""
    return judge_speed_up(asked, cold, warm).attained


def judge_speed_ups(asked: SpeedUpAsked, pairs: Sequence[Pair]) -> tuple[Judged, ...]:
    """Return what became of each pair; of none, that nothing was measured."""
    if not pairs:
        what = Finding("KV106", "the test measured no speed-up", "call kv.speedup")
        return (Judged(Attained(asked.objective, "inconclusive", None, sentence=what.sentence), (what,)),)
    return tuple(judge_speed_up(asked, cold, warm) for cold, warm in pairs)


def judge_speed_up(asked: SpeedUpAsked, cold: Measurement, warm: Measurement) -> Judged:
    """Do what :func:`speed_up_of` does, with findings."""
    judged = compared(asked.objective, _figure(asked, cold, warm))
    spoiled = _not_cold(cold)
    if spoiled is not None:
        attained = replace(judged.attained, reached="inconclusive", sentence=spoiled.sentence)
        return Judged(attained, (spoiled,))
    note = _ceiling(warm)
    attained = replace(judged.attained, sentence=f"{judged.attained.sentence}; {note}", note=note)
    findings = (replace(f, sentence=attained.sentence) if f.code == "KV207" else f for f in judged.findings)
    return Judged(attained, tuple(findings))


def _figure(asked: SpeedUpAsked, cold: Measurement, warm: Measurement) -> Figure:
    if len(cold.exchanges) != len(warm.exchanges):
        counts = f"{len(cold.exchanges):,} requests were sent cold and {len(warm.exchanges):,} warm"
        return Figure(None, missing=f"{counts}, which are not the same ones", advice="call kv.speedup")
    failed = sum(not e.ok for m in (cold, warm) for e in m.exchanges)
    if failed:
        what = f"{plural(failed, 'request')} failed, so the two runs are not of the same requests"
        return Figure(None, missing=what, advice="see why they fail first")
    took = [
        (before, after)
        for one, other in zip(cold.exchanges, warm.exchanges, strict=True)
        if (before := _seconds(asked, one)) is not None and (after := _seconds(asked, other)) is not None
    ]
    if not took:
        what = f"no request has a {wording.TITLES[asked.of]} in both runs"
        return Figure(None, missing=what, advice="stream the answers (stream=True)")
    slow, fast = Latency.of(before for before, _ in took), Latency.of(after for _, after in took)
    above, below = statistic(slow, asked.statistic), statistic(fast, asked.statistic)
    if above is None or not below:
        return Figure(None, missing="the warm run took no time that could be measured", advice="send longer prompts")
    interval = intervals.ratio(interval_of(slow, asked.statistic, _EACH), interval_of(fast, asked.statistic, _EACH))
    pairs = plural(len(took), "pair")
    return Figure(
        above / below,
        interval,
        len(took),
        f"{wording.duration(above)} cold, {wording.duration(below)} warm, {pairs}",
        pairs,
        bounding(asked.statistic, _EACH),
    )


def _seconds(asked: SpeedUpAsked, exchange: Exchange) -> float | None:
    return exchange.ttft if asked.of == "ttft" else exchange.e2e


def hit_share(m: Measurement) -> float | None:
    """Return the cached share of the prompt tokens, by the answers, else by the counters; None: nobody tells."""
    whole = [e for e in m.exchanges if e.ok]
    hits, lengths = total(e.cached_tokens for e in whole), total(e.prompt_tokens for e in whole)
    if hits is not None and lengths and not m.disaggregated:
        return hits / lengths
    counters = m.counters
    return counters.hit / counters.query if counters is not None and counters.query else None


def _not_cold(cold: Measurement) -> Finding | None:
    found = hit_share(cold)
    if found is None or found <= _COLD:
        return None
    what = f"the cold run found {found:.3f} of its prompt tokens in the cache, so it was not cold"
    return Finding("KV128", what, "reset the cache (--kv-reset=require), or send longer prompts that share nothing")


def _ceiling(warm: Measurement) -> str:
    """Return what the hit rate lets TTFT gain at most, where all of it is prefill that grows with computed tokens."""
    found = hit_share(warm)
    if found is None:
        return "no ceiling is known: nobody tells the hit rate of the warm run"
    most = f"1/(1 - {found:.3f}) = {1 / (1 - found):.2f}x" if found < 1 else "none: all was cached"
    return f"ceiling {most}"
