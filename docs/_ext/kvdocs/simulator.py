"""The command line of the simulated engine, from its parser."""

from __future__ import annotations

from argparse import ArgumentDefaultsHelpFormatter

from pytest_kvcache.simulate.__main__ import parser

WIDTH = 100


def listed() -> str:
    """Return its help."""
    made = parser()
    made.formatter_class = lambda prog: ArgumentDefaultsHelpFormatter(prog, width=WIDTH)
    return f"```text\n{made.format_help().strip()}\n```"
