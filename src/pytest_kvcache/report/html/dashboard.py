"""A session's document to its page: the overview, a row for each check, and the sections that are drawn on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import cells
from ..levels import headline
from ..plain import Record
from ..saved import session_line
from ..verdicts import COUNTED, WORST_FIRST
from . import bounds
from .blocks import Section, clean, left, section
from .curves import curves_section
from .details import details
from .points import points_section
from .skeleton import render
from .sweeps import sweep_section

_REASONS = 12  # of what is inconclusive, in the overview


def dashboard(document: dict[str, Any]) -> str:
    """Return the page of a session.

    Args:
        document: of :func:`pytest_kvcache.report.document.document`.
    """
    checks = sorted(document["checks"], key=lambda check: WORST_FIRST.index(check["verdict"]))
    room = bounds.allowance(len(checks))
    return render(
        "dashboard.html",
        title="KV cache report",
        sections=_session(document),
        data={f"check-{number}": details(check, room) for number, check in enumerate(checks)},
        overview=_overview(document, checks),
        rows=[_row(number, check) for number, check in enumerate(checks)],
    )


def _session(document: dict[str, Any]) -> list[Section]:
    """Return the sections that are about more than one check."""
    checks = {check["nodeid"]: check for check in document["checks"]}
    sweeps, curves = document["sweeps"], document.get("curves") or []
    found = points_section(document["checks"], bounds.POINTS)
    for sweep in sweeps[: bounds.SWEEPS]:
        found += sweep_section(sweep, checks, bounds.PLACES)
    found += curves_section(curves[: bounds.CURVES], bounds.BUDGETS)
    notes = [*left(len(sweeps) - bounds.SWEEPS, "sweep"), *left(len(curves) - bounds.CURVES, "curve")]
    shown: list[Section] = clean([*found, *section("", *notes)], bounds.STATEMENT)
    return shown


def _overview(document: dict[str, Any], checks: Sequence[Record]) -> dict[str, Any]:
    engines = [check["engine"] for check in checks if check["engine"] is not None]
    verdicts = [check["verdict"] for check in checks]
    about = {
        "endpoint": [document["endpoint"]] if document["endpoint"] else [],
        "engine": list(dict.fromkeys(map(cells.engine, engines))),
        "model": list(dict.fromkeys(engine["model"] for engine in engines)),
        "prompts": ["fresh nonce" if document["seed"] is None else f"seed {document['seed']}"],
    }
    doubtful = [
        (number, check["nodeid"], check["sentence"])
        for number, check in enumerate(checks)
        if check["verdict"] == "inconclusive"
    ]
    shown: dict[str, Any] = clean(
        {
            "counts": [(name, word, verdicts.count(name)) for name, word in COUNTED.items()],
            "about": {name: "; ".join(told[:4]) for name, told in about.items() if told},
            "interrupted": document["interrupted"],
            "simulated": any(engine["simulated"] for engine in engines),
            "inconclusive": doubtful[:_REASONS],
            "more_inconclusive": max(0, len(doubtful) - _REASONS),
            "codes": list(_codes(checks)),
            "saved": session_line(document.get("saved"), checks),
        },
        bounds.STATEMENT,
    )
    return shown


def _codes(checks: Sequence[Record]) -> Iterator[tuple[str, str, int, int, str]]:
    """Return each code with its severity, how many checks have it, the first one and what it says; most first."""
    found: dict[str, list[tuple[int, Record]]] = {}
    for number, check in enumerate(checks):
        for code, finding in {one["code"]: one for one in reversed(check["findings"])}.items():
            found.setdefault(code, []).append((number, finding))
    for code, those in sorted(found.items(), key=lambda one: (-len(one[1]), one[0])):
        first, finding = those[0]
        yield code, finding["severity"], len(those), first, finding["sentence"]


def _row(number: int, check: Record) -> dict[str, Any]:
    rates = check["hit_rate"]
    figures, where = headline(check)
    ttft = None if figures is None else figures["ttft_s"]["p50"]
    output = None if figures is None else figures["output_tok_s"]
    shown: dict[str, Any] = clean(
        {
            "number": number,
            "verdict": check["verdict"],
            "rank": WORST_FIRST.index(check["verdict"]),
            "nodeid": check["nodeid"],
            "where": where,
            "codes": list(dict.fromkeys(finding["code"] for finding in check["findings"])),
            "rates": [
                ("target", cells.target(rates), rates["target"]),
                *((name, cells.rate(rates[name]), rates[name]) for name in ("predicted", "ceiling")),
            ],
            "rate": (cells.rate(rates["measured"]), rates["measured"]),
            "target": rates["target"],
            "tokens": (cells.tokens(check), check["query_tokens"]),
            "ttft": (cells.ttft(figures), ttft),
            "output": (cells.output(figures), output),
        },
        bounds.NAME,
    )
    return shown
