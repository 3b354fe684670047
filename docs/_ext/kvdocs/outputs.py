"""What a session leaves: the keys of the JSON document from its schema, the JUnit properties from their module."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_kvcache.report import junit as properties
from pytest_kvcache.report import schema

from .markup import code, table

Part = Mapping[str, Any]


def junit() -> str:
    """Return the table of the properties."""
    _, _, rest = inspect.cleandoc(properties.__doc__ or "").partition("\n\n")
    return f"```{{eval-rst}}\n{rest}\n```"


def keys() -> str:
    """Return a section for the document and for each of the objects in it."""
    whole = schema()
    sections = [_section("The document", "document", whole)]
    sections += [_section(code(name), name, part) for name, part in whole["$defs"].items()]
    return "\n\n".join(sections)


def _section(title: str, name: str, part: Part) -> str:
    text = f"(document-{name.replace('_', '-')})=\n## {title}\n\n{part.get('description', '')}"
    rows = list(_rows(part))
    if rows:
        return f"{text}\n\n{table(('key', 'type', 'meaning'), rows)}"
    return f"{text}\n\n{_type(part)}"


def _rows(part: Part) -> Iterator[tuple[str, str, str]]:
    required = part.get("required", ())
    for name, value in part.get("properties", {}).items():
        optional = "" if name in required else " May be missing."
        yield code(name), _type(value), value.get("description", "") + optional


def _type(part: Part) -> str:
    """Return what a value is: a type, one of some values, a link to an object."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[`{name}`](#document-{name.replace('_', '-')})"
    for word in ("anyOf", "oneOf"):
        if word in part:
            return " or ".join(map(_type, part[word]))
    if "const" in part:
        return code(_word(part["const"]))
    if "enum" in part:
        return ", ".join(code(_word(value)) for value in part["enum"])
    if "items" in part:
        return f"array of {_type(part['items'])}"
    if isinstance(part.get("additionalProperties"), dict):
        return f"object of {_type(part['additionalProperties'])}"
    types = part.get("type", "anything")
    return " or ".join([types] if isinstance(types, str) else types)


def _word(value: object) -> str:
    return "null" if value is None else str(value)
