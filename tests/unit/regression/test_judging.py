"""All comparisons of a test, and its verdict with them: the worst counts, and what is said first is what decided."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.diagnose import __doc__ as codes
from pytest_kvcache.model import Finding, Verdict
from pytest_kvcache.regression.asked import asked
from pytest_kvcache.regression.joining import join
from pytest_kvcache.regression.judging import Judged, adopt, judge, same

from .made import entry, group, rate

PASS = Verdict("pass", "hit rate 0.700, wanted ...", 0.7, 700, 1000)
STEADY = [0.100, 0.101, 0.102, 0.103, 0.104]
SLOW = [value * 1.3 for value in STEADY]


def compared(
    old: Any, new: Any, verdict: Verdict = PASS, *, only: bool = True, allow: Any = (), **limits: Any
) -> Verdict:
    return join(verdict, judge(asked(limits, allow), old, new, verdict, "no entry; make one"), only=only)


def found_codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def test_every_code_is_documented() -> None:
    for code in ("KV131", "KV132", "KV133", "KV208", "KV331", "KV332"):
        assert f"\n{code}   " in (codes or "")


def test_pass() -> None:
    verdict = compared(entry(rate()), entry(rate()))
    assert (verdict.status, verdict.findings) == ("pass", ())
    assert verdict.sentence == "hit rate stayed at 0.700 (allowed none)"
    assert [one.reached for one in verdict.regressions] == ["pass"]


def test_a_failure_begins_with_the_metric() -> None:
    verdict = compared(entry(rate()), entry(rate(670)), hit_rate=-0.02)
    assert verdict.status == "fail"
    assert verdict.sentence == "hit rate fell from 0.700 to 0.670 (-3.0 points, allowed -2.0 points) [KV208]"
    assert found_codes(verdict) == ["KV208"]
    verdict = compared(entry(group(ttft_p95=STEADY)), entry(group(ttft_p95=SLOW)), ttft_p95="+10%")
    assert verdict.sentence.startswith("TTFT p95 rose from 102.0 ms to 132.6 ms (+30.0 %, ")


def test_no_baseline_is_inconclusive_and_says_how_to_make_one() -> None:
    verdict = compared(None, entry(rate()), hit_rate=0, ttft_p95="+10%")
    assert verdict.status == "inconclusive"
    assert verdict.sentence == "inconclusive: no entry; make one [KV131]"
    assert [one.name for one in verdict.regressions] == ["hit_rate", "ttft_p95"]


def test_nothing_measured_is_inconclusive() -> None:
    from pytest_kvcache.regression.values import Entry

    verdict = compared(entry(rate()), Entry(None, []))
    assert (verdict.status, found_codes(verdict)) == ("inconclusive", ["KV131"])


def test_other_circumstances_make_it_inconclusive_unless_they_are_allowed() -> None:
    old, new = entry(rate()), entry(rate(), engine_version="0.32.0", model="n")
    verdict = compared(old, new)
    assert verdict.status == "inconclusive"
    assert verdict.sentence.startswith(
        "inconclusive: what is compared is not the same: engine_version 0.31.0 -> 0.32.0; model m -> n; if that is what"
        " you compare, allow it: kv_regression(allow=('engine_version', 'model',)"
    )
    assert verdict.regressions[0].measured == 0.7  # told all the same
    verdict = compared(old, new, allow=("engine_version", "model"))
    assert (verdict.status, found_codes(verdict)) == ("pass", ["KV331"])
    verdict = compared(old, entry(rate(600), engine_version="0.32.0"), allow="engine_version")
    assert (verdict.status, found_codes(verdict)) == ("fail", ["KV208", "KV331"])
    assert compared(old, entry(rate(600), engine_version="0.32.0")).status == "inconclusive"


def test_a_certain_failure_outweighs_what_cannot_be_told() -> None:
    old, new = entry(group(hit_rate=[0.7], ttft_p95=[0.1])), entry(group(hit_rate=[0.6], ttft_p95=[0.1]))
    verdict = compared(old, new, hit_rate=0, ttft_p95="+10%")
    assert (verdict.status, found_codes(verdict)) == ("fail", ["KV208", "KV133"])
    assert verdict.sentence.startswith("hit rate fell")


def test_loads_are_compared_each_with_its_own() -> None:
    old = entry(group("concurrency 4", ttft_p95=STEADY), group("concurrency 8", ttft_p95=STEADY))
    new = entry(group("concurrency 8", ttft_p95=SLOW), group("concurrency 4", ttft_p95=STEADY))
    verdict = compared(old, new, ttft_p95="+10%")
    assert [(one.where, one.reached) for one in verdict.regressions] == [
        ("concurrency 8", "fail"),
        ("concurrency 4", "pass"),
    ]
    assert verdict.sentence.startswith("TTFT p95 at concurrency 8 rose")
    verdict = compared(old, entry(*new.groups, group("concurrency 16", ttft_p95=STEADY)), ttft_p95="+50%")
    assert "the baseline has nothing of concurrency 16" in verdict.sentence
    verdict = compared(old, entry(new.groups[1]), ttft_p95="+50%")
    assert "this test measured nothing of concurrency 8" in verdict.sentence


def test_a_single_load_is_the_same_whatever_it_is_called() -> None:
    assert compared(entry(rate(where="a")), entry(rate(where="b"))).status == "pass"


def test_a_change_that_is_certain_and_may_be_too_much_is_told() -> None:
    old, new = entry(group(ttft_p95=STEADY)), entry(group(ttft_p95=[value * 1.09 for value in STEADY]))
    verdict = compared(old, new, ttft_p95="+10%")
    assert (verdict.status, found_codes(verdict)) == ("pass", ["KV332"])
    assert found_codes(compared(old, new, ttft_p95="+20%")) == []
    assert found_codes(compared(new, old, ttft_p95="+10%")) == []


# --- with the verdict on everything else -----------------------------------------------------------------------------

MISSED = Verdict("fail", "hit rate 0.600, wanted 0.700", 0.6, 600, 1000, findings=(Finding("KV201", "low"),))
FOREIGN = Verdict("inconclusive", "inconclusive: others", findings=(Finding("KV103", "others"),))
NO_RATE = Verdict("inconclusive", "inconclusive: absent", 0.1, 1, 10, findings=(Finding("KV101", "absent"),))


def test_both_failures_are_said() -> None:
    verdict = compared(entry(rate()), entry(rate(600)), MISSED, only=False)
    assert verdict.sentence == (
        "hit rate 0.600, wanted 0.700. hit rate fell from 0.700 to 0.600 (-10.0 points, allowed none) [KV208]"
    )
    assert found_codes(verdict) == ["KV201", "KV208"]


def test_the_other_verdict_decides_when_it_is_worse() -> None:
    assert compared(entry(rate()), entry(rate()), MISSED, only=False).sentence == MISSED.sentence
    verdict = compared(entry(rate()), entry(group(ttft_p50=[0.1])), FOREIGN, only=False)
    assert (verdict.status, verdict.sentence) == ("inconclusive", FOREIGN.sentence)


def test_a_pass_of_everything_else_is_said_first() -> None:
    assert compared(entry(rate()), entry(rate()), only=False).sentence == PASS.sentence


def test_an_invalid_measurement_is_why_a_value_is_missing() -> None:
    verdict = compared(entry(rate()), entry(group(ttft_p50=[0.1])), FOREIGN)
    assert (verdict.status, found_codes(verdict)) == ("inconclusive", ["KV103"])


def test_what_spoils_a_rate_does_not_spoil_times_that_alone_are_compared() -> None:
    times = entry(group(ttft_p50=STEADY))
    verdict = compared(times, times, NO_RATE, ttft_p50="+10%")
    assert (verdict.status, verdict.hit_rate, verdict.hit_tokens, verdict.query_tokens) == ("pass", None, None, None)
    assert verdict.sentence.startswith("TTFT p50 stayed at")
    assert compared(times, times, FOREIGN, ttft_p50="+10%").status == "inconclusive"
    assert compared(times, times, NO_RATE, hit_rate=0, ttft_p50="+10%").status == "inconclusive"
    assert compared(times, times, NO_RATE, only=False, ttft_p50="+10%").status == "inconclusive"


def test_requests_that_failed_fail_a_test_that_does_not_compare_them() -> None:
    some = Verdict("fail", "3 failed", 0.7, 700, 1000, findings=(Finding("KV203", "3 of 9 requests failed"),))
    assert compared(entry(rate()), entry(rate()), some).status == "fail"
    sides = entry(group(error_rate=[0.3] * 5, hit_rate=[0.7] * 5))
    verdict = compared(sides, sides, some, error_rate=0.01)
    assert (verdict.status, found_codes(verdict)) == ("pass", ["KV313"])


# --- a new baseline --------------------------------------------------------------------------------------------------


def adopted(old: Any, new: Any, verdict: Verdict = PASS, **limits: Any) -> Verdict:
    return join(verdict, adopt(asked(limits), old, new, verdict), only=True)


def test_what_becomes_the_baseline_is_said() -> None:
    verdict = adopted(None, entry(rate()))
    assert (verdict.status, verdict.sentence) == ("pass", "hit rate 0.700 becomes the baseline")
    verdict = adopted(entry(rate()), entry(rate(600)))
    assert (verdict.status, verdict.sentence) == ("pass", "hit rate 0.600 for the baseline, which says 0.700")
    verdict = adopted(entry(group(ttft_p50=STEADY)), entry(rate()))
    assert verdict.sentence == "hit rate 0.700 becomes the baseline"


def test_what_could_never_be_compared_is_no_baseline() -> None:
    verdict = adopted(None, entry(group(ttft_p95=[0.1] * 4)), ttft_p95="+10%")
    assert verdict.status == "inconclusive"
    assert "a baseline of 4 cannot be compared with; measure 5 runs in the test" in verdict.sentence
    assert adopted(None, entry(group(ttft_p95=[0.1] * 5)), ttft_p95="+10%").status == "pass"
    verdict = adopted(None, entry(group(ttft_p50=[0.1] * 5)), ttft_p95="+10%")
    assert "TTFT p95 is not known now" in verdict.sentence
    assert adopted(None, entry(group(ttft_p50=[0.1])), FOREIGN).status == "inconclusive"


@pytest.mark.parametrize(
    ("new", "is_same"),
    [
        (entry(group(hit_rate=[0.7] * 5, ttft_p95=[0.1005, 0.1015, 0.102, 0.103, 0.1035])), True),
        (entry(group(hit_rate=[0.7] * 5, ttft_p95=SLOW)), False),
        (entry(group(hit_rate=[0.7] * 5, ttft_p95=[value / 1.3 for value in STEADY])), False),  # better, too
        (entry(group(hit_rate=[0.701] * 5, ttft_p95=STEADY)), False),
        (entry(group(hit_rate=[0.7] * 6, ttft_p95=[*STEADY, 0.102])), False),
        (entry(group(hit_rate=[0.7] * 5)), False),
        (entry(group("a", hit_rate=[0.7] * 5, ttft_p95=STEADY)), False),
        (entry(group(hit_rate=[0.7] * 5, ttft_p95=STEADY), model="n"), False),
    ],
)
def test_an_entry_is_only_written_anew_where_something_changed(new: Any, is_same: bool) -> None:
    old = entry(group(hit_rate=[0.7] * 5, ttft_p95=STEADY))
    assert same(asked({"hit_rate": 0, "ttft_p95": "+10%"}), old, new) is is_same


def test_more_runs_are_written_anew() -> None:
    old, new = entry(group(ttft_p95=STEADY)), entry(group(ttft_p95=[*STEADY, 0.102]))
    assert not same(asked({"ttft_p95": "+10%"}), old, new)


def test_too_few_to_tell_are_written_anew() -> None:
    old, new = entry(group(ttft_p95=[0.1] * 4)), entry(group(ttft_p95=[0.2] * 4))
    assert not same(asked({"ttft_p95": "+10%"}), old, new)


def test_judged_needs_no_findings() -> None:
    verdict = compared(entry(rate()), entry(rate()))
    assert join(PASS, [Judged(verdict.regressions[0])], only=False).status == "pass"
