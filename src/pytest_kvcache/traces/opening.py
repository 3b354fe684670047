"""A trace from a file: what is asked for, checked and put together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from ..errors import TraceError
from .detect import detected, named
from .formats import PER_SECOND, Format, Options
from .lines import MAX_LINE, Lines
from .notes import Notes
from .reading import Files
from .sources import Given, Source, many, sources, title
from .trace import Ids, Order, Trace

TimeUnit = Literal["s", "ms", "us", "ns"]


def open_trace(
    path: Given,
    *,
    block_size: int | None = None,
    time_unit: TimeUnit | None = None,
    ids: Ids | None = None,
    order: Order | None = None,
    strict: bool = True,
    format: str = "auto",
    tokenizer: str | None = None,
    model: str | Path | None = None,
    kv_dtype: str | None = None,
    kv_bytes_per_token: float | None = None,
    max_line: int = MAX_LINE,
    subagent_time: Literal["relative", "absolute"] | None = None,
    usage_prompt: Literal["total", "uncached"] | None = None,
    usage_absent: Literal["zero", "unknown"] | None = None,
) -> Trace:
    """Read and check a trace.

    What a file does not say is asked for, never guessed: a wrong block size or clock gives numbers that look right.

    Args:
        path: a file, plain or gzip whatever its name; ``-`` for standard input; a pipe; a folder, or a list of files,
            of one form.
        block_size: tokens of a block, where rows do not say it.
        time_unit: of the file's clock, where it is not the form's.
        ids: ``prefix``: an id means all of the prompt up to it, and one behind two different ids is an error;
            ``content``, or None: it means its block, and what it means for a cache depends on the ids before it.
        order: ``time``: by time, rows of equal time as in the file; all rows are held in memory. ``file``, or None:
            as in the file.
        strict: what is wrong with a row is an error. False: it is left out and counted, ids past its end are cut off,
            and a file whose gzip data are cut is read up to there.
        format: the form, where its first line does not show it.
        tokenizer: for forms that carry text.
        model: its ``config.json`` or folder, for budgets in GiB.
        kv_dtype: of its KV cache, where it is not the model's.
        kv_bytes_per_token: bytes of KV cache per token, instead of ``model``.
        max_line: bytes of the longest line.
        subagent_time: ``relative`` or ``absolute``: what the clock of a sub-agent counts from.
        usage_prompt: ``total`` or ``uncached``: whether recorded prompt tokens are all, or leave cached ones out.
        usage_absent: ``zero`` or ``unknown``: what it means that no cached tokens were recorded.

    Raises:
        TraceError: the file cannot be read, its form is not known, a row does not fit what is known, or an argument is
            wrong; names file and line, and shows no text of the file.
    """
    _check(block_size, kv_bytes_per_token, max_line)
    choices: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "time_unit": (time_unit, tuple(PER_SECOND)),
        "ids": (ids, ("prefix", "content")),
        "order": (order, ("file", "time")),
        "subagent_time": (subagent_time, ("relative", "absolute")),
        "usage_prompt": (usage_prompt, ("total", "uncached")),
        "usage_absent": (usage_absent, ("zero", "unknown")),
    }
    for name, (value, allowed) in choices.items():
        if value is not None and value not in allowed:
            raise TraceError(f"{name}={value!r}: expected {' or '.join(map(repr, allowed))}")
    asked = named(format)
    found, others = sources(path)
    notes = Notes()
    if others:
        notes.add("other_files", None, f"not read: {many(len(others), 'other file')} of the folder", count=len(others))
    name = title(path)
    options = Options(
        block_size=block_size,
        time_unit=time_unit,
        ids=ids,
        strict=strict,
        tokenizer=tokenizer,
        name=name,
        subagent_time=subagent_time,
        usage_prompt=usage_prompt,
        usage_absent=usage_absent,
    )
    form = asked or _form(found, max_line=max_line, strict=strict)
    return Trace(
        Files(found, form, options, max_line),
        name=name,
        format=form.name,
        block_size=block_size,
        stated=form.block_size,
        bytes_per_token=_bytes(model, kv_dtype, kv_bytes_per_token),
        ids=ids,
        order=order,
        strict=strict,
        notes=notes.all(),
    )


def _form(found: tuple[Source, ...], *, max_line: int, strict: bool) -> Format:
    """Return the form of files, which have to have the same."""
    first: Format | None = None
    for source in found:
        form = detected(Lines(source.path, source.name, max_line=max_line, strict=strict))
        if first is not None and form.name != first.name:
            raise TraceError(
                f"{source.name} is {form.name}, and {found[0].name} {first.name}: the files of a trace have one form;"
                " read them apart, or say format="
            )
        first = form
    assert first is not None  # there is a file at least
    return first


def _check(block_size: object, kv_bytes_per_token: object, max_line: object) -> None:
    for name, value in (("block_size", block_size), ("max_line", max_line)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise TraceError(f"{name}={value!r}: expected a whole number of at least 1")
    size = kv_bytes_per_token
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < math.inf:
        raise TraceError(f"kv_bytes_per_token={size!r}: expected a number above 0")


def _bytes(model: str | Path | None, kv_dtype: str | None, kv_bytes_per_token: float | None) -> float | None:
    if model is None:
        if kv_dtype is not None:
            raise TraceError(f"kv_dtype={kv_dtype!r} says how a model's KV cache is kept, and model= is not given")
        return kv_bytes_per_token
    if kv_bytes_per_token is not None:
        raise TraceError("model= and kv_bytes_per_token= both say what a token takes; expected one of them")
    from ..capacity.kv_size import kv_size

    return kv_size(model, kv_dtype).bytes_per_token
