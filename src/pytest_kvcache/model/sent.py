"""What is sent: prompts, requests, and a workload made concrete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Phase = Literal["prefill", "load"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as the token ids the server must see.

    Attributes:
        ids: every token id the server counts, special tokens that its tokenizer adds included.
        text: what to send instead of ids; its encoding is exactly ``ids``. None: the ids themselves are sent.
    """

    ids: Sequence[int]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload.

    Attributes:
        prompt: what is looked up in the cache.
        max_tokens: generated tokens; the server is told to ignore its end-of-sequence token.
        phase: ``prefill`` warms the cache before the window, ``load`` is measured.
        group: number of the shared prefix, None when the prompt shares nothing.
        api: form of the request, a key of :data:`pytest_kvcache.apis.PATHS`.
        body: fields of the request body beside the prompt and ``max_tokens``; with an empty ``prompt``, all of it.
    """

    prompt: Prompt
    max_tokens: int
    phase: Phase
    group: int | None = None
    api: str = "completions"
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Composed(Protocol):
    """A workload made concrete for one server: the same requests at every iteration, made as they are asked for."""

    @property
    def title(self) -> str:
        """One line for reports, without any prompt text."""

    @property
    def prefix_len(self) -> int:
        """Tokens that a measured request shares with earlier ones by construction, 0 for none."""

    def prefill(self) -> Iterator[Request]:
        """Return the requests that warm the cache, in order."""

    def load(self) -> Iterator[Request]:
        """Return the measured requests, in order."""

    def __len__(self) -> int:
        """Return the number of measured requests."""
