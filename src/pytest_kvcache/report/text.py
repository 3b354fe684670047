"""Text that is safe in every output: control characters and lone surrogates become visible escapes."""

from __future__ import annotations

import re
import unicodedata
from zlib import crc32

LONGEST = 4_000  # characters of one text: of more nobody reads the end, and a megabyte would be in every form

# Controls (escape sequences begin with one, and a line of its own could be taken for ours, or for a command of the CI
# system), marks of direction and others that nobody sees, surrogates, and the two that XML 1.0 forbids.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Return ``text`` as one line with what a terminal would obey or XML cannot hold written out, such as ``\x1b``.

    Of a text that is longer than 4,000 characters the beginning, its length and its CRC-32, so that two stay two.
    """
    shown = _HIDDEN.sub(_escape, text[:LONGEST])
    if len(text) <= LONGEST:
        return shown
    return f"{shown}… ({len(text):,} characters, {crc32(text.encode('utf-8', 'surrogatepass')):08x})"


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_PLAIN = {
    "±": "+/-",
    "µ": "u",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "·": "|",
    "…": "...",
    "→": "->",
    "–": "-",
    "—": "-",
    "\u00a0": " ",
}


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
