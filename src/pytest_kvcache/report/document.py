"""A session's records to one JSON document with a schema version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import files
from .plain import Record
from .saved import of_session
from .sweeps import sweeps

SCHEMA = "pytest-kvcache/1"


def document(
    records: Iterable[Record],
    *,
    endpoint: str | None,
    seed: int | None,
    interrupted: bool,
    curves: Iterable[Record] = (),
) -> dict[str, Any]:
    """Return the document of a session.

    Args:
        records: one per test, in an order that does not depend on how the tests were distributed.
        endpoint: URL without user-info, or ``sim``.
        seed: None when prompts carried a fresh nonce.
        interrupted: the session was stopped before its end.
        curves: of traces, in such an order, too.
    """
    checks = list(records)
    return {
        "schema": SCHEMA,
        "endpoint": endpoint,
        "seed": seed,
        "interrupted": interrupted,
        "checks": checks,
        "sweeps": sweeps(checks),
        "saved": of_session(checks),
        "curves": list(curves),
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a document; a reader never sees half of one.

    Raises:
        OSError: the folder cannot be made or written.
    """
    files.write(path, json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
