"""Sessions of agents: the form of kv-cache-tester (WEKA) and of the sets that SemiAnalysis publishes in it.

A document is one session: a file of its own, or a line of a JSONL file. Its clock counts seconds from its start, its
ids mean something inside it only, and only full blocks have one. An entry of type ``subagent`` has requests of its own,
which run beside those of the session and share its ids. Their clock is that of the sub-agent in the files of
kv-cache-tester (all 63 sub-agents there), and that of the session in sets of SemiAnalysis; nothing says which.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any

from ...errors import TraceError
from ...rows import Row
from ..check import RowError, Skipped
from ..documents import Numbered, all_of, documents
from ..lines import Lines
from . import Format, Options, each, fields_of, kind_of, whole

_TYPES = ("n", "s", None)  # one answer, a stream, not told
_ROUNDING = 1.0  # seconds: clocks of requests may be rounded to whole ones, those of sub-agents are not


@dataclass(frozen=True, slots=True)
class _Session:
    """What holds for all requests of a document.

    Attributes:
        name: its id.
        line: where the document stands; None: the file is this document.
        block_size: tokens of a block; None: not told.
        scope: its ids mean something among rows of this scope.
    """

    name: str
    line: int | None
    block_size: int | None
    scope: str | None


@dataclass(frozen=True, slots=True)
class _Request:
    """One request.

    Attributes:
        number: in the document, from 1.
        time: on the clock of the session.
        turns: whose turns follow one another: the session's, or a sub-agent's.
        value: as recorded.
    """

    number: int
    time: float
    turns: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A request that is none."""

    error: RowError
    time: float = 0.0


def _looks_like(head: str) -> bool:
    fields = fields_of(head.lstrip().removeprefix("["))
    return "requests" in fields and ("hash_id_scope" in fields or "block_size" in fields)


def _read(lines: Lines, options: Options) -> Iterator[Row | Skipped]:
    found = documents(lines, options)
    first = list(islice(found, 2))
    alone = len(first) == 1
    seen = options.notes.sessions

    def rows(document: Numbered) -> Iterator[Row | Skipped]:
        line, value = document
        session = _session(line, value, lines.name, alone=alone, options=options)
        if session.name in seen:
            what = f"a session of the same 'id' was in {seen[session.name]}, and whether the two share blocks is not"
            raise RowError(line, "session_twice", f"{what} told; leave one of them out, or rename it")
        seen[session.name] = lines.name if alone else f"{options.notes.unit} {line:,} of {lines.name}"
        if alone:
            options.notes.unit = "request"
        return _rows(session, value["requests"], options)

    return all_of(chain(first, found), rows, options)


def _session(line: int, value: Any, file: str, *, alone: bool, options: Options) -> _Session:
    """Return what a document says of all its requests."""
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
        raise RowError(line, "no_session", "expected a session: an object with 'requests', a list")
    name = value.get("id")
    if name is None:
        name = file if alone else f"{file}:{line}"
    if type(name) not in (str, int):
        raise RowError(line, "bad_field", f"'id' is {kind_of(name)}; expected a text")
    size = value.get("block_size")
    size = None if size is None else whole(line, "block_size", size, 1)
    scope = value.get("hash_id_scope")
    if scope not in ("local", "global", None):
        raise RowError(line, "hash_id_scope", "its 'hash_id_scope' is neither 'local' nor 'global'")
    if scope is None:
        told = "no 'hash_id_scope' in {count} of the sessions (first: {line}): ids mean something inside them only"
        options.notes.add("hash_id_scope", line, told)
    return _Session(str(name), None if alone else line, size, None if scope == "global" else str(name))


def _rows(session: _Session, entries: list[Any], options: Options) -> Iterator[Row | Skipped]:
    """Return the rows of a session, those of its sub-agents among them, by time."""
    items = sorted(_requests(session, entries, options), key=lambda item: item.time)  # stable
    begun: set[str] = set()

    def row(item: _Request | _Damaged) -> Row | Skipped:
        if isinstance(item, _Damaged):
            raise item.error
        follows = item.turns in begun
        begun.add(item.turns)
        try:
            return _row(session, item, follows, options)
        except RowError as error:
            raise _wrong(session, item.number, error.reason, error.sentence) from None

    return each(items, row, options)


