"""Where reuse was lost: a waterfall from what could have been reused down to what was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal[
    "cold", "rounding", "template", "tokenizer", "duplicates", "routing", "eviction", "reset", "surplus", "unexplained"
]

TITLES: dict[Cause, str] = {
    "cold": "cold first use",
    "rounding": "block rounding",
    "template": "the chat template",
    "tokenizer": "another tokenizer",
    "duplicates": "duplicates in flight",
    "routing": "routing over engines",
    "eviction": "eviction",
    "reset": "a reset or restart",
    "surplus": "more than predicted",
    "unexplained": "unknown causes",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """One step of the waterfall.

    Attributes:
        cause: why these tokens were not reused; ``surplus`` is negative: more was reused than is explained.
        tokens: how many.
        evidence: what shows it, with its numbers.
        advice: what to do; empty when there is nothing.
        requests: how many requests lost something by it; None when only totals are known.
    """

    cause: Cause
    tokens: int
    evidence: str = ""
    advice: str = ""
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The tokens between what an ideal cache reuses and what was reused.

    ``ceiling - sum(loss.tokens for loss in losses) == measured``, exactly.

    Attributes:
        ceiling: what a cache reuses that is unlimited, was warm from the start and shares token by token: all prompt
            tokens that any other request of the workload begins with too, later turns of the same conversation left
            out; of a turn at least what the turn before it would give, had it been repeated as it was.
        losses: in the order in which they are taken off; only those that are not 0.
        measured: hit tokens.
    """

    ceiling: int
    losses: tuple[Loss, ...]
    measured: int

    def of(self, cause: Cause) -> int:
        """Return the tokens lost by a cause, 0 when there are none."""
        return sum(loss.tokens for loss in self.losses if loss.cause == cause)
