"""Load in a record to lines: a row for each level, the ramp of a search, and what stands for the whole test."""

from __future__ import annotations

from collections.abc import Sequence

from ..figures import duration, percent
from .cells import known
from .columns import UNKNOWN, aligned, told
from .plain import Record

_LEVELS = (
    "requests",
    "failed",
    "TTFT p50",
    "p95",
    "TPOT p50",
    "ITL p50",
    "tok/s each",
    "output tok/s",
    "goodput",
    "hit rate",
    "KV usage",
    "waiting",
    "preempted",
    "client lag",
    "",
)
_PERIODS = ("seconds", "requests", "failed", "TTFT p50", "p95", "tok/s each", "output tok/s", "", "")
_FIRST, _LAST = 8, 16  # periods shown of a long search; the document holds all


def kept(record: Record) -> list[Record]:
    """Return the runs of a test that kept a level for a time; not the searches."""
    return [run for run in record["runs"] if run["stretch"] is not None and run["limit"] is None]


def is_load(record: Record) -> bool:
    """Tell whether a test kept levels or looked for the limit, or missed what it asks of latency and throughput."""
    missed = any(objective["verdict"] != "pass" for objective in record["objectives"])
    return missed or any(run["stretch"] is not None or run["limit"] is not None for run in record["runs"])


def level_text(level: Record | None) -> str:
    """Return a level with its unit."""
    if level is None:
        return UNKNOWN
    return f"concurrency {level['concurrency']}" if level["rate"] is None else f"{level['rate']:.4g} req/s"


def level_value(level: Record) -> float:
    """Return the number that was turned up."""
    value: float = level["concurrency"] if level["rate"] is None else level["rate"]
    return value


def level_number(level: Record | None) -> str:
    """Return what was turned up without its unit."""
    if level is None:
        return UNKNOWN
    return f"{level['concurrency']}" if level["rate"] is None else f"{level['rate']:.4g}"


def unit(levels: Sequence[Record | None]) -> str:
    """Return the word above numbers of levels."""
    kinds = {level["rate"] is None for level in levels if level is not None}
    return "level" if len(kinds) != 1 else "concurrency" if kinds == {True} else "req/s"


def levels_table(runs: Sequence[Record]) -> list[str]:
    """Return one aligned line a level, a header first; nothing without levels.

    Args:
        runs: those of a record that have a stretch. ``client lag`` is the 99th percentile, ``tok/s each`` the mean over
            requests, ``goodput`` requests per second.
    """
    if not runs:
        return []
    rows = [(unit([run["level"] for run in runs]), *_LEVELS), *map(_level_row, runs)]
    shown = told(rows)
    return aligned(shown, left={len(shown[0]) - 1} if shown[0][-1] == "" else ())


def _level_row(run: Record) -> tuple[str, ...]:
    stretch, pressure, client = run["stretch"], run["pressure"] or {}, run["client"]
    rate = run["hit_rate"]["measured"]
    return (
        level_number(run["level"]),
        f"{stretch['requests']:,}",
        f"{stretch['failed']:,}",
        *_latencies(stretch),
        known(stretch["tpot_s"]["p50"], duration),
        known((stretch["itl_s"] or {}).get("p50"), duration),
        *_rates(stretch),
        known(stretch["goodput"], "{:.2f}".format),
        known(rate if rate is not None else stretch["hit_rate"], "{:.3f}".format),
        known(pressure.get("kv_usage_peak"), percent),
        known(pressure.get("waiting_peak"), "{:,}".format),
        known(pressure.get("preemptions"), "{:,}".format),
        known(client["lag_s"]["p99"] if client else None, duration),
        _missed(run),
    )


def _missed(run: Record) -> str:
    """Return why a level is not as wanted: its objectives, or its verdict when they say nothing."""
    missed = [objective["name"] for objective in run["objectives"] if objective["verdict"] == "fail"]
    verdict: str = run["verdict"]
    return f"missed {', '.join(missed)}" if missed else "" if verdict == "pass" else verdict


def ramp(limit: Record) -> list[str]:
    """Return one aligned line for each assessment period of a search, a header first."""
    periods = limit["periods"]
    if not periods:
        return []
    rows = [(unit([period["level"] for period in periods]), *_PERIODS), *map(_period_row, periods)]
    lines = aligned(rows, left={len(_PERIODS) - 1, len(_PERIODS)})
    hidden = len(periods) - _FIRST - _LAST
    if hidden > 1:
        lines[1 + _FIRST : 1 + _FIRST + hidden] = [f"... {hidden:,} more periods ..."]
    return lines


def _period_row(period: Record) -> tuple[str, ...]:
    stalled = f"{period['stalled']:,} requests stalled" if period["stalled"] else ""
    return (
        level_number(period["level"]),
        f"{period['seconds']:.1f}",
        f"{period['requests']:,}",
        f"{period['failed']:,}",
        *_latencies(period),
        *_rates(period),
        period["held"],
        "; ".join(filter(None, (period["why"], stalled))),
    )


def headline(record: Record) -> tuple[Record | None, str]:
    """Return the latencies and rates that stand for a test, and at what level they are from.

    Never an average over levels: of a search what held, of several levels the highest. None: there is nothing that
    could; without any level the whole run.
    """
    run = _leading(record)
    if run is None:
        loads = [run for run in record["runs"] if run["stretch"] is not None or run["limit"] is not None]
        return (None if loads else _whole(record)), ""
    if run["limit"] is not None:
        return run["stretch"], _limit_text(run["limit"])
    several = dict.fromkeys(level_number(run["level"]) for run in record["runs"])
    of = f" (of {', '.join(several)})" if len(several) > 1 else ""
    return run["stretch"], f"at {level_text(run['level'])}{of}"


def highest_level(record: Record) -> Record | None:
    """Return the level that :func:`headline` is from; of a search the highest that held."""
    run = _leading(record)
    level: Record | None = None if run is None else run["level"]
    return level


def searched(record: Record) -> bool:
    """Tell whether a test is one search for the highest level that holds."""
    return [run["limit"] is None for run in record["runs"]] == [False]


def _leading(record: Record) -> Record | None:
    """Return the run that stands for a test under load: its only search, or the highest of its levels."""
    runs: list[Record] = record["runs"]
    if searched(record):
        return runs[0]
    levels = kept(record)
    if not levels or len(levels) < len(runs):
        return None
    return max(levels, key=lambda run: level_value(run["level"]))


def _whole(record: Record) -> Record:
    answered = record["requests"]["total"] - record["requests"]["failed"]
    return {"requests": answered, "ttft_s": record["ttft_s"], "output_tok_s": record["output_tokens_per_s"]}


def _limit_text(limit: Record) -> str:
    level, breached = limit["level"], limit["breached"]
    if level is None:
        return "no level held" + ("" if breached is None else f", not even {level_text(breached)}")
    beyond = "" if breached is None else f", {level_number(breached)} did not"
    return f"{level_text(level)} held{beyond}" + ("" if limit["converged"] else " (not converged)")


# --- cells -----------------------------------------------------------------------------------------------------------


def _latencies(stretch: Record) -> tuple[str, str]:
    ttft = stretch["ttft_s"]
    return known(ttft["p50"], duration), known(ttft["p95"], duration)


def _rates(stretch: Record) -> tuple[str, str]:
    return (
        known(stretch["tokens_per_s"]["mean"], "{:,.1f}".format),
        known(stretch["output_tok_s"], "{:,.0f}".format),
    )
