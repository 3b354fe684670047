"""Two sessions side by side: what became of each test, what is new, what is gone. Pure.

The result is plain, and the one source of every form in which it is shown. Its ``verdict`` is the worst of all tests in
both; ``inconclusive`` when there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..model import Finding, Verdict
from ..model.objective import Reached
from .asked import Allowed, Asked
from .comparing import compare
from .context import changes
from .judging import Judged, judge, matched
from .metrics import METRICS
from .plain import regressions
from .values import Entry, Group, Session

SCHEMA = "pytest-kvcache-compare/1"

_WORST = ("fail", "inconclusive", "pass", "nothing")


def side_by_side(asked: Asked, old: Session, new: Session, *, given: Collection[str]) -> dict[str, Any]:
    """Return what two sessions come to.

    Args:
        asked: what is compared.
        old / new: the sessions.
        given: metrics that somebody named; others are left out of tests that never had them.
    """
    both = [nodeid for nodeid in new.checks if nodeid in old.checks]
    checks = [_check(asked, nodeid, old.checks[nodeid], new.checks[nodeid], given) for nodeid in sorted(both)]
    verdicts = [check["verdict"] for check in checks]
    worst = min(verdicts, key=_WORST.index, default="nothing")
    return {
        "schema": SCHEMA,
        "old": {"name": old.name, "interrupted": old.interrupted},
        "new": {"name": new.name, "interrupted": new.interrupted},
        "verdict": "inconclusive" if worst == "nothing" else worst,
        "checks": checks,
        "added": sorted(new.checks.keys() - old.checks.keys()),
        "removed": sorted(old.checks.keys() - new.checks.keys()),
    }


def _check(
    asked: Asked, nodeid: str, old: tuple[str, Entry], new: tuple[str, Entry], given: Collection[str]
) -> dict[str, Any]:
    (old_verdict, before), (new_verdict, now) = old, new
    judged = _judged(asked, before, now, given)
    findings = list(dict.fromkeys(finding for one in judged for finding in one.findings))
    parts = [one.regression.reached for one in judged]
    parts += _of_verdicts(old_verdict, new_verdict, findings, compared=bool(judged))
    moved = changes(before.context or {}, now.context or {}, asked.allowed)
    return {
        "nodeid": nodeid,
        "verdict": min(parts, key=_WORST.index, default="nothing"),
        "old_verdict": old_verdict,
        "new_verdict": new_verdict,
        "changes": [{"name": c.name, "old": c.old, "new": c.new, "allowed": c.allowed} for c in moved],
        "regressions": regressions(one.regression for one in judged),
        "findings": [{"code": f.code, "sentence": f.sentence, "advice": f.advice} for f in findings],
        "figures": _figures(before, now),
    }


def _of_verdicts(old: str, new: str, findings: list[Finding], *, compared: bool) -> list[Reached]:
    """Return what the tests' own verdicts come to: a pass that is a failure now is worse, whatever the figures say.

    One that cannot be told any more only counts by itself where there are no figures: they may be all that is needed.
    """
    if old != "pass" or new == "pass" or (compared and new != "fail"):
        return []
    worse = new == "fail"
    findings.insert(
        0, Finding("KV208" if worse else "KV133", f"it passed, and {'fails' if worse else 'is ' + new} now")
    )
    return ["fail" if worse else "inconclusive"]


def _judged(asked: Asked, before: Entry, now: Entry, given: Collection[str]) -> list[Judged]:
    """Return the comparisons of a test; what nobody named and neither session has is none."""
    has = {name for entry in (before, now) for group in entry.groups for name in group.values}
    limits = tuple(limit for limit in asked.limits if limit.metric.name in given or limit.metric.name in has)
    if not limits:
        return []
    missing = "nothing of it was measured before; measure it again"
    old = before if before.groups else None
    return judge(replace(asked, limits=limits), old, now, Verdict("pass", ""), missing)


def _figures(before: Entry, now: Entry) -> list[Mapping[str, Any]]:
    """Return every metric that both sessions have: what it was, what it is, and the change without any judgement."""
    pairs = [(old, new) for old, new in matched(before.groups, now.groups) if old is not None and new is not None]
    limits = [Allowed(metric, 0.0, relative=not metric.is_share) for metric in METRICS.values()]
    every = (_figure(limit, old, new) for old, new in pairs for limit in limits)
    return [told for told in every if told is not None]


def _figure(allowed: Allowed, old: Group, new: Group) -> Mapping[str, Any] | None:
    name = allowed.metric.name
    if name not in old.values or name not in new.values:
        return None
    seen = compare(allowed, old, new)
    if seen.baseline is None or seen.measured is None:
        return None
    return {
        "name": name,
        "where": new.where,
        "unit": allowed.metric.unit,
        "old": seen.baseline,
        "new": seen.measured,
        **{key: value for key, value in regressions([seen])[0].items() if key in ("change", "relative", "low", "high")},
    }
