"""What did each client note of each request? Its time to first token and its mean time between tokens, in its files."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Timed(NamedTuple):
    """What a client says of one request.

    Attributes:
        key: ``r<number>``, which its answer began with, or the ``X-Request-Id`` that it sent.
        ttft: seconds.
        itl: seconds, the mean over its tokens but the first; None: it does not tell.
    """

    key: str
    ttft: float
    itl: float | None


def _floor(folder: Path) -> Iterator[Timed]:
    for line in (folder / "stamps.jsonl").read_text().splitlines():
        number, sent, stamps = json.loads(line)
        yield Timed(f"r{number}", stamps[0] - sent, (stamps[-1] - stamps[0]) / (len(stamps) - 1))


def _ours(folder: Path) -> Iterator[Timed]:
    for row in json.loads((folder / "timed.json").read_text()):
        yield Timed(*row)


def _vllm(folder: Path) -> Iterator[Timed]:
    said = json.loads((folder / "result.json").read_text())
    for text, ttft, gaps in zip(said["generated_texts"], said["ttfts"], said["itls"], strict=True):
        yield Timed(_first(text), ttft, statistics.fmean(gaps))


def _evalscope(folder: Path) -> Iterator[Timed]:
    (file,) = folder.glob("outputs/**/benchmark_data.db")
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT response_messages, first_chunk_latency, inter_token_latencies FROM result")
        for answer, ttft, gaps in rows:
            number = re.search(rb"\x8c.(r\d+)\x94", base64.b64decode(answer))  # in a pickle, which is not opened
            assert number is not None
            yield Timed(number[1].decode(), ttft, statistics.fmean(json.loads(gaps)))


def _guidellm(folder: Path) -> Iterator[Timed]:
    said = json.loads((folder / "result.json").read_text())
    for row in said["benchmarks"][0]["requests"]["successful"]:
        yield Timed(_first(row["output"]), row["time_to_first_token_ms"] / 1e3, row["inter_token_latency_ms"] / 1e3)


def _aiperf(folder: Path) -> Iterator[Timed]:
    for line in (folder / "result" / "profile_export.jsonl").read_text().splitlines():
        row = json.loads(line)
        ttft, itl = (row["metrics"][name]["value"] / 1e3 for name in ("time_to_first_token", "inter_token_latency"))
        yield Timed(row["metadata"]["x_request_id"], ttft, itl)


def _inference_perf(folder: Path) -> Iterator[Timed]:
    (file,) = folder.glob("result/**/per_request_lifecycle_metrics.json")
    for row in json.loads(file.read_text()):
        times = row["info"]["response_metrics"]["chunk_times"]  # its own figure spreads a chunk over tokens of its text
        number = re.search(r'"text":\s*"(r\d+)"', row["response"])
        assert number is not None
        yield Timed(number[1], times[0] - row["start_time"], (times[-1] - times[0]) / (len(times) - 1))


def _first(text: str) -> str:
    return text.split(maxsplit=1)[0]


TIMED: dict[str, Callable[[Path], Iterator[Timed]]] = {
    "floor": _floor,
    "floor, clock at the socket": _floor,
    "pytest-kvcache": _ours,
    "vllm bench serve": _vllm,
    "evalscope": _evalscope,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
    "inference-perf": _inference_perf,
}