def _requests(session: _Session, entries: list[Any], options: Options) -> Iterator[_Request | _Damaged]:
    """Return the requests of a session and its sub-agents, all on the session's clock."""
    relative = _relative(session, entries, options)
    numbers, agents = count(1), count(1)
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("type") != "subagent":
            yield _request(session, next(numbers), entry, session.name, 0.0, options)
            continue
        turns = f"{session.name}/{next(agents)}"
        start = _seconds(entry.get("t"), options)
        inner = entry.get("requests")
        if start is None or not isinstance(inner, list):
            what = "a sub-agent needs 't', seconds, and 'requests', a list"
            yield _Damaged(_wrong(session, next(numbers), "bad_field", what))
            continue
        for request in inner:
            yield _request(session, next(numbers), request, turns, start if relative else 0.0, options)


def _request(
    session: _Session, number: int, value: Any, turns: str, start: float, options: Options
) -> _Request | _Damaged:
    if not isinstance(value, dict):
        return _Damaged(_wrong(session, number, "bad_field", f"expected an object, got {kind_of(value)}"))
    time = _seconds(value.get("t"), options)
    if time is None:
        return _Damaged(_wrong(session, number, "bad_field", "'t' is no number of seconds from 0"))
    if value.get("type") not in _TYPES:
        what = "its 'type' is none of 'n', 's' and, outside of sub-agents, 'subagent'"
        return _Damaged(_wrong(session, number, "type", what))
    return _Request(number, start + time, turns, value)


def _row(session: _Session, request: _Request, follows: bool, options: Options) -> Row | Skipped:
    line, value = _place(session, request.number), request.value
    length = whole(line, "in", value.get("in"))
    if length == 0:
        return Skipped(line, "zero_input", "it has no input tokens")
    out, delay = value.get("out"), value.get("think_time")
    if delay is not None and _seconds(delay, options) is None:
        raise RowError(line, "bad_field", "'think_time' is no number of seconds from 0")
    return Row(
        line,
        length,
        _ids(line, value.get("hash_ids")),
        output_length=None if out is None else whole(line, "out", out),
        time=request.time,
        session=request.turns,
        scope=session.scope,
        delay=_seconds(delay, options) if follows else None,  # the first waits for no answer
        block_size=session.block_size,
    )


def _ids(line: int, value: Any) -> array[int]:
    if value is None:
        return array("q")
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:  # True is no id
        raise RowError(line, "bad_ids", "'hash_ids' is no list of whole numbers")
    try:
        return array("q", value)
    except OverflowError:
        raise RowError(line, "bad_ids", "'hash_ids' has numbers beyond 64 bits") from None


def _relative(session: _Session, entries: list[Any], options: Options) -> bool:
    """Tell whether the clocks of a session's sub-agents count from their own start.

    A first request before its sub-agent was launched shows that they do.

    Raises:
        TraceError: nothing shows it, or it contradicts what was said.
    """
    begun = [(at, first) for at, first in _launched(entries, options) if at > _ROUNDING]
    early = any(first < at - _ROUNDING for at, first in begun)
    if options.subagent_time == "relative" or (options.subagent_time is None and (early or not begun)):
        return True
    where = options.notes.sessions[session.name]
    if early:
        raise TraceError(
            f"{where}: subagent_time='absolute', but a sub-agent has requests before the time at which it was launched,"
            " so its clock counts from its own start; say subagent_time='relative'"
        )
    if options.subagent_time is None:
        raise TraceError(
            f"{where}: the first requests of its {len(begun)} sub-agents are no earlier than the sub-agents themselves,"
            " so their clocks may count from the start of the session, or from their own; say subagent_time='absolute'"
            " (as in sets of SemiAnalysis) or subagent_time='relative' (as in files of kv-cache-tester)"
        )
    return False


def _launched(entries: list[Any], options: Options) -> Iterator[tuple[float, float]]:
    """Return when each sub-agent was launched, and the time of its first request as recorded."""
    for entry in entries:
        if isinstance(entry, dict) and entry.get("type") == "subagent" and isinstance(entry.get("requests"), list):
            at = _seconds(entry.get("t"), options)
            inner = [_seconds(one.get("t"), options) for one in entry["requests"] if isinstance(one, dict)]
            times = [time for time in inner if time is not None]
            if at is not None and times:
                yield at, min(times)


def _seconds(value: Any, options: Options) -> float | None:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        return None
    seconds: float = value / options.per_second("s")
    return seconds


def _place(session: _Session, number: int) -> int:
    return number if session.line is None else session.line


def _wrong(session: _Session, number: int, reason: str, sentence: str) -> RowError:
    where = "" if session.line is None else f"request {number} of its session: "
    return RowError(_place(session, number), reason, f"{where}{sentence}")


FORMATS = (Format("weka", _looks_like, _read, time_unit="s"),)
