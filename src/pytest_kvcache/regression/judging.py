"""All comparisons of one test with its baseline: are there any, may they be made, what came out? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model import Finding, Regression, Verdict
from . import ranks, wording
from .asked import ALPHA, Allowed, Asked
from .comparing import compare
from .context import Change, changes
from .values import Entry, Group, invalid

_ANEW = "make the baseline anew (--kv-update-baseline)"


@dataclass(frozen=True, slots=True)
class Judged:
    """One comparison with what is to say of it.

    Attributes:
        regression: what became of it.
        findings: the one that decides first.
    """

    regression: Regression
    findings: tuple[Finding, ...] = ()


def judge(asked: Asked, old: Entry | None, new: Entry, verdict: Verdict, missing: str = "") -> list[Judged]:
    """Compare what was measured with what is kept of it.

    Args:
        asked: which metrics, and what may have changed.
        old: the baseline; None: there is none.
        new: what was measured.
        verdict: on it, to know what is invalid.
        missing: why there is no baseline, and what to do.
    """
    if old is None or not new.groups:
        sentence, _, advice = missing.partition("; ")
        what = Finding("KV131", sentence or "nothing was measured", advice or "call kv.run")
        return [_untold(allowed, what) for allowed in asked.limits]
    moved = changes(old.context or {}, new.context or {}, asked.allowed)
    forbidden = [change for change in moved if not change.allowed]
    found = []
    for allowed in asked.limits:
        for before, now in matched(old.groups, new.groups):
            one = _one(allowed, before, now, verdict)
            found.append(_other_circumstances(one, forbidden) if forbidden else one)
    return [replace(one, findings=(*one.findings, *_told(moved))) for one in found]


def adopt(asked: Asked, old: Entry | None, new: Entry, verdict: Verdict) -> list[Judged]:
    """Say what becomes the baseline, instead of comparing it: it must be known, and be enough to compare with."""
    if not new.groups:
        return judge(asked, None, new, verdict)
    before = {group.where: group for group in old.groups} if old is not None else {}
    return [
        _adopted(allowed, before.get(group.where), group, verdict) for allowed in asked.limits for group in new.groups
    ]


def same(asked: Asked, old: Entry, new: Entry) -> bool:
    """Tell whether nothing is to be written anew: the same circumstances, and no difference that can be told.

    A baseline that follows every noise drifts, and cannot be reviewed.
    """
    if old.context != new.context or [g.where for g in old.groups] != [g.where for g in new.groups]:
        return False
    pairs = list(zip(old.groups, new.groups, strict=True))
    return all(_alike(allowed, before, now) for allowed in asked.limits for before, now in pairs)


# --- one comparison --------------------------------------------------------------------------------------------------


def _one(allowed: Allowed, before: Group | None, now: Group | None, verdict: Verdict) -> Judged:
    if before is None or now is None:
        where = now.where if now is not None else before.where if before is not None else ""
        side = "the baseline has" if before is None else "this test measured"
        return _untold(allowed, Finding("KV131", f"{side} nothing of {where or 'it'}", _ANEW), where)
    found = compare(allowed, before, now)
    if found.reached == "pass":
        return Judged(found, tuple(_doubt(allowed, found)))
    if found.reached == "fail":
        return Judged(found, (Finding("KV208", found.sentence),))
    wrong = invalid(verdict, found.name) if found.measured is None else None
    return Judged(found, (wrong or Finding("KV133", found.sentence, found.advice),))


def _doubt(allowed: Allowed, found: Regression) -> Iterator[Finding]:
    """Tell of a change that is certain, that is within what is allowed, and that may as well be beyond it."""
    end = found.high if allowed.metric.rising else found.low
    beyond = end is None or abs(end) > allowed.amount
    worse = (found.change or 0.0) > 0 if allowed.metric.rising else (found.change or 0.0) < 0
    if found.p is not None and found.p <= ALPHA and worse and beyond:
        what = f"{wording.title(found)} did get worse, and may have by more than is allowed"
        yield Finding("KV332", what, "measure more runs to be sure")


def matched(old: Sequence[Group], new: Sequence[Group]) -> Iterator[tuple[Group | None, Group | None]]:
    """Return the groups of the same load; a single one on each side is the same, whatever it is called."""
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    before, now = {group.where: group for group in old}, {group.where: group for group in new}
    for where in dict.fromkeys([*now, *before]):
        yield before.get(where), now.get(where)


def _untold(allowed: Allowed, what: Finding, where: str = "") -> Judged:
    blank = Regression(allowed.metric.name, where, "inconclusive", allowed.change, allowed.relative)
    return Judged(replace(blank, sentence=f"{wording.title(blank)}: {what.sentence}", advice=what.advice), (what,))


def _other_circumstances(one: Judged, forbidden: Sequence[Change]) -> Judged:
    names = ", ".join(f"'{change.name}'" for change in forbidden)
    what = Finding(
        "KV132",
        f"what is compared is not the same: {'; '.join(map(str, forbidden))}",
        f"if that is what you compare, allow it: kv_regression(allow=({names},)), --kv-allow-change; else {_ANEW}",
    )
    return Judged(replace(one.regression, reached="inconclusive"), (what,))


def _told(moved: Sequence[Change]) -> tuple[Finding, ...]:
    allowed = [str(change) for change in moved if change.allowed]
    return (Finding("KV331", f"compared although it is not the same: {'; '.join(allowed)}"),) if allowed else ()


# --- a new baseline --------------------------------------------------------------------------------------------------


def _adopted(allowed: Allowed, before: Group | None, now: Group, verdict: Verdict) -> Judged:
    found = compare(allowed, before or now, now)
    found = replace(found, n_baseline=0 if before is None else before.runs)
    if found.measured is None and before is not None:  # it may be the old one that is not known
        found = replace(compare(allowed, now, now), baseline=None)
    if found.measured is None:
        wrong = invalid(verdict, found.name) or Finding("KV133", found.sentence, found.advice)
        return Judged(replace(found, baseline=None, reached="inconclusive"), (wrong,))
    least = ranks.repeats_needed(ALPHA) or 0
    if not found.exact and now.runs < least:
        what = f"{wording.title(found)}: a baseline of {now.runs} cannot be compared with"
        few = Finding("KV133", what, f"measure {least} runs in the test, such as for _ in range({least}): kv.run(...)")
        return Judged(replace(found, reached="inconclusive", sentence=few.sentence, advice=few.advice), (few,))
    if before is None:
        found = replace(found, baseline=None, change=None, low=None, high=None, p=None)
    return Judged(replace(found, reached="pass", sentence=wording.adopted(found), advice=""))


def _alike(allowed: Allowed, before: Group, now: Group) -> bool:
    if before.runs != now.runs:
        return False
    found = compare(allowed, before, now)
    if found.baseline is None or found.measured is None:
        return False
    if found.exact:
        return found.baseline == found.measured
    if not ranks.reachable(before.runs, now.runs, ALPHA):
        return False
    name = found.name
    first, second = ([v or 0.0 for v in group.values[name]] for group in (before, now))
    return min(ranks.p_above(first, second), ranks.p_above(second, first)) > ALPHA
