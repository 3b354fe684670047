"""The seams: what a part needs of another part, so that either can be replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .model import Composed, ServerFacts


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


class Workload(Protocol):
    """A description of traffic, immutable, not yet bound to a server."""

    @property
    def verbatim(self) -> bool:
        """Tell whether the user's own bodies are sent as they are: nothing to tokenise, nothing to predict."""

    def compose(self, facts: ServerFacts, tokenizer: Tokenizer | None, nonce: str, *, as_ids: bool) -> Composed:
        """Bind the description to a server.

        Args:
            facts: block size and context length of the server.
            tokenizer: the server's; None only when ``verbatim``.
            nonce: put at the head of every distinct prompt, so that another nonce shares nothing.
            as_ids: send token ids when the workload leaves the choice.

        Raises:
            WorkloadError: the lengths or the rate cannot be had on this server.
        """
