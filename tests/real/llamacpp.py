"""A real llama.cpp server on 127.0.0.1 for the time of a ``with`` block. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .server import SERVED_NAME, Server

BINARY_VARIABLE = "PYTEST_KV_LLAMA_SERVER"

# Two slots of 8192 tokens, on two cores. Without --metrics the page answers 501.
SMALL_ARGUMENTS = ("-c", "16384", "-np", "2", "-t", "2", "--metrics", "--slots")


class LlamaServer(Server):
    """``llama-server -m MODEL``; it is up in a tenth of a second, so that a test may have one of its own.

    ``arguments`` are added to, and win over, the small settings above.
    """

    title = "llama-server"

    def __init__(self, binary: Path, model: Path, log: Path, arguments: Sequence[str] = ()) -> None:
        super().__init__(log)
        self.binary = binary
        self.model = model
        self.arguments = tuple(arguments)

    def command(self) -> list[str]:
        return [
            str(self.binary),
            *("-m", str(self.model), "--alias", SERVED_NAME),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *SMALL_ARGUMENTS,
            *self.arguments,
        ]
