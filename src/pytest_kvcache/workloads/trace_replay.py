"""A trace as a workload: its lengths, its sharing and its times, in words that nobody has sent before."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from ..checks import is_number, is_whole
from ..errors import WorkloadError
from ..model import Prompt, Request, Row, ServerFacts, Session
from ..protocols import Site, Tokenizer
from .trace_fitting import Fitting
from .trace_prompts import TracePrompts, branches, costs, crowded
from .trace_schedule import Order, order, seated
from .wording import Send, Wording, wording_of

if TYPE_CHECKING:
    from .frame import Frame

_UNKNOWN = Prompt(())
_TAIL = 16  # tokens behind a chat's header, in the request that warms it
_ON_TIME = 0.001  # seconds; what is later than that is told


class Rows(Protocol):
    """What is needed of a trace; :class:`pytest_kvcache.traces.Trace` has it."""

    @property
    def name(self) -> str:
        """For titles and errors."""

    @property
    def block_size(self) -> int | None:
        """Tokens of a block; None: not known."""

    def __iter__(self) -> Iterator[Row]:
        """Return the requests in order."""


@dataclass(frozen=True, slots=True)
class TraceReplay:
    """The requests of a trace, each with as many tokens as it had, shared as the trace's blocks say.

    Attributes:
        trace: what was recorded.
        speed: the trace's clock runs so many times faster.
        clock: every request is due when the trace says, a later turn of a session not before the answer to the one
            before it; False: a closed loop, in which requests follow answers and the trace's times mean nothing.
        users: sessions that go at once in the closed loop; how many do is decided by the pace of the run. With 1 the
            order of the trace is kept from session to session; otherwise a session that has begun goes on to its end.
        think: in the closed loop, wait before a later turn as long as the trace says (``Row.delay``).
        output_len: generated tokens of each request; None: as the trace says, and 1 where it does not or says 0.
        seed: makes the prompts the same in every run, whatever the nonce.
        send: as for :class:`~pytest_kvcache.workloads.SharedPrefix`.
    """

    trace: Rows = field(repr=False)
    speed: float = 1.0
    clock: bool = True
    users: int | None = None
    think: bool = False
    output_len: int | None = None
    seed: int | None = None
    send: Send = "auto"

    def __post_init__(self) -> None:
        self._require("speed", is_number(self.speed) and self.speed > 0, "a number above 0")
        for name in ("clock", "think"):
            self._require(name, isinstance(getattr(self, name), bool), "True or False")
        for name in ("users", "output_len"):
            value = getattr(self, name)
            self._require(name, value is None or is_whole(value, 1), "a whole number of at least 1, or None")
        self._require("seed", self.seed is None or is_whole(self.seed), "a whole number or None")
        self._require("send", self.send in ("auto", "ids", "text", "chat"), '"auto", "ids", "text" or "chat"')
        for name, default in {"users": None, "think": False}.items():
            if self.clock and getattr(self, name) != default:
                raise WorkloadError(f"trace: {name}={getattr(self, name)!r} means a closed loop: give clock=False too")

    async def bind(self, site: Site) -> ComposedTrace:
        """Bind the trace to a server; see :class:`~pytest_kvcache.protocols.Workload`.

        Raises:
            TraceError: the trace cannot be read.
        """
        wording, tokenizer = await wording_of(site, self.send)
        return self._composed(site.facts, wording, tokenizer, site.nonce)

    def compose(
        self, facts: ServerFacts, tokenizer: Tokenizer, nonce: str, *, as_ids: bool, frame: Frame | None = None
    ) -> ComposedTrace:
        """Return the requests for a server of these facts and this tokenizer.

        Args:
            facts: block size and context length.
            tokenizer: the server's.
            nonce: put at the head of every distinct prompt.
            as_ids: send token ids when the description leaves the choice.
            frame: what the chat template puts around a message, for ``send="chat"``.

        Raises:
            WorkloadError: no request fits, or the trace does not tell what is needed.
            TraceError: it cannot be read.
        """
        return self._composed(facts, Wording.of(tokenizer, self.send, as_ids=as_ids, frame=frame), tokenizer, nonce)

    def _composed(self, facts: ServerFacts, wording: Wording, tokenizer: Tokenizer | None, nonce: str) -> ComposedTrace:
        name = self.trace.name
        if not wording.exact:
            raise WorkloadError(
                f"trace {name}: blocks need prompts of exactly known tokens, and there is {wording.note}; name the"
                " model's with --kv-tokenizer"
            )
        fitting = Fitting.of(self.trace, name, facts, wording, self.output_len)
        rows, size = fitting.rows, self.trace.block_size
        if size is None and any(row.ids for row in rows):
            raise WorkloadError(f"trace {name}: nothing tells how many tokens its blocks have; give block_size=")
        seats = seated(rows, name, clock=self.clock, speed=self.speed, think=self.think)
        header = facts.grain.credit(wording.header, max(row.input_length for row in rows)) > 0
        more = (Row(0, wording.around + _TAIL, array("q")),) if header else ()
        parting = branches((*rows, *more), size or 1, lead=len(wording.lead), trail=len(wording.trail))
        prompts = TracePrompts(parting, wording, nonce if self.seed is None else f"seed {self.seed}")
        if tokenizer is not None:
            prompts.verify(tokenizer)
        api = "chat" if wording.way == "chat" else "completions"
        return ComposedTrace(
            f"{self._title(rows)}, as {wording.way}",
            (
                *fitting.notes,
                *costs(rows, size or 1, parting, wording),
                *crowded(parting, wording.vocabulary),
                *wording.notes([]),
            ),
            tuple(
                Request(_UNKNOWN, count, "load", api=api, session=s.session, turn=s.turn, pause=s.pause, due=s.due)
                for s, count in zip(seats, fitting.max_tokens, strict=True)
            ),
            order(seats, one_by_one=self.users == 1),
            prompts,
            header,
        )

    def _title(self, rows: Sequence[Row]) -> str:
        many = f"{len(rows):,} request{'s' * (len(rows) > 1)}"
        title = f"trace {self.trace.name}: {many}, {sum(row.input_length for row in rows):,} tokens"
        if not self.clock:
            return f"{title}, {'one after the other' if self.users == 1 else 'each session at its own pace'}"
        times = [row.time for row in rows if row.time is not None]
        span = max(times) - min(times)
        rate = f", {_figure(len(rows) * self.speed / span)} requests/s" if span else ""
        return f"{title}, span {_figure(span)} s at speed {self.speed:g}{rate}"

    def _require(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            raise WorkloadError(f"trace: {name}={getattr(self, name)!r} must be {allowed}")


@dataclass(frozen=True, slots=True)
class ComposedTrace:
    """The requests of a trace for one server, made anew at each iteration, the same every time.

    Attributes:
        title: for reports.
        fixed: what a reader should know before anything was sent.
        requests: without their prompts, in the order of the trace.
        order: which of them follow one another.
        prompts: of each request, and of one more that warms a chat's header.
        header: what the chat template puts in front of every message can be hit.
    """

    title: str
    fixed: tuple[str, ...]
    requests: tuple[Request, ...] = field(repr=False)
    order: Order = field(repr=False)
    prompts: TracePrompts = field(repr=False)
    header: bool = False
    _behind: list[float] = field(default_factory=list, repr=False, compare=False)  # seconds, of those that are

    def __len__(self) -> int:
        return len(self.requests)

    def again(self, lap: str) -> ComposedTrace:
        """Return the same sharing once more, with blocks that nobody has sent."""
        return replace(self, prompts=replace(self.prompts, seed=f"{self.prompts.seed}/{lap}", _kept={}), _behind=[])

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out or changed; after the run also which turns could not keep to the clock."""
        if not self._behind:
            return self.fixed
        many = f"{len(self._behind):,} later turn{'s' * (len(self._behind) > 1)}"
        return (*self.fixed, f"{many} waited for the answer before, up to {max(self._behind):.3g} s behind the clock")

    @property
    def prefix_len(self) -> int:
        """What these requests share differs from one to the next."""
        return 0

    @property
    def warms(self) -> None:
        """Nothing that other runs use."""
        return None

    @property
    def append_only(self) -> bool:
        """False: what these requests share is known by their tokens."""
        return False

    @property
    def fresh(self) -> bool:
        """True: the nonce decides every token, or a seed of the user's own, which is theirs to change."""
        return True

    def warmed(self) -> Iterator[Request]:
        """Return a chat's header, which anybody may have sent."""
        if self.header:
            yield self._warming(self.prompts.wording.prompt(array("I"), ""))

    def prefill(self) -> Iterator[Request]:
        """Return a request that warms a chat's header, so that no measured one may or may not find it."""
        if self.header:
            yield self._warming(self.prompts[len(self)])

    def load(self) -> Iterator[Request]:
        """Return the measured requests session by session.

        They have no session here: none says anything of what was answered before.
        """
        for numbers in self.order:
            for number in numbers:
                yield replace(self._request(number), session=None)

    def sessions(self) -> Iterator[Session]:
        """Return the measured requests of each session in their order, and those without one by themselves."""
        self._behind.clear()
        return map(self._session, self.order)

    def _session(self, numbers: Sequence[int]) -> Session:
        began: float | None = None
        for number in numbers:
            exchange = yield self._request(number)
            due = self.requests[number].due
            if due is None or exchange.scheduled is None:
                continue
            began = exchange.scheduled - due if began is None else began
            behind = exchange.scheduled - due - began
            if behind > _ON_TIME:
                self._behind.append(behind)

    def _request(self, number: int) -> Request:
        return replace(self.requests[number], prompt=self.prompts[number])

    def _warming(self, prompt: Prompt) -> Request:
        return Request(prompt, 1, "prefill", api=self.requests[0].api)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
