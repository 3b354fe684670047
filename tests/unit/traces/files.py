"""Traces as files, for tests."""

from __future__ import annotations

import gzip
import json
from array import array
from pathlib import Path
from typing import Any

from pytest_kvcache.rows import Row

DATA = Path(__file__).parents[2] / "data" / "traces"


def jsonl(path: Path, *rows: dict[str, Any] | str) -> Path:
    """Write rows, or lines as they are, to a file; gzipped when its name says so."""
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def row(line: int, length: int, *ids: int, **more: Any) -> Row:
    """Return a row with these ids, at time 0 unless told."""
    return Row(line, length, array("q", ids), **{"time": 0.0, **more})


def mooncake(length: int, *ids: int, time: float = 0, output: int = 1, **more: Any) -> dict[str, Any]:
    """Return a row of Mooncake's form."""
    return {"timestamp": time, "input_length": length, "output_length": output, "hash_ids": list(ids), **more}
