"""The simulated engine as a child process that never outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from ..errors import EndpointError

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_READY = "listening on "


class SimProcess:
    """A running simulated engine. Use it as a context manager, or call :meth:`start` and :meth:`stop`.

    Args:
        arguments: command-line options of ``python -m pytest_kvcache.simulate``.

    Attributes:
        url: base URL, once started.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed in stop()
        self.url = ""

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> SimProcess:
        """Start the process and wait until it listens.

        Raises:
            EndpointError: it ended or said nothing within 30 s; shows the end of its error output.
        """
        package_root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest_kvcache.simulate", "--exit-with-parent", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # a Ctrl-C in the terminal is for pytest; it stops this process in its own time
        )
        line = self._first_line(self._process)
        if not line.startswith(_READY):
            self._process.kill()
            self._process.wait()
            self._log.seek(0)
            said = " ".join(self._log.read()[-500:].split())
            self.stop()
            raise EndpointError(
                f"the simulated engine did not start within {_START_SECONDS:g} s; it said: {said or line!r}"
            )
        self.url = line.removeprefix(_READY).strip()
        return self

    def stop(self) -> None:
        """End the process; closing its standard input is enough, the rest is for one that hangs."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._log.close()

    @staticmethod
    def _first_line(process: subprocess.Popen[str]) -> str:
        found: list[str] = []

        def read() -> None:
            if process.stdout is not None:
                found.append(process.stdout.readline())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(_START_SECONDS)
        return found[0] if found else ""

    def __enter__(self) -> SimProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
