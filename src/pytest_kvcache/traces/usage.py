"""What did the server say of a request's tokens? Emitters disagree on whether the prompt holds the cached ones."""

from __future__ import annotations

from typing import NamedTuple

from .check import RowError
from .formats import Options


class Recorded(NamedTuple):
    """Tokens as they were recorded; None: not told.

    Attributes:
        prompt: the whole prompt, cached tokens included.
        cached: of it, reused.
        output: generated.
    """

    prompt: int | None = None
    cached: int | None = None
    output: int | None = None


def recorded(line: int, given: Recorded, written: int | None, options: Options) -> Recorded:
    """Return recorded tokens in one normal form.

    Args:
        line: where they stand.
        given: as recorded, whatever its prompt number holds.
        written: tokens that were newly cached.
        options: whether the prompt number leaves the cached tokens out, and what it means that none are told.

    Raises:
        RowError: more tokens were cached than the prompt has.
    """
    prompt, cached, output = given
    if cached is None and options.usage_absent == "zero":
        cached = 0
    if options.usage_prompt == "uncached" and prompt is not None:
        prompt = (
            None if cached is None else prompt + cached + (written or 0)
        )  # a part that is not told, and so the whole
    return held(line, Recorded(prompt, cached, output))


def held(line: int, found: Recorded) -> Recorded:
    """Return recorded tokens that do not contradict themselves.

    Raises:
        RowError: more tokens were cached than the prompt has.
    """
    if found.prompt is not None and found.cached is not None and found.cached > found.prompt:
        raise RowError(
            line,
            "cached_exceeds_prompt",
            f"{found.cached:,} cached tokens of a prompt of {found.prompt:,}; if its prompt tokens leave them out, say"
            " usage_prompt='uncached'",
        )
    return found
