"""What do the rows of a trace add up to?"""

from __future__ import annotations

from dataclasses import dataclass

from ..rows import Row


@dataclass(slots=True)
class Tally:
    """Sums over the rows of a trace.

    Attributes:
        requests: rows.
        input_tokens: of all of them.
        output_tokens: likewise; None when a row does not tell.
        uncovered_tokens: input tokens that no id stands for; they can never hit.
        block_events: ids of all rows.
        max_blocks: ids of the row that has most.
        start: the earliest time in seconds on the trace's clock; None without any.
        end: the latest.
        untimed: rows without a time.
        cached_tokens: what the server said it had reused, of the rows that tell.
        cached_input: input tokens of these rows.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int | None = 0
    uncovered_tokens: int = 0
    block_events: int = 0
    max_blocks: int = 0
    start: float | None = None
    end: float | None = None
    untimed: int = 0
    cached_tokens: int = 0
    cached_input: int = 0

    def add(self, row: Row) -> None:
        """Add a row."""
        self.requests += 1
        self.input_tokens += row.input_length
        if row.output_length is None:
            self.output_tokens = None
        elif self.output_tokens is not None:
            self.output_tokens += row.output_length
        blocks = len(row.ids)
        self.block_events += blocks
        if blocks > self.max_blocks:
            self.max_blocks = blocks
        time = row.time
        if time is None:
            self.untimed += 1
        elif self.start is None or self.end is None:
            self.start = self.end = time
        elif time > self.end:
            self.end = time
        elif time < self.start:
            self.start = time
        if row.cached is not None:
            self.cached_tokens += row.cached
            self.cached_input += row.input_length

    @property
    def span(self) -> float | None:
        """Seconds from the first request to the last; None when no row has a time."""
        return None if self.start is None or self.end is None else self.end - self.start
