"""The one story: check, reset, prefill, snapshot, load, settle, snapshot -> Measurement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from .calls import Calls
from .client import Client
from .conclude import conclude
from .diagnose import prefill_problem
from .distribution import Latency
from .endpoint import Endpoint
from .errors import ConfigurationError
from .fresh_prompt import fresh_prompt
from .garbage import seldom
from .gate import Gate
from .ledger import Ledger
from .live import Live, Steering
from .load import Send, drive
from .lookups import Spaces
from .model import (
    ClientLoad,
    Composed,
    Exchange,
    Finding,
    Grain,
    Measurement,
    Phase,
    Request,
    ResetMode,
    ServerFacts,
    Session,
)
from .model.sent import alone
from .pace import Pace
from .phases import Phases
from .pressure import Sampler
from .protocols import Workload
from .reconcile import Sent, sent
from .replies.usage import Absent, Convention
from .reset import NOT_RESET, reset
from .retry import Retrying
from .senders import Senders, senders
from .site import Site
from .target import Target, inspect
from .window import Window, with_window
from .workloads.lasting import Lasting

_LOOK_AGAIN = 0.5  # seconds between two looks whether a hosted cache can be read yet

Progress = Callable[[Phase, int, int], None]
Keep = Callable[[Measurement], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a workload is run.

    Attributes:
        pace: when sessions begin, and how many are going at once.
        retries: how often a request that failed for the moment is tried again.
        reset: whether the cache is emptied first.
        nonce: makes this run's prompts distinct from every other run's.
        stream: ask for event streams; without, there is no time to first token.
        counters: False when only ``usage`` will be judged.
        tokenizer: file, folder, hub id or ``builtin``; None: what the engine profile says.
        settle: seconds at most to wait after prefill until its last prompt is read from the cache; 0: do not look.
        usage_prompt / usage_absent: what the user declares of the replies' usage; None: as the profile says.
        sample_interval: seconds between two looks at the gauges during the load; 0: none.
        series: nonce of what several runs share, such as a set that is warmed once.
        warm: what runs have warmed at this endpoint; this one adds to it.
        grain: what a probe found of this endpoint's cache; used when the server does not tell its block size.
        processes: that send what is measured; the cache is warmed by this one.
    """

    nonce: str
    pace: Pace = field(default_factory=Pace)
    retries: int = 0
    reset: ResetMode = "never"
    stream: bool = True
    counters: bool = True
    tokenizer: str | None = None
    settle: float = 0.0
    usage_prompt: Convention | None = None
    usage_absent: Absent | None = None
    sample_interval: float = 0.0
    series: str = ""
    warm: set[str] = field(default_factory=set)
    grain: Grain | None = None
    processes: int = 1


async def run(
    endpoint: Endpoint, workload: Workload, plan: Plan, *, progress: Progress | None = None, keep: Keep | None = None
) -> Measurement:
    """Run a workload on an endpoint and measure it.

    Args:
        endpoint: where.
        workload: what.
        plan: how.
        progress: told the phase, how many requests are done, and how many there are.
        keep: receives the measurement; when the run is cancelled, what was measured so far.

    Raises:
        EndpointError, ProtocolError: the endpoint cannot be measured; nothing was measured.
        WorkloadError: the workload cannot be built for this server.
        NotSettled: the engine was not at rest before the window.
    """
    async with bench(endpoint, workload, plan, progress=progress, keep=keep) as made:
        return await made.measure(made.composed, plan.pace)


@asynccontextmanager
async def bench(
    endpoint: Endpoint,
    workload: Workload,
    plan: Plan,
    *,
    progress: Progress | None = None,
    keep: Keep | None = None,
    checked: Callable[[ServerFacts], None] | None = None,
) -> AsyncIterator[Bench]:
    """Connect to an endpoint and bind a workload to it, for one measurement or several. As of :func:`run`.

    Args:
        checked: told what the server is, before anything is sent.
    """
    if not callable(getattr(workload, "bind", None)):
        given = type(workload).__name__
        raise ConfigurationError(f"expected a workload, such as kv_workload.prompts(...) makes one; got {given!r}")
    async with Client(endpoint) as client:
        target = await inspect(client, counters=plan.counters)
        target = replace(target, facts=target.facts.probed(plan.grain))
        if checked is not None:
            checked(target.facts)
        calls = Calls(target.profile, target.facts, plan.stream, plan.usage_prompt, plan.usage_absent)
        if plan.reset != "never":
            plan.warm.clear()
        site = Site(client, target, calls, plan.nonce, plan.series, plan.warm, plan.tokenizer)
        composed = await workload.bind(site)
        async with senders(client, plan.processes) as sending:
            yield Bench(site, plan, composed, sending, progress, keep)


