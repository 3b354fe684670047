"""One HTTP answer read whole, and the JSON in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .endpoint import without_userinfo
from .errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Page:
    """One HTTP answer read whole."""

    url: str
    status: int
    content_type: str
    text: str = field(repr=False)


def parse_json(page: Page) -> Any:
    """Return the JSON of a page.

    Raises:
        ProtocolError: it is none.
    """
    try:
        return json.loads(page.text)
    except (ValueError, RecursionError):  # the latter: brackets without end
        kind = f" ({page.content_type})" if page.content_type else ""
        raise ProtocolError(f"{without_userinfo(page.url)}: expected JSON{kind}, got {page.text[:80]!r}") from None
