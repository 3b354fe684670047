"""Where do two requests part first, in their bodies or in what a template made of them?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model import Divergence
from ..model.divergence import Class
from ..simulate.tree import common_prefix
from .advice import advice_for
from .found import Found
from .history import compare_call_ids, compare_messages, compare_system
from .reach import reach
from .request import Message, Rendered, read
from .template import compare_rendered
from .tokens import appended, best_block, made_equal, moved_away
from .tools import compare_tools

_ADAPTERS = ("lora_path", "lora_name", "lora_request", "lora", "adapter_id", "adapter")
_APART: tuple[Class, ...] = ("model", "adapter", "salt")  # other caches, so that nothing at all is shared
_WRITTEN_ALIKE: tuple[Class, ...] = ("tool_order", "key_order", "notation", "whitespace")


def first(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    ids: tuple[Sequence[int], Sequence[int]] | None = None,
    block: int | None = None,
    isolation: Sequence[str] = ("cache_salt",),
    texts: tuple[str, str] | None = None,
) -> Divergence | None:
    """Return where the prompt of a request leaves that of an earlier one.

    Args:
        a / b: the bodies of the earlier and the later request, of any API.
        ids: the tokens that the server makes of each; None: not known.
        block: tokens per cache block.
        isolation: fields that separate caches, such as a salt.
        texts: what the chat template makes of each; None: not known.

    Returns:
        The first difference, in the order in which templates render: what picks the cache, system, tools, messages.
        None when ``b`` begins with all of ``a``, or ``a`` with all of ``b``: nothing is lost then.
    """
    left, right = read(a), read(b)
    found = _apart(a, b, isolation) or _structural(left, right)
    ids = ids or _own_ids(left, right)
    if ids is not None and not (ids[0] and ids[1]):
        ids = None
    token = None if ids is None else common_prefix(*ids)
    if found is None or found.cause not in (*_APART, "image"):
        if ids is not None and token == min(map(len, ids)):
            return None  # the difference is not rendered
        if texts is not None and (texts[0].startswith(texts[1]) or texts[1].startswith(texts[0])):
            return None
    if found is None:
        found = compare_rendered(left, right, texts, token, ids)
        if found is not None and found.cause in ("template_history", "random_id"):
            found = compare_call_ids(left.messages, right.messages) or found
        if found is None:
            return None
    return _told(found, left, right, ids, token, block)


def _structural(left: Rendered, right: Rendered) -> Found | None:
    stages = (
        compare_system(left.system, right.system),
        compare_tools(left.tools, right.tools),
        compare_messages(left.messages, right.messages),
    )
    return next((found for found in stages if found is not None), None)


def _apart(a: Mapping[str, Any], b: Mapping[str, Any], isolation: Sequence[str]) -> Found | None:
    if a.get("model") is not None and b.get("model") is not None and a["model"] != b["model"]:
        return Found("model", "model")
    for name in _ADAPTERS:
        if _same_json(a.get(name), b.get(name)) is False:
            return Found("adapter", "adapter")
    for name in isolation:
        if _same_json(a.get(name), b.get(name)) is False:
            return Found("salt", name)
    return None


def _same_json(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True, default=str) == json.dumps(b, sort_keys=True, default=str)


def _own_ids(left: Rendered, right: Rendered) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return the tokens of prompts that are given as such."""
    found = [_ids_of(side.messages) for side in (left, right)]
    return (found[0], found[1]) if all(found) else None


def _ids_of(messages: Sequence[Message]) -> Sequence[int]:
    parts = [part for message in messages for part in message.parts]
    ids: Sequence[int] = parts[0].value if len(parts) == 1 and parts[0].kind == "ids" else ()
    return ids if all(0 <= token < 2**32 for token in ids) else ()


def _told(
    found: Found,
    left: Rendered,
    right: Rendered,
    ids: tuple[Sequence[int], Sequence[int]] | None,
    token: int | None,
    block: int | None,
) -> Divergence:
    """Return the difference with its tokens and with what to do."""
    recoverable = None
    if ids is not None and token is not None:
        recoverable = _recoverable(found, left, right, ids, token)
        if found.cause in _APART:
            token = 0
        elif token == min(map(len, ids)):
            token = None  # images: the same tokens stand for both
    return replace(
        found.told("" if found.expected else advice_for(found, before_tools=right.tools is not None)),
        moved=found.moved,
        token=token,
        block=token // block if block and token is not None else None,
        tokens=None if ids is None else len(ids[1]),
        recoverable=recoverable,
        right=found.right,
        expected=found.expected,
    )


def _recoverable(
    found: Found, left: Rendered, right: Rendered, ids: tuple[Sequence[int], Sequence[int]], token: int
) -> int | None:
    a, b = ids
    if found.expected or found.cause == "image":
        return None
    if found.cause in _APART:
        return min(token, max(0, len(b) - 1))
    if found.cause in _WRITTEN_ALIKE:
        return made_equal(a, b, token, reach(left, right, found))
    if found.cause == "template_history":
        return appended(a, b, token)
    if found.cause in ("system_prompt", "truncated_history"):
        return best_block(a, b, token)  # all that differs is to move, or what was cut off before it stays
    return moved_away(a, b, token, found.width, goes_on=found.goes_on)
