"""A divergence in words: where, what, and what to do. The user's text only where that is asked for."""

from __future__ import annotations

from ..model import Divergence
from ..model.divergence import Class
from .found import CALL_ID, Found

TITLES: dict[Class, str] = {
    "timestamp": "timestamp or date",
    "random_id": "random id or nonce",
    "counter": "counter",
    "tool_order": "reordered tools",
    "key_order": "reordered JSON keys",
    "notation": "the same JSON in another notation",
    "whitespace": "changed whitespace",
    "template_history": "an earlier turn is written differently",
    "truncated_history": "truncated history",
    "system_prompt": "changed system prompt",
    "tools": "changed tools",
    "model": "different model",
    "adapter": "different adapter",
    "salt": "different salt",
    "image": "different image",
    "text": "different text",
}
_VOLATILE: dict[Class, str] = {"timestamp": "date", "random_id": "id", "counter": "counter"}
_ADVICE: dict[Class, str] = {
    "tool_order": "sort the tools by name when the list is built",
    "key_order": "serialise JSON with sorted keys, the same way every time",
    "notation": "serialise JSON by one function everywhere: escapes (ensure_ascii) and forms of numbers count",
    "whitespace": "write the same text byte for byte: line endings, trailing newlines and indents count",
    "truncated_history": "keep the history as it is and append, or cut it rarely and in big steps: each cut costs"
    " everything behind it once",
    "system_prompt": "keep one system prompt for all requests, and put what differs into the last message",
    "tools": "send the same tools with every request, and say in the last message which ones to use",
    "model": "caches of different models share nothing: send what belongs together to one model",
    "adapter": "each adapter has a cache of its own: send what belongs together to one adapter",
    "salt": "different salts never share: keep one for all requests that may share, such as one for each tenant",
    "image": "text and token ids are equal, only the image differs: a miss from the image on is right; put images"
    " behind everything that is shared",
    "text": "put what is the same in all requests first, and what differs last",
}
_THINKING = (
    "the chat template writes a think block before the answer that it does not write, or keep, once that answer is"
    " history: use a template that keeps it, or send the reasoning back with the answer"
)
_LEFT_OUT = "send the reasoning back with its answer, the same in every turn: each change moves all that follows"
_CALL_IDS = "send every tool call back with the id that it came with: this template writes them into the prompt"
_RENDERED = (
    "the chat template writes the same messages differently in a longer conversation: use one that only appends, and"
    " send the same chat_template_kwargs with every request"
)


def advice_for(found: Found, *, before_tools: bool) -> str:
    """Return what to do about a difference; ``before_tools``: there are tools, rendered behind the system prompt."""
    if found.detail == CALL_ID:
        return _CALL_IDS
    noun = _VOLATILE.get(found.cause)
    if noun is not None:
        behind = before_tools and found.where.startswith("system")
        return f"move the {noun} {'after the tools block' if behind else 'to the end of the prompt'}"
    if found.cause == "template_history":
        return (_THINKING if found.by_template else _LEFT_OUT) if found.detail else _RENDERED
    return _ADVICE[found.cause]


def advice(divergence: Divergence) -> str:
    """Return what to do, with the tokens that it would make reusable where they are known."""
    if not divergence.advice or divergence.recoverable is None or divergence.tokens is None:
        return divergence.advice
    if divergence.recoverable <= (divergence.token or 0):
        return divergence.advice
    return f"{divergence.advice}: {divergence.recoverable:,} of {divergence.tokens:,} tokens would be reusable"


def sentence(divergence: Divergence, show_text: bool) -> str:
    """Return one line that says where requests part and in what; ``show_text``: with the text around."""
    kind = TITLES[divergence.cause] + (f" ({divergence.detail})" if divergence.detail else "")
    line = f"{_subject(divergence)}{_place(divergence)}: {kind}"
    if divergence.expected:
        line += ", as is usual where questions differ"
    if divergence.pairs is not None and divergence.of_pairs is not None:
        line += f", as in {divergence.pairs:,} of {divergence.of_pairs:,} pairs"
    return f"{line}; {_shown(divergence)}" if show_text and (divergence.left or divergence.right) else line


def _subject(divergence: Divergence) -> str:
    numbers = divergence.requests
    if len(numbers) == 1:
        return f"request {numbers[0]} will part from the next"
    if len(numbers) == 2:
        return f"requests {numbers[0]} and {numbers[1]} part"
    return "the requests part"


def _place(divergence: Divergence) -> str:
    place = "" if divergence.token is None else f" at token {divergence.token:,}"
    if divergence.block is not None:
        place += f" (block {divergence.block:,})"
    article = "" if divergence.where.startswith("message") else "the "
    place += f" in {article}{divergence.where}"
    if divergence.part is not None:
        place += f", part {divergence.part}"
    if divergence.character is not None:
        place += f", character {divergence.character:,}"
    return place


def _shown(divergence: Divergence) -> str:
    before = f'"…{_visible(divergence.shared)}" then ' if divergence.shared else ""
    texts = (divergence.left,) if len(divergence.requests) == 1 else (divergence.left, divergence.right)
    return before + " / ".join(f'"{_visible(text)}"' for text in texts)


def _visible(text: str) -> str:
    """Return text of one line, whatever is in it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
