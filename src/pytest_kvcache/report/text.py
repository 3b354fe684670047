"""Text that is safe in every output: control characters and lone surrogates become visible escapes."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls (escape sequences begin with one), ends of lines, marks of direction and others that nobody sees,
# surrogates, and the two that XML 1.0 forbids.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return ``text`` with what a terminal would obey or XML cannot hold written out, such as ``\x1b``."""
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


_PLAIN = {"±": "+/-", "µ": "u", "×": "x", "·": "|", "…": "...", "→": "->", "–": "-", "—": "-", "\u00a0": " "}


def fitting(text: str, encoding: str | None) -> str:
    r"""Return a text that can be written in an encoding, what it lacks in plain letters (``+/-``) or as ``\u2026``."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeEncodeError:
        return "".join(_fitting(character, encoding or "ascii") for character in text)
    return text


def _fitting(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return _PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
    return character


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
