"""A judged test to one plain record: built-in types only, so that it crosses processes and goes into JSON as it is.

Keys are added and never renamed. Rates are 0..1, durations seconds; None (``null``) means "not told", never zero.

========================== =============================================================================================
``hit_rate``               ``measured``; ``low``, ``high``: the bounds that printed digits and tolerances leave it, None
                           where it is exact; ``warm``: over the requests that had something to hit; ``target``;
                           ``target_from``: ``given``, ``predicted`` or ``simulated``; ``min``, ``max``: the bounds
                           that were asked for, None without; ``predicted``: of an unlimited
                           cache; ``simulated``: of one as large as the server's, which evicts; ``ceiling``
``simulated_cache``        ``capacity_tokens`` and ``block_size`` of the simulated cache; None: not known, or several
``engine``                 what answered; ``unconfirmed``: how it reports was not read in its own source
``engines``, ``aside``     tokens of each engine; those ``aside`` are shown and never summed
``tiers``                  of all summed engines: ``local``, every other tier by name, ``external`` = all but ``local``
``requests``               ``aborted``: sent, and given up on or cut off before the answer was whole
``errors``                 failed requests by class, such as ``HTTP 429``
``pressure``               counters over the window, peaks of the samples taken during the load
``server_latency_s``       the engines' own histograms: exact means, quantiles with the bounds of their bucket
``ttft_s``, ``itl_s``, ... as the client saw them, exact; ``tpot_s``: time per output token of each request
``arrival_s``              how much later than scheduled requests were sent; no samples without a schedule
``client``                 ``lag_s``: how late the client's event loop woke; ``queueing_s``: requests in the client
                           before they were sent; ``busy``: CPU of the busiest of ``processes``, 0..1; None: none sent
``objectives``             limits to latency and throughput: ``verdict``, ``value`` and its interval ``low``..``high``
                           (95 %), ``limit`` in ``unit`` (``at_most``, or at least), ``samples``; of each run too
``regressions``            comparisons with a baseline: ``baseline`` and ``measured``, the ``change`` with its interval
                           ``low``..``high`` (98 %), ``p``, the runs on each side, what is ``allowed``; these are
                           shares of the baseline where ``relative``, else in the metric's unit
``context``                under which circumstances it was measured, for comparisons; None: nothing was
``values``                 what can be compared: groups of runs of the same load, of each metric one value a run
``sweep``                  ``name``, and ``axes`` by their names: the test's place in a sweep; None: in none
``statements``             one line each: how runs at several levels compare; of a run: where the time of its whole
                           window went, and what stood in the way
``runs[].started``         UTC, ISO 8601: when the run began; None: not noted
``runs[].phases``          ``reset``, ``prefill``, ``settle_before``, ``load``, ``settle_after``, as far as there were
                           any: ``start`` after the run's, ``seconds``, requests and their usage, moves of the counters
``runs[].level``           what was turned up, ``concurrency`` or ``rate``; of a search the highest that held
``runs[].stretch``         what came out while a level was kept, of a search in all counted periods at the highest that
                           held: counts, rates per second, latencies. ``itl_s`` None: only known of the run; ``good``:
                           requests that met every limit of their own; ``strict``: only those that began and ended in it
``runs[].limit``           of a search for the highest level: ``level``, the lowest ``breached`` one, ``converged``,
                           ``sentence``, what was ``asked``, and ``periods``: a stretch each, with ``start`` in seconds,
                           ``held`` (or ``breached``, ``transition``), ``why``, and how many requests ``stalled``
``runs[].waterfall``       tokens from ``ceiling`` down to ``measured``, each loss with its evidence; None: not known
``runs[].divergence``      where requests that should share a prefix part, without their text
``runs[].turns``           of conversations: one row a turn
``probes``                 what probes of the test found, one line each
``saved``                  what reuse saved: ``prefill_tokens``, ``prefill_s``, ``money`` (exact, a decimal string) and
                           ``cost`` of what was sent in ``currency``; of each run too. None: nothing was measured
========================== =============================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from .. import bottleneck, distribution, trend
from ..model import Divergence, Finding, Measurement, ServerFacts, Verdict, Waterfall
from ..model.loss import TITLES
from ..overview import Overview, together
from ..regression import plain
from ..regression.values import Entry
from ..savings.saving import saving
from ..turns import Turns
from . import counted, loads, phases
from . import saved as savings
from .plain import Record as Record
from .plain import latency
from .server import pressure, server_latency
from .text import visible


def check_record(
    nodeid: str,
    verdict: Verdict,
    runs: Sequence[tuple[Measurement, Verdict]],
    probes: Sequence[str] = (),
    *,
    sweep: Record | None = None,
    entry: Entry | None = None,
) -> Record:
    """Return the record of one test: the verdict on all of its runs, then each run.

    Args:
        nodeid: of the test.
        verdict: on all runs together.
        runs: each measurement with the verdict on it alone.
        probes: what the test's probes found.
        sweep: which place the test has in a sweep; None: none.
        entry: what of it can be compared; None: nothing.
    """
    measurements = [measurement for measurement, _ in runs]
    seen = [Overview.of(measurement.exchanges) for measurement in measurements]
    records = [
        run_record(measurement, single, overview) for (measurement, single), overview in zip(runs, seen, strict=True)
    ]
    return {
        "nodeid": visible(nodeid),
        **_judged(verdict),
        "findings": [_finding(f) for f in verdict.findings],
        "regressions": [
            {**one, "sentence": visible(one["sentence"])} for one in plain.regressions(verdict.regressions)
        ],
        "context": None if entry is None else plain.context(entry),
        "values": [] if entry is None else plain.groups(entry.groups),
        "probes": [visible(line) for line in probes],
        **_measured(measurements, together(seen)),
        "statements": [visible(line) for line in trend.of_levels(measurements)],
        "sweep": sweep,
        "saved": savings.together((run["saved"] for run in records), valid=verdict.status != "inconclusive"),
        "runs": records,
    }


def run_record(measurement: Measurement, verdict: Verdict, seen: Overview | None = None) -> Record:
    """Return the record of one run.

    Args:
        measurement: the run.
        verdict: on it alone.
        seen: its requests, when they were gone through already.
    """
    seen = seen or Overview.of(measurement.exchanges)
    stretch, limit = measurement.stretch, measurement.limit
    level = limit.level if limit is not None else stretch.level if stretch is not None else None
    return {
        "title": measurement.title,
        "started": phases.started(measurement.begun),
        **_judged(verdict),
        **_measured([measurement], seen),
        "phases": phases.phases(measurement, seen),
        "level": None if level is None else loads.level(level),
        "stretch": None if stretch is None else loads.stretch(stretch),
        "limit": None if limit is None else loads.limit(limit),
        "statements": [visible(line) for line in bottleneck.statements(measurement, seen)],
        "cache_state": measurement.cache_state,
        "notes": [visible(note) for note in measurement.notes],
        "waterfall": _waterfall(measurement.waterfall),
        "divergence": _divergence(measurement.divergence),
        "turns": _turns(measurement),
        "saved": savings.saved(saving(measurement, verdict)),
    }


def _judged(verdict: Verdict) -> Record:
    return {
        "verdict": verdict.status,
        "sentence": visible(verdict.sentence),
        "hit_rate": {
            "measured": verdict.hit_rate,
            "low": verdict.low,
            "high": verdict.high,
            "warm": verdict.warm,
            "target": verdict.target,
            "target_from": verdict.target_from,
            "min": verdict.min,
            "max": verdict.max,
            "predicted": verdict.predicted,
            "simulated": verdict.simulated,
            "ceiling": verdict.ceiling,
        },
        "hit_tokens": verdict.hit_tokens,
        "query_tokens": verdict.query_tokens,
        "source": verdict.source,
        "objectives": loads.objectives(verdict.objectives),
    }


def _waterfall(waterfall: Waterfall | None) -> Record | None:
    if waterfall is None:
        return None
    losses = [
        {
            "cause": loss.cause,
            "title": TITLES[loss.cause],
            "tokens": loss.tokens,
            "requests": loss.requests,
            "evidence": visible(loss.evidence),
            "advice": visible(loss.advice),
        }
        for loss in waterfall.losses
    ]
    return {"ceiling": waterfall.ceiling, "measured": waterfall.measured, "losses": losses}


def _divergence(divergence: Divergence | None) -> Record | None:
    """Return where requests part, without any of their text."""
    if divergence is None:
        return None
    told = {field.name: getattr(divergence, field.name) for field in fields(divergence)}
    return {name: value for name, value in told.items() if name not in ("shared", "left", "right")}


def _turns(measurement: Measurement) -> list[Record]:
    return [
        {
            "session": turn.session,
            "turn": turn.turn,
            "prompt_tokens": turn.prompt,
            "cached_tokens": turn.cached,
            "predicted_tokens": turn.predicted,
            "ttft_s": turn.ttft,
        }
        for turn in Turns.of(measurement)
    ]


def _finding(finding: Finding) -> Record:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "sentence": visible(finding.sentence),
        "advice": visible(finding.advice),
    }


def _measured(measurements: Sequence[Measurement], seen: Overview) -> Record:
    return {
        "engine": _engine(measurements[0].facts) if measurements else None,
        "engines": counted.engines(m.engines for m in measurements),
        "aside": counted.engines(m.aside for m in measurements),
        "tiers": counted.tiers(m.engines for m in measurements),
        "simulated_cache": counted.simulated_cache(measurements),
        "requests": {
            "total": seen.total,
            "failed": seen.failed,
            "aborted": seen.aborted,
            "prefill": sum(len(measurement.prefill) for measurement in measurements),
        },
        "errors": seen.errors,
        "ttft_s": latency(seen.ttft),
        "itl_s": latency(distribution.merged(m.gaps for m in measurements)),
        "tpot_s": latency(seen.tpot),
        "e2e_s": latency(seen.e2e),
        "arrival_s": latency(seen.lateness),
        "output_tokens_per_s": seen.output_tok_s,
        "server_latency_s": server_latency(measurements),
        "pressure": pressure([m.pressure for m in measurements if m.pressure is not None]),
        "client": loads.client([m.client for m in measurements if m.client is not None]),
        "cache_state": "; ".join(dict.fromkeys(m.cache_state for m in measurements)),
    }


def _engine(facts: ServerFacts) -> Record:
    return {
        "id": facts.engine,
        "variant": facts.variant,
        "version": facts.version and visible(facts.version),
        "model": visible(facts.model),
        "block_size": facts.block_size,
        "unit": facts.unit,
        "counted": facts.counted,
        "note": facts.note or None,
        "unconfirmed": facts.unconfirmed,
        "simulated": facts.simulated,
    }
