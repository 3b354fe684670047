"""What an answer said, token by token, and where two answers part. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Said:
    """One answer.

    Attributes:
        text: of the first choice.
        tokens: their texts; None: not told.
        ids: their ids; None: not told.
        logprobs: log probability of each; None: not told.
        best: by position, log probabilities of the best tokens by their text.
    """

    text: str = field(repr=False)
    tokens: tuple[str, ...] | None = field(default=None, repr=False)
    ids: tuple[int, ...] | None = field(default=None, repr=False)
    logprobs: tuple[float, ...] | None = None
    best: tuple[Mapping[str, float], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Difference:
    """How a warm answer differs from the cold one.

    Attributes:
        position: of the first token that differs, or character where tokens are not told; None: none does.
        gap: how far the cold answer held the warm one's token below its own there; None: not known.
        logprobs: the largest difference of two log probabilities before it; None: not told.
    """

    position: int | None
    gap: float | None = None
    logprobs: float | None = None


def said(body: Mapping[str, Any]) -> Said:
    """Return what a chat or completions body says in its first choice; what is not understood counts as not told."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    ids = _list(choice.get("token_ids"))
    told = choice.get("logprobs")
    tokens, logprobs, best = _told(told if isinstance(told, dict) else {})
    whole = bool(ids) and all(isinstance(number, int) for number in ids)
    return Said(text if isinstance(text, str) else "", tokens, tuple(ids) if whole else None, logprobs, best)


def _told(
    told: Mapping[str, Any],
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None, tuple[Mapping[str, float], ...]]:
    content = told.get("content")
    if isinstance(content, list) and all(isinstance(entry, dict) for entry in content):  # chat
        tokens = [entry.get("token") for entry in content]
        numbers = [entry.get("logprob") for entry in content]
        best = [{str(e.get("token")): e.get("logprob") for e in _dicts(entry.get("top_logprobs"))} for entry in content]
    else:
        tokens, numbers = _list(told.get("tokens")), _list(told.get("token_logprobs"))
        best = [entry if isinstance(entry, dict) else {} for entry in _list(told.get("top_logprobs"))]
    if not tokens or len(tokens) != len(numbers) or not all(map(_is_number, numbers)):
        return None, None, ()
    kept: tuple[Mapping[str, float], ...] = tuple(
        {text: float(value) for text, value in entry.items() if isinstance(value, (int, float))} for entry in best
    )
    return tuple(map(str, tokens)), tuple(float(number) for number in numbers if number is not None), kept


def difference(cold: Said, warm: Said) -> Difference:
    """Return where a warm answer leaves the cold one, and how far their numbers are apart up to there."""
    left, right = _compared(cold, warm)
    position = _first_difference(left, right)
    if cold.logprobs is None or warm.logprobs is None or left is cold.text:
        return Difference(position)
    until = len(cold.logprobs) if position is None else position
    off = max((abs(a - b) for a, b in zip(cold.logprobs[:until], warm.logprobs, strict=False)), default=0.0)
    gap = None
    if position is not None and cold.tokens and warm.tokens and position < min(len(cold.best), len(warm.tokens)):
        other = cold.best[position].get(warm.tokens[position])
        gap = None if other is None else cold.logprobs[position] - other
    return Difference(position, gap, math.inf if math.isnan(off) else off)


def _compared(cold: Said, warm: Said) -> tuple[Sequence[object], Sequence[object]]:
    if cold.ids is not None and warm.ids is not None:
        return cold.ids, warm.ids
    if cold.tokens is not None and warm.tokens is not None:
        return cold.tokens, warm.tokens
    return cold.text, warm.text


def _first_difference(left: Sequence[object], right: Sequence[object]) -> int | None:
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return position
    return None if len(left) == len(right) else min(len(left), len(right))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in _list(value) if isinstance(entry, dict)]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
