"""Requests over a set of warmed contexts, larger or smaller than the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..checks import is_ratio, is_whole
from ..errors import WorkloadError
from ..model import ServerFacts
from ..protocols import Site, Tokenizer
from . import noted
from .composed import ComposedPrefix, Source
from .paths import Paths
from .plan import Plan
from .reach import Reach
from .shapes import check_room, in_pieces
from .shares import Deal
from .wording import Send, Wording, wording_of

if TYPE_CHECKING:
    from .frame import Frame

Selection: TypeAlias = Literal["round_robin", "random"]
Reinit: TypeAlias = Literal["once", "per_rate", "per_test"]

_TOL = 0.01  # how far the tokens of a chat template may lift a hit rate


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Requests that are each the first part of one context of a warmed set, and a unique rest.

    Attributes:
        tokens: size of the set: ``tokens // context`` contexts, all of them warmed whole.
        context: tokens of each context and of each prompt.
        hit_rate: share of each prompt that is in the set, 0..1: ``floor(context * hit_rate / chunk) * chunk`` tokens,
            and always less than the whole prompt.
        requests: how many are measured; None: one for each context.
        chunk: None: the server's block.
        selection: ``round_robin``: contexts in turn; ``random``: independent draws, the same with the same ``seed``.
        reinit: ``once``: the set is warmed once in a session of pytest and used by all its runs; ``per_rate``: once for
            each hit rate; ``per_test``: for this run alone.
        output_len: generated tokens of each request.
        seed: makes the set and the order of its use the same in every run. What follows a context's part is always
            new, so that no run finds what an earlier one sent.
        send: as for :class:`~pytest_kvcache.workloads.SharedPrefix`.
    """

    tokens: int
    context: int
    hit_rate: float
    requests: int | None = None
    chunk: int | None = None
    selection: Selection = "round_robin"
    reinit: Reinit = "per_test"
    output_len: int = 128
    seed: int | None = None
    send: Send = "auto"

    def __post_init__(self) -> None:
        for name in ("tokens", "context", "output_len"):
            self._require(name, is_whole(getattr(self, name), 1), "a whole number of at least 1")
        self._require("tokens", self.tokens >= self.context, f"at least one context of {self.context:,} tokens")
        self._require("hit_rate", is_ratio(self.hit_rate), "a ratio between 0 and 1")
        for name in ("requests", "chunk"):
            value = getattr(self, name)
            self._require(name, value is None or is_whole(value, 1), "a whole number of at least 1, or None")
        self._require("selection", self.selection in ("round_robin", "random"), '"round_robin" or "random"')
        self._require("reinit", self.reinit in ("once", "per_rate", "per_test"), '"once", "per_rate" or "per_test"')
        self._require("seed", self.seed is None or is_whole(self.seed), "a whole number or None")
        self._require("send", self.send in ("auto", "ids", "text", "chat"), '"auto", "ids", "text" or "chat"')

    @property
    def contexts(self) -> int:
        """How many contexts are in the set."""
        return self.tokens // self.context

    async def bind(self, site: Site) -> ComposedPrefix:
        """Bind the description to a server; see :class:`~pytest_kvcache.protocols.Workload`."""
        wording, tokenizer = await wording_of(site, self.send)
        source = self.source(wording, site.nonce, site.series)
        return self._composed(site.facts, wording, tokenizer, source, is_warm=source.warms in site.warm)

    def compose(
        self,
        facts: ServerFacts,
        tokenizer: Tokenizer,
        nonce: str,
        *,
        as_ids: bool,
        series: str = "",
        is_warm: bool = False,
        frame: Frame | None = None,
    ) -> ComposedPrefix:
        """Return the prompts for a server of these facts and this tokenizer.

        Args:
            facts: block size and context length.
            tokenizer: the server's.
            nonce: of this run.
            as_ids: send token ids when the description leaves the choice.
            series: nonce of all runs of the session.
            is_warm: an earlier run has warmed the set.
            frame: what the chat template puts around a message, for ``send="chat"``.

        Raises:
            WorkloadError: the lengths or the rate cannot be had.
        """
        wording = Wording.of(tokenizer, self.send, as_ids=as_ids, frame=frame)
        return self._composed(facts, wording, tokenizer, self.source(wording, nonce, series), is_warm=is_warm)

    def source(self, wording: Wording, nonce: str, series: str) -> Source:
        """Return the seeds of the set and of what is new in each run."""
        name = f"working set of {self.contexts} x {self.context} tokens as {wording.way}"
        if self.seed is not None:
            name += f", seed {self.seed}"
        if self.reinit == "per_rate":
            name += f", hit rate {float(self.hit_rate)}"
        base = nonce if self.reinit == "per_test" else series
        shared = f"{base}/{name}" if self.seed is None else name
        return Source(shared, nonce, None if self.reinit == "per_test" else name)

    def _composed(
        self, facts: ServerFacts, wording: Wording, tokenizer: Tokenizer | None, source: Source, *, is_warm: bool
    ) -> ComposedPrefix:
        check_room("working_set", facts, wording, [self.context], self.output_len)
        reach = Reach(self.context, facts.grain, wording.header, wording.own, "working_set")
        chunk = self.chunk or facts.grain.block
        shared = reach.in_chunks(self.hit_rate, chunk, _TOL)
        requests = self.contexts if self.requests is None else self.requests
        plan = Plan(
            paths=Paths(((self.contexts, self.context - len(wording.trail)),)),
            by_leaf=self._deal(requests),
            lengths=(self.context,),
            by_length=Deal((requests,)),
            by_rate=Deal((requests,)),
            shared=((shared,),),
        )
        paths = in_pieces(plan.paths, wording)
        notes = (*self._notes(reach, shared, chunk), *noted.alike(paths, wording.vocabulary))
        composed = ComposedPrefix(
            self._title(requests, shared, wording),
            (*notes, *wording.notes([self.context])),
            plan,
            wording,
            paths,
            source,
            self.output_len,
            whole=True,
            is_warm=is_warm,
            header=reach.lowest > 0,
        )
        if tokenizer is not None:
            composed.verify(tokenizer)
        return composed

    def _deal(self, requests: int) -> Deal:
        if self.selection == "round_robin":
            return Deal.in_turn(requests, self.contexts)
        return Deal.drawn(requests, self.contexts, f"order {self.seed or 0}")

    def _notes(self, reach: Reach, shared: int, chunk: int) -> Iterator[str]:
        block = reach.grain.block
        step = f"chunks of {chunk}" + ("" if chunk % block == 0 else f" and blocks of {block}")
        yield from noted.rounded([(self.hit_rate, reach, shared)], step)
        yield noted.highest([(reach, 1)])

    def _title(self, requests: int, shared: int, wording: Wording) -> str:
        return (
            f"working_set: {requests:,} x {self.context:,} tokens, {shared:,} of a set of {self.contexts:,} contexts"
            f" ({shared / self.context:.3f}), {self.output_len} out, as {wording.way}"
        )

    def _require(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            raise WorkloadError(f"working_set: {name}={getattr(self, name)!r} must be {allowed}")
