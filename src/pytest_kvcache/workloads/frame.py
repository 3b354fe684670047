"""What a chat template puts around the text of one user message, so that chats have exactly known tokens.

A prompt of a chat is ``lead``, the pieces, ``trail``: see :meth:`Frame.prompt`. All prompts share the lead, whatever
they say. So a workload that sends chats counts it into its shared prefix, and its nonce stands behind it: where the
lead fills a block, that block may be warm before anything is measured, by :func:`frame_of` itself or by anybody's chat.

A server that does not render tells by ``usage`` how many tokens the template adds, and not where. Then all of them are
in ``trail`` and ``open`` counts them: two prompts share what their ids share, and at most ``open`` tokens more. The
least hit tokens of a prompt are ``credit(shared)``, the most ``credit(shared + open)``; these are the same unless a
step of the cache lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import WorkloadError
from ..model import Exchange, Prompt, Request
from ..protocols import Site, Tokenizer
from .vocabulary import Vocabulary

PLACEHOLDER = 0xFFFFFFFF
"""Stands for a token whose id is not known; no tokenizer has so many."""

_SIZES = (16, 32)  # pieces of the two probes; the second is twice the first


@dataclass(frozen=True, slots=True)
class Frame:
    """The tokens around the pieces of one user message.

    Attributes:
        lead / trail: what the template, and ``before``, put in front of the pieces and behind them.
        exact: False when only their number is known: then all are placeholders in ``trail``.
        note: for readers of the result; empty when there is nothing to know.
        before: text in front of the pieces in the message. A template may trim its message, and the first piece begins
            with a space that makes it one token.
    """

    lead: tuple[int, ...] = field(repr=False)
    trail: tuple[int, ...] = field(repr=False)
    exact: bool = True
    note: str = ""
    before: str = ""

    def __len__(self) -> int:
        """Return the tokens that every prompt has beside its pieces."""
        return len(self.lead) + len(self.trail)

    @property
    def open(self) -> int:
        """Tokens of the frame that may stand in front of the pieces or behind them."""
        return 0 if self.exact else len(self.trail)

    def content(self, text: str) -> str:
        """Return the message that holds the joined text of pieces."""
        return self.before + text

    def prompt(self, ids: Sequence[int], text: str) -> Prompt:
        """Return the prompt that holds pieces, given by their ids and by their joined text."""
        return Prompt([*self.lead, *ids, *self.trail], self.content(text))


async def frame_of(site: Site, vocabulary: Vocabulary, tokenizer: Tokenizer | None = None) -> Frame:
    """Find out what the server's chat template puts around a message: by its rendering, else by two chats' usage.

    Args:
        site: the server.
        vocabulary: pieces that stay one token each.
        tokenizer: where they come from, for errors.

    Raises:
        WorkloadError: the pieces do not stay themselves inside a chat, or the server does not tell how many they are.
        EndpointError, ProtocolError: the server refuses to render, or its answer is not understood.
    """
    name = "the tokenizer" if tokenizer is None else f"tokenizer {tokenizer.name!r}"
    if any(text != text.rstrip() for text in vocabulary.texts):
        raise WorkloadError(
            f"{name} holds only pieces that end in white space, which chat templates trim; send text or ids"
        )
    first = vocabulary.texts[0]
    before = first.strip() if first[0].isspace() else ""
    bodies = [vocabulary.draw(f"{site.nonce}/frame/{size}", size) for size in _SIZES]
    contents = [before + vocabulary.text(body) for body in bodies]
    rendered = [await site.render({"messages": [{"role": "user", "content": content}]}) for content in contents]
    one, two = rendered
    if one is None or two is None:
        return await _counted(site, contents, before, name)
    return _around(one, two, [vocabulary.encode(body) for body in bodies], before, name)


def _around(one: Sequence[int], two: Sequence[int], pieces: Sequence[list[int]], before: str, name: str) -> Frame:
    """Return the frame that both renderings have around their pieces."""
    length = len(pieces[0])
    starts = [at for at in range(len(one) - length + 1) if list(one[at : at + length]) == pieces[0]]
    if len(starts) != 1:
        where = "and not once after the other" if not starts else f"but {len(starts)} times"
        raise WorkloadError(
            f"{length} pieces of {name} come back from the server's chat template among {len(one)} tokens, {where};"
            " the tokenizer is not the server's (--kv-tokenizer), or the template rewrites messages: send text or ids"
        )
    lead, trail = tuple(one[: starts[0]]), tuple(one[starts[0] + length :])
    wanted = [*lead, *pieces[1], *trail]
    if list(two) != wanted:
        at = next((i for i, (a, b) in enumerate(zip(wanted, two, strict=False)) if a != b), min(len(wanted), len(two)))
        raise WorkloadError(
            f"the server's chat template does not put the same around two messages of {name}: token {at} differs"
            f" ({len(two)} tokens instead of {len(wanted)}); send text or ids"
        )
    return Frame(lead, trail, before=before)


async def _counted(site: Site, contents: Sequence[str], before: str, name: str) -> Frame:
    """Return the frame by the prompt tokens of two chats, the one with twice as many pieces as the other."""
    tokens = [await prompt_tokens(site, content) for content in contents]
    added = [seen - size for seen, size in zip(tokens, _SIZES, strict=True)]
    if added[0] != added[1] or added[0] < 0:
        seen = " and ".join(f"{count} tokens to {size} pieces" for count, size in zip(tokens, _SIZES, strict=True))
        raise WorkloadError(
            f"the server counted {seen} of {name}, which is not one for each piece: it is not the server's tokenizer;"
            " name the model's with --kv-tokenizer"
        )
    return counted_frame(added[0], before)


def counted_frame(tokens: int, before: str) -> Frame:
    """Return the frame of a template that adds so many tokens, nobody knows where."""
    note = (
        f"the chat template adds {tokens} tokens; how many stand before the text is not known, so up to {tokens} tokens"
        " of each prompt's prediction are open"
    )
    return Frame((), (PLACEHOLDER,) * tokens, exact=not tokens, note=note if tokens else "", before=before)


async def prompt_tokens(site: Site, content: str) -> int:
    """Return how many prompt tokens the server counts for a chat of one user message.

    Raises:
        WorkloadError: the request failed, or its answer does not tell.
    """
    seen: Exchange = await site.ask(Request(Prompt((), content), 1, "prefill", api="chat"))
    if seen.failure is not None:
        raise WorkloadError(f"a chat that was sent to count its tokens failed: {seen.failure.message}")
    if seen.prompt_tokens is None:
        raise WorkloadError(
            "the server's answers do not tell prompt tokens in their usage, so the length of a chat cannot be known"
        )
    return seen.prompt_tokens
