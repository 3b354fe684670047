"""A session's records to one JSON document with a schema version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .plain import Record
from .sweeps import sweeps

SCHEMA = "pytest-kvcache/1"


def document(records: Iterable[Record], *, endpoint: str | None, seed: int | None, interrupted: bool) -> dict[str, Any]:
    """Return the document of a session.

    Args:
        records: one per test, in an order that does not depend on how the tests were distributed.
        endpoint: URL without user-info, or ``sim``.
        seed: None when prompts carried a fresh nonce.
        interrupted: the session was stopped before its end.
    """
    checks = list(records)
    return {
        "schema": SCHEMA,
        "endpoint": endpoint,
        "seed": seed,
        "interrupted": interrupted,
        "checks": checks,
        "sweeps": sweeps(checks),
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a document; a reader never sees half of one.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=True, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)
