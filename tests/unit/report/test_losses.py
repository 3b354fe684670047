"""The waterfall and the turns as people read them, and as the document holds them."""

from __future__ import annotations

from dataclasses import replace

from pytest_kvcache.model import Divergence, Loss, Prediction, Tokens, Waterfall
from pytest_kvcache.report.turns_table import turns_table

from .made import WHOLE, judged, lines, measured

COUNTED = {"0": Tokens(1000, {"local": 700})}
EVICTED = Loss("eviction", 420, "a cache of 2,048", requests=3)
FALL = Waterfall(1200, (Loss("cold", 96, "1 request"), EVICTED, Loss("surplus", -16)), 700)


def test_a_waterfall_adds_up_line_by_line() -> None:
    assert lines(judged(measured(COUNTED, waterfall=FALL)))[3:-1] == [
        "    could be reused        1,200",
        "    - cold first use         -96  1 request",
        "    - eviction              -420  a cache of 2,048",
        "    - more than predicted     16",
        "    = reused                 700",
    ]


def test_nothing_lost_is_no_waterfall() -> None:
    assert lines(judged(measured(COUNTED, waterfall=Waterfall(700, (), 700)))) == lines(judged(measured(COUNTED)))


def test_the_document_holds_it_with_its_evidence() -> None:
    (run,) = judged(measured(COUNTED, waterfall=FALL, notes=("rounded \x1b",)))["runs"]
    assert run["waterfall"]["losses"][1] == {
        "cause": "eviction",
        "title": "eviction",
        "tokens": 420,
        "requests": 3,
        "evidence": "a cache of 2,048",
        "advice": "",
    }
    assert (run["waterfall"]["ceiling"], run["waterfall"]["measured"]) == (1200, 700)
    assert run["notes"] == ["rounded \\x1b"]


def test_the_document_holds_no_text_of_a_divergence() -> None:
    parted = Divergence("timestamp", "system message", 0, character=33, token=9, shared="SECRET", left="7", right="9")
    (run,) = judged(measured(COUNTED, divergence=parted))["runs"]
    assert run["divergence"]["cause"] == "timestamp"
    assert run["divergence"]["character"] == 33
    assert "SECRET" not in str(run)
    assert not {"shared", "left", "right"} & run["divergence"].keys()


def test_notes_and_probes_have_lines_of_their_own() -> None:
    from pytest_kvcache.report.terminal import section

    record = judged(measured(COUNTED, notes=("highest rate in reach: 0.984",)))
    record["probes"] = ["granularity: credits in 16-token steps"]
    told = section(record).split("\n")
    assert "  highest rate in reach: 0.984" in told
    assert "  probe: granularity: credits in 16-token steps" in told


def turn(session: int, number: int, prompt: int, cached: int | None, predicted: int | None = None) -> dict[str, object]:
    return {
        "session": session, "turn": number, "prompt_tokens": prompt, "cached_tokens": cached,
        "predicted_tokens": predicted, "ttft_s": 0.01 * (number + 1),
    }  # fmt: skip


def test_turns_of_one_conversation() -> None:
    assert turns_table([turn(0, 0, 1000, 0, 0), turn(0, 1, 1200, 960, 992)]) == [
        "turn  prompt  cached  hit rate  predicted   TTFT",
        "   0   1,000       0     0.000          0  10 ms",
        "   1   1,200     960     0.800        992  20 ms",
    ]


def test_turns_of_several_conversations_are_summed_and_an_unknown_number_is_not_zero() -> None:
    rows = [turn(0, 0, 1000, 0, 0), turn(1, 0, 1000, 500, 0), turn(0, 1, 1200, None, 992), turn(1, 1, 1200, 900, 992)]
    assert turns_table(rows) == [
        "2 conversations, summed by turn:",
        "turn  prompt  cached  hit rate  predicted   TTFT",
        "   0   2,000     500     0.250          0  10 ms",
        "   1   2,400       -         -      1,984  20 ms",
    ]
    assert turns_table([]) == []


def test_the_ttft_of_a_turn_is_the_median_of_its_conversations() -> None:
    waits = [0.1, 0.9, None]
    rows = [turn(session, 0, 1000, 0, 0) | {"ttft_s": wait} for session, wait in enumerate(waits)]
    assert turns_table(rows)[-1].split()[-2:] == ["500", "ms"]
    assert turns_table(rows[2:])[-1].split()[-1] == "-"


def test_turns_reach_the_document() -> None:
    exchanges = tuple(
        replace(WHOLE, session=0, turn=number, prompt_tokens=100, cached_tokens=64 * number) for number in (0, 1)
    )
    prediction = Prediction(64, 200, (0, 64), 16)
    (run,) = judged(measured(COUNTED, exchanges=exchanges, prediction=prediction))["runs"]
    assert [(t["turn"], t["cached_tokens"], t["predicted_tokens"]) for t in run["turns"]] == [(0, 0, 0), (1, 64, 64)]
    assert run["turns"][0]["ttft_s"] == 0.5
