"""What does a command use, and when? CPU seconds of it and of all that it starts, over time, and its memory.

Linux only: it reads each process's CPU clock and ``/proc``.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_EVERY = 0.01  # seconds between two looks at the clocks
_PROCESSES = 0.1  # seconds between two looks which processes there are, and at their memory
_PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20


class Watched(NamedTuple):
    """What a command used.

    Attributes:
        launched: monotonic seconds.
        wall: seconds until it had ended.
        cpu: seconds, user and system, of it and of all that it started.
        peak_mib: most resident memory, the sum over its processes; pages that they share count for each.
        times / clocks: monotonic seconds, and its CPU seconds so far.
    """

    launched: float
    wall: float
    cpu: float
    peak_mib: float
    times: list[float]
    clocks: list[float]

    def cpu_until(self, moment: float) -> float:
        """CPU seconds so far at a moment, between two looks in proportion."""
        after = bisect_right(self.times, moment)
        if after == 0:
            return 0.0
        if after == len(self.times):
            return self.clocks[-1]
        start, end = self.times[after - 1 : after + 1]
        low, high = self.clocks[after - 1 : after + 1]
        return low + (high - low) * (moment - start) / (end - start)


def watched(
    command: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None, folder: Path, limit: float = 900
) -> Watched:
    """Run a command to its end in a folder.

    Args:
        command: its words.
        log: gets what it prints.
        environment: added to ours.
        folder: its working directory.
        limit: seconds after which it is ended.

    Raises:
        SystemExit: it failed or took too long; with the end of what it said.
    """
    with log.open("wb") as out:
        launched = time.monotonic()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            preexec_fn=os.setpgrp,
        )
        try:
            times, clocks, peak, status, used = _until_ended(process.pid, launched + limit)
        except BaseException:  # interrupted, or too late
            os.killpg(process.pid, signal.SIGKILL)
            raise
    wall = time.monotonic() - launched
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        said = log.read_text(errors="replace")[-3000:]
        raise SystemExit(f"{' '.join(command)}\nended with {process.returncode}: {said}")
    waited = used.ru_utime + used.ru_stime
    times.append(launched + wall)
    clocks.append(max(waited, clocks[-1]))
    return Watched(launched, wall, clocks[-1], max(peak, used.ru_maxrss / 1024), times, clocks)


def _until_ended(pid: int, deadline: float) -> tuple[list[float], list[float], float, int, resource.struct_rusage]:
    """Return moments, CPU seconds at each, peak MiB, and what wait4 tells."""
    family = _Family(pid)
    times: list[float] = []
    clocks: list[float] = []
    peak = look = 0.0
    while (now := time.monotonic()) < deadline:
        if now >= look:
            peak = max(peak, family.look())
            look = now + _PROCESSES
        times.append(now)
        clocks.append(family.cpu())
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return times, clocks, peak, status, used
        time.sleep(_EVERY)
    raise SystemExit(f"process {pid} had not ended in its time")


class _Family:
    """A process and its descendants. One that was seen stays one of them when its parent ends."""

    def __init__(self, pid: int) -> None:
        self._used = {pid: 0.0}  # CPU seconds when it was last seen, the ended ones included
        self._alive = {pid}

    def look(self) -> float:
        """Find those that are new; return MiB of all."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (fields := _read(entry / "stat").rpartition(") ")[2].split()):
                parents[int(entry.name)] = int(fields[1])
        self._alive &= parents.keys()
        found = True
        while found:
            found = {pid for pid, parent in parents.items() if parent in self._alive and pid not in self._alive}
            self._alive |= found
        pages = (_read(Path(f"/proc/{pid}/statm")).split() for pid in self._alive)
        return sum(int(counts[1]) for counts in pages if counts) * _PAGE

    def cpu(self) -> float:
        for pid in self._alive:
            with suppress(OSError):  # it has ended
                self._used[pid] = time.clock_gettime((~pid << 3) | 2)  # the CPU clock of a whole process
        return sum(self._used.values())


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # it has ended
        return ""
