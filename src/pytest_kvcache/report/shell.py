"""Words to a POSIX shell script that says them exactly, with variables in the place of secrets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .text import visible

_USERINFO = re.compile(r"(?<=://)[^/?#]+(?=@)")  # up to the last @ before the path
_SHORTEST = 4  # characters of a secret that is looked for wherever it may be
_PLAIN = re.compile(r"[^\w .:-]", re.ASCII)  # what a message inside of ${...} cannot hold


@dataclass(slots=True)
class Secrets:
    """What must not be in a script, and the variables that whoever runs it sets instead.

    Attributes:
        variables: name, and what it is to be set to, in the order in which they were met.
    """

    variables: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # of values

    def add(self, value: str, name: str, hint: str) -> None:
        """Hide a value behind a variable; the same value is always behind the same one."""
        if not value or value in self._names:
            return
        unique, number = name, 1
        while unique in self.variables:
            number += 1
            unique = f"{name}_{number}"
        self._names[value] = unique
        self.variables[unique] = _PLAIN.sub("_", hint)

    def quoted(self, word: str, own: Iterable[str] = ()) -> str:
        """Return a word for the shell.

        Args:
            word: as the program sees it.
            own: secrets of this very word, however short; others are found where they are long enough to be told.
        """
        hidden = {*own} | {value for value in self._names if len(value) >= _SHORTEST or value == word}
        hidden = {value for value in hidden if value and value in word}
        if not hidden:
            return shlex.quote(word)
        parts = re.split("|".join(f"({re.escape(value)})" for value in sorted(hidden, key=len, reverse=True)), word)
        return "".join(self._variable(part) if part in hidden else shlex.quote(part) for part in parts if part)

    def _variable(self, value: str) -> str:
        name = self._names[value]
        return f'"${{{name}:?{wanted(self.variables[name])}}}"'


def wanted(hint: str) -> str:
    """Return what the shell says where a variable is not set."""
    return f"set it to the {hint}"


def userinfos(text: str) -> list[str]:
    """Return user name and password of every URL in a text."""
    return _USERINFO.findall(text)


def comment(lines: Iterable[str]) -> list[str]:
    """Return lines of comments; a text is one line, whatever is in it."""
    return [f"# {visible(line)}".rstrip() for line in lines]


def command(program: str, words: Sequence[str]) -> str:
    """Return a command of quoted words, an option a line."""
    lines = [[program]]
    for word in words:
        if word.startswith(("-", "'-")):
            lines.append([])
        lines[-1].append(word)
    return " \\\n    ".join(" ".join(line) for line in lines)


def variable(name: str) -> str:
    """Return a name that a shell variable can have."""
    return re.sub(r"\W", "_", name, flags=re.ASCII).upper()