@dataclass(slots=True)
class Bench:
    """A workload bound to a server, ready to be measured.

    Attributes:
        site: the server.
        plan: how to run.
        composed: the workload.
        senders: send what is measured.
        progress / keep: as of :func:`run`.
    """

    site: Site
    plan: Plan
    composed: Composed
    senders: Senders
    progress: Progress | None = None
    keep: Keep | None = None
    _prefilled: tuple[Exchange, ...] = ()
    _phases: Phases = field(default_factory=Phases)
    _used: bool = False

    @property
    def client(self) -> Client:
        """The open connection."""
        return self.site.client

    @property
    def target(self) -> Target:
        """The checked endpoint."""
        return self.site.target

    async def measure(
        self, composed: Composed, pace: Pace, steering: Steering | None = None, *, judged: bool = True
    ) -> Measurement:
        """Measure one window: reset (the first time), prefill, snapshot, load, settle, snapshot.

        Args:
            composed: what is sent: the workload, or one made of it.
            pace: when sessions begin.
            steering: ends the load, and may change its pace meanwhile; None: it ends with the workload.
            judged: False: it is only held against another one, and ``keep`` is not told of it.

        Raises:
            NotSettled: the engine was not at rest before the window.
        """
        keep = self.keep if judged else None
        phases = self._phases = Phases()
        state = await self._reset()
        live = Live(Gate(pace, time.monotonic))
        window = Window(self.client, self.target, findings=list(self.target.findings))
        sampler = Sampler(self.client, self.target.readers, self.plan.sample_interval)
        result = Measurement(
            title=composed.title,
            facts=self.target.facts,
            engines={},
            prefix_len=composed.prefix_len,
            planned=None if steering else len(composed),
            cache_state=state,
        )
        spaces = Spaces(self.site.calls.space)
        story = _Story(self, composed, live, window, result, steering, spaces)
        try:
            problem = await self._prefill(composed, pace)
            if problem is None:
                with phases.of("settle_before"):
                    problem = await window.open(self._looked_up([*self.site.asked, *self._prefilled]))
            self.site.asked.clear()
            if problem is not None:  # the load would take its time and prove nothing
                measured = story.concluded(problem)
            else:
                with phases.of("load"):
                    async with sampler:
                        story.client, story.problems = await self._load(composed, pace, live, steering, spaces)
                with phases.of("settle_after"):
                    await window.close(self._looked_up(live.ledger.exchanges), sampler=sampler)
                measured = story.concluded()
        except asyncio.CancelledError:
            if keep is not None:
                keep(story.stopped())
            raise
        if keep is not None:
            keep(measured)  # before the connections are closed, where a run may be cancelled yet
        return measured

    async def _reset(self) -> str:
        if self._used:
            return NOT_RESET
        self._used = True
        if self.plan.reset == "never":
            return NOT_RESET
        with self._phases.of("reset"):
            probe = partial(fresh_prompt, self.site)
            return await reset(self.client, self.target, self.plan.reset, probe, self.site.ask)

    async def _load(
        self, composed: Composed, pace: Pace, live: Live, steering: Steering | None, spaces: Spaces
    ) -> tuple[ClientLoad, list[Finding]]:
        """Send what is measured; return how busy the client was, and what was wrong with it."""
        send = self._retrying(self._send_measured)
        if composed.load() is None:
            send = _noted(send, spaces)
        await self.senders.begin()
        try:
            with seldom():
                if steering is None:
                    await self._drive(composed.sessions(), send, pace, live, len(composed))
                else:
                    watched = live.flying.watched(send, live.now)
                    await _both(self._drive(composed.sessions(), watched, pace, live, 0), steering.steer(live))
        finally:
            client = await self.senders.end(Latency.of(e.queueing for e in live.ledger.exchanges))
        return client, [self.senders.problem] if self.senders.problem is not None else []

    async def _prefill(self, composed: Composed, pace: Pace) -> Finding | None:
        requests = list(composed.prefill())
        with self._phases.of("prefill") if requests else nullcontext():
            return await self._warm(composed, requests, pace)

    async def _warm(self, composed: Composed, requests: Sequence[Request], pace: Pace) -> Finding | None:
        live = Live(Gate(pace.closed(), time.monotonic), Ledger("prefill"))
        await self._drive(
            alone(iter(requests)), self._retrying(self._send), pace.closed(), live, len(requests), "prefill"
        )
        self._prefilled = tuple(self.site.calls.with_zeros(live.ledger.exchanges))
        problem = prefill_problem(self._prefilled)
        if problem is None and requests and self.plan.settle:
            await self._until_readable(requests[-1])
        if problem is None and composed.warms is not None:
            self.plan.warm.add(composed.warms)
        return problem

    async def _until_readable(self, request: Request) -> None:
        """Repeat the last prefill request until the server reads it from its cache, at most for the settle time."""
        deadline = time.monotonic() + self.plan.settle
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK_AGAIN))
            if (await self.site.ask(request)).cached_tokens:
                return

    async def _drive(
        self, sessions: Iterator[Session], send: Send, pace: Pace, live: Live, total: int, phase: Phase = "load"
    ) -> None:
        report = self.progress
        await drive(
            sessions,
            send,
            pace,
            into=live.ledger,
            progress=None if report is None else lambda count: report(phase, count, total),
            gate=live.gate,
        )

    def _retrying(self, send: Send) -> Send:
        retries = self.plan.retries
        return Retrying(send, retries, seed=self.plan.nonce) if retries else send

    async def _send(self, request: Request) -> Exchange:
        return await self.client.send(self.site.calls(request))

    async def _send_measured(self, request: Request) -> Exchange:
        return await self.senders.send(self.site.calls(request))

    def _looked_up(self, exchanges: Iterable[Exchange]) -> Sent:
        """Return the query tokens that the counters must show for these requests."""
        expected = sent(exchanges)
        # A cache that is off looks nothing up.
        return replace(expected, low=0) if self.target.facts.caching is False else expected


