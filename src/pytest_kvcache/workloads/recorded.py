"""Prompts and requests from a file: JSONL of bodies, batch rows, ShareGPT conversations, or one prompt a line."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ..errors import WorkloadError
from ..requested import NoRequest, Row, named, row_of
from .bodies import Bodies

Format = Literal["auto", "bodies", "sharegpt", "lines"]

_FORMATS = ("auto", "bodies", "sharegpt", "lines")
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LENGTH = {  # elsewhere max_tokens
    "responses": "max_output_tokens",
    "generate": "sampling_params.max_new_tokens",
    "completion": "n_predict",
    "gemini": "generationConfig.maxOutputTokens",
    "converse": "inferenceConfig.maxTokens",
    "ollama": "options.num_predict",
}
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "system": "system",
}


def read(path: Path, *, format: Format, limit: int | None, warm: int, max_tokens: int | None) -> Bodies:
    """Return the requests of a file, plain or gzip, in its order.

    Args:
        path: UTF-8, blank lines are skipped.
        format: ``bodies``: JSON objects, one a line or in one list: bodies of OpenAI's APIs, told apart by
            ``messages``, ``prompt`` or ``input``; the same wrapped as ``{"body": ..., "api": ...}``; rows of an OpenAI
            batch. ``session``, ``session_id`` or ``conversation_id`` beside the body name its session and are not sent.
            ``sharegpt``: conversations, one a line or in one list: every turn of the human becomes a request, with the
            turns before it. ``lines``: one prompt for ``/v1/completions`` a line. ``auto``: what the file looks like.
        limit: only the first so many requests; what stands behind them is not read.
        warm: how many of the first ones are sent before the measured window.
        max_tokens: for requests that say none; None: the server's default.

    Raises:
        WorkloadError: an argument is out of range, or the file cannot be read; names its line and shows none of it.
    """
    if format not in _FORMATS:
        raise WorkloadError(f"prompts: format={format!r} is none of {', '.join(_FORMATS)}")
    for name, value in (("limit", limit), ("max_tokens", max_tokens)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise WorkloadError(f"prompts: {name}={value!r} must be a whole number of at least 1, or None")
    path = path.expanduser()
    with closing(_rows(path, format)) as found:
        rows = list(islice(found, limit))
    if not rows:
        raise WorkloadError(f"prompts: {path} holds no requests")
    return Bodies(
        tuple(_limited(row, max_tokens) for row in rows),
        tuple(row.api for row in rows),
        warm,
        tuple(row.session for row in rows) if any(row.session is not None for row in rows) else (),
        path.name,
    )


def _limited(row: Row, max_tokens: int | None) -> Mapping[str, Any]:
    group, _, name = _LENGTH.get(row.api, "max_tokens").rpartition(".")
    given = row.body.get(group) or {} if group else row.body
    if max_tokens is None or not isinstance(given, Mapping):
        return row.body
    if any(given.get(known) is not None for known in (name, "max_completion_tokens")):
        return row.body
    limited = {**given, name: max_tokens}
    return {**row.body, group: limited} if group else limited


def _rows(path: Path, format: Format) -> Generator[Row, None, None]:
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        return
    found = _looks_like(first[1]) if format == "auto" else format
    lines = _again(first, lines)
    if found == "lines":
        yield from (Row({"prompt": text}, "completions") for _, text in lines)
        return
    for number, (place, value) in enumerate(_values(path, first[1], lines)):
        if not isinstance(value, dict):
            raise WorkloadError(f"{place}: expected a JSON object, got {named(value)}")
        conversation = "conversations" in value if format == "auto" else found == "sharegpt"
        yield from _turns(place, number, value) if conversation else [_row(place, value)]


# --- the file --------------------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Return the lines that are not blank with their numbers, without their ends and a byte order mark."""
    number = 0
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == _GZIP
        with gzip.open(path) if packed else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = (line.removeprefix(_BOM) if number == 1 else line).decode().removesuffix("\n").removesuffix("\r")
                if text.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise WorkloadError(f"prompts: {path}, line {number}: byte {error.start + 1} of it is no UTF-8") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WorkloadError(f"prompts: {path}: the gzip data break off in line {number + 1} ({error})") from None
    except OSError as error:
        raise WorkloadError(f"prompts: {path} cannot be read: {error.strerror or error}") from None


def _again(first: tuple[int, str], lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from lines


def _looks_like(line: str) -> Format:
    """Return what a file is by its first line: a prompt may begin with a bracket too, but not as JSON does."""
    start = line.lstrip()
    return (
        "bodies"
        if start.startswith("{") or (start[:1] == "[" and start[1:].lstrip()[:1] in ("", "{", "]"))
        else "lines"
    )


def _values(path: Path, first: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, Any]]:
    """Return the values of a file with the place of each: one a line, or the entries of one list."""
    if not first.lstrip().startswith("["):
        known: dict[bytes, Any] = {}  # recorded traffic says the same again and again: it is parsed and kept once
        for number, text in lines:
            place, digest = f"prompts: {path}, line {number}", blake2b(text.encode(), digest_size=16).digest()
            if digest not in known:
                known[digest] = _parsed(text, place, number)
            yield place, known[digest]
        return
    numbered = list(lines)
    whole = _parsed("\n".join(text for _, text in numbered), f"prompts: {path}", 0, [at for at, _ in numbered])
    for entry, value in enumerate(whole, 1):
        yield f"prompts: {path}, entry {entry} of the list", value


def _parsed(text: str, place: str, number: int, numbers: list[int] | None = None) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        if numbers is not None:
            place, number = f"{place}, line {numbers[error.lineno - 1]}", numbers[error.lineno - 1]
        hint = "; if these are plain prompts, say format='lines'" if number == 1 else ""
        raise WorkloadError(f"{place}: no JSON, column {error.colno}: {error.msg}{hint}") from None
    except RecursionError:
        raise WorkloadError(f"{place}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise WorkloadError(f"{place}: no JSON: {str(error).split(';')[0]}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


# --- its rows --------------------------------------------------------------------------------------------------------


def _row(place: str, value: dict[str, Any]) -> Row:
    try:
        return row_of(value)
    except NoRequest as error:
        raise WorkloadError(f"{place}: {error}") from None


def _turns(place: str, number: int, value: dict[str, Any]) -> Iterator[Row]:
    """Return a request for every turn of the human in a ShareGPT conversation, with what was said before it."""
    turns = value.get("conversations")
    if not isinstance(turns, list):
        raise WorkloadError(f"{place}: expected 'conversations', a list of turns, got {named(turns)}")
    said: list[dict[str, Any]] = []
    for turn, part in enumerate(turns, 1):
        there = f"{place}, turn {turn}"
        if not isinstance(part, dict):
            raise WorkloadError(f"{there}: expected an object with 'from' and 'value', got {named(part)}")
        role, text = part.get("from", part.get("role")), part.get("value", part.get("content"))
        if not isinstance(role, str) or role not in _ROLES:
            raise WorkloadError(f"{there}: its 'from' is none of {', '.join(_ROLES)}")
        if not isinstance(text, str):
            raise WorkloadError(f"{there}: its 'value' is {named(text)}; expected a text")
        said.append({"role": _ROLES[role], "content": text})
        if _ROLES[role] == "user":
            yield Row({"messages": list(said)}, "chat", f"conversation {number}")
