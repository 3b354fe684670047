"""In which pieces are prompts written, what stands around them, and how are they sent?"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..errors import WorkloadError
from ..model import Prompt
from ..protocols import Site, Tokenizer
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from .calibrated import Calibration
    from .frame import Frame

Way: TypeAlias = Literal["ids", "text", "chat"]
Send: TypeAlias = Literal["auto", "ids", "text", "chat"]


@dataclass(frozen=True, slots=True)
class Wording:
    """How prompts are written for one server. A prompt is ``lead``, pieces, ``trail``.

    Attributes:
        vocabulary: the pieces.
        way: ``ids``: bare token ids; ``text``: the tokenizer puts its special tokens around; ``chat``: one user
            message, and the chat template is around it.
        lead / trail: tokens that the server counts beside the pieces.
        name: of the tokenizer, for errors.
        open: of the trail, tokens that may stand in front instead, because only their number is known.
        before: text in front of the pieces; its tokens are in ``lead``.
        calibration: where the pieces are words counted by the server's usage; None where a tokenizer is known.
        note: for readers of the result.
    """

    vocabulary: Vocabulary
    way: Way
    lead: tuple[int, ...] = ()
    trail: tuple[int, ...] = ()
    name: str = ""
    open: int = 0
    before: str = ""
    calibration: Calibration | None = None
    note: str = ""

    @property
    def around(self) -> int:
        """Tokens of a prompt that are no pieces."""
        return len(self.lead) + len(self.trail)

    @property
    def header(self) -> int:
        """First tokens that every chat shares; a tokenizer's special token or two are not held against a hit rate."""
        return len(self.lead) if self.way == "chat" else 0

    @property
    def own(self) -> int:
        """Last tokens that no two prompts share: at least one piece, and what stands behind it."""
        return 1 + len(self.trail)

    @property
    def exact(self) -> bool:
        """True when a piece is one token."""
        return self.calibration is None or self.calibration.exact

    def pieces(self, tokens: int) -> int:
        """Return how many pieces are so many tokens."""
        rate = 1.0 if self.calibration is None else self.calibration.rate
        return tokens if rate == 1.0 else round(tokens / rate)

    def prompt(self, ids: array[int], text: str) -> Prompt:
        """Return the prompt of pieces, given by their ids and by their joined text."""
        if self.way == "ids":
            return Prompt(ids)
        counted: Sequence[int] = array("I", [*self.lead]) + ids + array("I", [*self.trail]) if self.exact else ()
        written = self.before + text if self.way == "chat" else self.vocabulary.prompt_text(text)
        return Prompt(counted, written, self.open)

    def notes(self, lengths: Sequence[int]) -> Iterator[str]:
        """Tell what a reader should know of prompts of these lengths."""
        if self.note:
            yield self.note
        if self.calibration is not None:
            yield from filter(None, map(self.calibration.length_note, lengths))

    def around_by(self) -> str:
        """Tell who puts tokens around the pieces."""
        if self.way == "chat":
            return f"{self.around} tokens that the chat template puts around a message"
        return f"{self.around} special tokens that tokenizer {self.name!r} puts around a text"

    @classmethod
    def of(cls, tokenizer: Tokenizer, send: Send, *, as_ids: bool, frame: Frame | None = None) -> Wording:
        """Return how prompts are written with a tokenizer that is known.

        Args:
            tokenizer: the server's.
            send: what the workload asks for.
            as_ids: what ``auto`` means: token ids, or text.
            frame: what the chat template puts around a message; needed for ``chat``.

        Raises:
            WorkloadError: no exact prompts can be made with the tokenizer, or there is no frame for a chat.
        """
        vocabulary = Vocabulary.of(tokenizer)
        if send == "chat":
            if frame is None:
                raise WorkloadError('send="chat": what the chat template puts around a message is not known')
            return cls._chat(vocabulary, frame, tokenizer.name, None, frame.note)
        if send == "ids" or (send == "auto" and as_ids):
            return cls(vocabulary, "ids", name=tokenizer.name)
        return cls(vocabulary, "text", vocabulary.lead, vocabulary.trail, tokenizer.name)

    @classmethod
    def of_chat(cls, words: Calibration) -> Wording:
        """Return how chats are written with the words that a server was asked about."""
        return cls._chat(words.vocabulary, words.frame, "usage of the server", words, words.note)

    @classmethod
    def _chat(
        cls, vocabulary: Vocabulary, frame: Frame, name: str, calibration: Calibration | None, note: str
    ) -> Wording:
        lead, trail = frame.lead, frame.trail
        return cls(vocabulary, "chat", lead, trail, name, frame.open, frame.before, calibration, note)


async def wording_of(site: Site, send: Send) -> tuple[Wording, Tokenizer | None]:
    """Find out how prompts are written for a server, and the tokenizer to check them with, where there is one.

    A server that nobody can tokenize for is sent chats of words whose tokens it has counted itself, when it is left to
    us what to send.

    Raises:
        WorkloadError: no prompts of known length can be made for this server.
        EndpointError, ProtocolError: the server refuses, or its answer is not understood.
    """
    from ..tokenizer import NoTokenizer  # it brings the HTTP client along
    from .calibrated import chat_words

    try:
        tokenizer: Tokenizer | None = await site.tokenizer()
    except NoTokenizer:
        if send in ("ids", "text"):
            raise
        tokenizer = None
    if send == "chat" or tokenizer is None:
        return Wording.of_chat(await chat_words(site)), tokenizer
    return Wording.of(tokenizer, send, as_ids=site.as_ids), tokenizer
