"""What became of conversations, turn by turn?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ...figures import duration
from ..cells import known, rate
from ..plain import Record
from .blocks import Block, Section, folded, left, section, table
from .traces import SERIES, axis, figure, line


def turns(several: Sequence[Record], most: int) -> list[Section]:
    """Return the cached share and the TTFT of each turn.

    Args:
        several: of a run, session by session.
        most: turns shown.
    """
    shown = several[:most]
    rows = [("session", "turn", "prompt", "cached", "hit rate", "predicted", "TTFT"), *map(_row, shown)]
    more = left(len(several) - len(shown), "turn")
    return section("Turn by turn", _chart(shown), folded(table(rows, words=())), *more, wide=True)


def _row(turn: Record) -> tuple[str, ...]:
    tokens = [turn[name] for name in ("prompt_tokens", "cached_tokens", "predicted_tokens")]
    prompt, cached, predicted = (known(count, "{:,}".format) for count in tokens)
    ttft = known(turn["ttft_s"], duration)
    hit = rate(_share(turn, "cached_tokens"))
    return str(turn["session"]), str(turn["turn"]), prompt, cached, hit, predicted, ttft


def _share(turn: Record, name: str) -> float | None:
    return None if turn[name] is None or not turn["prompt_tokens"] else turn[name] / turn["prompt_tokens"]


def _chart(several: Sequence[Record]) -> Block | None:
    traces = []
    sessions = [list(group) for _, group in groupby(several, key=lambda turn: turn["session"])]
    for number, session in enumerate(sessions[:SERIES]):
        name, at = f"session {session[0]['session']}", [turn["turn"] for turn in session]
        shares, waits = [_share(turn, "cached_tokens") for turn in session], [turn["ttft_s"] for turn in session]
        told = [
            f"{name}, turn {turn['turn']}: {rate(share)} cached" for turn, share in zip(session, shares, strict=True)
        ]
        traces.append(line(number, name, at, shares, told, legendgroup=name))
        told = [f"{name}, turn {n}: TTFT {known(s, duration)}" for n, s in zip(at, waits, strict=True)]
        traces.append(line(number, name, at, waits, told, legendgroup=name, showlegend=False, yaxis="y2"))
    foreseen = [turn for turn in sessions[0] if turn["predicted_tokens"] is not None] if sessions else []
    if foreseen:
        at = [turn["turn"] for turn in foreseen]
        forecast = {"line": {"color": "@ink", "width": 2, "dash": "dot"}, "mode": "lines"}
        shares = [_share(turn, "predicted_tokens") for turn in foreseen]
        traces.append(line(0, f"predicted, session {foreseen[0]['session']}", at, shares, **forecast))
    more = f", first {SERIES} of {len(sessions)} sessions" if len(sessions) > SERIES else ""
    return figure(
        f"Cached share of each prompt, and its TTFT{more}",
        traces,
        height=420,
        xaxis=axis("turn", anchor="y2", dtick=1 if len(several) <= 30 * len(sessions) else None),
        yaxis=axis("cached share", domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis("TTFT (s)", domain=[0, 0.42], rangemode="tozero"),
    )
