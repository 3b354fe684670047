"""Results in a folder: one file a process, one line a finished test, on the disk before the next test begins.

A process that is killed loses the line that it was writing at most, and never one of another process. Each line is::

    {"schema": "pytest-kvcache-result/1", "sha256": "<of the result>", "result": {"nodeid": ..., "record": ...}}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

FORMAT = "pytest-kvcache-result/"
SCHEMA = f"{FORMAT}1"
SUFFIX = ".jsonl"

Outcome = Literal["passed", "failed", "skipped", "broken"]
"""How the body of a test ended; ``broken``: by an error that is no judgement."""

_PROBLEMS = {
    "cut": "cut off while being written",
    "damaged": "changed since they were written",
    "newer": f"not of the form {SCHEMA}",
    "foreign": "none of ours",
    "unreadable": "in files that cannot be read",
}


@dataclass(frozen=True, slots=True)
class Result:
    """What is kept of a finished test.

    Attributes:
        nodeid: of the test.
        attempt: 1, or more for a test that was run again because it failed.
        session: of pytest, the same in all of its workers.
        worker: of the session; ``main`` when it has none.
        ended: UTC, ISO 8601 to the microsecond.
        fingerprints: of its measured runs, in order; None for one that nothing tells from another.
        parts: of the first one, to tell what has changed.
        outcome: how its body ended.
        raised: class of what it raised, with its module; empty: nothing.
        text: what that said.
        failure: how pytest shows it, in the form in which a worker hands it on; None: not at all.
        duration: seconds of the body.
        record: see :mod:`pytest_kvcache.report.record`.
        properties: for JUnit, the user's own too.
    """

    nodeid: str
    attempt: int
    session: str
    worker: str
    ended: str
    fingerprints: list[str | None]
    parts: dict[str, str]
    outcome: Outcome
    raised: str
    text: str
    failure: Any
    duration: float
    record: dict[str, Any]
    properties: list[list[Any]]

    @property
    def judged(self) -> bool:
        """False when it has to be measured again: nothing was decided."""
        return self.outcome in ("passed", "failed") and self.record["verdict"] in ("pass", "fail")


class Store:
    """The results of one process are added to a file of its own.

    Args:
        folder: made when the first result is there.
        session: of pytest.
        worker: of the session.
    """

    def __init__(self, folder: Path, session: str, worker: str = "main") -> None:
        self.folder = folder
        self.session = session
        self.worker = worker
        self._file: int | None = None

    def append(self, result: Result) -> None:
        """Put a result on the disk.

        Raises:
            OSError: it cannot be written. The next one goes to another file, since this one may end within a line.
        """
        content = asdict(result)
        line = _text({"schema": SCHEMA, "sha256": _digest(content), "result": content}) + b"\n"
        try:
            if self._file is None:
                self._file = self._open()
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                os.close(file)

    def _open(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.session}.{self.worker}.{os.urandom(4).hex()}{SUFFIX}"
        return os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)


def can_be_written(folder: Path) -> bool:
    """Tell whether results can be put in a folder, which need not be there yet."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


@dataclass(slots=True)
class Before:
    """What earlier sessions left in a folder.

    Attributes:
        results: of each test, oldest first.
        problems: lines that are no results, by what is wrong with them.
    """

    results: dict[str, list[Result]] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, folder: Path, session: str) -> Before:
        """Read all files of a folder but those of this session, which other workers may be writing."""
        before = cls()
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if not path.name.startswith(f"{session}."):
                for result in before._read(path):
                    before.results.setdefault(result.nodeid, []).append(result)
        for results in before.results.values():
            results.sort(key=lambda result: result.ended)
        return before

    def told(self, folder: Path) -> str:
        """Return a sentence about lines that were not used; empty: there are none."""
        counts = [f"{count:,} {_PROBLEMS[name]}" for name, count in self.problems.items()]
        return f"{folder}: lines that are not used: {', '.join(counts)}" if counts else ""

    def _read(self, path: Path) -> Iterator[Result]:
        try:
            with path.open("rb") as lines:
                for line in lines:
                    found = _parsed(line)
                    if isinstance(found, Result):
                        yield found
                    elif line.strip():
                        self.problems[found] += 1
        except OSError:
            self.problems["unreadable"] += 1


def _parsed(line: bytes) -> Result | str:
    """Return a result, or what is wrong with a line."""
    if not line.endswith(b"\n"):
        return "cut"
    try:
        content = json.loads(line)
        schema = content["schema"]
        if not schema.startswith(FORMAT):
            return "foreign"
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return "foreign"
    if schema != SCHEMA:
        return "newer"
    result = content.get("result")
    if not isinstance(result, dict) or content.get("sha256") != _digest(result):
        return "damaged"
    try:
        return Result(**result)
    except TypeError:
        return "damaged"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_text(content)).hexdigest()


def _text(content: dict[str, Any]) -> bytes:
    """Return JSON; once it was read, it makes the same text again. What another plugin put there may be anything."""
    return json.dumps(content, default=str).encode()
