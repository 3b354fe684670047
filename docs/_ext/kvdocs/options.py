"""Options with their twins in the environment and in the ini file: as the plugin registers them with pytest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pytest_kvcache.plugin import settings
from pytest_kvcache.plugin.options import OPTIONS, Option

from .markup import code, table


@dataclass
class Registered:
    """Stands in for pytest's parser, and keeps what is registered."""

    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    ini: dict[str, str] = field(default_factory=dict)

    def getgroup(self, *_: object) -> Registered:
        """Return where options are added."""
        return self

    def addoption(self, flag: str, **words: Any) -> None:
        """Keep an option."""
        self.options[flag] = words

    def addini(self, name: str, help: str, **_: object) -> None:
        """Keep an ini option."""
        self.ini[name] = help


def listed() -> str:
    """Return a table of everything that can be set: options, then what has no twin."""
    return table(("option", "environment", "ini", "meaning"), rows())


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Return option, environment, ini and meaning of each setting."""
    registered = Registered()
    settings.add_options(cast("pytest.Parser", registered))
    known = {option.flag: option for option in OPTIONS}
    for flag, words in registered.options.items():
        option = known.get(flag)
        if option is None:
            yield code(_shown(flag, words)), "", "", words["help"]
            continue
        del registered.ini[option.ini]
        yield code(_shown(flag, words)), code(option.variable), code(option.ini), _meaning(option)
    for name, text in registered.ini.items():
        yield "", "", code(name), text


def _shown(flag: str, words: dict[str, Any]) -> str:
    return f"{flag}={words['metavar']}" if words.get("metavar") else flag


def _meaning(option: Option) -> str:
    return f"{option.help}{'; a line each in the environment and in the ini file' if option.repeatable else ''}"
