"""What traffic looks like: descriptions that become concrete prompts for one server."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..errors import WorkloadError
from ..model import Phase, Prompt, Request, ServerFacts, Session
from ..model.sent import alone
from ..protocols import Site, Tokenizer
from .vocabulary import Vocabulary

Align = Literal["block"]
Send = Literal["auto", "ids", "text"]

_TAIL = 16  # tokens after the shared prefix of a prefill prompt, so that the prefix itself is never its end
_MOST_BOUNDARIES = 2048  # re-encoded before sending; a workload beyond that is sampled


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Requests that share the first P tokens with the others of their group and nothing after them.

    Attributes:
        requests: how many are measured.
        input_len: tokens of each prompt, as the server counts them.
        hit_rate: wanted share of reusable tokens, 0..1; give this or ``prefix_len``.
        prefix_len: shared tokens P.
        prefixes: how many distinct prefixes; requests take them in turn.
        output_len: generated tokens of each request.
        align: ``block``: P is a multiple of the server's block, so that the rate is reached as asked; None: P is
            exactly ``hit_rate * input_len``, and what does not fill a block is predicted as a miss.
        prefill: warm every prefix before the measured window.
        seed: makes the prompts the same in every run, whatever the nonce; None: the nonce decides.
        send: ``ids`` or ``text``; ``auto``: ids where the endpoint takes them.
        tol: how far the nearest reachable rate may be from ``hit_rate``.
    """

    requests: int
    input_len: int
    hit_rate: float | None = None
    prefix_len: int | None = None
    prefixes: int = 1
    output_len: int = 128
    align: Align | None = "block"
    prefill: bool = True
    seed: int | None = None
    send: Send = "auto"
    tol: float = 0.01

    def __post_init__(self) -> None:
        for name in ("requests", "input_len", "prefixes", "output_len"):
            self._require(name, _is_whole(getattr(self, name), 1), "a whole number of at least 1")
        if (self.hit_rate is None) == (self.prefix_len is None):
            given = f"hit_rate={self.hit_rate!r} and prefix_len={self.prefix_len!r}"
            raise WorkloadError(f"shared_prefix: give either hit_rate or prefix_len, got {given}")
        self._require("hit_rate", self.hit_rate is None or _is_ratio(self.hit_rate), "a ratio between 0 and 1")
        fits = self.prefix_len is None or (_is_whole(self.prefix_len, 0) and self.prefix_len < self.input_len)
        self._require("prefix_len", fits, f"a whole number of at least 0 and below input_len={self.input_len}")
        self._require("align", self.align in ("block", None), '"block" or None')
        self._require("prefill", isinstance(self.prefill, bool), "True or False")
        self._require("seed", self.seed is None or _is_whole(self.seed), "a whole number or None")
        self._require("send", self.send in ("auto", "ids", "text"), '"auto", "ids" or "text"')
        self._require("tol", _is_ratio(self.tol), "a distance between 0 and 1")

    async def bind(self, site: Site) -> ComposedPrefix:
        """Bind the description to a server; see :class:`~pytest_kvcache.protocols.Workload`."""
        return self.compose(site.facts, await site.tokenizer(), site.nonce, as_ids=site.as_ids)

    def compose(self, facts: ServerFacts, tokenizer: Tokenizer, nonce: str, *, as_ids: bool) -> ComposedPrefix:
        """Return the prompts for a server of these facts and this tokenizer.

        Args:
            facts: block size and context length.
            tokenizer: the server's.
            nonce: put at the head of every distinct prompt.
            as_ids: send token ids when the description leaves the choice.

        Raises:
            WorkloadError: the lengths or the rate cannot be had.
        """
        total = self.input_len + self.output_len
        if facts.max_model_len is not None and total > facts.max_model_len:
            raise WorkloadError(
                f"shared_prefix: {self.input_len:,} prompt and {self.output_len:,} output tokens are more than the"
                f" {facts.max_model_len:,} that {facts.model!r} takes; shorten input_len or output_len"
            )
        vocabulary = Vocabulary.of(tokenizer)
        ids = self.send == "ids" or (self.send == "auto" and as_ids)
        around = 0 if ids else len(vocabulary.lead) + len(vocabulary.trail)
        if self.input_len <= around:
            raise WorkloadError(
                f"shared_prefix: input_len={self.input_len} leaves no room beside the {around} special tokens that"
                f" tokenizer {tokenizer.name!r} puts around a text; ask for longer prompts"
            )
        unshared = 1 if ids else 1 + len(vocabulary.trail)  # the boundary, and what the tokenizer puts behind it
        prefix_len = self._reachable_prefix(facts.block_size or 1, self.input_len - unshared)
        root = nonce if self.seed is None else f"seed {self.seed}"
        composed = ComposedPrefix(self, vocabulary, prefix_len, root, ids)
        composed.verify(tokenizer)
        return composed

    def _require(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            raise WorkloadError(f"shared_prefix: {name}={getattr(self, name)!r} must be {allowed}")

    def _reachable_prefix(self, block: int, most: int) -> int:
        if self.prefix_len is not None:
            if self.prefix_len > most:
                raise WorkloadError(
                    f"shared_prefix: prefix_len={self.prefix_len} is more than the {most} tokens that"
                    f" {self.input_len}-token prompts can share as text: the tokenizer adds special tokens at their end"
                )
            return self.prefix_len
        wanted = (self.hit_rate or 0.0) * self.input_len
        if self.align is None:
            return min(round(wanted), most)
        highest = most // block * block
        nearest = min(round(wanted / block) * block, highest)
        if abs(nearest / self.input_len - (self.hit_rate or 0.0)) > self.tol:
            below = min(int(wanted // block) * block, highest)
            options = dict.fromkeys((below, min(below + block, highest)))
            rates = " or ".join(f"{p / self.input_len:.3f} (prefix_len={p})" for p in options)
            raise WorkloadError(
                f"shared_prefix: hit_rate={self.hit_rate} is out of reach with {self.input_len}-token prompts"
                f" and blocks of {block}: the nearest reachable are {rates}, the highest is"
                f" {highest / self.input_len:.3f}; ask for one of these, or for longer prompts"
            )
        return nearest


class _Head(NamedTuple):
    """A prefix in the three forms that prompts are made of."""

    numbers: list[int]
    ids: list[int]
    text: str


@dataclass(frozen=True)
class ComposedPrefix:
    """The prompts of a :class:`SharedPrefix` for one server, made anew at each iteration, the same every time.

    A prompt is: special tokens that the tokenizer puts in front of text, the prefix up to P, a boundary that counts the
    requests of the group, and a random rest. The nonce decides every random token.

    Sharing ends at exactly P while a group has fewer requests than the vocabulary has pieces, because then the first
    token of the boundary differs between any two. Beyond that the boundary has more digits, lowest first, and a pair
    of requests may share all but one of them. With P = 0 the boundary of each request is its head, and nothing but the
    special tokens in front of a text is shared. The prediction looks at the ids and so knows of both.
    """

    shape: SharedPrefix
    vocabulary: Vocabulary
    prefix_len: int
    nonce: str
    as_ids: bool
    _heads: dict[int, _Head] = field(default_factory=dict, repr=False, compare=False)  # each prefix is drawn once

    def __len__(self) -> int:
        return self.shape.requests

    @property
    def input_len(self) -> int:
        """Tokens of each measured prompt."""
        return self.shape.input_len

    @property
    def rate(self) -> float:
        """Share of each measured prompt that is shared by construction, P / L."""
        return self.prefix_len / self.input_len

    @property
    def title(self) -> str:
        """One line for reports."""
        shape = self.shape
        prefixes = "1 prefix" if shape.prefixes == 1 else f"{shape.prefixes:,} prefixes"
        shared = f"{self.prefix_len:,} shared ({self.rate:.3f}) in {prefixes}"
        return (
            f"shared_prefix: {shape.requests:,} x {shape.input_len:,} tokens, {shared}, {shape.output_len} out,"
            f" as {'ids' if self.as_ids else 'text'}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know."""
        return ()

    @property
    def warms(self) -> str | None:
        """Nothing that other runs use."""
        return None

    def warmed(self) -> Iterator[Request]:
        """Return nothing: no earlier run has sent any of it."""
        return iter(())

    def sessions(self) -> Iterator[Session]:
        """Return each measured request by itself."""
        return alone(self.load())

    def prefill(self) -> Iterator[Request]:
        """Return one request for each prefix: the prefix and a few tokens of its own."""
        if not self.shape.prefill or not self._head_len:
            return
        length = min(self.prefix_len + _TAIL, self.shape.input_len)
        for group in range(min(self.shape.prefixes, self.shape.requests)):
            yield self._request(group, self._group_size, length, "prefill", 1)

    def load(self) -> Iterator[Request]:
        """Return the measured requests, prefix after prefix in turn."""
        for index in range(self.shape.requests):
            group, position = self._place(index)
            yield self._request(group, position, self.shape.input_len, "load", self.shape.output_len)

    def verify(self, tokenizer: Tokenizer) -> None:
        """Re-encode every prefix, the boundaries and a sample of whole prompts before anything is sent.

        Raises:
            WorkloadError: a text does not encode to the ids it was made of; shows where.
        """
        vocabulary = self.vocabulary
        bodies = [*self._heads_to_verify(), *self._samples_to_verify()]
        texts = [vocabulary.prompt_text(vocabulary.text(body)) for body in bodies]
        for body, seen in zip(bodies, tokenizer.encode(texts), strict=True):
            wanted = [*vocabulary.lead, *vocabulary.encode(body), *vocabulary.trail]
            if seen != wanted:
                raise WorkloadError(_difference(tokenizer.name, wanted, seen))

    def _heads_to_verify(self) -> Iterator[list[int]]:
        if self._head_len:
            for group in range(min(self.shape.prefixes, self.shape.requests)):
                yield self._head(group).numbers

    def _samples_to_verify(self) -> Iterator[list[int]]:
        last = self.shape.requests - 1
        for index in range(0, last + 1, max(1, last // _MOST_BOUNDARIES)):
            group, position = self._place(index)
            yield [*self._head(group).numbers[-8:], *self._suffix(group, position, 8)]
        for index in sorted({0, last // 2, last}):
            group, position = self._place(index)
            head = self._head(group).numbers
            yield [*head, *self._suffix(group, position, self._count(self.shape.input_len) - len(head))]

    @property
    def _group_size(self) -> int:
        return -(-self.shape.requests // self.shape.prefixes)

    @property
    def _around(self) -> int:
        """Special tokens of a prompt sent as text; ids are sent bare."""
        return 0 if self.as_ids else len(self.vocabulary.lead) + len(self.vocabulary.trail)

    @property
    def _head_len(self) -> int:
        """Pieces in a prefix: P without the special tokens in front of it."""
        return max(0, self.prefix_len - (0 if self.as_ids else len(self.vocabulary.lead)))

    def _place(self, index: int) -> tuple[int, int]:
        """Return the group of a measured request and its position in the group."""
        return index % self.shape.prefixes, index // self.shape.prefixes

    def _count(self, length: int) -> int:
        """Return the pieces in a prompt of ``length`` tokens."""
        return length - self._around

    def _request(self, group: int, position: int, length: int, phase: Phase, max_tokens: int) -> Request:
        vocabulary, head = self.vocabulary, self._head(group)
        suffix = self._suffix(group, position, self._count(length) - len(head.numbers))
        ids = [*head.ids, *vocabulary.encode(suffix)]
        if self.as_ids:
            prompt = Prompt(ids)
        else:
            text = vocabulary.prompt_text(head.text + vocabulary.text(suffix))
            prompt = Prompt([*vocabulary.lead, *ids, *vocabulary.trail], text)
        return Request(prompt, max_tokens, phase, group if self._head_len else None)

    def _head(self, group: int) -> _Head:
        if group not in self._heads:
            count = self._head_len
            drawn = self.vocabulary.draw(f"{self.nonce}/prefix/{group}", count)
            first = self.vocabulary.digits(group, self.shape.prefixes, _offset(self.nonce))[:count]
            numbers = [*first, *drawn[len(first) :]]
            self._heads[group] = _Head(numbers, self.vocabulary.encode(numbers), self.vocabulary.text(numbers))
        return self._heads[group]

    def _suffix(self, group: int, position: int, count: int) -> list[int]:
        number, below, salt = position, self._group_size + 1, f"{self.nonce}/{group}"  # the last one warms the prefix
        if not self._head_len:  # then every request must differ from every other: all are one group
            number, below, salt = position * self.shape.prefixes + group, self.shape.requests, f"{self.nonce}/"
        boundary = self.vocabulary.digits(number, below, _offset(salt))[:count]
        drawn = self.vocabulary.draw(f"{self.nonce}/suffix/{group}/{position}", count)
        return [*boundary, *drawn[len(boundary) :]]


def _is_whole(value: object, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_ratio(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _offset(nonce: str) -> int:
    return zlib.crc32(nonce.encode())


def _difference(name: str, wanted: list[int], seen: list[int]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(wanted, seen, strict=False)) if a != b), min(len(wanted), len(seen)))
    there = [ids[at] if at < len(ids) else "nothing" for ids in (wanted, seen)]
    return (
        f"tokenizer {name!r} does not give composed text back as it was composed: token {at} is {there[1]} instead of"
        f" {there[0]} ({len(seen)} tokens instead of {len(wanted)}); send ids, or report this tokenizer"
    )
