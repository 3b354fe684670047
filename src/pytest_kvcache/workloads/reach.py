"""Which shared lengths can a prompt have on this server, and which is nearest to a wanted rate? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..errors import WorkloadError
from ..model import Grain


def exactly(rate: float) -> Fraction:
    """Return a rate as it was written: 0.7 is seven tenths, not the nearest binary number."""
    return Fraction(str(float(rate)))


@dataclass(frozen=True, slots=True)
class Reach:
    """What prompts of one length can share.

    Attributes:
        input_len: tokens of a prompt.
        grain: in which steps the cache gives credit.
        header: first tokens that all prompts share, whatever is asked: those of a chat template.
        own: last tokens that no other prompt can share: where two part, and what stands behind a text.
        shape: of the workload, for errors.
    """

    input_len: int
    grain: Grain
    header: int = 0
    own: int = 1
    shape: str = "shared_prefix"

    @property
    def most(self) -> int:
        """The longest prefix that two prompts can share."""
        return self.input_len - self.own

    @property
    def highest(self) -> int:
        """The most hit tokens."""
        return self.hit_tokens(self.most)

    @property
    def lowest(self) -> int:
        """The fewest hit tokens, once the header is cached."""
        return self.hit_tokens(0)

    def nearest(self, rate: float, tol: float) -> int:
        """Return the shared length in whole steps whose rate is nearest to the wanted one.

        Raises:
            WorkloadError: it is farther away than ``tol``; names the nearest and the highest rates.
        """
        wanted = exactly(rate) * self.input_len
        found = min(self._around(wanted), key=lambda tokens: abs(tokens - wanted))
        self._check(found, rate, tol)
        return found

    def unaligned(self, rate: float, tol: float) -> int:
        """Return the shared length whose rate is nearest to the wanted one, whatever the steps.

        Raises:
            WorkloadError: the header alone is more than that by more than ``tol``.
        """
        found = min(round(exactly(rate) * self.input_len), self.most)
        if found < self.lowest:
            self._check(self.lowest, rate, tol)
        return found

    def in_chunks(self, rate: float, chunk: int, tol: float) -> int:
        """Return the longest shared length in whole chunks whose rate is not above the wanted one.

        Raises:
            WorkloadError: the header alone is more than that by more than ``tol``.
        """
        wanted = exactly(rate) * self.input_len
        found = min(int(wanted // chunk), self.most // chunk) * chunk
        if wanted < self.lowest:
            self._check(self.lowest, rate, tol)
        return found

    def _check(self, found: int, rate: float, tol: float) -> None:
        if abs(found / self.input_len - rate) <= tol:
            return
        options = self._around(exactly(rate) * self.input_len)
        rates = " or ".join(f"{tokens / self.input_len:.3f} (prefix_len={tokens})" for tokens in options)
        lowest = (
            f" the {self.header} tokens that the chat template puts in front of every message are shared by all, so the"
            f" lowest is {self.lowest / self.input_len:.3f};"
            if self.lowest
            else ""
        )
        raise WorkloadError(
            f"{self.shape}: hit_rate={rate} is out of reach with {self.input_len}-token prompts and blocks of"
            f" {self.grain.block}:{lowest} the nearest reachable are {rates}, the highest is"
            f" {self.highest / self.input_len:.3f}; ask for one of these, or for longer prompts"
        )

    def _around(self, wanted: Fraction) -> list[int]:
        """Return the shared lengths on both sides of the wanted one, lower first."""
        block = self.grain.block
        below = int(wanted // block) * block
        least = -(-self.grain.minimum // block) * block  # shorter prefixes are not credited at all
        pair = (0, least) if wanted < least else (below, below + block)
        return list(dict.fromkeys(max(self.lowest, min(tokens, self.highest)) for tokens in pair))

    def hit_tokens(self, shared: int) -> int:
        """Return what a prompt hits that shares so much with a cached one."""
        return self.grain.credit(max(shared, self.header), self.input_len)
