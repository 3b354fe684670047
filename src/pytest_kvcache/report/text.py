"""Text that is safe in every output: control characters and lone surrogates become visible escapes."""

from __future__ import annotations

import re

# C0 and C1 controls (escape sequences begin with one), ends of lines and turns of direction that nobody sees,
# surrogates, and the two that XML 1.0 forbids.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    r"""Return ``text`` with what a terminal would obey or XML cannot hold written out, such as ``\x1b``."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
