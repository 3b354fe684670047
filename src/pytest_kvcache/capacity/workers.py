"""Parts of a task in processes of their own, of which none outlives this one.

A child is a plain interpreter that is told by its standard input what to do, so it works from a script without a guard,
in a thread and under any start method of ``multiprocessing``; a fork would copy locks that other threads hold. It ends
when its input does: with the task, or with this process however that ended.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ..errors import TraceError

T = TypeVar("T")
R = TypeVar("R")

_CHILD = (
    "import sys; sys.path = [path for path in sys.path if path] + [sys.argv[1]]; "  # no module of the working folder
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "  # it is for the parent to say
    "from pytest_kvcache.capacity.workers import main; main()"
)
_HOME = str(Path(__file__).parents[2])


def shared(function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """Return ``function(task)`` of each task: the first one is done here, each other one in a process if one can start.

    Args:
        function: of a module of this package, with what it needs in its argument.
        tasks: what can be pickled.

    Raises:
        TraceError: a process ended without a result; what the function raises is raised here.
    """
    children: list[subprocess.Popen[bytes]] = []
    try:
        for task in tasks[1:]:
            try:
                children.append(_start())
            except OSError:  # no more processes here
                break
            _tell(children[-1], function, task)
        first, *rest = map(function, [tasks[0], *tasks[1 + len(children) :]])
        return [first, *map(_result, children), *rest]
    finally:
        for child in children:
            child.kill()
        for child in children:
            with suppress(OSError), child:  # closes its pipes, and waits; what it was not told can be told no more
                pass


def can_start() -> bool:
    """Whether there is an interpreter to start: not in a program that was frozen into one file."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def main() -> None:
    """Do what the standard input says, and write what came of it to the standard output."""
    function, task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = (True, function(task))
    except Exception as error:  # whatever it is, it is the caller's
        answer = (False, error)
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


def _start() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-S", "-c", _CHILD, _HOME], stdin=pipe, stdout=pipe)


def _tell(child: subprocess.Popen[bytes], function: Callable[[T], object], task: T) -> None:
    assert child.stdin is not None  # it is a pipe
    try:
        pickle.dump((function, task), child.stdin, pickle.HIGHEST_PROTOCOL)
        child.stdin.flush()
    except OSError:  # it ended
        raise _ended(child) from None


def _result(child: subprocess.Popen[bytes]) -> Any:
    assert child.stdout is not None  # it is a pipe
    try:
        done, found = pickle.load(child.stdout)
    except (EOFError, pickle.UnpicklingError):
        raise _ended(child) from None
    if done:
        return found
    raise found


def _ended(child: subprocess.Popen[bytes]) -> TraceError:
    return TraceError(
        f"a process that computes a part of the sweep ended with exit code {child.wait()} and without a result; "
        "processes=1 computes everything in this one"
    )
