"""One chunk of a stream, or a whole answer, in the words that all forms share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Piece:
    """What one JSON object says.

    Attributes:
        text / reasoning: generated, of the first sample.
        cumulative: the text is all so far instead of what is new.
        content: it carries generated text, reasoning or a tool call, of any sample.
        finish: why generation ended, in the server's words; None: it does not say.
        done: the form's last event.
        error: the form's own way to say that generation failed.
        usage: where the paths of usage rules begin.
    """

    text: str = ""
    reasoning: str = ""
    cumulative: bool = False
    content: bool = False
    finish: str | None = None
    done: bool = False
    error: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)

    def add_text(self, value: object) -> None:
        """Take generated text; anything else than a text that is not empty adds nothing."""
        if isinstance(value, str) and value:
            self.text += value
            self.content = True

    def add_reasoning(self, value: object) -> None:
        """Take generated reasoning, as :meth:`add_text`."""
        if isinstance(value, str) and value:
            self.reasoning += value
            self.content = True


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in what should be a list of objects."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """Return what should be an object, an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def word(value: object) -> str | None:
    """Return what should be a text, None in place of anything else."""
    return value if isinstance(value, str) else None
