"""What ``python -m pytest_kvcache`` is asked, and what it answers: lines, files, and an exit code.

0: nothing got worse; 1: something did; 2: it was asked in the wrong way, or a file is none of ours; 3: it cannot be
told.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .errors import ConfigurationError
from .regression import compare, documents
from .regression.asked import Asked, asked, circumstances
from .regression.context import NAMES
from .regression.metrics import METRICS
from .report import files, html, side_by_side
from .report.text import fitting, visible

EXIT = {"pass": 0, "fail": 1, "inconclusive": 3}

_WHAT = """\
What got worse is told by limits: --hit-rate=-0.02 (it may fall by two points), --ttft-p95=+10% (it may rise by a
tenth of what it was), --ttft-p95=0.05 (by 50 ms), --output-tok-s=-5%. Without any the hit rate must not fall at all.
Times are noisy: a test over repeated runs tells a change from chance, from 5 runs on each side on."""
_CODES = "exit codes: 0 nothing got worse, 1 something did, 2 usage, 3 it cannot be told"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit code.

    Raises:
        SystemExit: with code 2, when it says nothing that can be done.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        return _compare(given)
    except ConfigurationError as error:
        _refuse(parser, str(error))
    except OSError as error:
        _refuse(parser, f"{error.filename} cannot be written ({error.strerror})")


def _refuse(parser: argparse.ArgumentParser, why: str) -> NoReturn:
    parser.exit(2, fitting(f"{parser.prog}: {visible(why)}\n", sys.stderr.encoding))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m pytest_kvcache", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "compare",
        help="two documents of --kv-report side by side",
        usage="python -m pytest_kvcache compare [options] OLD.json NEW.json",
        description=_WHAT,
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    one.add_argument("old", type=Path, metavar="OLD.json", help="what --kv-report wrote before")
    one.add_argument("new", type=Path, metavar="NEW.json", help="what it wrote now")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    one.add_argument("--html", type=Path, metavar="FILE", help="write it as a page (needs pytest-kvcache[report])")
    one.add_argument(
        "--allow-change",
        action="append",
        default=[],
        metavar="NAME",
        help=f"compare although this is another one: {', '.join(NAMES)}; repeatable",
    )
    limits = one.add_argument_group("limits", "how much worse each may be")
    for name, metric in METRICS.items():
        limits.add_argument(f"--{name.replace('_', '-')}", dest=f"limit_{name}", metavar="CHANGE", help=metric.title)
    return parser


def _compare(given: argparse.Namespace) -> int:
    named = {name: value for name in METRICS if (value := getattr(given, f"limit_{name}")) is not None}
    wanted = _asked(named, given.allow_change)
    old, new = documents.read_document(given.old), documents.read_document(given.new)
    found = compare.side_by_side(wanted, old, new, given=named)
    if given.json is not None:
        files.write(given.json, json.dumps(found, indent=2, allow_nan=False) + "\n")
    if given.html is not None:
        _page(given.html, found)
    text = "\n".join(side_by_side.lines(found)) + "\n"
    sys.stdout.write(fitting(text, sys.stdout.encoding))
    return EXIT[found["verdict"]]


def _asked(named: Mapping[str, str], allow: Sequence[str]) -> Asked:
    try:
        return asked(named, circumstances(allow))
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; see compare --help") from None


def _page(path: Path, found: Mapping[str, Any]) -> None:
    try:
        from .report.compare_page import page
    except ImportError as error:
        raise ConfigurationError(f"--html needs {error.name}: {html.INSTALL}") from None
    files.write(path, page(found))
