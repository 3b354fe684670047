"""What the end of a session tells of the results that were kept, and of those that were there before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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

    def lines(self, *, quiet: bool) -> Iterator[str]:
        """Return what is shown at the end of a session; of a quiet one only what went wrong."""
        if not self._kept:
            return
        kept = self._kept.values()
        folder = self._settings.results
        before = sum(k["before"] for k in kept)
        if not quiet and self._settings.resume:
            yield f"{before:,} measured before ({folder}), {len(kept) - before:,} now"
            yield from _counted("measured again: {}", (k["again"] for k in kept))
        elif not quiet:
            yield f"{sum(not k['lost'] for k in kept):,} measured and kept in {folder}"
        yield from _counted("measured in every session: {}", (k["untold"] for k in kept))
        yield from _counted(f"not kept in {folder}: {{}}", (k["lost"] for k in kept))
        yield from sorted({k["unused"] for k in kept if k["unused"]})


def _counted(sentence: str, reasons: Iterable[str]) -> Iterator[str]:
    counts = Counter(reason for reason in reasons if reason)
    return (f"{count:,} {sentence.format(reason)}" for reason, count in sorted(counts.items()))
