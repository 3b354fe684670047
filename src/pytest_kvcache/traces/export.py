"""What of a trace may leave the house? Lengths, times and salted digests of its blocks: no text, no name of its own.

The form is that of kvcache.ai's simulator, which others read too: JSONL with the block size in each row. Ids are prefix
hashes, each for its block and all before it, so a cache makes of the export exactly what it makes of the trace.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

from ..errors import TraceError
from ..rows import Row
from .digests import chained, key_of, name_of


class Exported(Protocol):
    """What is exported: rows that can be read twice."""

    @property
    def block_size(self) -> int | None:
        """Tokens of a block; None where no row has ids."""

    @property
    def files(self) -> tuple[Path, ...]:
        """What it was read from."""

    def __iter__(self) -> Iterator[Row]:
        """Return its rows."""


def export(trace: Exported, path: str | Path, *, salt: str | None = None) -> None:
    """Write a trace without anything that tells what was asked, or by whom.

    A row has ``block_size``, ``timestamp`` (ms since the first request), ``input_length``, ``output_length``,
    ``hash_ids``, and where the trace tells them ``block_tokens``, ``session_id``, ``tenant``, ``delay`` (ms) and
    ``cached_tokens``. Ids, sessions and tenants are keyed digests (BLAKE2b), which nobody can guess back without the
    salt. Lengths and times are as they were.

    Args:
        trace: to be written; read twice.
        path: of the file, which appears whole or not at all; gzip when its name ends in ``.gz``. The same trace and
            salt give the same bytes.
        salt: a secret, long and hard to guess; exports with the same one can be joined. None: a random one, which is
            kept nowhere.

    Raises:
        TraceError: the file is one that the trace was read from, or cannot be written; the salt is no text, or empty.
    """
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise TraceError("export: salt= is no text, or an empty one; expected a long secret, or None for a random one")
    target = Path(path).expanduser()
    for source in trace.files:
        if target.exists() and source.exists() and target.samefile(source):
            raise TraceError(f"{target}: the trace is read from this file; export it to another one")
    key = key_of(secrets.token_bytes(32) if salt is None else salt)
    start = min((row.time for row in trace if row.time is not None), default=0.0)
    _write(target, (_exported(row, start, trace.block_size, key) for row in trace))


def _exported(row: Row, start: float, block_size: int | None, key: bytes) -> dict[str, Any]:
    scope = b"" if row.scope is None else repr(row.scope).encode("utf-8", "backslashreplace")
    parts = (number.to_bytes(8, "little", signed=True) for number in row.ids)
    told = {
        "block_size": block_size,
        "timestamp": None if row.time is None else _milliseconds(row.time - start),
        "input_length": row.input_length,
        "output_length": row.output_length,
        "hash_ids": None if block_size is None else list(chained(parts, key=key, start=scope)),
        "block_tokens": None if row.weights is None else list(row.weights),
        "session_id": None if row.session is None else name_of("session", row.session, key),
        "tenant": None if row.tenant is None else name_of("tenant", row.tenant, key),
        "delay": None if row.delay is None else _milliseconds(row.delay),
        "cached_tokens": row.cached,
    }
    return {name: value for name, value in told.items() if value is not None}


def _milliseconds(seconds: float) -> float:
    """Return milliseconds to the microsecond, which is what floats of today's dates hold."""
    made = round(seconds * 1000, 3)
    return int(made) if made.is_integer() else made


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write lines to a file of another name, and give it its own when it is whole."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with ExitStack() as opened:
            file: Any = opened.enter_context(part.open("xb"))
            if path.name.endswith(".gz"):
                file = opened.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))  # no name, no date
            for row in rows:
                file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        part.replace(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            part.unlink()
