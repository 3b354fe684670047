"""What a session adds to a history and to a baseline, on the controller only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import ConfigurationError
from .leaving import unwritten
from .tally import KEPT

if TYPE_CHECKING:
    from ..regression.values import Entry
    from ..report.record import Record
    from .settings import Settings

_NAMED = 10  # tests that are named in a line


class Memory:
    """Writes what is kept beyond a session.

    Args:
        settings: with the files.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session = os.urandom(8).hex()
        self._ended: dict[str, str] = {}  # how the last attempt of each test did
        self._before: set[str] = set()  # tests that an earlier session measured
        self._lines: list[str] = []

    def take(self, report: pytest.TestReport) -> None:
        """Note how a test ended; of one that is run again only the last attempt counts."""
        nodeid = report.nodeid
        if report.when == "call" or report.failed:
            self._ended[nodeid] = report.outcome
        kept: Mapping[str, object] | None = getattr(report, KEPT, None)
        if kept is not None and kept["before"]:
            self._before.add(nodeid)

    def write(self, records: Sequence[Record]) -> None:
        """Write both files, as far as they are wanted.

        Raises:
            pytest.UsageError: one cannot be written.
        """
        try:
            if self._settings.history is not None:
                self._add(self._settings.history, records)
        finally:
            if self._settings.update_baseline and self._settings.baseline is not None:
                self._update(self._settings.baseline, records)

    def lines(self, *, quiet: bool) -> Iterator[str]:
        """Return what is shown at the end of a session; of a quiet one only what was not written."""
        return (line for line in self._lines if not quiet or "not written" in line)

    def _add(self, path: Path, records: Sequence[Record]) -> None:
        from ..regression import history

        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        measured = [record for record in records if record["nodeid"] not in self._before]
        try:
            history.append(path, [history.line(record, self._session, now) for record in measured])
        except OSError as error:
            raise pytest.UsageError(unwritten("history", path, error)) from None
        if measured:
            self._lines.append(f"history {path}: {len(measured):,} added")

    def _update(self, path: Path, records: Sequence[Record]) -> None:
        from ..regression import baseline, documents, files
        from ..report.files import write

        asked = [record for record in records if record["regressions"]]
        refused = {record["nodeid"]: why for record in asked if (why := self._why_not(record))}
        taken = [record for record in asked if record["nodeid"] not in refused]
        try:
            with files.locked(path):
                old = documents.read_baseline(path) if path.exists() else {}
                new = old | {record["nodeid"]: _newer(record, old.get(record["nodeid"])) for record in taken}
                if new != old:
                    write(path, baseline.text(new))
        except ConfigurationError as error:
            raise pytest.UsageError(f"kvcache: --kv-update-baseline: {error}") from None
        except OSError as error:
            raise pytest.UsageError(unwritten("update-baseline", path, error)) from None
        self._tell(path, old, new, taken, refused)

    def _why_not(self, record: Record) -> str:
        """Return why the values of a test are no baseline; empty: they are one."""
        if record["verdict"] != "pass":
            return "failed" if record["verdict"] == "fail" else "inconclusive"
        ended = self._ended.get(record["nodeid"], "interrupted")  # it has no report
        return "" if ended == "passed" else ended

    def _tell(
        self,
        path: Path,
        old: Mapping[str, Entry],
        new: Mapping[str, Entry],
        taken: Sequence[Record],
        refused: Mapping[str, str],
    ) -> None:
        ids = [record["nodeid"] for record in taken]
        added = [nodeid for nodeid in ids if nodeid not in old]
        changed = [nodeid for nodeid in ids if nodeid in old and old[nodeid] != new[nodeid]]
        kept = len(ids) - len(added) - len(changed)
        counts = [f"{len(added):,} new", f"{len(changed):,} changed", f"{kept:,} as they were"]
        others = len(old.keys() - set(ids) - refused.keys())
        counts += [f"{others:,} not measured and kept"] if others else []
        self._lines.append(f"baseline {path}: {', '.join(counts)}")
        if changed:
            self._lines.append(f"  changed: {_named(changed)}")
        for why in dict.fromkeys(refused.values()):
            names = [nodeid for nodeid, each in refused.items() if each == why]
            self._lines.append(f"baseline {path}: {len(names):,} not written, {why}: {_named(names)}")


def _newer(record: Record, old: Entry | None) -> Entry:
    """Return the entry of a test: the old one where nothing can be told to have changed."""
    from ..regression import baseline
    from ..regression.judging import same

    asked = baseline.asked_of(record)
    new = baseline.narrowed(baseline.entry_of(record), [allowed.metric.name for allowed in asked.limits])
    return old if old is not None and same(asked, old, new) else new


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
