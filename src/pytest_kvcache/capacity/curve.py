"""How much cache buys how much reuse? The hit rate of a trace by budget, read conveniently and never wrongly.

What draws, tabulates or writes a curve is imported where it is asked for: most are only asked for a number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import TraceError
from ..rows import Note
from .budget import Budget, Sizes, is_number
from .points import Everywhere, Point, Points
from .rules import Rules, rules_of
from .stack import StackPass
from .steps import Steps

if TYPE_CHECKING:
    from .knee import Gain, Regime


@dataclass(frozen=True, slots=True, repr=False)
class Curve:
    """Hit tokens of a trace at every budget (``lru``), or at those that were simulated (other policies).

    A budget is given in exactly one unit: whole ``blocks``; ``tokens``, of which the whole blocks count; or ``gib`` of
    KV, where the bytes of a token are known. A rate is hit tokens / input tokens, 0..1, uncovered tokens included.

    Attributes:
        name: of the trace.
        policy: who is evicted.
        rules: what of a prompt is cached and what can hit.
        sizes: tokens of a block, bytes of a token.
        requests / input_tokens / uncovered_tokens: of the counted rows; uncovered tokens have no block id, never hit.
        unique_blocks: distinct blocks of all rows.
        known: the numbers behind it.
        warm: share of the rows, from the first on, that only filled the cache.
        notes: what a reader of the numbers should know.
        errors: hit tokens by which a sampled curve may be off, at every budget; None: the curve is exact.
    """

    name: str
    policy: str
    rules: Rules
    sizes: Sizes
    requests: int
    input_tokens: int
    uncovered_tokens: int
    unique_blocks: int
    known: Everywhere | Points
    warm: float = 0.0
    notes: tuple[Note, ...] = ()
    errors: Steps | None = None

    @classmethod
    def of_stack(
        cls,
        found: StackPass,
        block_size: int,
        *,
        name: str = "rows",
        rules: str | Rules = "reference",
        bytes_per_token: float | None = None,
        warm: float = 0.0,
        notes: Iterable[Note] = (),
    ) -> Curve:
        """Return the curve of an LRU cache from one pass over a trace, or over a sample of it."""
        return cls(
            name=name,
            policy="lru",
            rules=rules_of(rules),
            sizes=Sizes(block_size, bytes_per_token),
            requests=found.requests,
            input_tokens=found.input_tokens,
            uncovered_tokens=found.uncovered_tokens,
            unique_blocks=found.blocks,
            known=Everywhere.of(found),
            warm=warm,
            notes=(*notes, *found.notes),
            errors=found.errors,
        )

    @classmethod
    def of_points(
        cls,
        points: Iterable[Point],
        policy: str,
        found: StackPass,
        block_size: int,
        *,
        name: str = "rows",
        rules: str | Rules = "reference",
        bytes_per_token: float | None = None,
        warm: float = 0.0,
        notes: Iterable[Note] = (),
    ) -> Curve:
        """Return the curve of another policy.

        Args:
            points: budgets that were simulated.
            policy: its name.
            found: a pass over the same rows: whatever the policy, a cache that holds all hits what it tells as most.
            block_size: tokens of a block.
            name / rules / bytes_per_token / warm / notes: as in the attributes.
        """
        most = found.tokens.most
        return cls(
            name=name,
            policy=policy,
            rules=rules_of(rules),
            sizes=Sizes(block_size, bytes_per_token),
            requests=found.requests,
            input_tokens=found.input_tokens,
            uncovered_tokens=found.uncovered_tokens,
            unique_blocks=found.blocks,
            known=Points.of(points, policy=policy, most=most, blocks=found.blocks),
            warm=warm,
            notes=tuple(notes),
        )

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return self.sizes.block_size

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes of KV that a token takes; None when not known."""
        return self.sizes.bytes_per_token

    @property
    def ceiling_tokens(self) -> int:
        """Hit tokens of a cache without limit."""
        return self.known.most

    @property
    def ceiling(self) -> float | None:
        """Hit rate of a cache without limit; None when no tokens were counted, since 0 of 0 is undefined."""
        return self.ceiling_tokens / self.input_tokens if self.input_tokens else None

    @property
    def points(self) -> tuple[int, ...]:
        """Budgets in blocks that were simulated; empty where every budget is known."""
        return tuple(point.blocks for point in self.known.points) if isinstance(self.known, Points) else ()

    def hit_tokens(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> int:
        """Return the hit tokens at a budget.

        Raises:
            TraceError: the budget is not given in exactly one unit, is no finite number from 0, is in GiB where the
                bytes of a token are not known, or was not simulated (never so for lru).
        """
        return self.known.hit_tokens(self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib))

    def hit_rate(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> float:
        """Return the hit rate at a budget, 0..1.

        Raises:
            TraceError: as :meth:`hit_tokens`; or no tokens were counted.
        """
        return self.rate(self.hit_tokens(blocks=blocks, tokens=tokens, gib=gib))

    def evictions(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> int:
        """Return how many blocks had to go at a budget, over all rows. Raises like :meth:`hit_tokens`."""
        return self.known.evictions(self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib))

    def error(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> float:
        """Return by how much the hit rate may be off at a budget: two standard errors of a sample, 0.0 where exact.

        Raises:
            TraceError: as :meth:`hit_rate`.
        """
        at = self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib)
        return self.rate(self.errors(at) if self.errors else 0)

    def rate(self, tokens: int) -> float:
        """Return tokens as a share of the input tokens; TraceError when there are none."""
        if not self.input_tokens:
            raise TraceError(f"{self.name}: no tokens were counted, so there is no hit rate: 0 of 0 is undefined")
        return tokens / self.input_tokens

    def budget(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> Budget:
        """Return a budget in every unit, in whole blocks. Raises TraceError like :meth:`hit_tokens`."""
        return self.sizes.budget(self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib))

    def budget_for(self, *, hit_rate: float) -> Budget:
        """Return the smallest budget that reaches a hit rate (of those simulated, for policies other than lru).

        Raises:
            TraceError: it is above the ceiling, no rate from 0 to 1, or no tokens were counted.
        """
        if not is_number(hit_rate, 1):
            raise TraceError(f"hit_rate={hit_rate!r}: expected a rate, 0..1")
        if hit_rate > self.rate(self.ceiling_tokens):
            raise TraceError(
                f"hit_rate={hit_rate}: no budget reaches it. A cache without limit hits "
                f"{self.rate(self.ceiling_tokens):.6f} of {self.name}, the ceiling"
            )
        tokens = max(0, math.floor(hit_rate * self.input_tokens) - 1)
        while self.rate(tokens) < hit_rate:  # as divided, not as multiplied
            tokens += 1
        return self.reaching(tokens)

    def reaching(self, tokens: int) -> Budget:
        """Return the smallest budget with so many hit tokens, or with those of the ceiling if that has fewer."""
        blocks = self.known.reaches(min(tokens, self.ceiling_tokens))
        return self.sizes.budget(blocks or 0)

    def knee(self, within: float = 0.01) -> Budget:
        """Return the smallest budget whose hit rate is at most ``within`` (as a rate) below the ceiling.

        Raises:
            TraceError: ``within`` is no number from 0 to 1, or no tokens were counted.
        """
        from .knee import find_knee

        return find_knee(self, within)

    def gain(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> Gain:
        """Return what one more GiB brings at a budget, or a million tokens of cache where GiB are not known.

        Raises:
            TraceError: as :meth:`hit_rate`.
        """
        from .knee import gain_at

        return gain_at(self, self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib))

    def gain_per_gib(
        self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None
    ) -> float:
        """Return by how much one more GiB raises the hit rate at a budget.

        Raises:
            TraceError: as :meth:`hit_rate`; or the bytes of a token are not known.
        """
        self.sizes.blocks(gib=1)
        return self.gain(blocks=blocks, tokens=tokens, gib=gib).hit_rate

    def regime(
        self,
        *,
        blocks: float | None = None,
        tokens: float | None = None,
        gib: float | None = None,
        within: float = 0.01,
    ) -> Regime:
        """Return how a cache of this budget fares: plateau, thrashing or growing, and why.

        Args:
            blocks / tokens / gib: the budget, in one of them.
            within: a difference of the hit rate that does not matter.

        Raises:
            TraceError: as :meth:`hit_rate`.
        """
        from .knee import regime_at

        return regime_at(self, self.sizes.blocks(blocks=blocks, tokens=tokens, gib=gib), within)

    def table(self, budgets: Iterable[int] | None = None) -> str:
        """Return a table of budgets in blocks: by default powers of two (or those simulated), knee and ceiling."""
        from .table import tabulate

        return tabulate(self, budgets)

    def plot(self, width: int = 60, height: int = 12, *, unicode: bool = True) -> str:
        """Return a drawing for terminals: hit rate over the budget (logarithmic), with ceiling and knee.

        Raises:
            TraceError: it is smaller than 30 columns or 8 lines.
        """
        from .plot import draw

        return draw(self, width, height, unicode=unicode)

    def to_json(self) -> dict[str, Any]:
        """Return the whole curve in built-in types.

        Keys: ``schema``; ``name policy rules warm`` as given; ``block_size bytes_per_token``; ``requests input_tokens
        uncovered_tokens unique_blocks`` of the trace; ``ceiling ceiling_tokens knee`` of the curve, null where
        undefined; ``hit_tokens`` and ``stored`` (blocks put into the cache), each as ``at`` (budgets in blocks where
        the slope changes), ``value`` there and ``slope`` (what each further block adds), or null; ``points`` of a
        policy that was simulated, each ``blocks hit_tokens evictions``, or null; ``error_tokens`` like hit_tokens, null
        where exact; ``notes``, each ``reason count line sentence``.
        """
        from .document import write

        return write(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Curve:
        """Return the curve of a document; TraceError when it is none, of another version, or damaged."""
        from .document import read

        return cls(**read(given))

    def to_csv(self, to: str | PathLike[str] | TextIO, budgets: Iterable[int] | None = None) -> None:
        """Write ``blocks,tokens,gib,hit_tokens,hit_rate,error,evictions``, one row a budget.

        Args:
            to: a path, or a file open for text.
            budgets: in blocks; None: those of :meth:`table`.
        """
        from .document import write_csv
        from .table import usual

        write_csv(self, to, usual(self) if budgets is None else budgets)

    def __str__(self) -> str:
        from .plot import needs_ascii
        from .table import usual

        short = self.table(usual(self, step=2, rows=5)) if self.input_tokens else ""
        drawing = self.plot(unicode=not needs_ascii(getattr(sys.stdout, "encoding", None)))
        notes = [f"note: {note.sentence}" for note in self.notes]
        return "\n".join([self._headline(), "", drawing, "", short, *notes]).rstrip()

    def __repr__(self) -> str:
        return f"<Curve {self._headline()}>"

    def _headline(self) -> str:
        if not self.ceiling:
            return f"{self.policy} of {self.name}: {'ceiling 0' if self.input_tokens else 'no tokens counted'}"
        off = f" (sampled, error {self.error(blocks=self.unique_blocks):.3f})" if self.errors else ""
        return f"{self.policy} of {self.name}: ceiling {self.ceiling:.3f}{off}, knee {self.knee()} within 0.01"
