"""Log probabilities of generated tokens: made up, the same for the same prompt, in a recorded vLLM 0.32's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .body import Generate
from .engine import Generation

_SECOND = 0.25  # how far the next best token lies below the one that was chosen
_STEPS = 4096  # between the highest and the lowest
_RANGE = 4.0

TextOf = Callable[[int], str]


def logprob(seed: int, number: int) -> float:
    """Return the log probability of the ``number``-th token, counted from zero, of a sequence of that seed."""
    return -_RANGE * ((seed + 104_729 * (number + 1)) % _STEPS + 1) / _STEPS


def told(
    body: Generate, sequence: Generation, tokens: Sequence[int], begin: int, text_of: TextOf
) -> dict[str, Any] | None:
    """Return what a choice tells of some of its tokens; None when that was not asked for.

    Args:
        body: the request. Those of the prompt that ``echo`` asks for are not told.
        sequence: that generated them.
        tokens: to tell of.
        begin: number of the first of them, counted from zero.
        text_of: text of a token.
    """
    if not body.wants_logprobs:
        return None
    off = sequence.warm_logprobs_off if sequence.cached else 0.0
    numbers = [logprob(sequence.seed, begin + at) + off for at in range(len(tokens))]
    if body.chat:
        wanted = body.top_logprobs
        return {"content": [_told(*pair, wanted, text_of) for pair in zip(tokens, numbers, strict=True)]}
    texts = [text_of(token) for token in tokens]
    second = (body.logprobs or 0) > 1
    best = [
        {text: value} | ({text_of(token + 1): value - _SECOND} if second else {})
        for token, text, value in zip(tokens, texts, numbers, strict=True)
    ]
    offsets = [sum(map(len, texts[:at])) for at in range(len(texts))]
    return {"text_offset": offsets, "token_logprobs": numbers, "tokens": texts, "top_logprobs": best}


def _told(token: int, value: float, wanted: int, text_of: TextOf) -> dict[str, Any]:
    best = [_entry(token, value, text_of), _entry(token + 1, value - _SECOND, text_of)]
    return {**_entry(token, value, text_of), "top_logprobs": best[:wanted]}


def _entry(token: int, value: float, text_of: TextOf) -> dict[str, Any]:
    text = text_of(token)
    return {"token": text, "logprob": value, "bytes": list(text.encode())}
