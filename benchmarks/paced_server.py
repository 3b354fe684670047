"""A server with a known schedule that notes what really happened: when a request was there, when each event left.

    with Paced() as server:
        ...  # POST to server.url + "/v1/chat/completions"
    server.served  # what it noted, by request number

Plain sockets and selectors in a process of its own; it shares no code with the client that is measured. A request is
there when the poll that completed it returned. Headers leave at once, the role and the first content ``first`` seconds
after the request, one content event each ``each`` seconds after that, every one its own HTTP chunk; usage and [DONE]
come with the last. Stamps are CLOCK_MONOTONIC, taken right before the event is handed to the socket, so that being late
against its own schedule is not held against a client. The text of the first content is ``r<number>``, by which a record
of any client is matched to the request.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from load_stream import MODELS, PATHS, stream

_PAGES = {"/v1/models": MODELS, "/health": b"{}"}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
_STREAM = _HEAD % b"text/event-stream; charset=utf-8" + b"Transfer-Encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_REQUEST_ID = re.compile(rb"\r\nx-request-id:[ \t]*([^\r\n]+)", re.IGNORECASE)


class Served(NamedTuple):
    """What really happened to a request.

    Attributes:
        number: the text of its first content is ``r<number>``.
        request_id: its ``X-Request-Id``, or an empty string.
        received: when the poll that completed it returned.
        sent: when each content event left.
    """

    number: int
    request_id: str
    received: float
    sent: list[float]


class _Connection:
    """Bytes of the request that is not complete yet, and of answers that the socket did not take yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.got = bytearray()
        self.left = bytearray()


class _Answer(NamedTuple):
    connection: _Connection
    served: Served
    chunks: list[bytes]
    start: float


class _Server:
    def __init__(self, first: float, each: float, events: int) -> None:
        self._first, self._each = first, each
        self._templates = {chat: self._chunks(events, chat) for chat in PATHS.values()}
        self._polled = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self._listener.setblocking(False)
        self._polled.register(self._listener, selectors.EVENT_READ)
        self._due: list[tuple[float, int, int, _Answer]] = []  # when, tie break, which event
        self._numbers, self._ties = count(1), count()
        self.port: int = self._listener.getsockname()[1]
        self.served: list[Served] = []
        self.stop = False

    @staticmethod
    def _chunks(events: int, chat: bool) -> list[bytes]:
        answer = stream(events, 2048, chat=chat, finish_apart=False)
        parts = [answer.first, *answer.rest]
        parts[-1] += answer.end
        return parts

    def run(self) -> None:
        while not self.stop:
            wait = max(0.0, self._due[0][0] - monotonic()) if self._due else 0.1
            ready = self._polled.select(wait)
            returned = monotonic()
            for key, events in ready:
                if key.data is None:
                    self._accept()
                else:
                    self._serve(key.data, events, returned)
            self._send_due()

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._polled.register(sock, selectors.EVENT_READ, _Connection(sock))

    def _serve(self, connection: _Connection, events: int, returned: float) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._write(connection, b"")
            if not events & selectors.EVENT_READ:
                return
            data = connection.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.got += data
        while (end := self._complete(connection.got)) is not None:
            request = bytes(connection.got[:end])
            del connection.got[:end]
            self._answer(connection, request, returned)

    @staticmethod
    def _complete(got: bytearray) -> int | None:
        """Where the first request in it ends; None: it is not all there."""
        head = got.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = _LENGTH.search(got, 0, head + 2)
        end = head + 4 + (int(length[1]) if length else 0)
        return end if len(got) >= end else None

    def _answer(self, connection: _Connection, request: bytes, returned: float) -> None:
        method, path, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
        chat = PATHS.get(path.split("?")[0])
        if method != "POST" or chat is None:
            found = method == "GET" and path in _PAGES
            body = _PAGES[path] if found else b'{"error":{"message":"no such route"}}'
            head = _HEAD if found else _HEAD.replace(b"200 OK", b"404 Not Found")
            self._write(connection, head % b"application/json" + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            return
        request_id = _REQUEST_ID.search(request, 0, request.find(b"\r\n\r\n") + 2)
        number = next(self._numbers)
        served = Served(number, request_id[1].decode().strip() if request_id else "", returned, [])
        self.served.append(served)
        self._write(connection, _STREAM)
        answer = _Answer(connection, served, self._templates[chat], returned + self._first)
        heapq.heappush(self._due, (answer.start, next(self._ties), 0, answer))

    def _send_due(self) -> None:
        due = self._due
        while due and due[0][0] <= monotonic():
            _, _, place, answer = heapq.heappop(due)
            connection, chunks = answer.connection, answer.chunks
            chunk = chunks[place]
            if place == 0:
                chunk = chunk.replace(b'"r0"', b'"r%d"' % answer.served.number)
            last = place == len(chunks) - 1
            data = b"%x\r\n%s\r\n%s" % (len(chunk), chunk, b"0\r\n\r\n" if last else b"")
            answer.served.sent.append(monotonic())
            self._write(connection, data)
            if not last and connection.sock.fileno() >= 0:
                when = answer.start + (place + 1) * self._each
                heapq.heappush(due, (when, next(self._ties), place + 1, answer))

    def _write(self, connection: _Connection, data: bytes) -> None:
        if connection.sock.fileno() < 0:
            return
        waiting = bool(connection.left)
        connection.left += data
        try:
            sent = connection.sock.send(connection.left)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        del connection.left[:sent]
        if waiting != bool(connection.left):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.left else 0)
            self._polled.modify(connection.sock, events, connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.sock.fileno() >= 0:
            self._polled.unregister(connection.sock)
            connection.sock.close()


class Paced:
    """The server's process while the block lasts.

    Args:
        first: seconds from the complete request to the first content.
        each: seconds between content events.
        events: content events of each answer.
    """

    def __init__(self, first: float = 0.2, each: float = 0.02, events: int = 64) -> None:
        self._asked = [str(first), str(each), str(events)]
        self.events = events
        self.served: list[Served] = []

    def __enter__(self) -> Paced:
        self._held = tempfile.TemporaryDirectory(prefix="paced-")
        self._notes = Path(self._held.name) / "served.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, __file__, *self._asked, str(self._notes)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline()
        if not port:
            raise SystemExit("the paced server did not start; its error is above")
        self.url = f"http://127.0.0.1:{int(port)}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self.served = [Served(*json.loads(line)) for line in self._notes.read_text().splitlines()]
        self._held.cleanup()

    def began(self, requests: int) -> float:
        """When the first of the last so many requests was there."""
        return min(served.received for served in self.served[-requests:])

    @property
    def answered(self) -> list[float]:
        """When the last event of each complete answer left."""
        return sorted(served.sent[-1] for served in self.served if len(served.sent) == self.events)


def main() -> None:
    parser = argparse.ArgumentParser(description="A server that keeps to a schedule until it is terminated.")
    parser.add_argument("first", type=float)
    parser.add_argument("each", type=float)
    parser.add_argument("events", type=int)
    parser.add_argument("notes", type=Path, help="gets a JSON line for each request when it ends")
    asked = parser.parse_args()

    server = _Server(asked.first, asked.each, asked.events)

    def stop(*_: object) -> None:
        server.stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(server.port, flush=True)
    server.run()
    asked.notes.write_text("".join(json.dumps(served) + "\n" for served in server.served))


if __name__ == "__main__":
    main()
