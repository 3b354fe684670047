"""The one story: check, reset, prefill, snapshot, load, settle, snapshot -> Measurement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from . import load
from .client import Call, Client, parse_json
from .diagnose import prefill_problem, prompt_tokens
from .endpoint import Endpoint
from .errors import EndpointError, ProtocolError, WorkloadError
from .model import Composed, Exchange, Finding, Measurement, Phase, Request, ResetMode, Tokens
from .protocols import Tokenizer, Workload
from .reset import NOT_RESET, reset
from .scrape import Snapshot
from .simulate.replay import predict
from .target import Target, inspect
from .window import Window

Progress = Callable[[Phase, int, int], None]
Keep = Callable[[Measurement], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a workload is run.

    Attributes:
        concurrency: requests in flight.
        reset: whether the cache is emptied first.
        nonce: makes this run's prompts distinct from every other run's.
        stream: ask for event streams; without, there is no time to first token.
        counters: False when only ``usage`` will be judged.
        tokenizer: file, folder, hub id or ``builtin``; None: what the engine profile says.
    """

    nonce: str
    concurrency: int = 8
    reset: ResetMode = "never"
    stream: bool = True
    counters: bool = True
    tokenizer: str | None = None


async def run(
    endpoint: Endpoint, workload: Workload, plan: Plan, *, progress: Progress | None = None, keep: Keep | None = None
) -> Measurement:
    """Run a workload on an endpoint and measure it.

    Args:
        endpoint: where.
        workload: what.
        plan: how.
        progress: told the phase, how many requests are done, and how many there are.
        keep: receives what was measured so far when the run is cancelled.

    Raises:
        EndpointError, ProtocolError: the endpoint cannot be measured; nothing was measured.
        WorkloadError: the workload cannot be built for this server.
        NotSettled: the engine was not at rest before the window.
    """
    async with Client(endpoint) as client:
        target = await inspect(client, counters=plan.counters)
        tokenizer = await _tokenizer(client, target, plan.tokenizer)
        composed = workload.compose(target.facts, tokenizer, plan.nonce, as_ids=target.profile.prompt_ids)
        return await _Run(client, target, plan, composed, progress, keep).measure(tokenizer)


@dataclass(frozen=True, slots=True)
class Observation:
    """Traffic of somebody else's, being measured by counters alone. It holds no connection and no event loop.

    Attributes:
        target: the checked endpoint.
        before: the first snapshot.
        started: monotonic seconds.
    """

    endpoint: Endpoint
    target: Target
    before: Snapshot
    started: float

    async def finish(self, title: str = "own traffic") -> Measurement:
        """Take the last snapshot and return the measurement; what goes wrong becomes findings."""
        async with Client(self.endpoint) as client:
            window = Window(client, self.target, before=self.before, started=self.started)
            engines = await window.close()
        return Measurement(
            title=title,
            facts=self.target.facts,
            engines=engines,
            own_traffic=False,
            findings=tuple(window.findings),
            cache_state=NOT_RESET,
            started=window.started,
            ended=window.ended,
        )


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
        if window.before is None:
            raise EndpointError(
                f"{endpoint.url}: traffic of your own is measured by counters, and {target.profile.title} has none"
            )
        return Observation(endpoint, target, window.before, window.started)


