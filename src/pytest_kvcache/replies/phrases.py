"""What did an event say that was read before, in this stream or in another one?

Events of OpenAI's form begin with an id and a time, which are new in every stream and say nothing of the answer. What
follows is, but for texts and numbers of tokens, the same in all streams of a server.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .piece import Piece
from .plain import Shape

HEAD: Final = re.compile(
    rb'data: ?\{(?:"(?:id|model|system_fingerprint)":(?:"[^"\\\x00-\x1f]*"|null),|"created":[1-9][0-9]{0,15},'
    rb'|"object":"(?:chat\.completion\.chunk|text_completion)",)*"choices":\['
)
"""What may lead an event, and changes nothing of what it says."""

UNREAD: Final = frozenset({"id", "model", "system_fingerprint", "created", "object"})
"""The fields in it."""

_LONGEST = 512  # bytes
_MOST = 64
_SHAPES = 4


class Texts(NamedTuple):
    """Events that say a text and nothing else.

    Attributes:
        shape: of them.
        reasoning: what the text is.
    """

    shape: Shape
    reasoning: bool


class Phrases:
    """What streams of one API said so far, by the bytes behind the head. It stays small.

    Attributes:
        texts: shapes without the head, the latest first.
    """

    __slots__ = ("_said", "texts")

    def __init__(self) -> None:
        self._said: dict[bytes, Piece] = {}
        self.texts: list[Texts] = []

    def said(self, rest: bytes) -> Piece | None:
        """Return what an event with this behind its head says; None: it was not read yet."""
        return self._said.get(rest)

    def note(self, rest: bytes, said: Piece) -> None:
        """Remember what an event says."""
        if len(rest) <= _LONGEST:
            if len(self._said) == _MOST:
                self._said.clear()
            self._said[rest] = said

    def note_texts(self, texts: Texts) -> None:
        """Remember events that say a text."""
        if texts not in self.texts:
            self.texts = [texts, *self.texts][:_SHAPES]
