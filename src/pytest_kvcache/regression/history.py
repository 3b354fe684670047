"""A history of sessions: a file that only grows, one line a test and session.

A session adds all of its lines with one write under a lock, so sessions that end at the same time stand one behind the
other. A session that is killed while it writes leaves a line without its end: it is told and left out when the file is
read, and the next session begins a line of its own. Each line is::

    {"schema": "pytest-kvcache-history/1", "session": ..., "time": ..., "nodeid": ..., "verdict": ..., "context": {},
     "runs": 5, "values": {"hit_rate": 0.7, "ttft_p95": 0.12}}
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import ConfigurationError
from .files import locked
from .metrics import METRICS
from .values import COUNTS

SCHEMA = "pytest-kvcache-history/1"

_MOST = 256  # values of a line: a test with very many levels tells those of the first ones
_PROBLEMS = {
    "cut": "cut off while being written",
    "newer": f"not of the form {SCHEMA}",
    "foreign": "none of ours",
}


def line(check: Mapping[str, Any], session: str, time: str) -> dict[str, Any]:
    """Return what is kept of a test.

    Args:
        check: its record.
        session: what tells this session from others.
        time: UTC, ISO 8601.
    """
    groups = check["values"]
    return {
        "schema": SCHEMA,
        "session": session,
        "time": time,
        "nodeid": check["nodeid"],
        "verdict": check["verdict"],
        "context": check["context"],
        "runs": sum(group["runs"] for group in groups),
        "values": dict(list(_flat(groups).items())[:_MOST]),
    }


def _flat(groups: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return one number of each metric: of counts the sum, of a rate what the sums come to, of the rest the median."""
    found: dict[str, float] = {}
    for group in groups:
        where = f" {group['where']}" if group["where"] else ""
        values = {name: [v for v in each if v is not None] for name, each in group["values"].items()}
        sums = {name: sum(values[name]) for name in COUNTS if values.get(name)}
        if sums.get("query_tokens"):
            found[f"hit_rate{where}"] = sums.get("hit_tokens", 0) / sums["query_tokens"]
        for name in (*METRICS, "query_tokens"):
            if name in sums:
                found[name + where] = sums[name]
            elif name != "hit_rate" and values.get(name):
                found[name + where] = median(values[name])
    return found


def append(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines, all or none of them unless the process is killed.

    Raises:
        OSError: the file cannot be written, or somebody else has held it for a minute.
    """
    whole = "".join(json.dumps(each, allow_nan=False) + "\n" for each in lines).encode()
    if whole:
        with locked(path):
            _add(path, whole)


def _add(path: Path, whole: bytes) -> None:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        if size:
            os.lseek(file, size - 1, os.SEEK_SET)
            if os.read(file, 1) != b"\n":  # a session that was killed: its line ends here
                whole = b"\n" + whole
        try:
            written = os.write(file, whole)
            while written < len(whole):
                written += os.write(file, whole[written:])
            os.fsync(file)
        except OSError:  # a full disk may have taken a part
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


@dataclass(slots=True)
class History:
    """What a file holds.

    Attributes:
        lines: in the order in which they were added.
        problems: of lines that are left out, by what is wrong with them.
    """

    lines: list[dict[str, Any]] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)

    def told(self, path: Path) -> str:
        """Return a sentence about the lines that are left out; empty: there are none."""
        counts = [f"{count:,} {_PROBLEMS[name]}" for name, count in self.problems.items()]
        return f"{path}: lines that are left out: {', '.join(counts)}" if counts else ""


def read(path: Path) -> History:
    """Return what a history holds, and what of it cannot be used.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    found = History()
    try:
        with path.open("rb") as file:
            for each in file:
                content = _parsed(each)
                if isinstance(content, dict):
                    found.lines.append(content)
                elif each.strip():
                    found.problems[content] += 1
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    return found


def _parsed(each: bytes) -> dict[str, Any] | str:
    """Return a line, or what is wrong with it."""
    try:
        content = json.loads(each)
    except (ValueError, RecursionError):
        return "cut" if not each.endswith(b"\n") or each.startswith(b'{"schema": "pytest-kvcache-h') else "foreign"
    if not isinstance(content, dict) or not isinstance(content.get("schema"), str):
        return "foreign"
    if content["schema"] != SCHEMA:
        return "newer" if content["schema"].startswith(SCHEMA[:-1]) else "foreign"
    told = isinstance(content.get("nodeid"), str) and isinstance(content.get("values"), dict)
    return content if told and isinstance(content.get("time"), str) else "foreign"
