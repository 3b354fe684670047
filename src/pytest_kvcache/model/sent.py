"""What is sent: prompts, requests, sessions, and a workload made concrete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .exchange import Exchange, Phase

Session = Generator["Request", Exchange, None]
"""Requests one after the other: each is yielded, and its exchange is sent back in before the next one is made."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as the token ids the server must see.

    Attributes:
        ids: every token id the server counts, special tokens that its tokenizer or template adds included; empty: not
            known before it is sent.
        text: what to send instead of ids; its encoding is exactly ``ids``. None: the ids themselves are sent.
        open: tokens that stand last in ``ids`` and may stand first, because only their number is known.
        alone: from this token on no other prompt has what this one has, but for a few tokens by chance; None: not said.
    """

    ids: Sequence[int]
    text: str | None = None
    open: int = 0
    alone: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a workload.

    Attributes:
        prompt: what is looked up in the cache.
        max_tokens: generated tokens; the server is told to ignore its end-of-sequence token.
        phase: ``prefill`` warms the cache before the window, ``load`` is measured.
        group: number of the shared prefix, None when the prompt shares nothing.
        api: form of the request, a key of :data:`pytest_kvcache.apis.PATHS`. The text of a ``chat`` prompt is the
            content of its one user message.
        body: fields of the request body beside the prompt and ``max_tokens``.
        whole: the body is all that is sent; ``prompt`` only says what the server will count.
        session / turn: place in a conversation, from 0; None outside of one.
        pause: seconds to wait between the session's previous answer and this request.
        due: seconds from the beginning of the load at which it is due, as a trace's clock says; None: when its turn
            comes.
    """

    prompt: Prompt
    max_tokens: int
    phase: Phase
    group: int | None = None
    api: str = "completions"
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    whole: bool = False
    session: int | None = None
    turn: int | None = None
    pause: float = 0.0
    due: float | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """One prompt as a cache sees it: what is looked up, and what is there afterwards.

    Attributes:
        ids: prompt tokens.
        output: generated tokens; the KV of the last one is never computed.
        untold: generated tokens whose ids are not known, instead of ``output``.
        space: look-ups of different spaces never share anything: another model, adapter or salt.
        session: of which conversation, None outside of one.
        open: as for a :class:`Prompt`: so many tokens more may be shared.
        alone: as for a :class:`Prompt`.
    """

    ids: Sequence[int]
    output: Sequence[int] = ()
    untold: int = 0
    space: Hashable = None
    session: int | None = None
    open: int = 0
    alone: int | None = None


class Composed(Protocol):
    """A workload made concrete for one server: the same requests at every iteration, made as they are asked for."""

    @property
    def title(self) -> str:
        """One line for reports, without any prompt text."""

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the result should know: rounding, the highest rate in reach, the interval of a length."""

    @property
    def prefix_len(self) -> int:
        """Tokens that a measured request shares with earlier ones by construction, 0 for none or for several."""

    @property
    def warms(self) -> str | None:
        """What is cached once the prefill is done, for runs that find it there; None: nothing that others use."""

    @property
    def append_only(self) -> bool:
        """True when a request can hit nothing but its own session's earlier ones, beyond what all first ones share."""

    @property
    def fresh(self) -> bool:
        """True when nobody can have sent these prompts before: what the cache has of them was put there here."""

    def warmed(self) -> Iterator[Request]:
        """Return requests that an earlier run sent and that are cached already; they are not sent again."""

    def prefill(self) -> Iterator[Request]:
        """Return the requests that warm the cache, in order."""

    def load(self) -> Iterator[Request] | None:
        """Return the measured requests, in order; None when they depend on the answers.

        The token ids of all of them are known, or of none.
        """

    def sessions(self) -> Iterator[Session]:
        """Return the measured traffic: requests of one session follow one another, sessions may overlap."""

    def again(self, lap: str) -> Composed | None:
        """Return the same traffic once more: prefixes as they are, everything else as new as in another run.

        Args:
            lap: name of this repetition in the run.

        Returns:
            None when it would be the very same requests, which then find all of themselves.
        """

    def __len__(self) -> int:
        """Return the number of measured requests, the most there can be where that depends on the answers."""


def alone(requests: Iterator[Request]) -> Iterator[Session]:
    """Return each request as a session of its own."""
    return (_one(request) for request in requests)


def _one(request: Request) -> Session:
    yield request


def changed(session: Session, change: Callable[[Request, int], Request]) -> Session:
    """Return a session with other requests in place of its own; exchanges reach it as they come.

    Args:
        session: ended together with the new one.
        change: makes a request of the session's, given the turn, from 0.
    """
    turn = 0
    try:
        request = next(session)
        while True:
            exchange = yield change(request, turn)
            request, turn = session.send(exchange), turn + 1
    except StopIteration:
        return
    finally:
        session.close()
