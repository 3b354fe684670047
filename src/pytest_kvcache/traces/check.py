"""Do the rows of a trace fit its block size and its clock? Errors, counted notes and skips."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import TraceError


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is left out.

    Attributes:
        line: where it stands.
        reason: short and stable: ``zero_input``, or that of the error for which it is skipped.
        sentence: what is wrong with it, as what follows "line 7: "; quotes no text of the user's.
    """

    line: int
    reason: str
    sentence: str


class RowError(TraceError):
    """A row that cannot be used; ends the reading, or is a skip when a trace is read with ``strict=False``.

    Attributes:
        line: where it stands.
        reason: short and stable.
        sentence: what is wrong with it, as what follows "line 7: "; quotes no text of the user's.
    """

    def __init__(self, line: int, reason: str, sentence: str) -> None:
        super().__init__(f"line {line:,}: {sentence}")
        self.line = line
        self.reason = reason
        self.sentence = sentence

    @property
    def skipped(self) -> Skipped:
        """The skip that it becomes."""
        return Skipped(self.line, self.reason, self.sentence)
