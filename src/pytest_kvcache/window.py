"""From one snapshot of the counters to another: wait until the engine is at rest, read, and read again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from . import scrape
from .client import Client
from .diagnose import too_few
from .engines import Profile, Variant
from .engines.counters import check_same_process, in_flight, query_tokens, tokens_by_engine
from .errors import EndpointError, MeasurementError, NotSettled, ProtocolError
from .model import Finding, Tokens
from .scrape import Snapshot
from .target import Target

SETTLE_SECONDS = 10.0  # vLLM publishes a step's statistics right after the answer; aborts took up to 0.24 s on 0.32
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


@dataclass(slots=True)
class Window:
    """A measured stretch of time on one endpoint.

    ``open`` raises, because nothing was lost yet; ``close`` turns what goes wrong into findings, because the exchanges
    of the window must survive.
    """

    client: Client
    target: Target
    before: Snapshot | None = None
    started: float = 0.0
    ended: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    async def open(self, expected: int = 0) -> Finding | None:
        """Take the first snapshot once the engine is at rest.

        Args:
            expected: query tokens that must have arrived since the target was inspected: what was sent to warm the
                cache must not be counted late, inside the window.

        Returns:
            Why measuring is pointless: the counters do not show what was sent. None when they do.

        Raises:
            EndpointError, ProtocolError: the page cannot be had or read.
            NotSettled: requests were running for the whole settle time.
        """
        page, variant = self.target.page, self.target.variant
        problem = None
        if variant is not None and page is not None:
            self.before = await settle(self.client, self.target.profile, variant, page, expected)
            problem = too_few(query_tokens(variant, page, self.before), expected)
        self.started = time.monotonic()
        return problem

    async def close(self, expected: int = 0) -> dict[str, Tokens]:
        """Take the last snapshot once the engine is at rest and the counters cover what was sent.

        Args:
            expected: query tokens that must have arrived, at least.

        Returns:
            Tokens per engine; empty when there are no counters or they cannot be used, then ``findings`` says why.
        """
        self.ended = time.monotonic()
        variant = self.target.variant
        if variant is None or self.before is None:
            return {}
        try:
            after = await settle(self.client, self.target.profile, variant, self.before, expected)
            return tokens_by_engine(self.target.profile, variant, self.before, after)
        except MeasurementError as error:
            self.findings.append(Finding(error.code, str(error)))
        except (EndpointError, ProtocolError) as error:
            self.findings.append(Finding("KV117", f"the counters could not be read at the end: {error}"))
        return {}


async def settle(client: Client, profile: Profile, variant: Variant, since: Snapshot, expected: int) -> Snapshot:
    """Return a snapshot of an engine at rest: nothing runs or waits, and two reads agree.

    Args:
        client: open.
        profile / variant: how the engine counts.
        since: an earlier snapshot.
        expected: query tokens that must have arrived since then. When they stop short of it the last snapshot is
            returned all the same: the shortfall is the caller's finding.

    Raises:
        NotSettled: still moving when the settle time was over.
        EndpointError, ProtocolError, CounterReset, CounterMissing: the page cannot be had or used.
    """
    names = profile.samples()
    deadline = time.monotonic() + SETTLE_SECONDS
    previous: Snapshot | None = None
    pause = _FIRST_PAUSE
    while True:
        snapshot = await scrape.fetch(client, names)
        check_same_process(profile, since, snapshot)
        busy = in_flight(profile, snapshot)
        still = previous is not None and _same(previous, snapshot, variant.hit, variant.query)
        covered = query_tokens(variant, since, snapshot) >= expected
        if still and not busy and covered:
            return snapshot
        if snapshot.at > deadline:
            if still and not busy:
                return snapshot
            state = f"{busy} requests still run or wait" if busy else "the counters still move"
            raise NotSettled(
                f"{snapshot.origin}: {state} after {SETTLE_SECONDS:g} s; is another client using the server?"
            )
        previous = snapshot
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _same(left: Snapshot, right: Snapshot, *names: str) -> bool:
    return all(left.series(name) == right.series(name) for name in names)
