"""The requests of a workload, none of which may find anything cached: what a warm run is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..errors import WorkloadError
from ..model import Composed, Request, ServerFacts, Session
from ..model.sent import changed
from .composed import ComposedPrefix

_SALT = "cache_salt"  # of vLLM and SGLang: a promise, which no other engine's field is (prompt_cache_key is a hint)


def cold(composed: Composed, facts: ServerFacts, nonce: str) -> Composed:
    """Return the same requests as another run's, each in a cache of its own.

    Where the engine separates caches by a salt these are the very same prompts; elsewhere prompts of the same lengths
    that share nothing.

    Args:
        composed: the workload.
        facts: of the server.
        nonce: of the cold run.

    Raises:
        WorkloadError: neither can be had.
    """
    if _SALT in facts.isolation:
        return _Salted(composed, nonce)
    if isinstance(composed, ComposedPrefix):
        nothing = tuple(tuple(0 for _ in row) for row in composed.plan.shared)
        apart = replace(composed.plan, shared=nothing, warm=False)
        made = composed.again(nonce)
        return replace(made, plan=apart, notes=(*made.notes, "cold: prompts of the same lengths that share nothing"))
    raise WorkloadError(
        f"{composed.title}: this engine ({facts.engine}) has no salt that separates caches, so these very prompts"
        " cannot be cold; take a workload of kv_workload.shared_prefix or working_set"
    )


@dataclass(frozen=True, slots=True)
class _Salted:
    once: Composed
    nonce: str
    notes: Sequence[str] = ("cold: the same prompts, each with a salt of its own",)
    prefix_len: int = 0
    warms: str | None = None
    append_only: bool = False
    fresh: bool = True

    @property
    def title(self) -> str:
        return f"cold: {self.once.title}"

    def warmed(self) -> Iterator[Request]:
        return iter(())

    def prefill(self) -> Iterator[Request]:
        return iter(())

    def load(self) -> Iterator[Request] | None:
        requests = self.once.load()
        return None if requests is None else (self._salted(request, at) for at, request in enumerate(requests))

    def sessions(self) -> Iterator[Session]:
        for number, session in enumerate(self.once.sessions()):
            yield changed(session, partial(self._turn, number))

    def again(self, lap: str) -> _Salted:
        return _Salted(self.once, f"{self.nonce}/{lap}")

    def __len__(self) -> int:
        return len(self.once)

    def _turn(self, number: int, request: Request, turn: int) -> Request:
        return self._salted(request, f"{number}/{turn}" if turn else number)

    def _salted(self, request: Request, name: Any) -> Request:
        salt = f"{self.nonce} {name}".replace("/", " ")  # vLLM 0.32 refuses a salt with a slash
        return replace(request, body={**request.body, _SALT: salt})
