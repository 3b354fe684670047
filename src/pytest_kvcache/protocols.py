"""The seams: what a part needs of another part, so that either can be replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol

from .model import Composed, Exchange, Request, ServerFacts


class Tokenizer(Protocol):
    """Turns text into the token ids that the server will count."""

    @property
    def name(self) -> str:
        """Where the tokenizer came from, for reports and errors."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, special tokens included, as the server's completions endpoint adds them."""

    def words(self) -> Sequence[str]:
        """Return candidate words (lower-case ASCII letters) that are likely to be one token after a space."""

    def pieces(self) -> Sequence[str]:
        """Return texts of single tokens, for a vocabulary without such words; empty when they are not known."""


class Site(Protocol):
    """Where a workload is bound: what is known of the server, and what it can be asked before the window."""

    @property
    def facts(self) -> ServerFacts:
        """Model, block size, context length."""

    @property
    def nonce(self) -> str:
        """Put at the head of every distinct prompt of this run, so that another run shares nothing."""

    @property
    def series(self) -> str:
        """The nonce of what several runs of this session share, such as a set that is warmed once."""

    @property
    def warm(self) -> Set[str]:
        """What earlier runs of this session have warmed here, by :attr:`~pytest_kvcache.model.Composed.warms`."""

    @property
    def as_ids(self) -> bool:
        """Send token ids when the workload leaves the choice."""

    @property
    def token_ids(self) -> Mapping[str, Any]:
        """Fields that make the server tell the token ids of prompt and answer; empty when it cannot."""

    async def tokenizer(self) -> Tokenizer:
        """Return the server's tokenizer.

        Raises:
            WorkloadError: there is none; says how to name it.
        """

    async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Return the token ids that the server makes of a request body; None when nobody can tell.

        Raises:
            EndpointError, ProtocolError: the server refuses the body, or its answer is not understood.
        """

    async def ask(self, request: Request) -> Exchange:
        """Send one request before the window and return what came of it, a failure included."""


class Workload(Protocol):
    """A description of traffic, immutable, not yet bound to a server."""

    async def bind(self, site: Site) -> Composed:
        """Make the description concrete for a server.

        Raises:
            WorkloadError: the lengths or the rate cannot be had on this server.
        """
