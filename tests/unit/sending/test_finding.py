"""A process of the load generator that died: no verdict, whatever was measured beside it."""

from __future__ import annotations

from pytest_kvcache.client import Call
from pytest_kvcache.diagnose import findings
from pytest_kvcache.judge import judge
from pytest_kvcache.lookups import may_be_cached
from pytest_kvcache.model import Exchange, Expectation, Failure, Finding, Measurement, ServerFacts, Tokens
from pytest_kvcache.reconcile import Sent, sent
from pytest_kvcache.retry import for_the_moment
from pytest_kvcache.sending import wire

FACTS = ServerFacts(engine="vllm", model="m", block_size=16, caching=True)
WHOLE = Exchange("load", 0.0, 1.0, sent=0.1, prompt_len=100, prompt_tokens=100, cached_tokens=96, status=200)
LOST = wire.failed(
    Call("completions", {}, prompt_len=100), 0.0, 1.0, Failure("process", "the process that sent it died"), sent=0.0
)


def measured(*exchanges: Exchange, findings: tuple[Finding, ...] = ()) -> Measurement:
    query = 100 * len(exchanges)
    engines = {"0": Tokens(query, {"local": 96 * len(exchanges)}, query)}
    return Measurement("t", FACTS, engines, exchanges=exchanges, findings=findings)


def codes(measurement: Measurement) -> list[str]:
    return [finding.code for finding in findings(measurement)]


def test_with_all_its_processes_alive_there_is_a_verdict() -> None:
    assert "KV130" not in codes(measured(WHOLE, WHOLE))
    assert judge(Expectation(min=0.9), [measured(WHOLE, WHOLE)]).status == "pass"


def test_requests_that_were_lost_with_their_process_leave_no_verdict() -> None:
    measurement = measured(WHOLE, WHOLE, LOST)
    (finding,) = [f for f in findings(measurement) if f.code == "KV130"]
    assert finding.sentence == (
        "1 of 3 requests were in flight in a process of the load generator that died: the load was not the one that"
        " was asked for"
    )
    verdict = judge(Expectation(min=0.9), [measurement])
    assert verdict.status == "inconclusive"


def test_all_of_them_lost() -> None:
    assert codes(measured(LOST, LOST))[-2:] == ["KV109", "KV130"]
    assert judge(Expectation(min=0.9), [measured(LOST, LOST)]).status == "inconclusive"


def test_it_is_told_once() -> None:
    known = Finding("KV130", "1 of 2 sending processes died (SIGKILL)")
    assert codes(measured(WHOLE, LOST, findings=(known,))).count("KV130") == 1


def test_what_became_of_it_is_not_known() -> None:
    assert sent([WHOLE, LOST]) == Sent(100, 200, (100,))
    assert may_be_cached(LOST)
    assert not for_the_moment(LOST)  # a second attempt might find what it computed
