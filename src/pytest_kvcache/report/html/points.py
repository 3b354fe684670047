"""How does TTFT follow the hit rate over all that a session measured? One point a run or level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...figures import duration
from ..cells import known
from ..levels import level_text
from ..plain import Record
from .blocks import Section, folded, left, section, table, text, toned
from .traces import SERIES, Trace, axis, figure, label, line, symbols, thinned

_OTHERS = "other tests"


@dataclass(frozen=True, slots=True)
class Point:
    """What one run, or one level of it, came to."""

    check: str
    where: str
    verdict: str
    rate: float
    ttft: Record

    @property
    def function(self) -> str:
        """The test without its parameters."""
        return self.check.partition("[")[0]


def points_section(checks: Iterable[Record], most: int) -> list[Section]:
    """Return TTFT against hit rate; searches are left out, whose TTFT is near its limit anywhere.

    Args:
        checks: of a document.
        most: points shown, evenly chosen.
    """
    found = [point for check in checks for point in _points(check)]
    if len(found) < 2:
        return []
    shown = sorted(thinned(found, most), key=lambda point: (point.rate, point.check, point.where))
    rows = [("test", "at", "verdict", "hit rate", "TTFT p50", "TTFT p95", "requests")]
    rows += [_row(point) for point in shown]  # type: ignore[misc] # a cell with a tone among texts
    return section(
        "TTFT against hit rate",
        text("One point a run or level; searches are left out. ✕: failed, open: inconclusive."),
        figure(
            "Median TTFT against the measured hit rate",
            list(_traces(shown)),
            height=380,
            xaxis=axis("hit rate", range=[-0.03, 1.03], tickformat=".1f"),
            yaxis=axis("TTFT p50 (s)", rangemode="tozero"),
        ),
        folded(table(rows, words=(0, 1, 2))),
        *left(len(found) - len(shown), "point"),
        wide=True,
    )


def _points(check: Record) -> Iterator[Point]:
    for number, run in enumerate(check["runs"], 1):
        rate = run["hit_rate"]["measured"]
        ttft = run["ttft_s"] if run["stretch"] is None else run["stretch"]["ttft_s"]
        if run["limit"] is None and rate is not None and rate <= 1 and ttft["p50"] is not None:
            where = "" if run["level"] is None else level_text(run["level"])
            several = f"run {number}" if len(check["runs"]) > 1 else ""
            yield Point(check["nodeid"], where or several, run["verdict"], rate, ttft)


def _row(point: Point) -> tuple[object, ...]:
    times = (known(point.ttft[name], duration) for name in ("p50", "p95"))
    verdict = toned(point.verdict)
    return point.check, point.where, verdict, f"{point.rate:.3f}", *times, f"{point.ttft['count']:,}"


def _traces(points: Sequence[Point]) -> Iterator[Trace]:
    counted = Counter(point.function for point in points)
    names = [name for name, _ in counted.most_common()]
    own = names if len(names) <= SERIES else names[: SERIES - 1]
    for number, name in enumerate([*own, *([_OTHERS] if len(own) < len(names) else [])]):
        these = [point for point in points if (point.function if point.function in own else _OTHERS) == name]
        trace = line(
            number,
            name.rpartition("::")[2],
            [point.rate for point in these],
            [point.ttft["p50"] for point in these],
            [_hover(point) for point in these],
            mode="markers",
        )
        trace["marker"]["symbol"] = symbols(number, (point.verdict for point in these))
        yield trace


def _hover(point: Point) -> str:
    where = f", {point.where}" if point.where else ""
    p95 = "" if point.ttft["p95"] is None else f", p95 {duration(point.ttft['p95'])}"
    told = f"hit rate {point.rate:.3f}: TTFT p50 {duration(point.ttft['p50'])}{p95}"
    return f"{label(point.check, 90)}{label(where)}<br>{told} ({point.verdict})"
