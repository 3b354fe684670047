"""What does a command cost: CPU seconds and peak memory of a process and of all that it waited for?"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from typing import NamedTuple


class Spent(NamedTuple):
    """CPU seconds (user and system), peak resident MiB of its largest process, and what it printed."""

    cpu: float
    peak_mib: float
    printed: str


def spent(command: Sequence[str]) -> Spent:
    """Run a command to its end.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # else it would be waited for again
        out.seek(0)
        err.seek(0)
        if process.returncode:
            said = err.read()[-2000:].decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said}")
        return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode())


def three(values: Sequence[float], digits: int = 2) -> str:
    """Smallest / median / largest."""
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
