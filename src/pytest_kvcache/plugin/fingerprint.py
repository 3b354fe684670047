"""Is this what was measured before? What decides a measurement, as digests: they tell a change, and nothing else."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_OURS = "pytest_kvcache"
_LONG = 1024  # characters of a text that stands there as its digest, so that prompts are not copied
_SHORT = 12  # hexadecimal digits that tell which part of a fingerprint has changed


class Untold(Exception):
    """Nothing tells a value from another one; the message says what it is, and nothing of what it holds."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What decides one measured run.

    Attributes:
        whole: equal exactly when every part is.
        parts: by name, so that a difference can be told.
    """

    whole: str
    parts: Mapping[str, str]

    @classmethod
    def of(cls, nodeid: str, parts: Mapping[str, object]) -> Fingerprint:
        """Return the fingerprint of a run of a test.

        Raises:
            Untold: a value of a part cannot be told from others.
        """
        digests = {name: _of_part(name, value) for name, value in parts.items()}
        return cls(digest([nodeid, digests]), {name: found[:_SHORT] for name, found in digests.items()})

    def changed(self, before: Mapping[str, str]) -> list[str]:
        """Return the names of the parts that are others than they were."""
        return [name for name, part in self.parts.items() if before.get(name) != part]


def _of_part(name: str, value: object) -> str:
    try:
        return digest(value)
    except Untold as error:
        raise Untold(f"its {name} holds {error}") from None


def digest(value: object) -> str:
    """Return the SHA-256 of what a value holds; equal values have the same in every process.

    Numbers, texts, sequences, mappings (in their order, because a prompt made of one depends on it), dataclasses and
    whatever can be pickled are told by their content, files by theirs, traces by their rows, functions and classes by
    their source, defaults and closure; those of this package and of Python by their names.

    Raises:
        Untold: there is something in it that nothing tells from another one.
    """
    try:
        text = json.dumps(_told(value))
    except RecursionError:
        raise Untold("something that holds itself") from None
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        Untold: it cannot be read.
    """
    found = hashlib.sha256()
    try:
        with path.expanduser().open("rb") as file:
            for chunk in iter(partial(file.read, 1 << 20), b""):
                found.update(chunk)
    except OSError as error:
        raise Untold(f"a file that cannot be read ({error.strerror})") from None
    return found.hexdigest()


def _told(value: object) -> Any:
    """Return JSON that is equal for equal values only."""
    if type(value) is str and len(value) > _LONG:
        return ["text", hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()]
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if isinstance(value, Enum):
        return ["enum", *_named(type(value)), value.name]
    if isinstance(value, Mapping):
        return ["mapping", *([_told(key), _told(inner)] for key, inner in value.items())]
    if type(value) in (list, tuple):
        return ["sequence", *map(_told, value)]  # type: ignore[call-overload] # it is one of the two
    if isinstance(value, (set, frozenset)):
        return ["set", *sorted(json.dumps(_told(inner)) for inner in value)]
    if isinstance(value, Path):
        return ["file", file_digest(value)]
    if isinstance(value, (type, FunctionType, BuiltinFunctionType, ModuleType)):
        return _code(value)
    if _is_trace(value):
        return _rows(value)
    if is_dataclass(value):
        return ["dataclass", *_named(type(value)), *([f.name, _told(getattr(value, f.name))] for f in fields(value))]
    return _pickled(value)


def _code(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type):
        return ["class", *_named(value)]
    if isinstance(value, BuiltinFunctionType):
        owner = value.__self__
        return _pickled(value) if owner and not isinstance(owner, ModuleType) else ["builtin", *_named(value)]
    try:
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
    except ValueError:
        raise Untold(f"{value.__qualname__}, which uses a name that has no value yet") from None
    return ["function", *_named(value), _told(value.__defaults__), _told(value.__kwdefaults__), *map(_told, cells)]


def _named(code: Any) -> list[str]:
    """Return the name of a class or function, and its source where that is the user's own."""
    name = f"{code.__module__}.{code.__qualname__}"
    root = str(code.__module__).partition(".")[0]
    if root == _OURS or root in sys.stdlib_module_names:
        return [name]
    try:
        return [name, inspect.getsource(code)]
    except (OSError, TypeError, SyntaxError):
        raise Untold(f"{name}, whose source is not known") from None


def _is_trace(value: object) -> bool:
    module = sys.modules.get(f"{_OURS}.traces.trace")
    return module is not None and isinstance(value, module.Trace)


def _rows(trace: Any) -> Any:
    found = hashlib.sha256()
    for row in trace:
        found.update(f"{tuple(row)}\n".encode("utf-8", "surrogatepass"))
    return ["trace", trace.name, trace.block_size, trace.ids, trace.order, found.hexdigest()]


def _pickled(value: object) -> Any:
    """Return what pickling would keep of an object: Python's own notion of all that it holds."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # whatever a class of somebody else's makes of it
        raise Untold(f"a {kind}") from None
    if isinstance(reduced, str):
        return ["global", kind, reduced]
    return ["object", kind, *(_told(list(part) if isinstance(part, Iterator) else part) for part in reduced)]
