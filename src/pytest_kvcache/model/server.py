"""What the endpoint told about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..savings.prices import Prices
from .grain import Grain


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the endpoint told about itself before anything was measured.

    Attributes:
        engine: id of the engine profile (``vllm``, ``sim``, ``usage``).
        variant: the profile's variant that explains the counters, None for ``usage``.
        version: as the server reports it.
        model: the model that is asked for.
        block_size: tokens per cache block; None when the server does not tell.
        caching: False when the server says that its prefix cache is off; None when it does not tell.
        max_model_len: longest prompt plus output in tokens; None when unknown.
        simulated: True for the built-in engine, so that no report mistakes it for a real one.
        usage_flag / caching_flag: what the operator must set for ``cached_tokens`` to be reported, for the cache to
            work; for advice.
        unit: what the counters count; blocks are turned into tokens.
        counted: when they count, such as ``admission``; ``lookup`` repeats itself under pressure.
        note: what a reader of the numbers should know, from the profile's variant.
        unconfirmed: how the engine reports was not read in its own source or repository, only elsewhere.
        whole_prompt_hits: True where a prompt may be cached to its last token; elsewhere at least one is computed.
        probe_tokens: tokens that the engine sends to itself and counts, at most so many a second.
        block_usual: block size that such engines have unless told otherwise; for hints, never for arithmetic.
        step / minimum: granularity and shortest prefix of a cache that does not tell its blocks, from the provider's
            documentation or from a probe; None when not known.
        capacity: tokens that the cache of each engine holds; None when it does not tell.
        isolation: request fields that separate caches.
        prices: of its tokens, given or told by the endpoint; None when nobody told any.
    """

    engine: str
    model: str
    variant: str | None = None
    version: str | None = None
    block_size: int | None = None
    caching: bool | None = None
    max_model_len: int | None = None
    simulated: bool = False
    usage_flag: str = ""
    caching_flag: str = ""
    unit: Literal["tokens", "blocks"] = "tokens"
    counted: str = "admission"
    note: str = ""
    unconfirmed: bool = False
    whole_prompt_hits: bool = False
    probe_tokens: int = 0
    block_usual: int | None = None
    step: int | None = None
    minimum: int | None = None
    capacity: int | None = None
    isolation: tuple[str, ...] = ()
    prices: Prices | None = None

    @property
    def grain(self) -> Grain:
        """How the cache gives credit; token by token, an upper bound, when that is not known."""
        return Grain(self.block_size or self.step or 1, self.minimum or 0, self.whole_prompt_hits)

    def probed(self, grain: Grain | None) -> ServerFacts:
        """Return the facts with what a probe found of the cache, where the server does not tell its block size."""
        if grain is None or self.block_size is not None:
            return self
        return replace(self, step=grain.block, minimum=grain.minimum, whole_prompt_hits=grain.whole)

    @property
    def grain_known(self) -> bool:
        """False when the server tells no block size and nothing is known in its place."""
        return self.block_size is not None or self.step is not None
