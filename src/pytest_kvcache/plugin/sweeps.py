"""Which place does a test have in a sweep? By its ``kv_sweep`` marker, else by its parameters."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..report.record import Record

_LONGEST = 60  # characters of a parameter; a longer one is a prompt or the like, and stays out of reports


@dataclass(frozen=True, slots=True)
class SweepAsked:
    """What a ``kv_sweep`` marker says.

    Attributes:
        name: tests of one name are one sweep; None: those of one function are.
        names: parameters of the test that are axes; None: all of them.
        values: of axes that are no parameters.
    """

    name: str | None = None
    names: tuple[str, ...] | None = None
    values: Mapping[str, Any] | None = None


def sweep_asked(name: object, axes: object) -> SweepAsked:
    """Return what the arguments of a marker ask for.

    Raises:
        ConfigurationError: no name, no axes, or a value that JSON has not.
    """
    if name is not None and not (isinstance(name, str) and name):
        raise ConfigurationError(f"name={name!r} is no name")
    if axes is None:
        return SweepAsked(name)
    if isinstance(axes, Mapping):
        for axis, value in axes.items():
            if not isinstance(axis, str) or not _is_plain(value):
                raise ConfigurationError(f"axes: {axis!r}: {value!r} is no name with a number, text or true/false")
        values: Mapping[str, Any] | None = dict(axes)
        names = None
    elif isinstance(axes, Sequence) and not isinstance(axes, str) and all(isinstance(axis, str) for axis in axes):
        values, names = None, tuple(axes)
    else:
        raise ConfigurationError(f"axes={axes!r}: expected names of parameters, or values by name: {{'rate': 0.5}}")
    if not axes:
        raise ConfigurationError(f"axes={axes!r} names none")
    return SweepAsked(name, names, values)


def place_of(item: pytest.Item, asked: SweepAsked | None) -> Record | None:
    """Return the name of a test's sweep and its value on every axis; None when it is in none.

    Args:
        item: the test.
        asked: by its marker, None without one.

    Raises:
        ConfigurationError: the marker names a parameter that the test has not, or there is no axis at all.
    """
    callspec = getattr(item, "callspec", None)
    parameters = {} if callspec is None else _parameters(callspec)
    axes: Mapping[str, Any] = parameters
    if asked is not None and asked.values is not None:
        axes = asked.values
    elif asked is not None and asked.names is not None:
        unknown = [name for name in asked.names if name not in parameters]
        if unknown:
            has = f"it has {', '.join(parameters)}" if parameters else "it has none"
            raise ConfigurationError(f"axes: {unknown[0]!r} is no parameter of the test; {has}")
        axes = {name: parameters[name] for name in asked.names}
    if not axes:
        if asked is not None:
            raise ConfigurationError("the test has no parameters: give the values, axes={'rate': 0.5}")
        return None
    from ..report.text import visible

    name = asked.name if asked is not None else None
    if name is None:
        name = item.nodeid if callspec is None else item.nodeid.rpartition(f"[{callspec.id}]")[0] or item.nodeid
    return {
        "name": visible(name),
        "axes": {visible(axis): visible(value) if isinstance(value, str) else value for axis, value in axes.items()},
        "marked": asked is not None,
    }


def _parameters(callspec: Any) -> dict[str, Any]:
    """Return the parameters of a test as plain values; those of plugins, which begin with ``_``, are no axes.

    What JSON has not is called as in the test's id, where each parameter has a part of its own.
    """
    parts = callspec.id.split("-")
    if len(parts) != len(callspec.params):
        parts = [""] * len(callspec.params)
    return {
        name: value if _is_plain(value) else _named(value, part)
        for (name, value), part in zip(callspec.params.items(), parts, strict=True)
        if not name.startswith("_")
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (int, bool)) or (isinstance(value, str) and len(value) <= _LONGEST)


def _named(value: object, part: str) -> str:
    if isinstance(value, str):
        return f"#{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:8]}"
    name = part or getattr(value, "__name__", type(value).__name__)
    return str(name)[:_LONGEST]
