"""Options with their twins in the environment and in the ini file: as the plugin registers them with pytest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pytest_kvcache.plugin import settings
from pytest_kvcache.plugin.options import OPTIONS, Option

from .markup import code


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
    """Return a section for everything that can be set: options, then what has no option."""
    return "\n\n".join(_sections())


def _sections() -> Iterator[str]:
    registered = Registered()
    settings.add_options(cast("pytest.Parser", registered))
    known = {option.flag: option for option in OPTIONS}
    for flag, words in registered.options.items():
        option = known.get(flag)
        if option is None:
            yield _section(_shown(flag, words), words["help"], "On the command line alone.")
            continue
        del registered.ini[option.ini]
        yield _section(_shown(flag, words), option.help, _twins(option))
    for name, text in registered.ini.items():
        yield _section(name, text, "In the ini file alone.")


def _section(name: str, text: str, where: str) -> str:
    return f"(option-{anchor(name)})=\n## {code(name)}\n\n{text[0].upper()}{text[1:]}.\n\n{where}"


def anchor(name: str) -> str:
    """Return what a link to an option ends with behind ``option-``: ``kv-endpoint``, the same in every release."""
    return name.partition("=")[0].removeprefix("--").replace("_", "-")


def _twins(option: Option) -> str:
    several = "; several are a line each" if option.repeatable else ""
    return f"Environment {code(option.variable)}, ini {code(option.ini)}{several}."


def _shown(flag: str, words: dict[str, Any]) -> str:
    return f"{flag}={words['metavar']}" if words.get("metavar") else flag
