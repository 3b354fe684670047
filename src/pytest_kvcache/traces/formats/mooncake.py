"""Mooncake's form and its family: JSONL of lengths and block ids, the block size mostly left out.

``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids`` are Mooncake's (FAST25-release). kvcache.ai adds
``block_size`` and ``block_tokens``; AIPerf 0.13 ``session_id`` and ``delay`` (ms), and leaves ids out; ClawPerf 0.6
``user_id`` and ``concurrent_id``; Dynamo writes ``input_tokens``, ``output_tokens``, ``created_time``, ``delay_ms``,
and for agents which request waits for which. Our own exports add ``tenant`` and ``cached_tokens`` to kvcache.ai's.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Any

from ...rows import Row
from ..check import RowError, Skipped
from ..lines import Lines
from . import Format, Options, each_object, fields_of, kind_of, whole

_TEXT = ("text_input", "messages", "payload")
_ORDER = ("wait_for", "branches", "prefix_reset")
_NONE: array[int] = array("q")


def _looks_like(head: str) -> bool:
    fields = set(fields_of(head))
    if fields & {"input_length", "hash_ids"}:
        return True
    return "input_tokens" in fields and bool(fields & {"created_time", "delay_ms"})


def read(lines: Lines, options: Options) -> Iterator[Row | Skipped]:
    """Return the rows of a file."""
    per_second = options.per_second("ms")

    def row(line: int, text: str, value: dict[str, Any]) -> Row | Skipped:
        get = value.get
        length, output, time, ids = get("input_length"), get("output_length"), get("timestamp"), get("hash_ids")
        if type(length) is not int or length < 1:
            length = _input(line, value)
            if length == 0:
                return Skipped(line, "zero_input", "it has no input tokens")
        if type(output) is not int or output < 0:
            output = _optional(line, value, "output_length", "output_tokens")
        if time is None:
            time = get("created_time")
        made = ids_of(line, text, ids)
        time = seconds(line, "timestamp", time, per_second)
        if len(value) == 4 and ids is not None and time is not None and output is not None:
            return Row(line, length, made, output, time)
        return _extended(Row(line, length, made, output, time), value, options)

    return each_object(lines, row, options)


def _extended(row: Row, value: dict[str, Any], options: Options) -> Row:
    """Add what others than Mooncake write."""
    line, get = row.line, value.get
    for name in _ORDER:
        if get(name):
            told = f"{{rows}} with {name!r} (first: {{line}}), which is not looked at: the order is that of the file"
            options.notes.add(name, line, told)
    delay = seconds(line, "delay", get("delay"), options.per_second("ms"))
    if delay is None:
        delay = seconds(line, "delay_ms", get("delay_ms"), 1_000)
    if delay is not None:
        told = "{rows} after a delay in their session (first: {line}): their input is taken as the whole prompt"
        options.notes.add("whole_prompts", line, told)
    names = [_name(line, name, get(name)) for name in ("session_id", "user_id", "concurrent_id")]
    return row._replace(
        session=next((name for name in names if name is not None), None),
        tenant=names[1] or _name(line, "tenant", get("tenant")),
        delay=delay,
        weights=_weights(line, get("block_tokens")),
        cached=_optional(line, value, "cached_tokens"),
        block_size=_optional(line, value, "block_size", least=1),
    )


def _input(line: int, value: dict[str, Any]) -> int:
    found = _optional(line, value, "input_length", "input_tokens")
    if found is not None:
        return found
    text = next((name for name in _TEXT if value.get(name) is not None), None)
    if text is not None:
        raise RowError(line, "text", f"it has {text!r} and no 'input_length'; format='bodies' reads requests with text")
    raise RowError(line, "bad_field", "it has no 'input_length'; expected the tokens of its prompt")


def _optional(line: int, value: dict[str, Any], *names: str, least: int = 0) -> int | None:
    for name in names:
        if value.get(name) is not None:
            return whole(line, name, value[name], least)
    return None


def ids_of(line: int, text: str, ids: object) -> array[int]:
    """Return the ids of a row whose line is given; True and False are no ids.

    Raises:
        RowError: they are no list of whole numbers or texts.
    """
    if ids is None:
        return _NONE
    if type(ids) is not list:
        raise RowError(line, "bad_field", f"'hash_ids' is {kind_of(ids)}; expected a list")
    # a letter is looked for several times faster than a word
    if not (("r" in text and "true" in text) or ("f" in text and "false" in text)):
        try:
            return array("q", ids)
        except (TypeError, OverflowError):
            pass
    from ..ids import as_ids  # for ids that are no plain numbers

    try:
        return as_ids(ids)
    except ValueError as error:
        raise RowError(line, "bad_field", f"'hash_ids': {error}") from None


def seconds(line: int, name: str, value: object, per_second: int) -> float | None:
    """Return a time of a row, None when there is none.

    Raises:
        RowError: it is no finite number.
    """
    if value is None:
        return None
    if type(value) is int or type(value) is float:
        try:
            made = value / per_second
        except OverflowError:
            made = math.inf
        if made - made == 0:
            return made
    raise RowError(line, "bad_field", f"{name!r} is {kind_of(value)}; expected a finite number")


def _weights(line: int, value: object) -> array[int] | None:
    if value is None:
        return None
    if type(value) is not list:
        raise RowError(line, "bad_field", f"'block_tokens' is {kind_of(value)}; expected a list")
    try:
        return array("q", [whole(line, "block_tokens", tokens, least=1) for tokens in value])
    except OverflowError:
        raise RowError(line, "bad_field", "'block_tokens' has numbers beyond 64 bits") from None


def _name(line: int, name: str, value: object) -> str | None:
    if value is None or type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise RowError(line, "bad_field", f"{name!r} is {kind_of(value)}; expected a text or a whole number")


FORMATS = (Format("mooncake", _looks_like, read, "ms"),)
