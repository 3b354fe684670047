"""Secrets out of texts that others wrote: whole, in the forms in which a server echoes them, and cut off."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterator
from functools import lru_cache
from urllib.parse import quote

from .prefix import common

HIDDEN = "***"
_SHORTEST = 4  # characters of a secret: a shorter one would be found everywhere, and would hide nothing
_LONG = 8  # from here on any part that begins or ends a secret gives it away, and shorter ones are words


def hide(text: str, secrets: Collection[str]) -> str:
    """Return a text without secrets.

    A secret of 4 to 7 characters is hidden where it stands as a word of its own. Of a longer one every copy is, also
    percent-encoded, in base64 and escaped as in JSON, and what a message that was cut leaves of it: its first or last 8
    characters or more.

    Args:
        text: of any kind.
        secrets: as they were given; empty ones and those of fewer than 4 characters are left.
    """
    forms = _forms(frozenset(secrets))
    for form in forms:  # whole ones first: several forms may begin alike
        if len(form) >= _LONG:
            text = text.replace(form, HIDDEN)
        elif form in text:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    for form in forms:
        if len(form) >= _LONG and (form[:_LONG] in text or form[-_LONG:] in text):
            text = _without_part(text, form)
    return text


@lru_cache(maxsize=64)
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    found = {form for secret in secrets if len(secret) >= _SHORTEST for form in _written(secret)}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _written(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, errors="surrogatepass")
    yield quote(secret, safe="", errors="surrogatepass")
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    encoded = b64encode(secret.encode("utf-8", "surrogatepass")).decode("ascii")
    yield encoded.rstrip("=")


def _without_part(text: str, form: str) -> str:
    first, last = form[:_LONG], form[-_LONG:]
    kept, at = "", 0
    head, tail = text.find(first), text.find(last)
    while head >= 0 or tail >= 0:
        if head >= 0 and (tail < 0 or head <= tail):
            start, end = head, head + common(text[head : head + len(form)], form)
        else:
            end = tail + _LONG
            start = end - common(text[max(at, end - len(form)) : end][::-1], form[::-1])
        kept += text[at:start] + HIDDEN
        at = end
        head, tail = _next(text, first, head, at), _next(text, last, tail, at)
    return kept + text[at:]


def _next(text: str, part: str, found: int, at: int) -> int:
    """Return where a part is from a place on, given where it was found before: a long text is searched once."""
    return found if found >= at or found < 0 else text.find(part, at)
