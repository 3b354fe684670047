"""A failing test says where its requests part, why, and what to do; their text only where it was asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_kvcache.simulate.body import render_chat
from pytest_kvcache.simulate.process import SimProcess
from pytest_kvcache.workloads import builtin

from .conftest import Run

TURN, END = len("<|im_start|>system\n"), len("<|im_end|>\n")
WORDS = builtin.common_words()
RULES = "".join(f" {word}" for word in WORDS[:300])  # 300 tokens
SECRET = "Xyzzyplugh"  # stands in every prompt, and never in what is shown unless asked for
USER = {"role": "user", "content": f"hi {SECRET}"}
TEST = """
import json, pathlib, pytest

@pytest.mark.hit_rate(min=0.8)
def test_planted(kv, kv_workload):
    bodies = json.loads(pathlib.Path("bodies.json").read_text())
    kv.run(kv_workload.requests(bodies), concurrency=1)
"""


class Planted(NamedTuple):
    """A cause planted in requests that are the same otherwise.

    Attributes:
        bodies: at least three, each of which parts from the one before it.
        line: of the failure text, from where they part.
        token: at which the first two part, counted by hand.
        advice: as far as it does not depend on the length of the prompts.
    """

    bodies: list[dict[str, Any]]
    line: str
    token: int
    advice: str


def chat(system: str, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, *(messages or [USER])], "max_tokens": 1, **fields}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "description": RULES}}}


def tokens(text: str) -> int:
    return len(builtin.load().encode(text).ids)


def turns(first: int, last: int) -> list[dict[str, Any]]:
    """Turns of a conversation: question and answer of 100 words each."""
    said = [
        [
            {"role": "user", "content": f"{SECRET} {number}" + "".join(f" {word}" for word in WORDS[:100])},
            {"role": "assistant", "content": f"A{number}" + "".join(f" {word}" for word in WORDS[100:200])},
        ]
        for number in range(first, last)
    ]
    return [message for pair in said for message in pair] + [USER]


SYSTEM = "the system message"
BEFORE_USER = TURN + 300 + END  # the system turn of RULES
RESULTS = '{"age": 1, "name": 2, "place": 3}', '{"name": 2, "place": 3, "age": 1}', '{"place": 3, "age": 1, "name": 2}'
PLANTED = {
    "timestamp": Planted(
        [chat(f"Now 2026-01-05 10:41:0{second}.{RULES}") for second in range(4)],
        f"in {SYSTEM}, character 22: timestamp or date",
        TURN + 22,
        "move the date to the end of the prompt",
    ),
    "date before the tools": Planted(
        [chat(f"Today is Jan {day}, 2026.{RULES}", tools=[tool("read")]) for day in (5, 6, 7)],
        f"in {SYSTEM}, character 13: timestamp or date",
        TURN + tokens(json.dumps(tool("read"))) + END + TURN + 13,
        "move the date after the tools block",
    ),
    "random id": Planted(
        [chat(f"Session {number}.{RULES}") for number in ("3f2b8c1d9e7a4650", "9a41c07f5be2d836", "c5d0e1f2a3b49687")],
        f"in {SYSTEM}, character 8: random id or nonce",
        TURN + 8,
        "move the id to the end of the prompt",
    ),
    "counter": Planted(
        [chat(f"Request {number} of 90.{RULES}") for number in (41, 42, 43, 44)],
        f"in {SYSTEM}, character 9: counter",
        TURN + 9,
        "move the counter to the end of the prompt",
    ),
    "tool order": Planted(
        [chat(RULES, tools=[tool(name) for name in names]) for names in ("abc", "bac", "cab")],
        "in the tools, character 44: reordered tools (first moved: position 0)",
        TURN + 44 - 1,
        "sort the tools by name when the list is built",
    ),
    "key order": Planted(
        [chat(RULES, USER, {"role": "tool", "content": text}, {"role": "user", "content": RULES}) for text in RESULTS],
        "in message 2 (tool), character 2: reordered JSON keys",
        0,
        "serialise JSON with sorted keys",
    ),
    "whitespace": Planted(
        [chat(f"Rules:{space}{RULES}") for space in ("\n\n", "\n\t", "\n\r")],
        f"in {SYSTEM}, character 7: changed whitespace",
        TURN + 7,
        "write the same text byte for byte",
    ),
    "truncated history": Planted(
        [chat(RULES, *turns(first, first + 3)) for first in range(3)],
        "in message 1 (user): truncated history",
        0,
        "cut it rarely and in big steps",
    ),
    "system prompt": Planted(
        [chat(f"{name}{RULES}") for name in ("Alpha", "Bravo", "Gamma")],
        f"in {SYSTEM}, character 0: changed system prompt",
        TURN,
        "keep one system prompt for all requests",
    ),
    "salt": Planted(
        [chat(RULES, cache_salt=salt) for salt in "abc"],
        "in the cache_salt: different salt",
        0,
        "different salts never share",
    ),
    "changed tools": Planted(
        [chat(RULES, tools=[tool(name)]) for name in "abc"],
        "in the tools, character 44: changed tools (others)",
        TURN + 44 - 1,
        "send the same tools with every request",
    ),
    "another text before a document": Planted(
        [
            {"messages": [{"role": "user", "content": f"{name}?{RULES}"}], "max_tokens": 1}
            for name in ("Alpha", "Bravo", "Gamma")
        ],
        "in message 0 (user), character 0: different text",
        len("<|im_start|>user\n"),
        "put what is the same in all requests first",
    ),
}


def fail(pytester: pytest.Pytester, run: Run, bodies: list[dict[str, Any]], *words: str) -> str:
    Path("bodies.json").write_text(json.dumps(bodies))
    pytester.makepyfile(TEST)
    result = run("--kv-endpoint=sim", "--kv-sample-interval=0", "--kv-report=out.json", *words)
    result.assert_outcomes(failed=1)
    return result.stdout.str()


def oracle(bodies: list[dict[str, Any]]) -> int:
    """The first differing token of the first two bodies, looked for one by one."""
    one, other = (builtin.load().encode(render_chat(b["messages"], b.get("tools"))).ids for b in bodies[:2])
    return next(at for at, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_cause_is_named(pytester: pytest.Pytester, run: Run, planted: Planted) -> None:
    output = fail(pytester, run, planted.bodies)
    failure = next(line for line in output.splitlines() if line.startswith("hit rate "))
    token = 0 if "salt" in planted.line else oracle(planted.bodies)
    place = f"Requests 0 and 1 part at token {token:,} (block {token // 16}) {planted.line}"
    assert place in failure
    assert planted.token in (0, token)
    pairs = len(planted.bodies) - 1
    assert f"{planted.line}, as in {pairs} of {pairs} pairs; " in failure
    assert planted.advice in failure
    told = re.search(r": ([\d,]+) of ([\d,]+) tokens would be reusable \[KV330\]", failure)
    assert told is not None
    gain, total = (int(number.replace(",", "")) for number in told.groups())
    assert token + 100 < gain < total
    assert total == tokens(render_chat(planted.bodies[1]["messages"], planted.bodies[1].get("tools")))
    assert SECRET not in output


def test_an_image_is_no_defect_of_the_prompts(pytester: pytest.Pytester, run: Run) -> None:
    bodies = [
        chat(RULES, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"https://x/{n}.png"}}]})
        for n in range(3)
    ]
    assert "KV330" not in fail(pytester, run, bodies)


def test_other_questions_are_no_defect_of_the_prompts(pytester: pytest.Pytester, run: Run) -> None:
    questions = [chat("Short.", {"role": "user", "content": word + RULES[::-1]}) for word in ("Who", "Why")]
    other = [chat("Short.", {"role": "user", "content": f"{number}"}) for number in range(5)]
    assert "KV330" not in fail(pytester, run, other)
    assert "KV330" in fail(pytester, run, [*other, *questions])


def test_two_applications_in_turn_are_no_defect_of_the_prompts(pytester: pytest.Pytester, run: Run) -> None:
    """Neighbours share nothing, and every request but two finds what the one before its neighbour had."""
    systems = [f"{name}{RULES}" for name in ("Alpha, who helps.", "Bravo, who sells. It")]
    bodies = [
        chat(systems[number % 2], cache_salt=f"tenant {number % 2}", tools=[tool("ab"[number % 2])])
        for number in range(8)
    ]
    output = fail(pytester, run, bodies)
    failure = next(line for line in output.splitlines() if line.startswith("hit rate "))
    assert failure.endswith("[KV320]")
    assert "in 7 of 7" not in output


def test_a_cache_too_small_for_two_tenants_is_the_cause(pytester: pytest.Pytester, run: Run) -> None:
    bodies = [chat(RULES, cache_salt=f"tenant {number % 2}") for number in range(8)]
    with SimProcess("--capacity-blocks=30") as sim:
        output = fail(pytester, run, bodies, f"--kv-endpoint={sim.url}")
    failure = next(line for line in output.splitlines() if line.startswith("hit rate "))
    assert failure.endswith("[KV324]")
    assert "different salt, as in 7 of 7" not in output  # each finds what its own tenant had, but for the room


def test_text_is_shown_where_it_was_asked_for(pytester: pytest.Pytester, run: Run) -> None:
    bodies = [chat(f"{SECRET} 2026-01-05 10:41:0{second}.{RULES}") for second in range(3)]
    shown = f'"…{SECRET} 2026-01-05 10:41:0" then "0" / "1"'
    output = fail(pytester, run, bodies, "--kv-show-text", "--junitxml=out.xml")
    assert [line for line in output.splitlines() if SECRET in line] == [
        line for line in output.splitlines() if line.startswith("requests 0 and 1 part") and line.endswith(shown)
    ]
    section = output.partition("Captured kvcache text call")[2]
    assert section.splitlines()[1].endswith(shown)
    assert output.count(shown) == 1
    document = Path("out.json").read_text()
    assert SECRET not in document
    (check,) = json.loads(document)["checks"]
    assert check["runs"][0]["divergence"]["cause"] == "timestamp"
    assert SECRET not in fail(pytester, run, bodies)


def test_lint_in_an_assertion(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("""
        def test_prompts(kv_workload):
            one, other = ([{"role": "system", "content": f"At 10:41:0{n}. Xyzzy."}] for n in (7, 9))
            found = kv_workload.lint(one, other)
            assert not found
    """)
    result = run("--kv-endpoint=sim")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        "E * assert not <requests 0 and 1 part in the system message, character 10: timestamp or date; move the date to"
        " the end of the prompt>"
    )
