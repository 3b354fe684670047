"""From distances seen in a sample to the curve of all, with its error.

Hits are counted for each *stage*, a part of the trace with one sampling share, and for trunk and branches apart. A
ratio estimator makes the total of them: hits seen, times blocks that all requests used over blocks that sampled ones
used; both are known exactly, so that large requests that happen to be in the sample do not weigh twice. What is left
depends on how often sessions come back, and a regression on the number of requests, known exactly too, takes much of
that away (Särndal et al., Model Assisted Survey Sampling, 1992, chapters 5 to 7). Branches are dealt out to groups by
their marks; how much the groups differ gives the standard error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ..errors import TraceError
from .steps import Steps

GROUPS = 64
DEVIATIONS = 3.0  # standard errors that are stated: of few groups, some with large sessions, two would be too few
_KEPT = 1 << 15  # distances that are counted apart; when there are more, they are put on a grid of a few thousand
_COARSE, _FINE = 2, 8  # 4 and 256 places between a budget and its double
Changes = dict[int, float]


def place(number: int, bits: int) -> int:
    """Return the place of a number on a grid of ``1 << bits`` places to each double, even up to ``2 << bits``."""
    doublings = max(0, number.bit_length() - bits - 1)
    return (doublings << bits) + (number >> doublings)


def at_place(index: int, bits: int) -> int:
    """Return the number at a place, the smallest one that has it."""
    doublings = max(0, (index >> bits) - 1)
    return (index - (doublings << bits)) << doublings


def on_grid(distance: int, amount: float, bits: int) -> tuple[int, float, float]:
    """Share a change of slope out to the places around it, so that the sum is right at every place of the grid.

    Returns:
        The lower place, its part, and that of the next place.
    """
    index = place(distance - 1, bits)  # what lies at distance 1 counts from budget 0 on
    low = at_place(index, bits)
    upper = amount * (distance - 1 - low) / (at_place(index + 1, bits) - low)
    return index, amount - upper, upper


class Seen:
    """What sampled requests used of the trunk, or of branches, by groups.

    Attributes:
        blocks / requests: by group.
        hits: change in hit blocks at a distance.
        less: change in tokens, beside those of whole blocks.
        grouped: by group, change in hit blocks at the places of a coarse grid.
    """

    __slots__ = ("_kept", "blocks", "grouped", "hits", "less", "requests")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self.blocks = [0] * GROUPS
        self.requests = [0] * GROUPS
        self.hits: Changes = defaultdict(float)
        self.less: Changes = defaultdict(float)
        self.grouped: list[Changes] = [defaultdict(float) for _ in range(GROUPS)]

    def add(self, group: int, blocks: int, found: Iterable[tuple[int, int, int]]) -> None:
        """Count a request: blocks that it used, and pieces of these, as start, end, and distance of the first one."""
        self.blocks[group] += blocks
        self.requests[group] += 1
        hits, grouped = self.hits, self.grouped[group]
        for start, end, distance in found:
            for at, change in ((distance, 1), (distance + end - start, -1)):
                hits[at] += change
                index, lower, upper = on_grid(at, change, _COARSE)
                grouped[index] += lower
                grouped[index + 1] += upper
        if len(hits) > self._kept:
            self.fold()

    def correct(self, distance: int, tokens: int) -> None:
        """Count a block that holds so many tokens more than others (less, when negative)."""
        self.less[distance] += tokens
        self.less[distance + 1] -= tokens
        if len(self.less) > self._kept:
            self.fold()

    def fold(self) -> None:
        """Put all distances on a grid, where there are fewer."""
        self.hits, self.less = _folded(self.hits), _folded(self.less)


@dataclass(slots=True)
class Total:
    """What all requests of a stage used of the trunk, or of branches, and what of it was seen."""

    seen: Seen
    blocks: int = 0
    requests: int = 0


@dataclass(slots=True)
class Stage:
    """A part of the trace.

    Attributes:
        share: of the branches that were sampled.
        counted: its hits count; else it only fills the cache.
        trunk / branches: what was used.
    """

    share: float
    counted: bool
    trunk: Total = field(init=False)
    branches: Total = field(init=False)

    def __post_init__(self) -> None:
        kept = _KEPT if self.share < 1 else 1 << 62  # what may turn out to be exact is not to be blurred
        self.trunk, self.branches = Total(Seen(kept)), Total(Seen(kept))


class _Part(NamedTuple):
    """A total with its estimate.

    Attributes:
        scale: what one block seen stands for.
        added: by regression, hit blocks at the places of the coarse grid.
        spread: by group, how far it is from the others, at each place.
    """

    stage: Stage
    total: Total
    scale: float
    added: list[float]
    spread: list[list[float]]


class Estimate:
    """Hits by budget.

    Args:
        stages: of the trace.
        block_size: tokens of a block.
    """

    def __init__(self, stages: Sequence[Stage], block_size: int) -> None:
        self._size = block_size
        totals = [
            (stage, total) for stage in stages for total in (stage.trunk, stage.branches) if any(total.seen.blocks)
        ]
        self._places = 2 + max((at for _, total in totals for of in total.seen.grouped for at in of), default=0)
        self._parts = [self._part(stage, total) for stage, total in totals]

    def hit_blocks(self) -> Changes:
        """Return the changes of hit blocks, in all stages."""
        return self._changes(self._parts)

    def tokens(self) -> Changes:
        """Return the changes of hit tokens, in stages that count."""
        counted = [part for part in self._parts if part.stage.counted]
        changes = {at: change * self._size for at, change in self._changes(counted).items()}
        for part in counted:
            for at, change in part.total.seen.less.items():
                changes[at] = changes.get(at, 0) + change * part.scale
        return changes

    def errors(self, tokens: Steps, least: float) -> list[tuple[int, int]]:
        """Return by how many tokens the curve may be off, at budgets of the coarse grid; nothing when it is exact.

        Beside the groups' spread there is that of the distances. They grow by what is not found, block by block; where
        sampled branches repeat themselves more than others, all distances are too short.

        Args:
            tokens: the curve.
            least: what a few requests of the sample stand for: no curve is finer.
        """
        counted = [part for part in self._parts if part.stage.counted]
        if all(part.stage.share == 1 for part in counted):
            return []
        branches = [part for part in self._parts if part.total is part.stage.branches]
        missed = [float(sum(part.total.blocks for part in branches))] * self._places
        for part in branches:
            for sums in (_sums(of, self._places) for of in part.total.seen.grouped):
                missed = [rest - part.scale * found for rest, found in zip(missed, sums, strict=True)]
        least *= max(1 - part.stage.share for part in counted)
        told = [(0, 0)]  # without a cache nothing hits
        for index in range(1, self._places):
            budget = at_place(index, _COARSE)
            spread = _deviation(counted, index) * self._size
            stretch = _deviation(branches, index) / max(1.0, missed[index])
            slope = (tokens(round(budget * math.sqrt(2))) - tokens(round(budget / math.sqrt(2)))) / math.log(2)
            told.append((budget, math.ceil(DEVIATIONS * math.hypot(spread, stretch * slope) + least)))
        return told

    def _part(self, stage: Stage, total: Total) -> _Part:
        seen = total.seen
        blocks, requests = sum(seen.blocks), sum(seen.requests)
        scale = total.blocks / blocks
        # how many more requests a group has than its blocks let expect, and the sample than all
        more = [own - requests / blocks * used for own, used in zip(seen.requests, seen.blocks, strict=True)]
        missing = total.requests - scale * requests
        square = sum(of * of for of in more)
        sums = [_sums(of, self._places) for of in seen.grouped]
        added, spread = [], []
        for index in range(self._places):
            rate = sum(of[index] for of in sums) / blocks
            off = [of[index] - rate * used for of, used in zip(sums, seen.blocks, strict=True)]
            slope = sum(a * b for a, b in zip(off, more, strict=True)) / square if square else 0.0
            added.append(slope * missing)
            finite = scale * math.sqrt(max(0.0, 1 - stage.share))
            spread.append([finite * (a - slope * b) for a, b in zip(off, more, strict=True)])
        return _Part(stage, total, scale, added, spread)

    def _changes(self, parts: Iterable[_Part]) -> Changes:
        changes: Changes = defaultdict(float)
        for part in parts:
            for at, change in part.total.seen.hits.items():
                changes[at] += change * part.scale
            slope = 0.0
            for index in range(self._places - 1):
                start, end = at_place(index, _COARSE), at_place(index + 1, _COARSE)
                rises = (part.added[index + 1] - part.added[index]) / (end - start)
                changes[start + 1] += rises - slope
                slope = rises
        return changes


def _deviation(parts: Iterable[_Part], index: int) -> float:
    groups = [sum(of) for of in zip(*(part.spread[index] for part in parts), strict=True)]
    return math.sqrt(GROUPS / (GROUPS - 2) * sum(of * of for of in groups))


def _sums(changes: Mapping[int, float], places: int) -> list[float]:
    """Return the sums at the places of the coarse grid."""
    sums, slope = [0.0], changes.get(0, 0.0)
    for index in range(1, places):
        sums.append(sums[-1] + slope * (at_place(index, _COARSE) - at_place(index - 1, _COARSE)))
        slope += changes.get(index, 0.0)
    return sums


def _folded(changes: Changes) -> Changes:
    folded: Changes = defaultdict(float)
    for distance, change in changes.items():
        index, lower, upper = on_grid(distance, change, _FINE)
        for at, part in ((index, lower), (index + 1, upper)):
            if part:
                folded[at_place(at, _FINE) + 1] += part
    return folded


def settled(stages: Sequence[Stage]) -> Sequence[Stage]:
    """Return stages of which something was seen; one too short for that is taken for a piece of its neighbour.

    Raises:
        TraceError: nothing was seen at all of what counts.
    """
    for counted in (False, True):
        alike = [stage for stage in stages if stage.counted is counted]
        for totals in ([stage.branches for stage in alike], [stage.trunk for stage in alike]):
            seen = [at for at, total in enumerate(totals) if any(total.seen.blocks)]
            unseen = [at for at, total in enumerate(totals) if total.blocks and at not in seen]
            if unseen and not seen and counted:
                raise TraceError(
                    f"the sample has none of {sum(total.requests for total in totals):,} requests: give a larger share"
                )
            for at in unseen if seen else ():
                neighbour = totals[min(seen, key=lambda other: abs(other - at))]
                neighbour.blocks += totals[at].blocks
                neighbour.requests += totals[at].requests
    return stages


def rounded(changes: Mapping[int, float], most: int) -> Steps:
    """Return a sum over distances in whole numbers that never falls and is never above ``most``."""
    line, value, slope = [(0, 0)], 0.0, 0.0
    for distance in sorted(changes):
        value += slope * (distance - 1 - line[-1][0])
        slope += changes[distance]
        line.append((distance - 1, min(most, max(line[-1][1], round(value)))))
    return through(line)


def through(line: Sequence[tuple[int, int]]) -> Steps:
    """Return the line from (0, 0) through budgets and values, whole at every budget, and level behind the last one."""
    changes: dict[int, int] = defaultdict(int)
    slope = 0
    for (start, low), (end, high) in pairwise(line):
        if start == end:
            continue
        rise, steeper = divmod(high - low, end - start)
        if steeper:
            changes[start + 1] += rise + 1 - slope
            changes[start + steeper + 1] -= 1
        else:
            changes[start + 1] += rise - slope
        slope = rise
    if line:
        changes[line[-1][0] + 1] -= slope
    return Steps.of(changes)
