"""The verdict on a test and its comparisons with a baseline -> one verdict; the worst counts. Pure.

A failure that is certain outweighs what cannot be told of something else, as for service levels. Where a test asks for
nothing else, what makes a hit rate invalid does not spoil a comparison of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model import Finding, Severity, Status, Verdict
from ..slo.verdict import OF_RATE
from .judging import Judged


def join(verdict: Verdict, judged: Sequence[Judged], *, only: bool) -> Verdict:
    """Return the verdict on everything that a test asks.

    Args:
        verdict: on all but the comparisons.
        judged: the comparisons.
        only: the test asks for nothing but them.
    """
    base = _valid_only(verdict, judged) if only else verdict
    compared = [finding for one in judged for finding in one.findings]
    parts = [base.status, *(one.regression.reached for one in judged)]
    status: Status = "fail" if "fail" in parts else "inconclusive" if "inconclusive" in parts else "pass"
    weight = {"fail": Severity.MISSED, "inconclusive": Severity.INVALID}.get(status)
    of_base = base.findings if base.status == status else ()
    deciding = [f for f in (*of_base, *compared) if f.severity is weight]
    return replace(
        base,
        status=status,
        sentence=_sentence(status, base, judged, deciding, only=only),
        findings=tuple(dict.fromkeys([*deciding, *compared, *base.findings])),
        regressions=tuple(one.regression for one in judged),
    )


def _valid_only(verdict: Verdict, judged: Sequence[Judged]) -> Verdict:
    """Return the verdict without what only spoils a rate that nobody compares, and failures that are compared."""
    names = {one.regression.name for one in judged}
    found = verdict.findings
    if "error_rate" in names:
        found = tuple(replace(f, code="KV313") if f.code == "KV203" else f for f in found)
    rate_matters = not judged or bool(names & {"hit_rate", "hit_tokens"})
    invalid = [f for f in found if f.severity is Severity.INVALID and (rate_matters or f.code not in OF_RATE)]
    missed = [f for f in found if f.severity is Severity.MISSED]
    if invalid or (verdict.status != "inconclusive" and missed):
        return verdict
    status: Status = "fail" if missed else "pass"
    kept = replace(verdict, status=status, findings=found)
    if status == "fail":
        return replace(kept, sentence="; ".join(f"{f.sentence} [{f.code}]" for f in missed))
    if verdict.status == "inconclusive":  # its rate is none
        return replace(kept, hit_rate=None, hit_tokens=None, query_tokens=None, sentence="")
    return kept


def _sentence(
    status: Status, base: Verdict, judged: Sequence[Judged], deciding: Sequence[Finding], *, only: bool
) -> str:
    of_base = base.sentence if base.status == status else ""
    if status == "pass":
        return of_base if of_base and not only else "; ".join(one.regression.sentence for one in judged) or of_base
    if status == "inconclusive":
        first = deciding[0]
        return of_base or f"inconclusive: {first.sentence}{f'; {first.advice}' if first.advice else ''} [{first.code}]"
    worse = "; ".join(one.regression.sentence for one in judged if one.regression.reached == "fail")
    return ". ".join(filter(None, (of_base, f"{worse} [KV208]" if worse else "")))
