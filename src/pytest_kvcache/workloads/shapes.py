"""Requests that share prefixes: a description that becomes concrete prompts for one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..checks import is_ratio, is_whole
from ..errors import WorkloadError
from ..model import ServerFacts
from ..protocols import Site, Tokenizer
from . import noted
from .composed import ComposedPrefix, Source
from .paths import Paths
from .plan import Plan
from .reach import Reach
from .shares import Deal, Mix, Weights, deal_of, shares_problem, values_of, weights_problem
from .wording import Send, Wording, wording_of

if TYPE_CHECKING:
    from .frame import Frame

Align: TypeAlias = Literal["block"]
Tree: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Requests that share the first P tokens with the others of their prefix and nothing after them.

    Attributes:
        requests: how many are measured.
        input_len: tokens of each prompt, as the server counts them; or several, in equal or given shares.
        hit_rate: wanted share of reusable tokens, 0..1; or several; give this, ``prefix_len`` or ``tree``.
        prefix_len: shared tokens P.
        prefixes: how many distinct prefixes.
        weights: how the requests are divided among the prefixes, or the leaves of the tree; the number of each is
            exact. ``uniform``: in turn; everything else in an order that ``seed`` decides.
        tree: prefixes that have parts in common: from the root down, how many nodes there are at each level, and the
            tokens of each node's own part. Requests take the leaves; node n of a level is under node
            ``n * above // here``; P is the sum of the levels.
        output_len: generated tokens of each request.
        align: ``block``: P is a multiple of the server's block, so that the rate is reached as asked; None: P is
            exactly ``hit_rate * input_len``, and what does not fill a block is predicted as a miss.
        prefill: warm every prefix that is used before the measured window.
        seed: makes the prompts the same in every run, whatever the nonce; None: the nonce decides. The order of the
            requests never depends on the nonce.
        send: ``ids``, ``text``, or ``chat``: one user message; ``auto``: ids where the endpoint takes them, else text,
            and chats where nobody can tell its tokens.
        tol: how far the nearest reachable rate may be from ``hit_rate``.
    """

    requests: int
    input_len: Mix[int]
    hit_rate: Mix[float] | None = None
    prefix_len: int | None = None
    prefixes: int = 1
    output_len: int = 128
    align: Align | None = "block"
    prefill: bool = True
    seed: int | None = None
    send: Send = "auto"
    tol: float = 0.01
    weights: Weights = "uniform"
    tree: Tree | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "prefixes", "output_len"):
            self._require(name, is_whole(getattr(self, name), 1), "a whole number of at least 1")
        self._require_mix("input_len", lambda value: is_whole(value, 1), "a whole number of at least 1")
        self._require_one_size()
        if self.hit_rate is not None:
            self._require_mix("hit_rate", is_ratio, "a ratio between 0 and 1")
        fits = self.prefix_len is None or (is_whole(self.prefix_len, 0) and self.prefix_len < min(self._lengths))
        self._require("prefix_len", fits, f"a whole number of at least 0 and below input_len={min(self._lengths)}")
        self._require("align", self.align in ("block", None), '"block" or None')
        self._require("prefill", isinstance(self.prefill, bool), "True or False")
        self._require("seed", self.seed is None or is_whole(self.seed), "a whole number or None")
        self._require("send", self.send in ("auto", "ids", "text", "chat"), '"auto", "ids", "text" or "chat"')
        self._require("tol", is_ratio(self.tol), "a distance between 0 and 1")
        leaves = self.tree[-1][0] if self.tree is not None else self.prefixes
        if problem := weights_problem(self.weights, leaves):
            raise WorkloadError(f"shared_prefix: weights={self.weights!r} {problem}")

    async def bind(self, site: Site) -> ComposedPrefix:
        """Bind the description to a server; see :class:`~pytest_kvcache.protocols.Workload`."""
        wording, tokenizer = await wording_of(site, self.send)
        return self._composed(site.facts, wording, tokenizer, site.nonce)

    def compose(
        self, facts: ServerFacts, tokenizer: Tokenizer, nonce: str, *, as_ids: bool, frame: Frame | None = None
    ) -> ComposedPrefix:
        """Return the prompts for a server of these facts and this tokenizer.

        Args:
            facts: block size and context length.
            tokenizer: the server's.
            nonce: put at the head of every distinct prompt.
            as_ids: send token ids when the description leaves the choice.
            frame: what the chat template puts around a message, for ``send="chat"``.

        Raises:
            WorkloadError: the lengths or the rate cannot be had.
        """
        return self._composed(facts, Wording.of(tokenizer, self.send, as_ids=as_ids, frame=frame), tokenizer, nonce)

    def _composed(
        self, facts: ServerFacts, wording: Wording, tokenizer: Tokenizer | None, nonce: str
    ) -> ComposedPrefix:
        check_room("shared_prefix", facts, wording, self._lengths, self.output_len)
        reaches = [Reach(length, facts.grain, wording.header, wording.own) for length in self._lengths]
        plan = self._plan(reaches, wording)
        root = nonce if self.seed is None else f"seed {self.seed}"
        paths = in_pieces(plan.paths, wording)
        composed = ComposedPrefix(
            self._title(plan, wording),
            tuple(self._notes(plan, reaches, wording, paths)),
            plan,
            wording,
            paths,
            Source(root, root),
            self.output_len,
            header=any(reach.lowest for reach in reaches),
        )
        if tokenizer is not None:
            composed.verify(tokenizer)
        return composed

    def _plan(self, reaches: Sequence[Reach], wording: Wording) -> Plan:
        order = f"order {self.seed or 0}"
        shared = tuple(self._shared(reach, wording) for reach in reaches)
        levels: tuple[tuple[int, int], ...] = ((self.prefixes, max(max(row) for row in shared)),)
        if self.tree is not None:
            levels = tuple((count, tokens) for count, tokens in self.tree)
        _, lengths = values_of(self.input_len)
        _, rates = values_of(self.hit_rate) if self.hit_rate is not None else ((), (1.0,))
        return Plan(
            paths=Paths(levels),
            by_leaf=deal_of(self.weights, self.requests, levels[-1][0], f"{order}/prefix"),
            lengths=self._lengths,
            by_length=Deal.weighted(self.requests, lengths, f"{order}/length"),
            by_rate=Deal.weighted(self.requests, rates, f"{order}/rate"),
            shared=shared,
            warm=self.prefill,
        )

    def _shared(self, reach: Reach, wording: Wording) -> tuple[int, ...]:
        """Return P of prompts of one length, for each wanted rate."""
        if self.hit_rate is not None:
            rates, _ = values_of(self.hit_rate)
            pick = reach.nearest if self.align == "block" else reach.unaligned
            return tuple(pick(rate, self.tol) for rate in rates)
        asked, tokens = f"prefix_len={self.prefix_len}", self.prefix_len or 0
        if self.tree is not None:
            asked, tokens = f"tree={self.tree!r}", sum(own for _, own in self.tree)
            if self.tree[0][1] <= len(wording.lead):
                raise WorkloadError(
                    f"shared_prefix: {asked}: the first level must be longer than the {len(wording.lead)} tokens that"
                    " stand in front of every prompt"
                )
        if tokens > reach.most:
            why = (
                "a prompt needs one of its own at its end"
                if not wording.trail
                else "the chat template adds tokens at their end"
                if wording.way == "chat"
                else "the tokenizer adds special tokens at their end"
            )
            raise WorkloadError(
                f"shared_prefix: {asked} is more than the {reach.most} tokens that {reach.input_len}-token prompts can"
                f" share as {wording.way}: {why}"
            )
        return (tokens,)

    def _notes(self, plan: Plan, reaches: Sequence[Reach], wording: Wording, paths: Paths) -> Iterator[str]:
        if self.hit_rate is not None:
            rates, _ = values_of(self.hit_rate)
            block = reaches[0].grain.block
            found = [
                (rate, reach, shared)
                for reach, row in zip(reaches, plan.shared, strict=True)
                for rate, shared in zip(rates, row, strict=True)
            ]
            yield from noted.rounded(found, f"blocks of {block}" if block > 1 else "whole tokens")
            yield noted.highest(list(zip(reaches, plan.by_length.counts, strict=True)))
        yield from noted.alike(paths, wording.vocabulary)
        yield from wording.notes(self._lengths)

    def _title(self, plan: Plan, wording: Wording) -> str:
        if self.tree is not None:
            prefixes = f"a tree of {' > '.join(f'{count:,}' for count, _ in self.tree)} prefixes"
        else:
            prefixes = "1 prefix" if self.prefixes == 1 else f"{self.prefixes:,} prefixes"
        rate = plan.shared_tokens / plan.query_tokens
        shared = f"{_span(plan.prefix_lens)} shared ({rate:.3f}) in {prefixes}"
        lengths = _span((min(self._lengths), max(self._lengths)))
        return f"shared_prefix: {self.requests:,} x {lengths} tokens, {shared}, {self.output_len} out, as {wording.way}"

    @property
    def _lengths(self) -> tuple[int, ...]:
        return values_of(self.input_len)[0]

    def _require(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            raise WorkloadError(f"shared_prefix: {name}={getattr(self, name)!r} must be {allowed}")

    def _require_mix(self, name: str, allows: Callable[[Any], bool], allowed: str) -> None:
        mix = getattr(self, name)
        if problem := shares_problem(mix):
            raise WorkloadError(f"shared_prefix: {name}={mix!r} {problem}")
        values, _ = values_of(mix)
        self._require(name, all(map(allows, values)), f"{allowed}, or several, or a share for each of several")

    def _require_one_size(self) -> None:
        """Make sure that it is said once how much is shared."""
        if self.tree is None:
            if (self.hit_rate is None) == (self.prefix_len is None):
                given = f"hit_rate={self.hit_rate!r} and prefix_len={self.prefix_len!r}"
                raise WorkloadError(f"shared_prefix: give either hit_rate or prefix_len, got {given}")
            return
        for name, default in {"hit_rate": None, "prefix_len": None, "prefixes": 1}.items():
            if getattr(self, name) != default:
                raise WorkloadError(
                    f"shared_prefix: the tree says what is shared; leave out {name}={getattr(self, name)!r}"
                )
        self._require(
            "tree", _is_tree(self.tree), "(nodes, tokens) of each level, no level with fewer nodes than above"
        )


def check_room(shape: str, facts: ServerFacts, wording: Wording, lengths: Sequence[int], output_len: int) -> None:
    """Make sure that prompts fit the model, and what stands around their pieces the prompts.

    Raises:
        WorkloadError: they do not.
    """
    longest, shortest = max(lengths), min(lengths)
    if facts.max_model_len is not None and longest + output_len > facts.max_model_len:
        raise WorkloadError(
            f"{shape}: {longest:,} prompt and {output_len:,} output tokens are more than the"
            f" {facts.max_model_len:,} that {facts.model!r} takes; shorten input_len or output_len"
        )
    if wording.pieces(shortest - wording.around) < 1:
        raise WorkloadError(
            f"{shape}: input_len={shortest} leaves no room beside the {wording.around_by()}; ask for longer prompts"
        )


def in_pieces(paths: Paths, wording: Wording) -> Paths:
    """Return prefixes whose lengths are pieces instead of tokens."""
    lead = len(wording.lead)
    return Paths(
        tuple(
            (count, wording.pieces(max(0, tokens - (0 if level else lead))))
            for level, (count, tokens) in enumerate(paths.levels)
        )
    )


def _span(ends: tuple[int, int]) -> str:
    least, most = ends
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _is_tree(tree: object) -> bool:
    if not isinstance(tree, (list, tuple)) or not tree:
        return False
    levels = [level for level in tree if isinstance(level, (list, tuple)) and len(level) == 2]
    if len(levels) != len(tree) or not all(is_whole(number, 1) for level in levels for number in level):
        return False
    return all(above[0] <= here[0] for above, here in pairwise(levels))
