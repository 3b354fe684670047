"""What may be written behind ``--kv-set CHECK.PARAM=``? Kinds of values: name, example and parser."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..plugin import parsing


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    Attributes:
        name: what is expected, as errors and the help have it.
        example: one that is right.
        parse: from the text; raises ValueError.
    """

    name: str
    example: str
    parse: Callable[[str], Any]


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text.replace("_", "").replace(",", ""))
        if value < least:
            raise ValueError(text)
        return value

    return parse


def _number(allowed: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not (math.isfinite(value) and allowed(value)):
            raise ValueError(text)
        return value

    return parse


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def _path(there: Callable[[Path], bool]) -> Callable[[str], Path]:
    def parse(text: str) -> Path:
        path = Path(text).expanduser()
        if not there(path):
            raise ValueError(text)
        return path

    return parse


def _switch(text: str) -> bool:
    return parsing.SWITCH[text.lower()]


SEVERAL = Kind("whole number, 2 or more", "4", _whole(2))
COUNT = Kind("whole number, 1 or more", "8", _whole(1))
NUMBER = Kind("whole number, 0 or more", "0", _whole(0))
RATIO = Kind("ratio, 0 to 1", "0.7", _number(lambda value: 0 <= value <= 1))
POSITIVE = Kind("number above 0", "2.5", _number(lambda value: value > 0))
SECONDS = Kind("seconds above 0", "30", _number(lambda value: value > 0))
WAIT = Kind("seconds, 0 or more", "30", _number(lambda value: value >= 0))
TEXT = Kind("text", "'You answer briefly.'", _text)
FILE = Kind("file that exists", "tools.json", _path(Path.is_file))
FILES = Kind("file or folder that exists", "trace.jsonl", _path(Path.exists))
SWITCH = Kind("true or false", "true", _switch)


def listed(kind: Kind) -> Kind:
    """Return the kind of several values of a kind, with commas between them."""

    def parse(text: str) -> tuple[Any, ...]:
        return tuple(kind.parse(part.strip()) for part in text.split(","))

    return Kind(f"list of: {kind.name}", f"{kind.example},{kind.example}", parse)


def optional(kind: Kind) -> Kind:
    """Return a kind that may also be ``none``."""
    return Kind(f"{kind.name}, or none", kind.example, lambda text: None if text == "none" else kind.parse(text))


def one_of(*words: str) -> Kind:
    """Return the kind of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return Kind(f"one of {', '.join(words)}", words[0], parse)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a check.

    Attributes:
        name: behind ``CHECK.``.
        kind: of its values.
        default: its value when it is not set.
        help: what it means.
        unset: what happens without a value, where the default is None.
        mode: of the check, in which alone it means anything; empty: in all.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    unset: str = ""
    mode: str = ""

    @property
    def shown(self) -> str:
        """The default for people, as it would be written."""
        if self.default is None:
            return self.unset or "none"
        if isinstance(self.default, tuple):
            return ",".join(map(str, self.default)) or self.unset or "none"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


def told(kind: Kind, help: str, unset: str = "", mode: str = "") -> dict[str, Any]:
    """Return what a dataclass field that is a parameter tells of itself."""
    return {"kind": kind, "help": f"{mode}: {help}" if mode else help, "unset": unset, "mode": mode}


def parameters_of(check: Any) -> Mapping[str, Parameter]:
    """Return the parameters of a check by name."""
    return {
        field.name: Parameter(field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(check)
    }
