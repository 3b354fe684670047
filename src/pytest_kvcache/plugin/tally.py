"""What the end of a session tells of the results that were kept, and of those that were there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from .settings import Settings

KEPT = "kvcache_kept"  # on a TestReport, because only what a report carries crosses from a worker to the controller


class Tally:
    """What the controller tells of the results that were kept and found.

    Args:
        settings: with the folder.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: dict[str, Mapping[str, Any]] = {}

    def take(self, report: pytest.TestReport) -> None:
        """Take what a report carries."""
        kept: Mapping[str, Any] | None = getattr(report, KEPT, None)
        if kept is not None:
            self._kept[report.nodeid] = kept

    def lines(self) -> Iterator[str]:
        """Return what is shown at the end of a session."""
        if not self._kept:
            return
        kept = self._kept.values()
        before = sum(k["before"] for k in kept)
        now, folder = len(kept) - before, self._settings.results
        yield (
            f"{before:,} measured before ({folder}), {now:,} now"
            if self._settings.resume
            else (f"{now:,} measured and kept in {folder}")
        )
        for sentence, name in (("measured again: {}", "again"), ("measured in every session: {}", "untold")):
            reasons = [k[name] for k in kept if k[name]]
            for reason in sorted(set(reasons)):
                yield f"{reasons.count(reason):,} {sentence.format(reason)}"
        yield from sorted({sentence for k in kept for sentence in k["told"]})
