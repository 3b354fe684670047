"""The one story: check, reset, prefill, snapshot, load, settle, snapshot -> Measurement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from . import load
from .calls import Calls
from .client import Client
from .conclude import conclude
from .diagnose import prefill_problem
from .endpoint import Endpoint
from .errors import EndpointError, WorkloadError
from .ledger import Ledger
from .model import Composed, Exchange, Finding, Grain, Measurement, Phase, Prompt, Request, ResetMode, Session
from .model.sent import alone
from .pace import Pace
from .pressure import Sampler
from .protocols import Workload
from .reconcile import Sent, sent
from .replies.usage import Absent, Convention
from .reset import NOT_RESET, reset
from .retry import Retrying
from .scrape import Snapshot
from .site import Site
from .target import Target, inspect
from .window import Window

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
    async with Client(endpoint) as client:
        target = await inspect(client, counters=plan.counters)
        target = replace(target, facts=target.facts.probed(plan.grain))
        calls = Calls(target.profile, target.facts, plan.stream, plan.usage_prompt, plan.usage_absent)
        if plan.reset != "never":
            plan.warm.clear()
        site = Site(client, target, calls, plan.nonce, plan.series, plan.warm, plan.tokenizer)
        composed = await workload.bind(site)
        measured = await _Run(site, plan, composed, progress, keep).measure()
        if keep is not None:
            keep(measured)  # before the connections are closed, where a run may be cancelled yet
        return measured


@dataclass(frozen=True, slots=True)
class Observation:
    """Traffic of somebody else's, being measured by counters alone. It holds no connection and no event loop.

    Attributes:
        target: the checked endpoint.
        before: the first snapshots.
        started: monotonic seconds.
    """

    endpoint: Endpoint
    target: Target
    before: tuple[Snapshot, ...]
    started: float

    async def finish(self, title: str = "own traffic") -> Measurement:
        """Take the last snapshot and return the measurement; what goes wrong becomes findings."""
        async with Client(self.endpoint) as client:
            window = Window(client, self.target, before=self.before, started=self.started)
            await window.close(own_traffic=False)
        measured = Measurement(
            title=title,
            facts=self.target.facts,
            engines={},
            own_traffic=False,
            findings=self.target.findings,
            cache_state=NOT_RESET,
        )
        return _with_window(measured, window)


async def observe(endpoint: Endpoint) -> Observation:
    """Begin to measure traffic that this package does not send.

    Raises:
        EndpointError, ProtocolError: the endpoint has no counters that can be read.
        NotSettled: the engine was not at rest.
    """
    async with Client(endpoint) as client:
        target = await inspect(client)
        window = Window(client, target)
        await window.open()
        if not window.before:
            raise EndpointError(
                f"{endpoint.url}: traffic of your own is measured by counters, and {target.profile.title} has none"
            )
        return Observation(endpoint, target, window.before, window.started)


@dataclass(slots=True)
class _Run:
    site: Site
    plan: Plan
    composed: Composed
    progress: Progress | None
    keep: Keep | None
    prefilled: tuple[Exchange, ...] = ()

    @property
    def client(self) -> Client:
        return self.site.client

    @property
    def target(self) -> Target:
        return self.site.target

    async def measure(self) -> Measurement:
        make_probe = partial(_probe_prompt, self.site)
        state = await reset(self.client, self.target, self.plan.reset, make_probe, self.site.ask)
        done = Ledger()
        window = Window(self.client, self.target, findings=list(self.target.findings))
        sampler = Sampler(self.client, self.target.readers, self.plan.sample_interval)
        result = Measurement(
            title=self.composed.title,
            facts=self.target.facts,
            engines={},
            prefix_len=self.composed.prefix_len,
            planned=len(self.composed),
            cache_state=state,
        )
        try:
            problem = await self._prefill() or await window.open(self._looked_up([*self.site.asked, *self.prefilled]))
            if problem is not None:  # the load would take its time and prove nothing
                return self._concluded(replace(result, prefill=self.prefilled, findings=(*window.findings, problem)))
            async with sampler:
                await self._drive(self.composed.sessions(), "load", len(self.composed), done)
            await window.close(self._looked_up(done.exchanges), sampler=sampler)
        except asyncio.CancelledError:
            if self.keep is not None:
                total = len(self.composed)
                stopped = Finding("KV116", f"interrupted after {len(done)} of {total} requests; nothing was judged")
                self.keep(self._result(result, window, done, stopped))
            raise
        return self._concluded(self._result(result, window, done))

    async def _prefill(self) -> Finding | None:
        requests = list(self.composed.prefill())
        done = Ledger("prefill")
        await self._drive(alone(iter(requests)), "prefill", len(requests), done)
        self.prefilled = tuple(self.site.calls.with_zeros(done.exchanges))
        problem = prefill_problem(self.prefilled)
        if problem is None and requests and self.plan.settle:
            await self._until_readable(requests[-1])
        if problem is None and self.composed.warms is not None:
            self.plan.warm.add(self.composed.warms)
        return problem

    async def _until_readable(self, request: Request) -> None:
        """Repeat the last prefill request until the server reads it from its cache, at most for the settle time."""
        deadline = time.monotonic() + self.plan.settle
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK_AGAIN))
            if (await self.site.ask(request)).cached_tokens:
                return

    async def _drive(self, sessions: Iterator[Session], phase: Phase, total: int, into: Ledger) -> None:
        report, plan = self.progress, self.plan
        await load.drive(
            sessions,
            Retrying(self._send, plan.retries, seed=plan.nonce) if plan.retries else self._send,
            plan.pace if phase == "load" else plan.pace.closed(),
            into=into,
            progress=None if report is None else lambda count: report(phase, count, total),
        )

    async def _send(self, request: Request) -> Exchange:
        return await self.client.send(self.site.calls(request))

    def _looked_up(self, exchanges: Iterable[Exchange]) -> Sent:
        """Return the query tokens that the counters must show for these requests."""
        expected = sent(exchanges)
        # A cache that is off looks nothing up.
        return replace(expected, low=0) if self.target.facts.caching is False else expected

    def _result(
        self,
        result: Measurement,
        window: Window,
        done: Ledger,
        *more: Finding,
    ) -> Measurement:
        measured = replace(
            result,
            exchanges=self.site.calls.with_zeros(done.exchanges),
            gaps=done.gaps,
            produced=done.produced,
            prefill=self.prefilled,
            findings=more,
        )
        return _with_window(measured, window)

    def _concluded(self, measured: Measurement) -> Measurement:
        measured = replace(measured, notes=tuple(self.composed.notes))  # some are only known once all was sent
        return conclude(measured, self.composed, self.site.calls.space)


def _with_window(measured: Measurement, window: Window) -> Measurement:
    return replace(
        measured,
        engines=window.engines,
        aside=window.aside,
        disaggregated=window.target.disaggregated,
        pressure=window.pressure,
        server_latency=window.latency,
        findings=(*window.findings, *measured.findings),
        started=window.started,
        ended=window.ended or max((e.end for e in measured.exchanges), default=window.started),
    )


async def _probe_prompt(site: Site) -> Request:
    from .workloads.shapes import SharedPrefix

    block = site.facts.block_size or site.facts.block_usual or 16
    length = 3 * block + max(1, block // 2)  # not at a block's edge, where tiers differ in what they keep
    try:
        tokenizer = await site.tokenizer()
    except WorkloadError:
        text = " ".join(f"{site.nonce} reset {number}" for number in range(length))
        return Request(Prompt((), text), 1, "prefill")
    shape = SharedPrefix(requests=1, input_len=length, prefix_len=0, output_len=1, align=None)
    composed = shape.compose(site.facts, tokenizer, f"{site.nonce}:reset", as_ids=site.as_ids)
    return next(composed.load())
