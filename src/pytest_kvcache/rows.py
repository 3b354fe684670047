"""One request of a trace: lengths, times and block ids, no text."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """One request as a trace tells it. A tuple, because there are millions.

    Attributes:
        line: where it stands: the line of a file, from 1; of a file that is one document, the number of the request.
        input_length: prompt tokens, at least 1.
        ids: ids of the prompt's blocks, first block first, as 64-bit integers; the last one may stand for a partial
            block. Fewer than the prompt has: the rest is *uncovered* and can never hit.
        output_length: generated tokens; None when the trace does not tell.
        time: seconds on the trace's clock, whose zero means nothing; None when the trace has none.
        session: whose turns follow one another; None: it stands alone.
        tenant: whose request it is; None when the trace does not tell.
        scope: ids mean something only among rows of equal scope.
        weights: tokens of each block where the trace tells them (``block_tokens``); None: as the block size says.
        delay: seconds after the end of the session's previous answer at which it was sent; None when not told.
        cached: prompt tokens that the server said were reused, when the trace was recorded; None when not told.
        block_size: tokens of a block as the row itself says; None when it does not.
    """

    line: int
    input_length: int
    ids: array[int]
    output_length: int | None = None
    time: float | None = None
    session: str | None = None
    tenant: str | None = None
    scope: Hashable = None
    weights: array[int] | None = None
    delay: float | None = None
    cached: int | None = None
    block_size: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader of a trace's numbers should know, counted.

    Attributes:
        reason: short and stable, for tests and JSON: ``zero_input``, ``uncovered``, ``time_backwards``, ...
        count: rows (or ids) that it is about.
        line: of the first one, None where it is about no line.
        sentence: for people, with the figures.
    """

    reason: str
    count: int
    line: int | None
    sentence: str
