"""Conversations turn by turn: what was reused of each prompt, and is it what an append-only history should give? Pure.

Sessions and turns are counted from 0, as in :class:`~pytest_kvcache.model.Exchange`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest

from .model import Exchange, Measurement

_UNKNOWN = "the server reports no {} there, so nothing can be said"


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation. None: not known.

    Attributes:
        session / turn: its place.
        prompt / cached: tokens, as the server reports them.
        predicted: the least that a cache of the server's block size reuses.
        room: what it may reuse beyond that, because what was generated is not known token by token.
        ttft: time to first token, seconds.
        ok: the answer was whole; a conversation ends with one that was not.
    """

    session: int
    turn: int
    prompt: int | None
    cached: int | None
    predicted: int | None = None
    room: int | None = 0
    ttft: float | None = None
    ok: bool = True

    @property
    def place(self) -> str:
        """Return where it is, in words."""
        return f"session {self.session}, turn {self.turn}"

    @property
    def hit_rate(self) -> float | None:
        """Cached / prompt tokens; None when one is not known, or there was no prompt."""
        return None if self.cached is None or not self.prompt else self.cached / self.prompt


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """The outcome of a check, for a plain ``assert``: true when it holds, and printed as a sentence.

    Attributes:
        ok: whether it holds.
        sentence: where it does not, with the numbers; or what holds.
    """

    ok: bool
    sentence: str

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, repr=False)
class Turns:
    """The turns of a run, session by session, each in order.

    A check that lacks a number fails and says so: what is not known never passes.

    Attributes:
        rows: the turns.
        exact: False when the predicted numbers are an upper bound, because the server does not tell its block size.
        missing: requests that never came because their conversation ended early; None: not known.
    """

    rows: tuple[Turn, ...] = ()
    exact: bool = True
    missing: int | None = None

    @classmethod
    def of(cls, measurement: Measurement) -> Turns:
        """Return the turns of the conversations in a run; empty when there are none."""
        exchanges, prediction = measurement.exchanges, measurement.prediction
        count = len(exchanges)
        least: Sequence[int | None] = [None] * count
        room: Sequence[int | None] = least
        if prediction is not None and len(prediction.per_request) == count:
            least = prediction.per_request
            room = prediction.room or [None if prediction.slack else 0] * count
        rows = [
            _turn(e.session, e.turn, e, predicted, more)
            for e, predicted, more in zip(exchanges, least, room, strict=True)
            if e.session is not None and e.turn is not None
        ]
        return cls(
            tuple(sorted(rows, key=lambda row: (row.session, row.turn))),
            exact=prediction is not None and prediction.exact,
            missing=None if measurement.planned is None or not rows else measurement.planned - count,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.rows)

    def __repr__(self) -> str:
        sessions = len({row.session for row in self})
        gone = f", {self.missing:,} missing" if self.missing else ""
        return f"<Turns: {len(self):,} of {sessions:,} session{'' if sessions == 1 else 's'}{gone}>"

    @property
    def hit_rate(self) -> float | None:
        """Cached / prompt tokens of all turns together; None when any number is not known, or there is none."""
        prompts, cached = [row.prompt for row in self], [row.cached for row in self]
        if None in prompts or None in cached:
            return None
        total = sum(tokens or 0 for tokens in prompts)
        return sum(tokens or 0 for tokens in cached) / total if total else None

    def skip(self, turns: int) -> Turns:
        """Return the turns without the first ``turns`` of each session."""
        kept = tuple(row for row in self if row.turn >= turns)
        return Turns(kept, exact=self.exact, missing=self.missing)

    # --- checks ------------------------------------------------------------------------------------------------------

    def cached_tokens_never_drop(self) -> Check:
        """Within a session no turn reuses fewer tokens than the one before it."""
        return self._steps(
            lambda before, now: now >= before,
            "cached tokens fell from {:,} to {:,}",
            "cached tokens never fall within a session",
        )

    def grows(self) -> Check:
        """Within a session every turn reuses more tokens than the one before it."""
        return self._steps(
            lambda before, now: now > before,
            "cached tokens did not grow, from {:,} to {:,}",
            "cached tokens grow with every turn",
        )

    def never_zero(self) -> Check:
        """After the first turn of a session something is always reused."""

        def wrong(row: Turn) -> str | None:
            return f"no cached tokens of {_shown(row.prompt)}" if row.turn and not row.cached else None

        return self._rows(wrong, "something is cached at every turn but the first")

    def as_predicted(self) -> Check:
        """Every turn reuses what the prediction says.

        Which of several sessions comes first and finds their common head cold is decided by the order in which the
        server takes them; so first turns may have each other's numbers.
        """
        if self.rows and not self.exact:
            return Check(False, "there is no exact prediction: the block size or the tokens are not known")
        firsts = [row for row in self if not row.turn and not row.room]
        swapped = Counter(row.cached for row in firsts) == Counter(row.predicted for row in firsts)

        def wrong(row: Turn) -> str | None:
            if row.predicted is None or row.room is None or row.cached is None:
                return "it is not known what this turn may reuse"
            if row.predicted <= row.cached <= row.predicted + row.room:
                return None
            if swapped and not row.turn and not row.room:
                return None
            most = f" to {row.predicted + row.room:,}" if row.room else ""
            return f"{row.cached:,} cached tokens, predicted were {row.predicted:,}{most}"

        return self._rows(wrong, "every turn reuses what was predicted")

    def same_as(self, other: Turns) -> Check:
        """Every turn has the prompt and cached tokens of the same turn of another run.

        First turns may have each other's cached tokens, as for :meth:`as_predicted`.
        """
        for checked in (self._rows(_nothing_wrong, ""), other._rows(_nothing_wrong, "")):
            if not checked:
                return checked
        swapped = Counter(row.cached for row in self) == Counter(row.cached for row in other)
        for row, there in zip_longest(self, other):
            first = min((found for found in (row, there) if found is not None), key=lambda r: (r.session, r.turn))
            if row is None or there is None or (row.session, row.turn) != (there.session, there.turn):
                return Check(False, f"{first.place}: only one of the two runs has it")
            if row.prompt != there.prompt:
                return Check(False, f"{row.place}: {_differ('prompt', row.prompt, there.prompt)}")
            if row.cached != there.cached and not (swapped and not row.turn):
                return Check(False, f"{row.place}: {_differ('cached', row.cached, there.cached)}")
        return Check(True, "both runs have the same prompt and cached tokens at every turn")

    def _steps(self, right: Callable[[int, int], bool], wrong: str, holds: str) -> Check:
        known = self._rows(_nothing_wrong, holds)
        if not known:
            return known
        for _, session in groupby(self, key=lambda row: row.session):
            for before, row in pairwise(session):
                numbers = before.cached or 0, row.cached or 0
                if not right(*numbers):
                    return Check(False, f"{row.place}: {wrong.format(*numbers)}")
        return known

    def _rows(self, wrong: Callable[[Turn], str | None], holds: str) -> Check:
        """Return what is wrong with the first row that fails, is unknown, or that ``wrong`` has something against."""
        if not self.rows:
            return Check(False, "there are no turns: nothing here was sent as a conversation")
        for row in self:
            what = _unknown(row) or wrong(row)
            if what is not None:
                return Check(False, f"{row.place}: {what}")
        return Check(True, holds)


def _turn(session: int, turn: int, exchange: Exchange, predicted: int | None, room: int | None) -> Turn:
    prompt, cached = exchange.prompt_tokens, exchange.cached_tokens
    return Turn(session, turn, prompt, cached, predicted, room, exchange.ttft, exchange.ok)


def _unknown(row: Turn) -> str | None:
    if not row.ok:
        return "the request failed, and its conversation ended there"
    for name, tokens in {"cached tokens": row.cached, "prompt tokens": row.prompt}.items():
        if tokens is None:
            return _UNKNOWN.format(name)
    return None


def _nothing_wrong(_: Turn) -> None:
    return None


def _differ(name: str, here: int | None, there: int | None) -> str:
    return f"{_shown(here)} {name} tokens, and {_shown(there)} in the other run"


def _shown(tokens: int | None) -> str:
    return "an unknown number of" if tokens is None else f"{tokens:,}"
