"""Conversations as a user writes them: the marker, plain asserts on the turns, and what a report may show."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run

TALK = """
import pytest

@pytest.mark.hit_rate({marker})
def test_{name}(kv, kv_workload):
    result = kv.run(kv_workload.conversation({workload}){run_with})
    {then}
"""


def talk(marker: str = "tol=0.0", then: str = "assert result.turns", **more: str) -> str:
    given = {"name": "talk", "workload": "system='be careful ' * 20, turns=3", "run_with": "", **more}
    return TALK.format(marker=marker, then=then, **given)


def checks(pytester: pytest.Pytester) -> dict[str, dict[str, Any]]:
    told = json.loads((pytester.path / "out.json").read_text(encoding="utf-8"))["checks"]
    return {check["nodeid"].rpartition("::")[2]: check for check in told}


def test_the_first_turn_can_be_left_out(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    later = "assert result.hit_rate == result.turns.skip(1).hit_rate"
    pytester.makepyfile(
        talk("tol=0.0", then="assert result.hit_rate == result.turns.hit_rate", name="all")
        + talk("tol=0.0, skip_turns=1", then=later, name="later")
        + talk("skip_turns=1, source='usage', min=0.3", then=later, name="usage")
        + talk("skip_turns=1, weight='request', target=1.0, tol=0.0", name="requests")
    )
    run(f"--kv-endpoint={sim}", "--kv-report=out.json").assert_outcomes(passed=4)
    told = checks(pytester)
    for check in told.values():
        rows = check["runs"][0]["turns"]
        assert [(row["session"], row["turn"]) for row in rows] == [(0, 0), (0, 1), (0, 2)]
        assert [row["cached_tokens"] for row in rows] == [row["predicted_tokens"] for row in rows]
        assert rows[0]["cached_tokens"] == 0
    every, later_only = told["test_all"], told["test_later"]
    assert every["hit_tokens"] == later_only["hit_tokens"] > 0
    first = every["runs"][0]["turns"][0]["prompt_tokens"]
    assert every["query_tokens"] - first == later_only["query_tokens"]


def test_sessions_of_the_run_win(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    then = "assert [row.session for row in result.turns] == [0, 0, 1, 1]"
    pytester.makepyfile(talk(workload="turns=2, sessions=5", run_with=", sessions=2, concurrency=2", then=then))
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


def test_a_check_that_fails_says_where(pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]) -> None:
    pytester.makepyfile(
        talk("min=0.0", "assert result.turns.never_zero()", workload="turns=3, user='go'", run_with=", concurrency=1")
    )
    result = run(f"--kv-endpoint={start_sim('--engines=2')}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert session 0, turn 1: no cached tokens of *", "E*<Turns: 3 of 1 session>*"])


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("skip_turns=-1", "skip_turns=-1 is no number of turns"),
        ("skip_turns=True", "skip_turns=True is no number of turns"),
        ("skip_turns=1.0", "skip_turns=1.0 is no number of turns"),
        ("skip_turns=1, tier='local'", "skip_turns needs tier='total'*"),
    ],
)
def test_wrong_numbers_of_turns(pytester: pytest.Pytester, run: Run, marker: str, problem: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.hit_rate(min=0.1, {marker})\ndef test_t(kv): pass\n")
    result = run("--kv-endpoint=sim")
    result.stderr.fnmatch_lines([f"*hit_rate: {problem}*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_turns_of_what_is_no_conversation_cannot_be_left_out(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("""
import pytest

@pytest.mark.hit_rate(min=0.1, skip_turns=1)
def test_plain(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0.5, output_len=1))
""")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: skip_turns=1: nothing here was sent as a conversation*KV115*"])


def test_files_and_texts_stay_out_of_every_report(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    (pytester.path / "system.md").write_text("TOPSECRET be careful", encoding="utf-8")
    (pytester.path / "tools.json").write_text(json.dumps([{"type": "function", "function": {"name": "TOPSECRET"}}]))
    workload = (
        "system=Path('system.md'), tools=Path('tools.json'), turns=3, user='TOP' 'SECRET', tool_result='TOP' 'SECRET',"
        " body={'tool_choice': 'required'}"
    )
    pytester.makepyfile("from pathlib import Path\n" + talk("target=1.0, tol=0.0", workload=workload))
    reports = ["--kv-report=out.json", "--junitxml=out.xml"]
    result = run(f"--kv-endpoint={sim}", *reports, "-vv", "--showlocals", "-rA")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str() + result.stderr.str()
    shown += "".join((pytester.path / name).read_text(encoding="utf-8") for name in ("out.json", "out.xml"))
    assert "TOPSECRET" not in shown
    assert "3 turns, 64 out with system prompt and 1 tool" in shown


def test_a_file_that_is_not_there_is_told_where_it_is_named(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("from pathlib import Path\n" + talk(workload="system=Path('gone.md')"))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*conversation: system: cannot read gone.md (No such file or directory)*"])


def test_a_provider_without_counters_and_tokens_is_predicted_within_bounds(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    url = start_sim("--no-dev-mode", "--fault=metrics_status=404")
    then = "turns = result.turns; assert turns.cached_tokens_never_drop() and turns.never_zero() and turns.missing == 0"
    pytester.makepyfile(talk("min=0.3, skip_turns=1", then, workload="turns=4, sessions=2", run_with=", concurrency=2"))
    run(f"--kv-endpoint={url}", "--kv-engine=usage", "--kv-report=out.json").assert_outcomes(passed=1)
    (check,) = checks(pytester).values()
    assert check["source"] == "usage"
    assert check["hit_rate"]["predicted"] is None  # nobody told the block size: what is known is only a bound
    assert check["hit_rate"]["ceiling"] is not None
