"""One request as it happened, or why it did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["prefill", "load"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no valid answer, as data.

    Attributes:
        kind: ``http`` (a status other than 200), ``connect``, ``timeout``, ``cut`` (the body ended too early),
            ``server`` (an error object inside a 200 answer), ``protocol`` (not understood), ``process`` (the one of the
            load generator that sent it died, so what became of it is not known).
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
        scheduled: when an open loop or a trace's clock meant to send it; latencies count from here, so that a client or
            server that falls behind is not forgiven. None: it was sent when its turn came.
        sent: the body was handed to the socket; None when it never was. Time to first token counts from here, so the
            client's own queue is never billed to the server.
        first_content / last_content: the first and the last chunk that carry generated text, reasoning or a tool call;
            the event that opens a chat's stream with a role carries none.
        chunks: stamps of all such chunks. A run keeps their gaps and what came out when, for all requests together, and
            not the stamps: empty in its result.
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
        tool_calls: calls of tools in OpenAI's form, as an agent appends them to its history.
        prompt_ids / output_ids: token ids as the server tells them; None when it was not asked or does not.
        session / turn: place in a conversation; None outside of one.
        earlier: failed attempts at this same request, oldest first: a retry finds what they computed.
    """

    phase: Phase
    queued: float
    end: float
    scheduled: float | None = None
    sent: float | None = None
    first_content: float | None = None
    last_content: float | None = None
    chunks: Sequence[float] = field(default=(), repr=False)
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
    tool_calls: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    prompt_ids: Sequence[int] | None = field(default=None, repr=False)
    output_ids: Sequence[int] | None = field(default=None, repr=False)
    session: int | None = None
    turn: int | None = None
    earlier: tuple[Exchange, ...] = field(default=(), repr=False)

    @property
    def began(self) -> float | None:
        """What latencies count from: the scheduled time, else the moment at which the body was sent."""
        return self.sent if self.scheduled is None or self.sent is None else self.scheduled

    @property
    def ok(self) -> bool:
        """True when the answer is whole."""
        return self.failure is None

    @property
    def ttft(self) -> float | None:
        """Time to first token: body handed to the socket (or due) until the first chunk with content, in seconds."""
        began = self.began
        return None if self.first_content is None or began is None else self.first_content - began

    @property
    def e2e(self) -> float | None:
        """End-to-end latency: body handed to the socket (or due) until the answer was whole, in seconds."""
        began = self.began
        return None if began is None or self.failure is not None else self.end - began

    @property
    def tpot(self) -> float | None:
        """Time per output token: first content to last, over the tokens after the first, in seconds."""
        first, last, tokens = self.first_content, self.last_content, self.completion_tokens
        if first is None or last is None or tokens is None or tokens < 2 or self.failure is not None:
            return None
        return (last - first) / (tokens - 1)

    @property
    def tokens_per_s(self) -> float | None:
        """Completion tokens over end-to-end time."""
        seconds = self.e2e
        return self.completion_tokens / seconds if self.completion_tokens is not None and seconds else None

    @property
    def queueing(self) -> float | None:
        """How long it waited in the client, from being handed over to its body being handed to the socket."""
        return None if self.sent is None else self.sent - self.queued
