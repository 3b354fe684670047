"""Which requests of a trace does a server take, and how many tokens does each of them generate? Counted, not silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import WorkloadError
from ..model import Row, ServerFacts
from .wording import Wording


@dataclass(frozen=True, slots=True)
class Fitting:
    """The requests that can be sent.

    Attributes:
        rows: in order.
        max_tokens: generated tokens of each, at least 1.
        notes: what was left out or changed, with how many.
    """

    rows: tuple[Row, ...]
    max_tokens: tuple[int, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, rows: Iterable[Row], name: str, facts: ServerFacts, wording: Wording, output_len: int | None
    ) -> Fitting:
        """Return what of a trace can be sent to a server.

        Args:
            rows: in order.
            name: of the trace, for errors.
            facts: context length.
            wording: what stands around a prompt's pieces.
            output_len: generated tokens of all requests; None: as the trace says.

        Raises:
            WorkloadError: nothing can.
        """
        room = facts.max_model_len
        fitting: list[Row] = []
        long, short, silent, cut = list[Row](), list[Row](), list[Row](), list[Row]()
        generated: list[int] = []
        waits = _Waits()
        for row in rows:
            if room is not None and row.input_length >= room:
                long.append(row)
                waits.leave_out(row)
            elif row.input_length <= wording.around:
                short.append(row)
                waits.leave_out(row)
            else:
                wanted = output_len or row.output_length or 1
                if output_len is None and not row.output_length:
                    silent.append(row)
                left = wanted if room is None else min(wanted, room - row.input_length)
                if left < wanted:
                    cut.append(row)
                fitting.append(waits.after(row))
                generated.append(left)
        notes = (
            *_told(long, f"left out, too long for the {room or 0:,} tokens that {facts.model!r} takes"),
            *_told(short, f"left out, no room beside the {wording.around_by()}"),
            *_told(cut, f"answers cut to what fits {room or 0:,} tokens"),
            *_told(silent, "1 token generated, the trace says 0 or nothing"),
            *_told([row for row in fitting if not row.ids], "without block ids, so they share nothing with any other"),
        )
        if not fitting:
            raise WorkloadError(f"trace {name}: there is no request to send{''.join(f'; {note}' for note in notes)}")
        return cls(tuple(fitting), tuple(generated), notes)


class _Waits:
    """Times that turns are left out with: a later one that only tells its delay is due as if they had been answered."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float | None, float]] = {}  # by session: time, and the delays after it

    def leave_out(self, row: Row) -> None:
        """Remember when a turn would have been sent that is left out."""
        if row.session is not None:
            time, wait = self._since.get(row.session, (None, 0.0))
            self._since[row.session] = (time, wait + (row.delay or 0.0)) if row.time is None else (row.time, 0.0)

    def after(self, row: Row) -> Row:
        """Return a turn that is sent, with its time or delay behind those left out just before it."""
        time, wait = self._since.pop(row.session, (None, 0.0)) if row.session is not None else (None, 0.0)
        if row.time is not None or row.delay is None:
            return row
        return row._replace(delay=wait + row.delay) if time is None else row._replace(time=time + wait + row.delay)


def _told(rows: Sequence[Row], what: str) -> Iterator[str]:
    if rows:
        many, first = ("s", " first") if len(rows) > 1 else ("", "")
        yield f"{len(rows):,} request{many} of the trace (line {rows[0].line:,}{first}): {what}"