@dataclass(slots=True)
class _Story:
    """What becomes of a window: whole, not begun, or broken off."""

    bench: Bench
    composed: Composed
    live: Live
    window: Window
    result: Measurement
    steering: Steering | None
    spaces: Spaces
    client: ClientLoad | None = None
    problems: Sequence[Finding] = ()

    def concluded(self, *problems: Finding) -> Measurement:
        """Return the measurement with what was to be expected of it."""
        composed = self.composed
        if isinstance(composed, Lasting):
            composed = composed.of(len(self.live.ledger))
        measured = replace(self._measured(*problems), notes=tuple(composed.notes))  # some are known once all was sent
        if self.steering is not None and not problems:
            measured = self.steering.completed(self.live, measured)
        return conclude(measured, composed, self.bench.site.calls.space, self.spaces)

    def stopped(self) -> Measurement:
        """Return what there is of a window that was cancelled."""
        done, total = len(self.live.ledger), len(self.composed)
        of = f"{done} of {total} requests" if self.steering is None else f"{done} requests"
        return self._measured(Finding("KV116", f"interrupted after {of}; nothing was judged"))

    def _measured(self, *more: Finding) -> Measurement:
        ledger = self.live.ledger
        measured = replace(
            self.result,
            exchanges=self.bench.site.calls.with_zeros(ledger.exchanges),
            gaps=ledger.gaps,
            produced=ledger.produced,
            client=self.client,
            prefill=self.bench._prefilled,
            begun=self.bench._phases.begun,
            phases=tuple(self.bench._phases.spans),
            findings=(*self.problems, *more),
        )
        return with_window(measured, self.window)


def _noted(send: Send, spaces: Spaces) -> Send:
    async def noting(request: Request) -> Exchange:
        spaces.note(request)
        return await send(request)

    return noting


async def _both(driving: Coroutine[Any, Any, None], steering: Coroutine[Any, Any, None]) -> None:
    """Drive until all has ended, and steer meanwhile; an error of either ends both."""
    driven, steered = asyncio.ensure_future(driving), asyncio.ensure_future(steering)
    try:
        await asyncio.wait({driven, steered}, return_when=asyncio.FIRST_COMPLETED)
        if steered.done():
            steered.result()
            await driven
    finally:
        for task in (driven, steered):
            task.cancel()
        await asyncio.gather(driven, steered, return_exceptions=True)
    driven.result()
