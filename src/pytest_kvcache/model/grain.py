"""In which steps a cache gives credit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grain:
    """How much of a shared prefix is reused.

    Attributes:
        block: credit comes in steps of so many tokens.
        minimum: less than this is not credited at all (hosted caches: 1,024).
        whole: a prompt that is cached whole is credited to its last token; elsewhere that one is always computed.
    """

    block: int = 1
    minimum: int = 0
    whole: bool = False

    def credit(self, shared: int, length: int) -> int:
        """Return the hit tokens of a prompt of ``length`` that shares its first ``shared`` tokens with a cached one.

        ``floor(min(P, L-1)/B)*B``: the last prompt token is always computed, because its logits are needed, and only
        full blocks are reused. Measured to the token on vLLM 0.32 (17 lengths, 13 shared prefixes, blocks of 128 and
        32). OpenAI documents a minimum of 1,024 tokens and steps of 128.
        """
        tokens = max(0, min(shared, length if self.whole else length - 1)) // self.block * self.block
        return tokens if tokens >= self.minimum else 0

    def __str__(self) -> str:
        steps = "token by token" if self.block == 1 else f"in {self.block}-token steps"
        return steps + (f" from {self.minimum:,} on" if self.minimum > self.block else "")