@dataclass(slots=True)
class _Run:
    client: Client
    target: Target
    plan: Plan
    composed: Composed
    progress: Progress | None
    keep: Keep | None
    probed: list[Exchange] = field(default_factory=list)
    prefilled: tuple[Exchange, ...] = ()

    async def measure(self, tokenizer: Tokenizer) -> Measurement:
        prediction = predict(self.composed, self.target.facts.block_size)
        make_probe = partial(_probe_prompt, self.target, tokenizer, self.plan.nonce)
        state = await reset(self.client, self.target, self.plan.reset, make_probe, self._probe)
        done: dict[int, Exchange] = {}
        window = Window(self.client, self.target, findings=list(self.target.findings))
        result = Measurement(
            title=self.composed.title,
            facts=self.target.facts,
            engines={},
            prediction=prediction,
            prefix_len=self.composed.prefix_len,
            cache_state=state,
        )
        try:
            problem = await self._prefill() or await window.open(self._looked_up([*self.probed, *self.prefilled]))
            if problem is not None:  # the load would take its time and prove nothing
                return replace(result, prefill=self.prefilled, findings=(*window.findings, problem))
            await self._drive(self.composed.load(), "load", len(self.composed), done)
            engines = await window.close(self._looked_up(done.values()))
        except asyncio.CancelledError:
            if self.keep is not None:
                total = len(self.composed)
                stopped = Finding("KV116", f"interrupted after {len(done)} of {total} requests; nothing was judged")
                self.keep(self._result(result, window, {}, done, stopped))
            raise
        return self._result(result, window, engines, done)

    async def _prefill(self) -> Finding | None:
        requests = list(self.composed.prefill())
        done: dict[int, Exchange] = {}
        await self._drive(iter(requests), "prefill", len(requests), done)
        self.prefilled = load.in_order(done)
        return prefill_problem(self.prefilled)

    async def _drive(self, requests: Iterator[Request], phase: Phase, total: int, into: dict[int, Exchange]) -> None:
        report = self.progress
        await load.closed_loop(
            map(self._call, requests),
            self.client.send,
            concurrency=max(1, min(self.plan.concurrency, total)),
            into=into,
            progress=None if report is None else lambda count: report(phase, count, total),
        )

    async def _probe(self, request: Request) -> Exchange:
        exchange = await self.client.send(self._call(request))
        self.probed.append(exchange)
        return exchange

    def _looked_up(self, exchanges: Iterable[Exchange]) -> int:
        """Return the query tokens that the counters must show for these requests, at least."""
        if self.target.facts.caching is False:  # a cache that is off looks nothing up
            return 0
        return sum(prompt_tokens(e) for e in exchanges if e.ok)

    def _call(self, request: Request) -> Call:
        prompt = request.prompt
        body: dict[str, Any] = {
            "model": self.target.facts.model,
            "prompt": list(prompt.ids) if prompt.text is None else prompt.text,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            **self.target.profile.request,
        }
        if self.plan.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return Call("completions", body, request.phase, len(prompt.ids))

    def _result(
        self,
        result: Measurement,
        window: Window,
        engines: dict[str, Tokens],
        done: dict[int, Exchange],
        *more: Finding,
    ) -> Measurement:
        return replace(
            result,
            engines=engines,
            exchanges=load.in_order(done),
            prefill=self.prefilled,
            findings=(*window.findings, *more),
            started=window.started,
            ended=window.ended or max((e.end for e in done.values()), default=window.started),
        )


def _probe_prompt(target: Target, tokenizer: Tokenizer, nonce: str) -> Request:
    from .workloads.shapes import SharedPrefix

    length = 3 * (target.facts.block_size or 16) + 1
    shape = SharedPrefix(requests=1, input_len=length, prefix_len=0, output_len=1, align=None)
    composed = shape.compose(target.facts, tokenizer, f"{nonce}:reset", as_ids=target.profile.prompt_ids)
    return next(composed.load())


async def _tokenizer(client: Client, target: Target, spec: str | None) -> Tokenizer:
    from .workloads.tokens import learn_server_tokenizer, load_tokenizer

    chosen = spec or target.profile.tokenizer
    if chosen is not None:
        return load_tokenizer(chosen)
    route = target.profile.tokenize
    if route is None:
        raise WorkloadError(
            f"{target.profile.title} does not tell its tokens; name its tokenizer with --kv-tokenizer"
            " (a tokenizer.json, a folder with one, or a hub id)"
        )

    async def tokenize(text: str) -> list[int]:
        body = {"model": target.facts.model, "prompt": text}
        page = await client.post(client.endpoint.route(route), body)
        if page.status != 200:
            raise EndpointError(
                f"{client.endpoint.url}{route} answered {page.status}: {client.explain(page)};"
                " name the tokenizer with --kv-tokenizer"
            )
        reply = parse_json(page)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ProtocolError(
                f"{client.endpoint.url}{route}: expected 'tokens', a list of ids, got {page.text[:120]!r}"
            )
        return tokens

    return await learn_server_tokenizer(tokenize)
