"""What is every benchmark of load asked, and how does it end?"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def parser(description: str) -> argparse.ArgumentParser:
    """Return what all of them are asked. SIGTERM ends what a benchmark has started, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--peers", type=Path, metavar="DIR", help="with an environment for each peer; none: no peers")
    made.add_argument("--only", nargs="+", default=[], metavar="NAME", help="of the first column")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--inputs", type=Path, default=Path(tempfile.gettempdir()) / "load-inputs", metavar="DIR")
    return made


def end(missed: Sequence[str]) -> NoReturn:
    """Say which goals were missed, and end with 1 when there are any."""
    print()
    for goal in missed:
        print(f"MISSED: {goal}")
    sys.exit(bool(missed))
