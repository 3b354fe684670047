"""A trace as tests hold it: checked rows, what they add up to, and what caches make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import TraceError
from ..garbage import uncollected
from ..rows import Note, Row
from . import select
from .check import Checker
from .notes import Notes
from .parents import Parents
from .reading import Given, Reading

if TYPE_CHECKING:
    from ..capacity.curve import Curve
    from ..capacity.rules import Rules
    from ..capacity.simulated import Simulated

Ids = Literal["prefix", "content"]
Order = Literal["file", "time"]

_KEPT = 20_000_000  # ids, in all rows that are kept in memory: 160 MB
_ROW = 40  # ids that a row takes the room of, beside its own


class Trace:
    """Requests of the past, in the order in which a cache would have seen them.

    Iterating gives a :class:`~pytest_kvcache.rows.Row` each, as often as wanted: from memory up to 20 million
    ids, else read again each time. All rows were checked when the trace was made.

    Attributes:
        name: of the file; of a part of a trace, what it is, with its rate.
        format: the form it was read as; ``rows`` for rows of your own.
        block_size: tokens of a block; None where no row has ids and nobody said it.
        bytes_per_token: of KV cache, for budgets in GiB; None when not known.
        ids: what its ids were declared to be; None: nothing.
        order: ``time``: sorted by it; ``file`` or None: as they stand in the file.
        checked: the notes that results have too: of what was checked when it was read.
        files: what it is read from; none for rows of your own.
    """

    def __init__(
        self,
        reading: Reading,
        *,
        name: str,
        format: str = "rows",
        block_size: int | None = None,
        stated: int | None = None,
        bytes_per_token: float | None = None,
        ids: Ids | None = None,
        order: Order | None = None,
        strict: bool = True,
        notes: Sequence[Note] = (),
    ) -> None:
        """Read it once; :func:`~pytest_kvcache.open_trace` and :meth:`of` make traces.

        Args:
            reading: gives the rows.
            name / format / block_size / bytes_per_token / ids / order: as in the attributes.
            stated: block size of the form's documentation.
            strict: a bad row is an error.
            notes: of what it was made from.
        """
        self.name = self._label = name
        self.format = format
        self.bytes_per_token = bytes_per_token
        self.ids = ids
        self.order = order
        self.files = reading.files
        self._strict = strict
        self._reading = reading
        self._sizes = block_size, stated
        self._before = tuple(notes)
        checker = self._checker()
        with uncollected(self.files):
            self._kept = self._first(checker)
        self._tally, self.block_size = checker.tally, checker.block_size
        self.checked = self._noted(checker)
        self._notes: tuple[Note, ...] | None = self.checked if self.ids is not None else None

    @classmethod
    def of(
        cls,
        rows: Iterable[Row] | Callable[[], Iterable[Row]],
        *,
        block_size: int | None,
        name: str = "rows",
        bytes_per_token: float | None = None,
        ids: Ids | None = None,
        order: Order | None = None,
        strict: bool = True,
    ) -> Trace:
        """Make a trace of rows of your own, checked like those of a file.

        Args:
            rows: in their order; a callable gives them anew whenever they are needed, so that they need not fit in
                memory.
            block_size: tokens of a block; None when rows say it themselves, or have no ids.
            name: for errors and reports.
            bytes_per_token / ids / order / strict: as for :func:`~pytest_kvcache.open_trace`.

        Raises:
            TraceError: a row does not fit, or there is none.
        """
        if not callable(rows):
            kept = rows if isinstance(rows, Sequence) else tuple(rows)
            rows = lambda: kept  # noqa: E731 - the sequence that is named above
        return cls(
            Given(rows, name, strict=strict),
            name=name,
            block_size=block_size,
            bytes_per_token=bytes_per_token,
            ids=ids,
            order=order,
            strict=strict,
        )

    # --- rows --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Row]:
        return iter(self._kept) if self._kept is not None else self._again()

    def __len__(self) -> int:
        return self._tally.requests

    @property
    def notes(self) -> tuple[Note, ...]:
        """What should be known of its numbers, counted.

        Unless it was said what its ids are, they are looked at when this is asked for the first time, which reads it
        again: is there any behind two different ones?
        """
        if self._notes is None:
            notes = Notes()
            checker = self._checker(notes, Parents(notes, strict=False))
            for _ in self._reading(checker):
                pass
            self._notes = self._noted(checker)
        return self._notes

    def _checker(self, notes: Notes | None = None, parents: Parents | None = None) -> Checker:
        asked, stated = self._sizes
        notes = Notes() if notes is None else notes
        if self.ids == "prefix":
            parents = Parents(notes, strict=True)
        return Checker(asked, notes, stated=stated, strict=self._strict, parents=parents)

    def _first(self, checker: Checker) -> list[Row] | None:
        """Read it once, and return its rows when they are few enough to be kept."""
        kept: list[Row] | None = []
        if self.order == "time":
            kept = select.by_time(self._reading(checker), self._label)
        else:
            tally = checker.tally
            for row in self._reading(checker):
                if kept is not None:
                    kept.append(row)
                    if tally.block_events + _ROW * tally.requests > _KEPT:
                        kept = None
        if not checker.tally.requests:
            left_out = "; ".join(note.sentence for note in checker.notes.all())
            raise TraceError(f"{self._label}: it holds no requests{left_out and f' ({left_out})'}")
        return kept

    def _again(self) -> Iterator[Row]:
        checker = self._checker()
        yield from self._reading(checker)
        if checker.tally != self._tally or self._noted(checker) != self.checked:
            raise TraceError(f"{self._label}: reading it again gave other rows than at first; open it anew")

    def _noted(self, checker: Checker) -> tuple[Note, ...]:
        return (*self._before, *checker.notes.all())

    # --- what they add up to -----------------------------------------------------------------------------------------

    @property
    def span(self) -> float | None:
        """Seconds from the first request to the last, of those with a time; None when none has one."""
        return self._tally.span

    @property
    def request_rate(self) -> float | None:
        """Requests per second of its span; None without one, and when a row has no time."""
        return len(self) / self.span if self.span and not self._tally.untimed else None

    @property
    def input_tokens(self) -> int:
        """Prompt tokens of all rows."""
        return self._tally.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """Generated tokens of all rows; None when any row does not tell."""
        return self._tally.output_tokens

    @property
    def uncovered_tokens(self) -> int:
        """Prompt tokens that no id stands for; they can never hit."""
        return self._tally.uncovered_tokens

    @property
    def block_events(self) -> int:
        """Block ids of all rows."""
        return self._tally.block_events

    @property
    def max_blocks(self) -> int:
        """Block ids of the row that has most."""
        return self._tally.max_blocks

    @property
    def recorded_hit_rate(self) -> float | None:
        """Hit rate that the server told when the trace was recorded, of the rows that tell; None when none does."""
        tally = self._tally
        return tally.cached_tokens / tally.cached_input if tally.cached_input else None

    def __str__(self) -> str:
        rate = f" ({_figure(self.request_rate)} requests/s)" if self.request_rate else ""
        span = "no times" if self.span is None else f"span {_figure(self.span)} s{rate}"
        size = "no block ids" if not self.block_events else f"block size {self.block_size}"
        many = f"{len(self):,} request{'' if len(self) == 1 else 's'}"
        return f"{self._label}: {many}, {self.input_tokens:,} input tokens, {span}, {size}"

    def __repr__(self) -> str:
        return f"<Trace {self}>"

    # --- what caches make of it --------------------------------------------------------------------------------------

    def simulate(
        self,
        policy: str = "lru",
        *,
        blocks: float | None = None,
        tokens: float | None = None,
        gib: float | None = None,
        rules: str | Rules = "reference",
        warm: float = 0.0,
        engines: int = 1,
        routing: str = "round_robin",
    ) -> Simulated:
        """Send it through a cache; see :func:`pytest_kvcache.capacity.simulate.simulate`.

        Args:
            policy: who is evicted: ``lru``, ``fifo``, ``lfu``, ``s3fifo``, or ``optimum``, what none of them exceeds.
            blocks / tokens / gib: the budget of each engine, in one of them; none: without limit.
            rules: ``reference`` (a partial block is a block), ``engine`` (full blocks, and never the last token), or
                :class:`~pytest_kvcache.capacity.rules.Rules`.
            warm: share of the rows, from the first on, that only fill the cache.
            engines: how many, each with a cache of its own; see :func:`pytest_kvcache.capacity.fleet.fleet`.
            routing: of several engines.

        Raises:
            TraceError: it has no block ids, or an argument is wrong.
        """
        from .cached import simulated

        return simulated(
            self,
            policy,
            blocks=blocks,
            tokens=tokens,
            gib=gib,
            rules=rules,
            warm=warm,
            engines=engines,
            routing=routing,
        )

    def sweep(
        self,
        policy: str = "lru",
        *,
        budgets: Sequence[int] | None = None,
        rules: str | Rules = "reference",
        warm: float = 0.0,
        processes: int | None = None,
        sample: float | Literal["auto"] | None = None,
        max_blocks: int = 1_000_000,
        seed: int = 0,
    ) -> Curve:
        """Return what it hits by budget: exactly at every one for ``lru``, at some for other policies.

        Args:
            policy / rules / warm: as for :meth:`simulate`.
            budgets: in blocks, those to simulate; None: all in one pass for ``lru``, else two for each doubling.
            processes: to simulate in; None: as many as are of use.
            sample: for traces too large to hold, an estimate with its error, for ``lru`` alone: the share of sessions
                that are followed, or ``auto``: as many as ``max_blocks`` allows. None: exactly.
            max_blocks / seed: blocks held at most; of the sample.

        Raises:
            TraceError: it has no block ids, or an argument is wrong.
        """
        from .cached import estimated, swept

        if sample is None:
            return swept(self, policy, budgets=budgets, rules=rules, warm=warm, processes=processes)
        if (policy, budgets) != ("lru", None):
            raise TraceError("sample= is for policy='lru' at all budgets: leave policy and budgets out, or sample=")
        share = None if sample == "auto" else sample
        return estimated(self, rules=rules, warm=warm, share=share, max_blocks=max_blocks, seed=seed)

    def export(self, path: str | Path, *, salt: str | None = None) -> None:
        """Write it without what tells who asked for what; see :func:`~pytest_kvcache.traces.export.export`.

        Args:
            path: of the file; gzip when its name ends in ``.gz``.
            salt: a long secret; exports with the same one can be joined. None: a random one, kept nowhere.

        Raises:
            TraceError: it is a file that the trace was read from, or cannot be written.
        """
        from .export import export

        export(self, path, salt=salt)

    # --- a trace from it ---------------------------------------------------------------------------------------------

    def first(self, count: int) -> Trace:
        """Return its first rows.

        Raises:
            TraceError: ``count`` is no whole number of at least 1.
        """
        select.check_count(count, "first")
        return self._part(f"first {min(count, len(self)):,} of", lambda rows: select.first(rows, count))

    def between(self, start: float, end: float) -> Trace:
        """Return the rows of a while, in seconds from its beginning; ``end`` does not belong to it.

        Raises:
            TraceError: a row has no time, or none lies there.
        """
        begin = self._begin("between")
        if not (select.is_number(start) and select.is_number(end) and start < end):
            raise TraceError(f"between({start!r}, {end!r}): expected seconds, the second after the first")
        what = f"{_figure(start)} s to {_figure(end)} s of"
        return self._part(what, lambda rows: select.between(rows, begin + start, begin + end))

    def sampled(self, share: float, seed: int = 0) -> Trace:
        """Return a share of its sessions, whole, drawn by their names; rows without a session are drawn one by one.

        It is another load: of fewer sessions, which need a smaller cache and share less with each other.

        Raises:
            TraceError: the share is not above 0 and at most 1, or nothing was drawn.
        """
        if not (select.is_number(share) and 0 < share <= 1):
            raise TraceError(f"sampled({share!r}): expected a share above 0, up to 1")
        what = f"{_figure(share)} of the sessions (seed {seed}) of"
        return self._part(what, lambda rows: select.sampled(rows, share, seed))

    def scaled(self, block_size: int) -> Trace:
        """Return it with blocks of another size: the same blocks, shorter or longer prompts and outputs.

        Raises:
            TraceError: ``block_size`` is no whole number of at least 1, or it has no block size now.
        """
        select.check_count(block_size, "scaled")
        size = self.block_size
        if size is None:
            raise TraceError(f"{self._label}: it has no block size to be scaled from; give block_size= with the trace")
        return self._part(
            f"scaled from {size} to {block_size} tokens a block:",
            lambda rows: select.scaled(rows, size, block_size),
            block_size,
        )

    def _part(self, what: str, pick: Callable[[Iterable[Row]], Iterable[Row]], block_size: int | None = None) -> Trace:
        label = f"{what} {self._label}"
        part = Trace(
            Given(lambda: pick(self), label, self.files),
            name=label,
            format=self.format,
            block_size=self.block_size if block_size is None else block_size,
            bytes_per_token=self.bytes_per_token,
            ids=self.ids,
            strict=self._strict,
            notes=[note for note in self.checked if note.reason not in Checker.COUNTED],
        )
        part.order = self.order  # its rows are in it already
        if part.request_rate:
            part.name = f"{label} ({_figure(part.request_rate)} requests/s)"
        return part

    def _begin(self, what: str) -> float:
        select.need_times(self._label, f"{what}()", self._tally.untimed, len(self))
        assert self._tally.start is not None  # every row has a time
        return self._tally.start


def _figure(value: float) -> str:
    """Return a number with three digits at least, and all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
