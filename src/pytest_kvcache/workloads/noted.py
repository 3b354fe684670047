"""What should a reader of the result know of how a workload came out? Short lines, figures only. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .paths import Paths
from .reach import Reach, exactly
from .vocabulary import Vocabulary

_MOST = 4  # lines of one kind


def rounded(found: Iterable[tuple[float, Reach, int]], step: str) -> Iterator[str]:
    """Tell which hit rates come out otherwise than asked.

    Args:
        found: wanted rate, what is in reach, and the shared length that was taken.
        step: what moved them, such as ``blocks of 16``.
    """
    lines: dict[str, None] = {}
    for rate, reach, shared in found:
        hit = reach.hit_tokens(shared)
        if hit != exactly(rate) * reach.input_len:
            came = hit / reach.input_len
            digits = 3 if round(came, 3) != round(rate, 3) else 5
            tokens = f"{hit:,} of {reach.input_len:,} tokens"
            lines[f"hit rate {_written(rate)} is {came:.{digits}f} in {step}: {tokens}"] = None
    yield from _few(list(lines))


def highest(reaches: Sequence[tuple[Reach, int]]) -> str:
    """Tell the highest rate that requests can have, given what is in reach for so many of each."""
    hit = sum(reach.highest * count for reach, count in reaches)
    query = sum(reach.input_len * count for reach, count in reaches)
    first, _ = reaches[0]
    always = "a prompt's last token is" if first.own == 1 else f"a prompt's last {first.own} tokens are"
    blocks = f", blocks of {first.grain.block}" if first.grain.block > 1 else ""
    return f"highest rate in reach: {hit / query:.3f} ({always} always computed{blocks})"


def alike(paths: Paths, vocabulary: Vocabulary) -> Iterator[str]:
    """Tell when prefixes are too short to be all different."""
    for level, ((_, tokens), siblings) in enumerate(zip(paths.levels, paths.most_siblings, strict=True)):
        if paths.length and len(vocabulary) ** tokens < siblings:
            where = f" of level {level + 1}" if len(paths.levels) > 1 else ""
            long = "1 token" if tokens == 1 else f"{tokens} tokens"
            yield f"{siblings:,} prefixes{where} of {long} cannot all be different: some are the same"


def _few(lines: list[str]) -> list[str]:
    return (
        lines if len(lines) <= _MOST else [*lines[: _MOST - 1], f"and {len(lines) - _MOST + 1} more rates like these"]
    )


def _written(rate: float) -> str:
    return f"{rate:.2f}" if round(rate, 2) == rate else f"{rate:g}"
