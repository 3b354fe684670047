"""Data and code inside a page: how is data written so that it stays data, and what may run at all?"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

_SPECIAL = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def data(value: Any) -> str:
    """Return JSON that cannot end the element that it stands in, whatever texts it holds.

    Raises:
        ValueError: it holds a number that JSON has not.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_SPECIAL)


def policy(scripts: Iterable[str]) -> str:
    """Return a Content-Security-Policy (Level 3) under which these scripts run, and nothing is loaded from anywhere.

    Styles are allowed inside the page because Plotly sets some; images as data, because it draws heat maps as such and
    makes a picture of a chart on demand.
    """
    allowed = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
