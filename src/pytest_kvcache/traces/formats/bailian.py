"""Bailian's form (qwen-bailian-usagetraces-anon): JSONL of chats, each of which may continue another.

Its timestamps are seconds, its blocks have 16 tokens; neither stands in the file, both in its documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...rows import Row
from ..check import RowError, Skipped
from ..lines import Lines
from . import Format, Options, each_object, fields_of, kind_of, whole
from .mooncake import ids_of, seconds

_ROOT = -1


def _looks_like(head: str) -> bool:
    return {"chat_id", "parent_chat_id"} <= set(fields_of(head))


class _Chats:
    """Which chat began the chain that a chat continues? One entry is kept for each chat of the file."""

    def __init__(self, options: Options) -> None:
        self._notes = options.notes
        self._first: dict[str, str] = {}
        self._missing: set[str] = set()  # chats that were continued, and have not been seen

    def root(self, line: int, chat: str, parent: str | None) -> str:
        """Return the root of a chat; that of a chat whose parent is not known is its parent."""
        if chat in self._missing and parent not in (None, chat):
            told = "{rows} behind one that continues it (first: {line}): what continues it is a session of its own"
            self._notes.add("parent_after_child", line, told)
        self._missing.discard(chat)
        if parent is None or parent == chat:
            return self._first.setdefault(chat, chat)
        root = self._first.get(parent)
        if root is None:
            told = "{rows} whose parent chat does not stand before (first: {line}): a session begins there"
            self._notes.add("unknown_parent", line, told)
            root = self._first[parent] = parent
            self._missing.add(parent)
        self._first[chat] = root
        return root


def read(lines: Lines, options: Options) -> Iterator[Row | Skipped]:
    """Return the rows of a file; a chain of chats is a session."""
    per_second = options.per_second("s")
    chats = _Chats(options)

    def row(line: int, text: str, value: dict[str, Any]) -> Row | Skipped:
        session = chats.root(line, *_chat(line, value))
        length = whole(line, "input_length", value.get("input_length"))
        if length == 0:
            return Skipped(line, "zero_input", "it has no input tokens")
        output = value.get("output_length")
        return Row(
            line,
            length,
            ids_of(line, text, value.get("hash_ids")),
            None if output is None else whole(line, "output_length", output),
            seconds(line, "timestamp", value.get("timestamp"), per_second),
            session,
        )

    return each_object(lines, row, options)


def _chat(line: int, value: dict[str, Any]) -> tuple[str, str | None]:
    chat, parent = value.get("chat_id"), value.get("parent_chat_id")
    for name, given in (("chat_id", chat), ("parent_chat_id", parent)):
        if type(given) is not int and type(given) is not str and not (given is None and name == "parent_chat_id"):
            raise RowError(line, "bad_field", f"{name!r} is {kind_of(given)}; expected a number or a text")
    return str(chat), None if parent in (None, _ROOT, str(_ROOT)) else str(parent)


FORMATS = (Format("bailian", _looks_like, read, "s", block_size=16),)
