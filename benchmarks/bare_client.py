"""The floor: what does it cost to send requests with aiohttp and to stamp each piece of content, and nothing else?

    python bare_client.py URL PROMPTS --requests N --concurrency N [--clock sent|post] [--keep] [--out FILE]

PROMPTS has one JSON string a line; they are taken in turn. Events are found by their bytes, none is parsed: those of a
piece are counted in one go, or, with ``--keep``, looked at one after the other, and the one that tells usage is parsed.
The clock starts when aiohttp has handed the body to the socket (its trace hook), or before ``session.post``, as most
clients do. FILE gets a JSON line for each request: its number ``r<number>`` from the first content, start, and content
stamps.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import aiohttp
from load_stream import MODEL

CONTENT, EMPTY, _QUOTE = b'"content":"', b'"content":""', ord('"')


def bodies(prompts: Path, requests: int) -> Iterator[bytes]:
    """Yield request bodies that were made once for each prompt."""
    asked = {"model": MODEL, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 128}
    made = []
    for line in prompts.read_text(encoding="utf-8").splitlines():
        messages = [{"role": "user", "content": json.loads(line)}]
        made.append(json.dumps({**asked, "messages": messages}, separators=(",", ":")).encode())
    return islice(cycle(made), requests)


def counted(piece: bytes) -> int:
    """How many events with content are in a piece."""
    return piece.count(CONTENT) - piece.count(EMPTY)


def reading(usages: list[Any]) -> Callable[[bytes], int]:
    """Return a function that does the same by a look at every event, and adds the usage that one of them tells."""

    def read(piece: bytes) -> int:
        found = 0
        for event in piece.split(b"\n\n"):
            place = event.find(CONTENT)
            if place >= 0 and event[place + len(CONTENT)] != _QUOTE:
                found += 1
            elif b'"usage":{' in event:
                usages.append(json.loads(event.removeprefix(b"data: "))["usage"])
        return found

    return read


async def one(
    session: aiohttp.ClientSession, url: str, body: bytes, events: Callable[[bytes], int] = counted
) -> tuple[float, list[float], bytes]:
    """Send a request; when its clock started, when each content event came, and what the first piece was."""
    stamp = SimpleNamespace(sent=monotonic())
    stamps: list[float] = []
    first = rest = b""
    async with session.post(url, data=body, trace_request_ctx=stamp) as response:
        async for piece in response.content.iter_any():
            at = monotonic()
            if rest:
                piece = rest + piece
            end = piece.rfind(b"\n\n") + 2
            if end < len(piece):  # an event is not complete yet, or none
                piece, rest = (piece[:end], piece[end:]) if end > 1 else (b"", piece)
            else:
                rest = b""
            found = events(piece)
            if found:
                first = first or piece[:1024]
                stamps.extend([at] * found)
    return stamp.sent, stamps, first


async def all_of(asked: argparse.Namespace) -> list[tuple[float, list[float], bytes]]:
    trace = aiohttp.TraceConfig()

    async def stamp_sent(_session: object, context: Any, _params: object) -> None:
        context.trace_request_ctx.sent = monotonic()

    if asked.clock == "sent":
        trace.on_request_chunk_sent.append(stamp_sent)
    url = f"{asked.url}/v1/chat/completions"
    waiting = bodies(asked.prompts, asked.requests)
    usages: list[Any] = []
    events = reading(usages) if asked.keep else counted
    done = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Content-Type": "application/json"},
        read_bufsize=1 << 16,
        trace_configs=[trace] if asked.clock == "sent" else [],
    ) as session:

        async def worker() -> None:  # ends when none is waiting
            done.extend([await one(session, url, body, events) for body in waiting])

        await asyncio.gather(*(worker() for _ in range(asked.concurrency)))
    if asked.keep and len(usages) != len(done):
        raise SystemExit(f"{len(usages)} of {len(done)} answers told their usage")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description="The floor of load clients on aiohttp.")
    parser.add_argument("url")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--clock", choices=["sent", "post"], default="post")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()

    done = asyncio.run(all_of(asked))
    counts = {len(stamps) for _, stamps, _ in done}
    print(f"{len(done)} answers of {counts} content events")
    if len(counts) != 1:
        raise SystemExit("every answer has as many content events as every other; they were not all found")
    if asked.out is not None:
        with asked.out.open("w") as file:
            for sent, stamps, first in done:
                number = re.search(rb"\br(\d+)\b", first)
                assert number is not None
                file.write(json.dumps([int(number[1]), sent, stamps]) + "\n")


if __name__ == "__main__":
    main()
