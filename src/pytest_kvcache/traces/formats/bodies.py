"""Requests as they were sent: bodies of OpenAI's APIs, alone or in what gateways, batches and load generators add.

Their text becomes tokens and their tokens become blocks, so a tokenizer and a block size must be named; there is no
default for either. Blocks are told apart by digests, so that memory does not grow with the text.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from ...requested import PROMPTS, NoRequest, row_of
from ...rows import Row
from ..check import RowError, Skipped
from ..documents import Numbered, all_of, documents
from ..lines import Lines
from ..prompts import PromptReader
from ..times import date_seconds, epoch_seconds, number_of
from ..usage import Recorded, held
from . import Format, Options, fields_of, kind_of, whole
from .mooncake import seconds

_WRAPPED = ("body", "request_json", "payload", "text_input")
_OTHERS = ("input_length", "hash_ids", "attributes")  # forms that may carry text beside their numbers
_TIMES = ("timestamp", "time", "created", "created_at", "start_time", "request_time", "ts")
_TENANTS = ("tenant", "tenant_id", "user_id", "user")
_OUTPUTS = ("output_length", "output_tokens", "completion_tokens")
_NO_IDS = array("q")
_MOST_DIGITS = 15  # of a count
_MOST_FIELD = 2**27  # characters of a field of CSV: a request is one
_REFUSED = range(400, 499)  # not 499, nginx's word for a client that went away: the server was at work


def _looks_like(head: str) -> bool:
    fields = fields_of(head.lstrip().removeprefix("["))
    if not fields:
        return "request_json" in head.partition("\n")[0].replace('"', "").split(",")
    return any(name in fields for name in (*PROMPTS, *_WRAPPED)) and not any(name in fields for name in _OTHERS)


def _read(lines: Lines, options: Options) -> Iterator[Row | Skipped]:
    reader = PromptReader.of(options)
    first = next(iter(lines), (1, ""))[1].lstrip()[:1]
    items = documents(lines, options) if first in ("{", "[", "#") else _table(lines)
    return all_of(items, lambda item: _rows(item, reader, options), options)


def _rows(item: Numbered, reader: PromptReader, options: Options) -> Iterator[Row | Skipped]:
    """Return the prompts of a recorded request, several where it asks for several."""
    line, value = item
    if not isinstance(value, dict):
        raise RowError(line, "no_json", f"expected a JSON object, got {kind_of(value)}")
    if (status := _status(value)) in _REFUSED:
        yield Skipped(line, "refused", f"the server refused it with status {status}, before any of it was computed")
        return
    try:
        asked = row_of(_unwrapped(line, value))
    except NoRequest as error:
        raise RowError(line, "no_prompt", str(error)) from None
    found = _recorded(line, asked.api, value, options)
    prompts = list(reader.read(line, asked.api, asked.body))
    alone = len(prompts) == 1  # what was recorded of several together is of none of them
    told = Row(
        line,
        0,
        _NO_IDS,
        output_length=found.output if alone else None,
        time=_time(line, value, options),
        session=asked.session,
        tenant=_tenant(value, asked.body),
        delay=seconds(line, "delay", value.get("delay"), options.per_second("ms")),  # AIPerf's
        block_size=reader.block_size,
    )
    for blocks in prompts:
        if not blocks.tokens:
            yield Skipped(line, "zero_input", "its prompt has no tokens")
            continue
        cached = reader.agreed(line, blocks, found) if alone else None
        yield told._replace(input_length=blocks.tokens, ids=blocks.ids, cached=cached)


def _unwrapped(line: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its request as a body, or under ``body``."""
    if value.get("text_input") is not None:
        return {**value, "prompt": value["text_input"]}
    name = next((name for name in ("request_json", "payload") if value.get(name) is not None), None)
    if name is None:
        return value
    body = value[name]
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            raise RowError(line, "no_json", f"{name!r} is a text that is no JSON") from None
    return {**{key: part for key, part in value.items() if key not in PROMPTS}, "body": body}


