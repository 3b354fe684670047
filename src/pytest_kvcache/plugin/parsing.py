"""From the text of an option to its value. Every error names where the text came from.

Raises, all of them: ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..endpoint import is_header, parse_base_url
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..savings.prices import PriceList

SIM = "sim"
SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
Parse = Callable[[str, str], Any]


def text(value: str, origin: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise ConfigurationError(f"{origin} is empty; give a value or leave it out")
    return value.strip()


def endpoint(value: str, origin: str) -> str:
    """Return a base URL, or ``sim``."""
    return SIM if value.strip() == SIM else parse_base_url(value, origin)


def engine_file(value: str, origin: str) -> Path:
    """Return the path of an engine profile."""
    path = Path(text(value, origin))
    if not path.is_file():
        raise ConfigurationError(f"{origin}: there is no file {value!r}; expected an engine profile such as my.toml")
    return path


def one_of(*allowed: str) -> Parse:
    """Return what takes one of some words."""

    def parse(value: str, origin: str) -> str:
        if value not in allowed:
            raise ConfigurationError(f"{origin}: {value!r} is none of {', '.join(allowed)}")
        return value

    return parse


def prefix(value: str, origin: str) -> tuple[str, str]:
    """Return the two sides of ``OLD=NEW``."""
    ours, separator, theirs = value.partition("=")
    if not separator or not ours or not theirs:
        raise ConfigurationError(f"{origin}: expected OLD=NEW, such as vllm:=aibrix:, got {value!r}")
    return ours, theirs


def interval(value: str, origin: str) -> float:
    """Return seconds; 0 is none."""
    return 0.0 if value.strip() == "0" else seconds(value, origin)


def seconds(value: str, origin: str) -> float:
    """Return seconds above 0."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"{origin}: {value!r} is no duration; expected seconds above 0, such as 60")
    return seconds


def count(value: str, origin: str) -> int:
    """Return a whole number of at least 1."""
    if not value.strip().isdecimal() or int(value) < 1:
        raise ConfigurationError(f"{origin}: {value!r} is no count; expected a whole number of at least 1")
    return int(value)


def seed(value: str, origin: str) -> int:
    """Return a whole number."""
    if not value.strip().isdecimal():
        raise ConfigurationError(f"{origin}: {value!r} is no seed; expected a whole number such as 7")
    return int(value)


def header(value: str, origin: str) -> tuple[str, str]:
    """Return name and value of a header."""
    name, separator, text = value.partition(":")
    if not separator or not is_header(name.strip(), text.strip()):
        raise ConfigurationError(f"{origin}: expected 'Name: value' on one line (the value is not shown here)")
    return name.strip(), text.strip()


def switch(value: str, origin: str) -> bool:
    """Return whether a word means yes."""
    if value.strip().lower() not in SWITCH:
        raise ConfigurationError(f"{origin}: {value!r} is neither true nor false")
    return SWITCH[value.strip().lower()]


def parameter(value: str, origin: str) -> tuple[str, str, Any]:
    """Return check, name and value of a parameter of a ready-made check."""
    from ..suite.asked import parse  # for who sets any

    return parse(value, origin)


def prices(value: str, origin: str) -> PriceList:
    """Return the prices of a file."""
    from ..savings.given import given  # imports pydantic: only for who gives any

    return given(Path(text(value, origin)), origin)


def document(value: str, origin: str) -> Path:
    """Return the path of a file to write."""
    path = Path(text(value, origin))
    if path.is_dir():
        raise ConfigurationError(f"{origin}: {value!r} is a folder; expected a file such as kv.json")
    return path


def page(value: str, origin: str) -> Path:
    """Return the path of a page to write, when what makes one is installed."""
    from ..report import html  # the package alone: what it needs is looked for, and imported when a page is made

    path = document(value, origin)
    absent = html.missing()
    if absent:
        raise ConfigurationError(f"{origin}: {' and '.join(absent)} not installed; a page needs: {html.INSTALL}")
    return path


def history(value: str, origin: str) -> Path:
    """Return the path of a history that can be added to."""
    from ..regression.files import why_not  # for who keeps one

    path = Path(text(value, origin))
    why = why_not(path)
    if why is not None:
        raise ConfigurationError(f"{origin}: nothing can be added to {path}: {why}")
    return path


def circumstance(value: str, origin: str) -> str:
    """Return the name of a circumstance that may change."""
    from ..regression.asked import circumstances  # for who names one

    try:
        circumstances(value.strip())
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {error}") from None
    return value.strip()


def folder(value: str, origin: str) -> Path:
    """Return the path of a folder, there or not."""
    path = Path(text(value, origin))
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{origin}: {value!r} is a file; expected a folder such as results")
    return path
