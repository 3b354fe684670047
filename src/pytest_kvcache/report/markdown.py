"""A session's document to Markdown, for a pull request or a job's summary on GitHub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..figures import plural
from ..model import Objective
from ..slo import wording
from . import cells, curves, grid, terminal
from .columns import UNKNOWN, told
from .levels import headline
from .markup import code, fenced, table, text
from .plain import Record
from .saved import session_line
from .verdicts import COUNTED

_NAME = 200  # characters of a test's id, a model, an engine
_COLUMNS = (
    "verdict",
    "test",
    "hit rate",
    "target",
    "predicted",
    "hit/query tokens",
    "TTFT p50/p95",
    "output",
    "limits",
    "against the baseline",
)
_CUT = "\n**Cut off here: there is no room for more. Everything: `--kv-markdown=FILE`.**\n"


def markdown(document: dict[str, Any]) -> list[str]:
    """Return the parts of a text, each of them whole: the text may end after any.

    Args:
        document: of :func:`pytest_kvcache.report.document.document`.
    """
    checks = document["checks"]
    parts = [_opening(document)]
    if checks:
        lines = table(told([_COLUMNS, *map(_row, checks)]), words=("verdict", "test", *_COLUMNS[-2:]))
        parts += ["\n" + "\n".join(lines[:2]) + "\n", *(f"{line}\n" for line in lines[2:])]
    parts += [_details(check) for check in checks if check["verdict"] != "pass"]
    parts += [part for check in checks for part in _searches(check)]
    parts += [part for sweep in document["sweeps"] for part in _sweep(sweep)]
    return parts + _curves(document.get("curves", ()))


def joined(parts: Iterable[str], at_most: int | None = None) -> str:
    """Return a text of parts; what has no room is left out, which the text then says.

    Args:
        parts: of :func:`markdown`.
        at_most: bytes in UTF-8; None: any number.
    """
    whole = "".join(parts)
    if at_most is None or _bytes(whole) <= at_most:
        return whole
    kept, room = [], at_most - _bytes(_CUT)
    for part in parts:
        room -= _bytes(part)
        if room < 0:
            break
        kept.append(part)
    return "".join(kept) + _CUT if kept else ""


def _bytes(part: str) -> int:
    return len(part.encode())


def _opening(document: dict[str, Any]) -> str:
    """Return the verdict on the session, and what was measured."""
    verdicts = [check["verdict"] for check in document["checks"]]
    counted = [f"{verdicts.count(verdict)} {word}" for verdict, word in COUNTED.items() if verdict in verdicts]
    engines = [check["engine"] for check in document["checks"] if check["engine"] is not None]
    about = [text(name, _NAME) for name in dict.fromkeys(map(cells.engine, engines))]
    about += [f"model {code(name, _NAME)}" for name in dict.fromkeys(engine["model"] for engine in engines)]
    about += [code(document["endpoint"], _NAME)] if document["endpoint"] is not None else []
    swept = len(document.get("curves", ()))
    nothing = plural(swept, "curve") if swept else "nothing was measured"
    lines = [f"### kvcache: {', '.join(counted) or nothing}"]
    lines += [" · ".join(about)] if about else []
    lines += [text(told) for told in filter(None, [session_line(document["saved"], document["checks"])])]
    lines += ["**The session was interrupted; this is not all of it.**"] if document["interrupted"] else []
    return "\n\n".join(lines) + "\n"


def _row(check: Record) -> tuple[str, ...]:
    rates = check["hit_rate"]
    figures, where = headline(check)
    return (
        check["verdict"] if check["verdict"] == "pass" else f"**{check['verdict']}**",
        code(check["nodeid"], _NAME) + (f" {text(where)}" if where else ""),
        cells.rate(rates["measured"]),
        cells.target(rates),
        cells.rate(rates["predicted"]),
        cells.tokens(check),
        cells.ttft(figures),
        cells.output(figures),
        "<br>".join(map(_limit, check["objectives"])),
        "<br>".join(map(_compared, check["regressions"])),
    )


def _compared(one: Record) -> str:
    """Return what became of a comparison."""
    verdict = "" if one["verdict"] == "pass" else f" **{one['verdict']}**"
    return f"{text(one['sentence'], _NAME)}{verdict}"


def _limit(objective: Record) -> str:
    """Return a limit to latency or throughput with what came out."""
    asked = Objective(*(objective[name] for name in ("metric", "statistic", "limit", "at_most", "name")))
    shown, limit = UNKNOWN, None
    if objective["value"] is not None:
        shown, limit = wording.told(asked, objective["value"])
    sure = wording.between(asked, (objective["low"], objective["high"]))
    verdict = "" if objective["verdict"] == "pass" else f" **{objective['verdict']}**"
    interval = f" (95 % {text(sure)})" if sure else ""
    return f"{code(objective['name'])} {text(shown)}{interval}, {text(wording.wanted(asked, limit))}{verdict}"


def _details(check: Record) -> str:
    """Return why a test did not pass, folded."""
    findings = [
        f"- {code(one['code'])} {text(one['sentence'])}" + (f"; {text(one['advice'])}" if one["advice"] else "")
        for one in terminal.untold(check)
    ]
    blocks = [
        f"<details>\n<summary>{check['verdict']} {code(check['nodeid'], _NAME)}</summary>",
        text(check["sentence"]),
        *(["\n".join(findings)] if findings else []),
        fenced(terminal.evidence(check)),
        "</details>",
    ]
    return "\n" + "\n\n".join(blocks) + "\n"


def _searches(check: Record) -> Iterator[str]:
    for run in check["runs"]:
        if run["limit"] is not None:
            yield f"\n{code(check['nodeid'], _NAME)}: {text(run['limit']['sentence'])}\n"


def _sweep(sweep: Record) -> Iterator[str]:
    """Return the heading of a sweep, its tables, and what follows from them."""
    outcome = grid.outcome(sweep)
    space = " " if outcome.startswith(" ") else ""
    yield f"\n#### sweep {code(sweep['name'], _NAME)}{space}{text(outcome)}\n"
    for title, rows in grid.tables(sweep):
        heading = f"\n{text(title)}\n" if title else ""
        shown = [[text(cell, _NAME) for cell in row] for row in rows]
        yield f"{heading}\n" + "\n".join(table(shown, words=shown[0][:1])) + "\n"
    if sweep["statements"]:
        yield "\n" + "\n".join(f"- {text(line)}" for line in sweep["statements"]) + "\n"


def _curves(several: Sequence[Record]) -> list[str]:
    """Return a table of curves, which may end after any of them."""
    rows = [[text(cell, _NAME) for cell in row] for row in curves.rows(several)]
    if not rows:
        return []
    lines = table(rows, words=("policy", "curve of", "test"))
    return ["\n#### curves\n\n" + "\n".join(lines[:2]) + "\n", *(f"{line}\n" for line in lines[2:])]
