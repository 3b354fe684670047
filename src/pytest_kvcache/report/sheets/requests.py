"""``requests.csv``: one row for each request, made where it was sent.

They are too many for a report to carry, so these rows are not made from the document.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...model import Exchange, Level, Measurement
from ...overview import class_of
from ..phases import started
from .cells import text


class Told(NamedTuple):
    """A column: its name, unit and meaning, as in docs/csv.md."""

    name: str
    unit: str
    about: str


COLUMNS = (
    Told("nodeid", "", "pytest's id of the test"),
    Told("run", "", "number of the run in its test, from 1"),
    Told("started", "UTC", "when the run began, ISO 8601; the offsets below count from then"),
    Told("phase", "", "`prefill`: it warms the cache; `measured`"),
    Told("request", "", "number in its phase of the run, from 1, in the order of the workload"),
    Told("session", "", "its conversation, from 0; empty: it is in none"),
    Told("turn", "", "its place in the conversation, from 0"),
    Told("concurrency", "sessions", "level at which it was sent, of `kv.steps` and searches: going at once"),
    Told("rate", "sessions/s", "likewise: begun per second"),
    Told("start_s", "s", "handed to the client"),
    Told("scheduled_s", "s", "due, in an open loop or by a trace's clock"),
    Told("sent_s", "s", "its body was handed to the socket; empty: it never was"),
    Told("ended_s", "s", "its answer was whole, or it had failed"),
    Told("queueing_s", "s", "`sent_s` - `start_s`: waiting in the client"),
    Told("ttft_s", "s", "time to first token: from `scheduled_s`, else `sent_s`"),
    Told("e2e_s", "s", "from there to the end of a whole answer"),
    Told("tpot_s", "s", "time per output token, after the first"),
    Told("sent_tokens", "tokens", "of its prompt, as the client counts them"),
    Told("prompt_tokens", "tokens", "of its prompt, by usage"),
    Told("cached_tokens", "tokens", "of these, reused, by usage"),
    Told("predicted_tokens", "tokens", "the least that a cache of the server's block size reuses"),
    Told("output_tokens", "tokens", "generated, by usage"),
    Told("status", "", "of HTTP"),
    Told("error", "", "class of its failure, as in the document's `errors`; empty: its answer is whole"),
    Told("attempts", "", "1, or more where it was retried; the rest of the row is of the last"),
    Told("engine", "", "that answered it, where that is known: there is one"),
)
HEADER = tuple(column.name for column in COLUMNS)

Levels = Callable[[Exchange], Level | None]


def rows(
    nodeid: str, number: int, measurement: Measurement, hidden: Callable[[str], str] = str
) -> Iterator[tuple[object, ...]]:
    """Return the rows of a run, as they are written: first what warmed the cache, then what was measured.

    Args:
        nodeid: of the test.
        number: of the run in it.
        measurement: the run.
        hidden: returns what a server said without secrets.
    """
    head = (text(nodeid), number, started(measurement.begun))
    origin, engine = _origin(measurement), text(hidden(_engine(measurement)))
    for request, e in enumerate(measurement.prefill, 1):
        yield (*head, "prefill", request, *_row(e, origin, None, None), _error(e, hidden), 1 + len(e.earlier), engine)
    predicted, level = _predicted(measurement), _levels(measurement)
    for request, e in enumerate(measurement.exchanges, 1):
        hit = None if predicted is None else predicted[request - 1]
        yield (
            *head,
            "measured",
            request,
            *_row(e, origin, level(e), hit),
            _error(e, hidden),
            1 + len(e.earlier),
            engine,
        )


def _row(e: Exchange, origin: float, level: Level | None, predicted: int | None) -> tuple[object, ...]:
    return (
        e.session,
        e.turn,
        None if level is None else level.concurrency,
        None if level is None else level.rate,
        e.queued - origin,
        None if e.scheduled is None else e.scheduled - origin,
        None if e.sent is None else e.sent - origin,
        e.end - origin,
        e.queueing,
        e.ttft,
        e.e2e,
        e.tpot,
        e.prompt_len,
        e.prompt_tokens,
        e.cached_tokens,
        predicted,
        e.completion_tokens,
        e.status,
    )


def _error(e: Exchange, hidden: Callable[[str], str]) -> str | None:
    return None if e.failure is None else text(hidden(class_of(e)))


def _origin(measurement: Measurement) -> float:
    """Return the start of a run, monotonic seconds."""
    if measurement.begun is not None:
        return measurement.begun.monotonic
    return min((e.queued for e in (*measurement.prefill, *measurement.exchanges)), default=0.0)


def _engine(measurement: Measurement) -> str:
    names = list(measurement.engines)
    return names[0] if len(names) == 1 else ""


def _predicted(measurement: Measurement) -> tuple[int, ...] | None:
    prediction = measurement.prediction
    if prediction is None or not prediction.exact or len(prediction.per_request) != len(measurement.exchanges):
        return None
    return prediction.per_request


def _levels(measurement: Measurement) -> Levels:
    """Return what finds the level at which a request was sent: of a search that of the period."""
    if measurement.limit is None:
        level = None if measurement.stretch is None else measurement.stretch.level
        return lambda _: level
    stretches = [period.stretch for period in measurement.limit.periods]
    starts = [stretch.start for stretch in stretches]

    def found(e: Exchange) -> Level | None:
        moment = e.queued if e.sent is None else e.sent
        at = bisect_right(starts, moment) - 1
        return stretches[at].level if at >= 0 and moment <= stretches[at].end else None

    return found
