"""Any text to Markdown that shows it and nothing else, in the dialect of GitHub.

Whatever a parser could take for markup is written as a character reference. What GitHub then looks for in the parsed
text (``@name``, ``#123``, ``GH-123``, addresses, ``:word:``) is cut by an empty comment, which no reader sees.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from .text import shortened

LONGEST = 2_000  # characters of one text
_CUT = "<!-- -->"
# ... also at the end of a text, behind which the next one stands
_LINKED = re.compile(r"([@#](?!\s)|:(?![\s:])|\bgh(?=-\d)|\bwww(?=\.))", re.IGNORECASE)
_MARKUP = re.compile(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|[!#$&*<>@[\\^`{|}~]")  # that cannot be inside a word, a line
_AT_START = re.compile(r"[-+=]|\d(?=\d*[.)](\s|$))")  # of a list, or below a title
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # controls, marks of direction, surrogates, no characters


def text(value: str, longest: int = LONGEST) -> str:
    r"""Return one line of Markdown that shows a text, characters that cannot be seen written out (``\x1b``)."""
    shown = _seen(" ".join(value[: longest + 1].split()))
    shown = shortened(shown, longest)
    start = 1 if _AT_START.match(shown) else 0
    parts = _LINKED.split(shown[start:])
    cut = "".join(part + (_CUT if number % 2 else "") for number, part in enumerate(map(_plain, parts)))
    return "".join(map(_reference, shown[:start])) + cut


def code(value: str, longest: int = LONGEST) -> str:
    """Return a name in the letters of code."""
    return f"<code>{text(value, longest)}</code>"


def fenced(lines: Iterable[str]) -> str:
    """Return lines as they are, in a block of code."""
    shown = [_seen(line) for several in lines for line in several.split("\n")]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def table(rows: Sequence[Sequence[str]], words: Collection[str] = ()) -> list[str]:
    """Return the lines of a table.

    Args:
        rows: Markdown of one line a cell, as many cells each; a header first.
        words: titles of columns that hold words; the others hold numbers.
    """
    header, *others = rows
    rule = [":--" if title in words else "--:" for title in header]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *others)]


def _seen(line: str) -> str:
    return "".join(
        character.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(character) in _HIDDEN
        else character
        for character in line
    )


def _plain(part: str) -> str:
    return _MARKUP.sub(lambda found: _reference(found[0]), part)


def _reference(character: str) -> str:
    return f"&#{ord(character)};"
