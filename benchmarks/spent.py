"""What does a command cost: CPU seconds and peak memory of a process and of all that it waited for?"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

_LAUNCH = """
import os, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
told = f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime} {used.ru_maxrss}"
os.write(int(sys.argv[1]), told.encode())
"""
"""A small process in between: the peak of a process is at least that of the one it was started by."""


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
    read, write = os.pipe()
    with os.fdopen(read) as told, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(write), *command]
        subprocess.run(launch, stdout=out, stderr=err, pass_fds=[write], check=False)
        os.close(write)
        code, cpu, peak = (told.read() or "1 0 0").split()
        out.seek(0)
        err.seek(0)
        if code != "0":
            said = err.read()[-2000:].decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {code}: {said}")
        return Spent(float(cpu), int(peak) / 1024, out.read().decode())


def three(values: Sequence[float], digits: int = 2) -> str:
    """Smallest / median / largest."""
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
