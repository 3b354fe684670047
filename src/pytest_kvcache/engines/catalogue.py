"""The known profiles: those that ship with the package and the user's own, and which of them wrote a page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigurationError
from .profile import Profile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Source = Path | Mapping[str, Any]
Names = Mapping[str, Iterable[frozenset[tuple[str, str]]]]


class Catalogue:
    """Profiles by id.

    Args:
        own: the user's own files or tables; one with the id of a shipped profile takes its place.

    Raises:
        ConfigurationError: a profile that cannot be read; names the file and the key.
    """

    def __init__(self, own: Iterable[Source] = ()) -> None:
        tables = dict(_shipped())
        for source in own:
            table, origin = _read(source)
            name = table.get("id")
            if not isinstance(name, str):
                raise ConfigurationError(f"{origin}: id: expected the profile's id, got {name!r}")
            tables[name] = (table, origin)
        self._tables = tables
        parents_first = sorted(tables, key=lambda name: "inherits" in tables[name][0])  # who is wrong is named itself
        valid = {name: _validate(*self._inherited(name)) for name in parents_first}
        self._profiles = {name: valid[name] for name in tables}

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._profiles.values())

    def get(self, name: str) -> Profile:
        """Return a profile.

        Raises:
            ConfigurationError: there is none of that id.
        """
        if name not in self._profiles:
            raise ConfigurationError(f"unknown engine {name!r}; known are {', '.join(sorted(self._profiles))}")
        return self._profiles[name]

    def samples(self) -> frozenset[str]:
        """Return every sample name that any profile reads."""
        return frozenset().union(*(profile.samples() for profile in self._profiles.values()))

    def detect(self, present: Mapping[str, Iterable[str]]) -> Profile | None:
        """Return the profile that wrote a page, None when no known engine did.

        Args:
            present: sample names on the page, each with the label names of its series.
        """
        fitting = [profile for profile in self._profiles.values() if _fits(profile, present)]
        less = {name for profile in fitting for name in profile.detect.first}
        return next((profile for profile in fitting if profile.id not in less), None)

    def provider(self, host: str) -> Profile | None:
        """Return the provider whose API a host serves, None for a host nobody claims."""
        for profile in self._profiles.values():
            for name in profile.detect.hosts:
                if host == name or (name.startswith(".") and host.endswith(name)):
                    return profile
        return None

    def _inherited(self, name: str) -> tuple[dict[str, Any], str]:
        table, origin = self._tables[name]
        parent = table.get("inherits")
        if parent is None:
            return table, origin
        if parent not in self._tables or self._tables[parent][0].get("inherits"):
            raise ConfigurationError(
                f"{origin}: inherits: expected a known profile that inherits nothing, got {parent!r}"
            )
        base = {key: value for key, value in self._tables[parent][0].items() if key != "detect"}
        return {**base, **table}, origin


def _fits(profile: Profile, present: Mapping[str, Iterable[str]]) -> bool:
    found = [name for name in profile.detect.any if name in present]
    if not found or any(name in present for name in profile.detect.none):
        return False
    label = profile.detect.without_label
    return label is None or all(label not in present[name] for name in found)


@cache
def _shipped() -> dict[str, tuple[dict[str, Any], str]]:
    folder = Path(str(files(__package__)))
    found = {}
    for path in sorted(folder.glob("*.toml")):
        table, origin = _read(path)
        found[str(table.get("id"))] = (table, origin)
    return found


@cache
def shipped() -> Catalogue:
    """Return the profiles that ship with the package."""
    return Catalogue()


def _read(source: Source) -> tuple[dict[str, Any], str]:
    if isinstance(source, Mapping):
        return dict(source), "engine profile given by pytest_kvcache_engine"
    origin = f"engine profile {source}"
    try:
        return tomllib.loads(source.read_text(encoding="utf-8")), origin
    except OSError as error:
        raise ConfigurationError(f"{origin}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{origin}: not TOML ({error})") from None


def _validate(table: dict[str, Any], origin: str) -> Profile:
    try:
        return Profile.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{origin}: {where}: {first['msg']}, got {first['input']!r}") from None
