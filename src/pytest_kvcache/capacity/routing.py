"""Which of several engines gets a request?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b

from ..errors import TraceError
from ..rows import Note
from .paths import Path
from .policies import Cache


class Router(ABC):
    """Sends each request to one engine, and knows what it has sent.

    Args:
        caches: of the engines, as they are when a request comes.

    Attributes:
        loads: prompt tokens that each engine was sent so far.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        self.caches = caches
        self.loads = [0] * len(caches)

    def route(self, path: Path) -> int:
        """Return the engine of the next request."""
        engine = self._choose(path)
        self.loads[engine] += path.row.input_length
        return engine

    def notes(self) -> tuple[Note, ...]:
        """Return what should be known of how it was routed."""
        return ()

    @abstractmethod
    def _choose(self, path: Path) -> int: ...

    def _least_loaded(self, engines: Sequence[int]) -> int:
        return min(engines, key=lambda engine: (self.loads[engine], engine))


class RoundRobin(Router):
    """One engine after the other, whatever is asked."""

    def __init__(self, caches: Sequence[Cache]) -> None:
        super().__init__(caches)
        self._next = 0

    def _choose(self, path: Path) -> int:  # noqa: ARG002 - of no request
        engine = self._next
        self._next = (engine + 1) % len(self.caches)
        return engine


class LeastLoaded(Router):
    """The engine that was sent the fewest prompt tokens so far; of equals the first."""

    def _choose(self, path: Path) -> int:  # noqa: ARG002 - whatever is asked
        return self._least_loaded(range(len(self.caches)))


class SessionAffine(Router):
    """All turns of a session to one engine, by a hash of the session that is the same in every process.

    A request without a session goes by the hash of its first block, so that what begins alike stays together; one
    without blocks, which can hit nowhere, to the least loaded engine.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        super().__init__(caches)
        self._alone = 0
        self._line: int | None = None

    def notes(self) -> tuple[Note, ...]:
        """Tell of requests without a session."""
        if not self._alone:
            return ()
        sentence = (
            f"{self._alone:,} requests have no session (first in line {self._line}): each went to the engine of its "
            "first block, so all that begin alike went to the same one"
        )
        return (Note("no_session", self._alone, self._line, sentence),)

    def _choose(self, path: Path) -> int:
        row = path.row
        if row.session is not None:
            return self._hashed("session", row.session)
        self._alone += 1
        self._line = row.line if self._line is None else self._line
        if not row.ids:
            return self._least_loaded(range(len(self.caches)))
        return self._hashed("block", row.scope, row.ids[0])

    def _hashed(self, *key: object) -> int:
        digest = blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % len(self.caches)


class LongestPrefix(Router):
    """The engine with the longest leading run of cached blocks, when it has at least half of the request's; of equals,
    and where none has so much, the least loaded.

    Without that bound all requests would follow the system prompt that they share to one engine, so the cache-aware
    routers of fleets have one too (SGLang's: ``--cache-threshold``).
    """

    def _choose(self, path: Path) -> int:
        depths = [cache.leading(path.blocks) for cache in self.caches]
        longest = max(depths)
        if 2 * longest < len(path.blocks):
            return self._least_loaded(range(len(self.caches)))
        return self._least_loaded([engine for engine, depth in enumerate(depths) if depth == longest])


ROUTINGS: dict[str, type[Router]] = {
    "round_robin": RoundRobin,
    "least_loaded": LeastLoaded,
    "session": SessionAffine,
    "prefix": LongestPrefix,
}


def router_of(routing: str, caches: Sequence[Cache]) -> Router:
    """Return a router by its name.

    Raises:
        TraceError: no router has it.
    """
    check_routing(routing)
    return ROUTINGS[routing](caches)


def check_routing(routing: str) -> None:
    """Raise TraceError when no router has this name."""
    if routing not in ROUTINGS:
        raise TraceError(f"routing={routing!r}: expected {', '.join(map(repr, ROUTINGS))}")
