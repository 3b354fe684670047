"""The user's own requests, sent as they are: measured by counters and usage, without a prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..apis import PATHS
from ..errors import WorkloadError
from ..model import Phase, Prompt, Request, Session
from ..model.sent import alone
from ..protocols import Site

_UNKNOWN = Prompt(())


@dataclass(frozen=True, slots=True)
class Bodies:
    """Requests given by their JSON bodies.

    Attributes:
        bodies: in the order in which they are sent; ``model`` is filled in where it is missing.
        api: form of all of them, a key of :data:`pytest_kvcache.apis.PATHS`.
        warm: how many of the first ones are sent before the measured window.
    """

    bodies: tuple[Mapping[str, Any], ...] = field(repr=False)
    api: str = "chat"
    warm: int = 0

    def __post_init__(self) -> None:
        if self.api not in PATHS:
            raise WorkloadError(f"requests: api={self.api!r} is none of {', '.join(PATHS)}")
        if not 0 <= self.warm < max(1, len(self.bodies)):
            raise WorkloadError(f"requests: warm={self.warm} leaves nothing to measure of {len(self.bodies)} bodies")
        for number, body in enumerate(self.bodies):
            if not isinstance(body, Mapping):
                raise WorkloadError(f"requests: body {number} is {type(body).__name__}; expected a JSON object")
            try:
                json.dumps(body, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise WorkloadError(f"requests: body {number} is no JSON object: {error}") from None

    @property
    def title(self) -> str:
        """One line for reports."""
        return f"{len(self)} requests of your own ({self.api})"

    @property
    def prefix_len(self) -> int:
        """What these requests share is not known."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def warms(self) -> None:
        """Nothing that other runs use."""
        return None

    async def bind(self, _: Site) -> Bodies:
        """Return the workload itself; see :class:`~pytest_kvcache.protocols.Workload`."""
        return self

    def warmed(self) -> Iterator[Request]:
        """Return nothing: no earlier run has sent any of it."""
        return iter(())

    def prefill(self) -> Iterator[Request]:
        """Return the requests before the window."""
        return self._requests(self.bodies[: self.warm], "prefill")

    def load(self) -> Iterator[Request]:
        """Return the measured requests."""
        return self._requests(self.bodies[self.warm :], "load")

    def sessions(self) -> Iterator[Session]:
        """Return each measured request by itself."""
        return alone(self.load())

    def __len__(self) -> int:
        return len(self.bodies) - self.warm

    def _requests(self, bodies: tuple[Mapping[str, Any], ...], phase: Phase) -> Iterator[Request]:
        for body in bodies:
            yield Request(_UNKNOWN, 0, phase, api=self.api, body=body, whole=True)
