"""What an answer says about its tokens, in vLLM 0.32's form, and how that can be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .faults import Faults


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one answer.

    Attributes:
        prompt: of all prompts.
        completion: generated.
        cached: of the last prompt, from whichever tier: of several prompts only its are told (vLLM 0.32).
        created: newly cached; None where it is not told.
    """

    prompt: int
    completion: int
    cached: int
    created: int | None

    def told(self, faults: Faults, *, details: bool, stream: bool) -> dict[str, Any] | None:
        """Return the ``usage`` object; None: there is none.

        Args:
            faults: in force.
            details: whether the server reports cached tokens.
            stream: streams leave out what is null.
        """
        if faults.usage_off is not None:
            return None
        prompt = self.prompt + faults.tokens_off
        cached = prompt if faults.usage_all_cached else self.cached
        if faults.usage_uncached_prompt:
            prompt -= cached
        usage: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + self.completion}
        usage["completion_tokens"] = self.completion
        told = None
        if details and not faults.no_cached_tokens and not (faults.usage_drop_zero and not cached):
            told = {"cached_tokens": cached, "created_cache_tokens": self.created, "multimodal_tokens": None}
        if not stream:
            return {**usage, "prompt_tokens_details": told, "completion_tokens_details": None}
        if told is not None:
            usage["prompt_tokens_details"] = {name: value for name, value in told.items() if value is not None}
        return usage

    def told_inside(self, faults: Faults) -> dict[str, Any] | None:
        """Return the usage inside a chunk, for a client that wants it in every one; details come at the end."""
        if faults.usage_off is not None:
            return None
        prompt = self.prompt + faults.tokens_off
        counted = {"prompt_tokens": prompt, "total_tokens": prompt + self.completion}
        return {**counted, "completion_tokens": self.completion, "completion_tokens_details": None}
