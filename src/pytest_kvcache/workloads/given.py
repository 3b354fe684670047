"""What a conversation is made of, given as values or as files: read, checked, and never quoted in an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import WorkloadError

User: TypeAlias = str | Sequence[str] | Path | Callable[[int, int], str]


def system_of(given: str | Path | None) -> str | None:
    """Return a system prompt."""
    if given is None:
        return None
    text = _read("system", given) if isinstance(given, Path) else given
    if not isinstance(text, str):
        raise WorkloadError(f"conversation: system is {type(text).__name__}; expected a text or the Path of a file")
    if not text.strip():
        raise WorkloadError(f"conversation: system{_of(given)} is empty; leave it out or write something")
    return text


def tools_of(given: Sequence[Mapping[str, Any]] | Path | None) -> tuple[Mapping[str, Any], ...] | None:
    """Return tools: a list of them, or an object that has them under ``tools``."""
    if given is None:
        return None
    tools: Any = given
    if isinstance(given, Path):
        try:
            tools = json.loads(_read("tools", given))
        except (ValueError, RecursionError) as error:
            raise WorkloadError(f"conversation: tools{_of(given)}: no JSON ({error})") from None
        if isinstance(tools, dict):
            tools = tools.get("tools")
    if not isinstance(tools, (list, tuple)) or not all(isinstance(tool, Mapping) for tool in tools):
        raise WorkloadError(f"conversation: tools{_of(given)}: expected a list of objects in OpenAI's form")
    if not tools:
        raise WorkloadError(f"conversation: tools{_of(given)} is empty; leave it out or name a tool")
    return tuple(tools)


def user_of(given: User | None) -> User | None:
    """Return what the user says: texts, a line of a file each, or a function as it is."""
    if given is None or callable(given):
        return given
    if isinstance(given, Path):
        texts: Any = [line for line in _read("user", given).split("\n") if line.strip()]  # not at U+2028 and its like
    else:
        texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise WorkloadError("conversation: user: expected texts, the Path of a file, or a function of session and turn")
    if not texts:
        raise WorkloadError(f"conversation: user{_of(given)} is empty; leave it out or say something")
    return tuple(texts)


def _read(name: str, path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkloadError(f"conversation: {name}: {path} is no UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise WorkloadError(f"conversation: {name}: cannot read {path} ({error.strerror or error})") from None


def _of(given: object) -> str:
    return f": {given}" if isinstance(given, Path) else ""