def _recorded(line: int, api: str, value: Mapping[str, Any], options: Options) -> Recorded:
    """Return what a row tells of its answer."""
    from ...replies.usage import UsageError, UsageMeter, declared, readings

    output = next((whole(line, name, got) for name in _OUTPUTS if type(got := _number(value.get(name))) is int), None)
    answer = value.get("response_json", value.get("response", value))
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            answer = None  # cut, as gateways do with long ones
    if isinstance(answer, dict) and isinstance(answer.get("body"), dict) and answer is not value:
        answer = answer["body"]  # as batches wrap it
    if not isinstance(answer, dict):
        return Recorded(output=output)
    meter = UsageMeter(api, declared(readings(api), prompt_is=options.usage_prompt, absent=options.usage_absent))
    meter.take(answer)
    try:
        usage = meter.read()
    except UsageError as error:
        seen, _, _ = str(error).partition(", got ")  # and not what was got, which may be any text
        raise RowError(line, "bad_field", seen) from None
    return held(line, Recorded(usage.prompt, usage.cached, usage.completion if output is None else output))


def _time(line: int, value: Mapping[str, Any], options: Options) -> float | None:
    """Return when it was sent: a date, or a number in the unit that was said, or whose unit shows by its size."""
    name = next((name for name in _TIMES if value.get(name) not in (None, "")), None)
    if name is None:
        return None
    given = value[name]
    if isinstance(given, str):
        date = date_seconds(given)
        if date is not None:
            return date
        given = number_of(given)
        if given is None:
            raise RowError(line, "bad_time", f"{name!r} is neither a date with a time nor a number")
    number = seconds(line, name, given, 1)
    if options.time_unit is not None or number is None:
        return None if number is None else number / options.per_second("s")
    shown = epoch_seconds(number)
    if shown is None:
        told = f"{{rows}} with a {name!r} too small for a date (first: {{line}}): left out, give time_unit= to use them"
        options.notes.add("time_unit", line, told)
    return shown


def _tenant(value: Mapping[str, Any], body: Mapping[str, Any]) -> str | None:
    given = (source.get(name) for source in (value, body) for name in _TENANTS)
    return next((str(one) for one in given if type(one) in (str, int) and one != ""), None)


def _status(value: Mapping[str, Any]) -> int | None:
    given = _number(value.get("status_code"))
    return given if type(given) is int else None


def _number(given: object) -> object:
    """Return a value, and a text of digits as their number: in a table everything is a text."""
    digits = isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS
    return int(given) if digits else given  # type: ignore[call-overload] # a text


def _table(lines: Lines) -> Iterator[Numbered | RowError]:
    """Return the rows of a gateway's CSV as objects, with the line where each begins; a field may go over lines."""
    begun, last = 0, 0

    def texts() -> Iterator[str]:
        nonlocal begun, last
        for number, text in lines:
            if begun:  # blank ones inside of a field belong to it
                yield from ["\n"] * (number - last - 1)
            begun, last = begun or number, number
            yield text + "\n"

    rows = csv.reader(texts(), strict=True)
    header: list[str] | None = None
    while True:
        begun = 0
        cells = _record(rows)
        if cells is None:
            return
        if isinstance(cells, str):
            yield RowError(begun or last, "bad_row", f"not written as CSV: {cells}")
        elif header is None:
            header = [cell.strip() for cell in cells]
        elif len(cells) != len(header):
            yield RowError(begun, "bad_row", f"{len(cells)} fields; the header has {len(header)}")
        else:
            yield begun, {name: cell for name, cell in zip(header, cells, strict=True) if cell}


def _record(rows: Iterator[list[str]]) -> list[str] | str | None:
    """Return the next row of a table, None behind the last one, or what is wrong with it."""
    limit = csv.field_size_limit(_MOST_FIELD)  # of the whole process, so only for this long
    try:
        return next(rows, None)
    except csv.Error as error:
        return str(error)
    finally:
        csv.field_size_limit(limit)


FORMATS = (Format("bodies", _looks_like, _read, time_unit=None),)
