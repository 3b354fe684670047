"""Spans of OpenTelemetry's conventions for generative AI: one a line, a session's or a trace's a line, or OTLP as JSON.

Only spans of requests to a model count, those whose operation is ``chat``, ``text_completion`` or ``generate_content``
and that tell their prompt's tokens; spans around them repeat the tokens of those within. The conventions are not
stable: attributes are looked up under their present names (semconv 1.37 and later) and their earlier ones. Text is read
only where a tokenizer and a block size are given.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ...rows import Row
from ..check import RowError, Skipped
from ..documents import all_of, documents
from ..genai import MESSAGES, NoMessages, attributes_of, chat_body
from ..lines import Lines
from ..prompts import PromptReader
from ..times import date_seconds, epoch_seconds, number_of
from ..usage import Recorded, recorded
from . import PER_SECOND, Format, Options, each, fields_of, kind_of, whole
from .mooncake import seconds

Span = tuple[int, Mapping[str, Any]]

_OPERATIONS = ("chat", "text_completion", "generate_content")
_TRACELOOP = {"chat": "chat", "completion": "text_completion"}  # llm.request.type, before there were operations
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
)
_WRITTEN = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
)
_SESSIONS = ("gen_ai.conversation.id", "session.id")  # attributes
_SESSION_FIELDS = (
    "conversation_id",
    "session_id",
    "sessionId",
    "trace_id",
    "traceId",
)  # of a span, or of what holds it
_NANOS = ("start_time_unix_nano", "startTimeUnixNano")
_STARTS = (*_NANOS, "start_time", "startTime", "timestamp")
_NO_IDS = array("q")
_DIGITS = 19  # of nanoseconds since 1970, for some centuries
_LISTS = ("resourceSpans", "resource_spans", "batches", "scopeSpans", "scope_spans", "spans")  # the outer ones first


def _looks_like(head: str) -> bool:
    fields = set(fields_of(head.lstrip().removeprefix("[")))
    if fields & set(_LISTS):
        return True
    return "attributes" in fields and bool(fields & {"trace_id", "traceId", "context", "span_id", "spanId", *_STARTS})


def _read(lines: Lines, options: Options) -> Iterator[Row | Skipped]:
    reader = None if options.tokenizer is None else PromptReader.of(options)

    def row(span: Span) -> Row | Skipped:
        return _row(*span, reader, options)

    def rows(document: tuple[int, Any]) -> Iterator[Row | Skipped]:
        return each(_spans(*document), row, options)

    return all_of(documents(lines, options), rows, options)


def _spans(line: int, value: Any, outer: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Span]:
    """Return the spans of a document, however deep they lie in it, with the session or trace that holds them."""
    if not isinstance(value, dict):
        raise RowError(line, "no_span", f"expected a span or a list of 'spans', got {kind_of(value)}")
    value = {**outer, **value}
    inner = next((value[name] for name in _LISTS if name in value), None)
    if inner is None:
        yield line, value
        return
    if not isinstance(inner, list):
        raise RowError(line, "no_span", f"its spans are {kind_of(inner)}; expected a list")
    holds = {name: value[name] for name in _SESSION_FIELDS if name in value}
    for part in inner:
        yield from _spans(line, part, holds)


def _row(line: int, span: Mapping[str, Any], reader: PromptReader | None, options: Options) -> Row | Skipped:
    attributes = attributes_of(span.get("attributes"))
    operation = _operation(span, attributes)
    if operation is None:
        return Skipped(line, "no_operation", "a span that does not tell its operation, 'gen_ai.operation.name'")
    if operation not in _OPERATIONS:
        return Skipped(line, "other_operation", f"a span of no request; those of {', '.join(_OPERATIONS)} are read")
    found = _usage(line, attributes, options)
    if found.prompt is None:
        return Skipped(line, "no_usage", f"a request without the tokens of its prompt, {_INPUT[0]!r}")
    if found.prompt == 0:
        return Skipped(line, "zero_input", "it has no input tokens")
    time = _start(line, span, options)
    told = Row(line, found.prompt, _NO_IDS, found.output, time, _session(span, attributes), cached=found.cached)
    return told if MESSAGES not in attributes else _with_blocks(told, attributes, found, reader, options)


def _with_blocks(
    row: Row, attributes: Mapping[str, Any], found: Recorded, reader: PromptReader | None, options: Options
) -> Row | Skipped:
    """Return a row with the blocks of the text that was recorded with it."""
    if reader is None:
        told = "{rows} with messages that were not read (first: {line}); their blocks need tokenizer= and block_size="
        options.notes.add("text_not_read", row.line, told)
        return row
    try:
        body = chat_body(attributes)
    except NoMessages as error:
        raise RowError(row.line, "no_prompt", str(error)) from None
    blocks = next(reader.read(row.line, "chat", body))
    cached = reader.agreed(row.line, blocks, found)
    return row._replace(input_length=blocks.tokens, ids=blocks.ids, cached=cached, block_size=reader.block_size)


def _operation(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    """Return the operation of a span, which its name begins with too."""
    told = attributes.get("gen_ai.operation.name") or _TRACELOOP.get(str(attributes.get("llm.request.type")))
    if isinstance(told, str):
        return told
    first = str(span.get("name")).partition(" ")[0]
    return first if first in _OPERATIONS else None


def _usage(line: int, attributes: Mapping[str, Any], options: Options) -> Recorded:
    prompt, cached, output, written = (
        _count(line, attributes, names) for names in (_INPUT, _CACHED, _OUTPUT, _WRITTEN)
    )
    found = recorded(line, Recorded(prompt, cached, output), written, options)
    if prompt is not None and found.prompt is None:
        what = "its prompt tokens leave the cached ones out (usage_prompt='uncached'), and these are not told"
        raise RowError(line, "cached_not_told", f"{what}; if that means there were none, say usage_absent='zero'")
    return found


def _count(line: int, attributes: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _DIGITS:
            value = int(value)  # where all attributes are texts
        if value is not None:
            return whole(line, name, value)
    return None


def _start(line: int, span: Mapping[str, Any], options: Options) -> float | None:
    """Return when a span began: a date, or a number whose unit is said or shows by its size; a small one is seconds."""
    name = next((name for name in _STARTS if span.get(name) not in (None, "")), None)
    if name is None:
        return None
    given = span[name]
    if isinstance(given, str):
        date = date_seconds(given)
        if date is not None:
            return date
        given = int(given) if given.isascii() and given.isdigit() and len(given) <= _DIGITS else number_of(given)
        if given is None:
            raise RowError(line, "bad_time", f"{name!r} is neither a date with a time nor a number")
    number = seconds(line, name, given, PER_SECOND["ns"] if name in _NANOS else options.per_second("s"))
    shown = None if name in _NANOS or options.time_unit is not None else epoch_seconds(given)
    return number if shown is None else shown


def _session(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    context = span.get("context")  # where Python's console exporter has the trace
    places = [attributes.get(name) for name in _SESSIONS]
    places += [source.get(name) for source in (span, context) if isinstance(source, dict) for name in _SESSION_FIELDS]
    return next((str(one) for one in places if type(one) in (str, int) and one != ""), None)


FORMATS = (Format("otel", _looks_like, _read, time_unit=None),)
