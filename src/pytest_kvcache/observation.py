"""Traffic of somebody else's, measured by counters alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .client import Client
from .endpoint import Endpoint
from .errors import EndpointError
from .model import Measurement, Moment, ServerFacts, Span
from .phases import Phases, now
from .reset import NOT_RESET
from .scrape import Snapshot
from .target import Target, inspect
from .window import Window, with_window


@dataclass(frozen=True, slots=True)
class Observation:
    """Traffic of somebody else's, being measured by counters alone. It holds no connection and no event loop.

    Attributes:
        target: the checked endpoint.
        before: the first snapshots.
        begun: when the first snapshots had been taken.
    """

    endpoint: Endpoint
    target: Target
    before: tuple[Snapshot, ...]
    begun: Moment

    async def finish(self, title: str = "own traffic") -> Measurement:
        """Take the last snapshot and return the measurement; what goes wrong becomes findings."""
        async with Client(self.endpoint) as client:
            window = Window(client, self.target, before=self.before, started=self.begun.monotonic)
            phases = Phases(self.begun)
            with phases.of("settle_after"):
                await window.close(own_traffic=False)
        measured = Measurement(
            title=title,
            facts=self.target.facts,
            engines={},
            own_traffic=False,
            findings=self.target.findings,
            cache_state=NOT_RESET,
            begun=self.begun,
            phases=(Span("load", window.started, window.ended), *phases.spans),
        )
        return with_window(measured, window)


async def observe(endpoint: Endpoint, checked: Callable[[ServerFacts], None] | None = None) -> Observation:
    """Begin to measure traffic that this package does not send.

    Args:
        endpoint: where.
        checked: told what the server is, before the first snapshot.

    Raises:
        EndpointError, ProtocolError: the endpoint has no counters that can be read.
        NotSettled: the engine was not at rest.
    """
    async with Client(endpoint) as client:
        target = await inspect(client)
        if checked is not None:
            checked(target.facts)
        window = Window(client, target)
        await window.open()
        if not window.before:
            raise EndpointError(
                f"{endpoint.url}: traffic of your own is measured by counters, and {target.profile.title} has none;"
                " record its requests and send them with kv_workload.requests or kv_workload.prompts"
            )
        return Observation(endpoint, target, window.before, now())
