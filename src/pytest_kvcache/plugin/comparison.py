"""What a test is compared with: its marker, the entry of the baseline, and what tells one load from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from .fingerprint import Untold, digest

if TYPE_CHECKING:
    from ..model import Verdict
    from ..regression.asked import Asked
    from ..regression.values import Entry
    from .settings import Settings

_DIGITS = 12  # hexadecimal


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is asked of the values of a test.

    Attributes:
        asked: which metrics are compared, and what may have changed.
        before: the entry of the baseline; None: there is none.
        missing: why not, and what to do.
        adopts: the values become the baseline instead.
    """

    asked: Asked
    before: Entry | None
    missing: str
    adopts: bool = False

    @classmethod
    def of(cls, nodeid: str, asked: Asked, settings: Settings, entries: Mapping[str, Entry] | None) -> Comparison:
        """Return what the values of a test are compared with.

        Args:
            nodeid: of the test.
            asked: by its marker.
            settings: with the baseline, and what may change for all tests.
            entries: of the baseline; None: none is named.
        """
        asked = replace(asked, allowed=asked.allowed | set(settings.allow_change))
        missing = f"{settings.baseline} has no entry of this test; make one with --kv-update-baseline"
        if entries is None:
            missing = (
                "no baseline is named; make one with --kv-baseline=FILE --kv-update-baseline, then leave out the last"
            )
        before = None if entries is None else entries.get(nodeid)
        return cls(asked, before, missing, settings.update_baseline)

    @property
    def decides(self) -> object:
        """What a verdict depends on besides what is measured: a stored one is only good for the same."""
        from ..regression import plain

        before = None if self.before is None else plain.entry(self.before)
        return {"adopts": self.adopts, "allowed": sorted(self.asked.allowed), "before": before}

    def join(self, verdict: Verdict, now: Entry, *, only: bool) -> Verdict:
        """Return the verdict on a test with what became of the comparison.

        Args:
            verdict: on everything else.
            now: what was measured.
            only: nothing else is asked.
        """
        from ..regression.joining import join
        from ..regression.judging import adopt, judge

        if self.adopts:
            judged = adopt(self.asked, self.before, now, verdict)
        else:
            judged = judge(self.asked, self.before, now, verdict, self.missing)
        return join(verdict, judged, only=only)


def is_wanted(settings: Settings, comparison: Comparison | None) -> bool:
    """Tell whether anybody compares the values of a test, now or later: those of many requests take a while to make."""
    kept_in = (settings.report, settings.artifacts, settings.results, settings.history, settings.baseline)
    return comparison is not None or any(path is not None for path in kept_in)


def digest_of(kind: str, arguments: Mapping[str, object], workload: object) -> str | None:
    """Return what tells a load from another one, whatever seed or nonce its prompts are made of.

    Args:
        kind: ``run``, ``steps``, ...
        arguments: what the call comes to: pace, levels, duration, ...
        workload: its description.

    Returns:
        Hexadecimal digits that are the same in every process; None: something in it cannot be told from others.
    """
    try:
        return digest([kind, {name: _unseeded(value) for name, value in arguments.items()}, _unseeded(workload)])[
            :_DIGITS
        ]
    except Untold:
        return None


def _unseeded(value: object) -> Any:
    """Return a description without its seed."""
    if not is_dataclass(value) or isinstance(value, type) or all(f.name != "seed" or not f.init for f in fields(value)):
        return value
    return replace(value, seed=None)
