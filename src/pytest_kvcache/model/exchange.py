"""One request as it happened, or why it did not."""

from __future__ import annotations

from dataclasses import dataclass, field

from .sent import Phase


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no valid answer, as data.

    Attributes:
        kind: ``http`` (a status other than 200), ``connect``, ``timeout``, ``cut`` (the body ended too early),
            ``server`` (an error object inside a 200 answer), ``protocol`` (not understood).
        message: what the server or the client library said, shortened, one line.
        retry_after: seconds the server asked to wait, from ``Retry-After``; None without.
    """

    kind: str
    message: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as it happened. Stamps are monotonic seconds.

    Attributes:
        queued: handed to the client.
        sent: the body was handed to the socket; None when it never was. Time to first token counts from here, so the
            client's own queue is never billed to the server.
        first_content: the first chunk that carries generated text, reasoning or a tool call.
        chunks: stamps of all such chunks, the first included.
        end: the answer was complete, or the request had failed.
        prompt_len: tokens that the client believes it sent; None when it cannot know.
        prompt_tokens / cached_tokens / completion_tokens: from ``usage``, whatever its form: the prompt with its cached
            part; None when not reported.
        written_tokens: of the prompt, written to the cache for later requests; None when not reported.
        partial: its usage covers only some of its samples or prompts, so the cached number was left out.
        lookups: how often the engine looks the prompt up for this request: once, once a sample, or not at all.
        finish_reason: of the first choice; None when the answer never finished.
        status: HTTP status, None without an answer.
        failure: None when the answer is whole.
        text: what was generated (content only).
        reasoning: what was generated as reasoning.
    """

    phase: Phase
    queued: float
    end: float
    sent: float | None = None
    first_content: float | None = None
    chunks: tuple[float, ...] = ()
    prompt_len: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    written_tokens: int | None = None
    lookups: int = 1
    partial: bool = False
    finish_reason: str | None = None
    status: int | None = None
    failure: Failure | None = None
    text: str = field(default="", repr=False)
    reasoning: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """True when the answer is whole."""
        return self.failure is None

    @property
    def ttft(self) -> float | None:
        """Time to first token: body handed to the socket until the first chunk with content, in seconds."""
        if self.first_content is None or self.sent is None:
            return None
        return self.first_content - self.sent

    @property
    def e2e(self) -> float | None:
        """End-to-end latency: body handed to the socket until the answer was whole, in seconds."""
        return None if self.sent is None or self.failure is not None else self.end - self.sent
