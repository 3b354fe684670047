"""What should a reader of a trace's numbers know? Counted while a trace is read, told once per reason."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows import Note
from .check import Skipped


@dataclass(slots=True)
class _Counted:
    sentence: str
    line: int | None
    where: str
    count: int = 0
    amount: int = 0


class Notes:
    """Notes of one reading, in the order in which their reasons came up.

    Attributes:
        file: where lines are counted, when there are several files; empty when there is one.
        unit: what is counted: ``line``; of a file that is one document ``request``.
        sessions: where each session stands whose ids mean something inside it only, in all files.
    """

    __slots__ = ("_counted", "file", "sessions", "unit")

    def __init__(self) -> None:
        self.file = ""
        self.unit = "line"
        self.sessions: dict[str, str] = {}
        self._counted: dict[str, _Counted] = {}

    def add(self, reason: str, line: int | None, sentence: str, amount: int = 0, count: int = 1) -> None:
        """Count one more of a reason.

        Args:
            reason: short and stable.
            line: where; that of the first one is told.
            sentence: for people; of the first one; in it ``{count}``, ``{rows}`` ("3 rows"), ``{amount}`` and
                ``{line}`` ("line 7", of which file) are the figures. Braces of its own are doubled.
            amount: tokens, or whatever else is summed up.
            count: how many.
        """
        counted = self._counted.get(reason)
        if counted is None:
            where = "" if line is None else self.where(line)
            counted = self._counted[reason] = _Counted(sentence, line, where)
        counted.count += count
        counted.amount += amount

    def where(self, line: int) -> str:
        """Return what a line is called: of which file, when there are several."""
        return f"{self.unit} {line:,}" + (f" of {self.file}" if self.file else "")

    def skip(self, skipped: Skipped) -> None:
        """Count a row that is left out."""
        sentence = "{rows} left out, the first in {line}: " + skipped.sentence.replace("{", "{{").replace("}", "}}")
        self.add(skipped.reason, skipped.line, sentence)

    def all(self) -> tuple[Note, ...]:
        """Return them with their figures."""
        return tuple(
            Note(
                reason,
                counted.count,
                counted.line,
                counted.sentence.format(
                    count=f"{counted.count:,}",
                    rows=f"{counted.count:,} row{'' if counted.count == 1 else 's'}",
                    amount=f"{counted.amount:,}",
                    line=counted.where,
                ),
            )
            for reason, counted in self._counted.items()
        )
