"""Two requests whose messages agree, and whose prompts do not: what did the chat template write differently?"""

from __future__ import annotations

from collections.abc import Sequence

from .found import Found, in_text
from .request import Rendered
from .tokens import ANSWER_BEGINS

_WHERE = "rendered prompt"


def compare_rendered(
    left: Rendered,
    right: Rendered,
    texts: tuple[str, str] | None,
    token: int | None,
    ids: tuple[Sequence[int], Sequence[int]] | None,
) -> Found | None:
    """Return what a template did to the messages of an earlier request, None when nothing shows that it did.

    Args:
        left / right: the earlier and the later request.
        texts: both rendered prompts; None: not known.
        token: the first differing token; None: not known.
        ids: both prompts' tokens.
    """
    if texts is None:
        if ids is None or token is None or token >= len(ids[0]) - 1:
            return None  # the last token before an answer may join with the answer's first letter
        if len(ids[0]) - token > ANSWER_BEGINS or len(ids[1]) <= len(ids[0]):
            return Found("template_history", _WHERE)
        begun = right.messages[len(left.messages) :][:1]
        where, index = (begun[0].where, begun[0].index) if begun else (_WHERE, None)
        return Found("template_history", where, index, detail="start of the answer", by_template=True)
    found = in_text(texts[0], texts[1], "template_history", _WHERE)
    if found is None:
        return None
    where, message = _place(right, texts[1], found.character or 0)
    return Found(
        found.cause,
        where,
        message=message,
        character=found.character if message is None else None,
        detail=found.detail,
        shared=found.shared,
        left=found.left,
        right=found.right,
        by_template=True,
    )


def _place(right: Rendered, text: str, character: int) -> tuple[str, int | None]:
    """Return the message in which, or before whose end, a position of the rendered prompt lies."""
    position = 0
    for message in (*right.system, *right.messages):
        for part in message.parts:
            at = text.find(part.text, position) if part.kind in ("text", "reasoning") and part.text else -1
            if at < 0:
                continue
            position = at + len(part.text)
            if position > character:
                return message.where, message.index
    return _WHERE, None
