"""Which files does a session leave? Those that options name, and the summary of a job on GitHub."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..endpoint import without_userinfo

if TYPE_CHECKING:
    from ..report.record import Record
    from .settings import Settings

_SUMMARY = "GITHUB_STEP_SUMMARY"  # docs.github.com, "Adding a job summary": a file that one step may add to ...
_ROOM = 1024 * 1024  # ... up to 1 MiB; of a larger one nothing is shown


def leave(
    settings: Settings, records: Sequence[Record], *, interrupted: bool, environ: Mapping[str, str] = os.environ
) -> str:
    """Write every form of report that is wanted.

    Args:
        settings: with the paths.
        records: in the order of the report.
        interrupted: the session was stopped before its end.
        environ: where GitHub names its file.

    Returns:
        What could not be told to GitHub, one line; empty when all could. It is no reason to fail a session.

    Raises:
        pytest.UsageError: a file that an option names cannot be written.
    """
    summary = environ.get(_SUMMARY, "") if records else ""
    if settings.report is None and settings.markdown is None and not summary:
        return ""
    from ..report.document import document

    endpoint = settings.endpoint
    content = document(
        records,
        endpoint=None if endpoint is None else without_userinfo(endpoint),
        seed=settings.seed,
        interrupted=interrupted,
    )
    if settings.report is not None:
        _json(settings.report, content)
    if settings.markdown is not None:
        _markdown(settings.markdown, content)
    return _to_github(Path(summary), content) if summary else ""


def _json(path: Path, content: dict[str, Any]) -> None:
    from ..report import document

    try:
        document.write(path, content)
    except OSError as error:
        raise _unwritten("--kv-report", path, error) from None


def _markdown(path: Path, content: dict[str, Any]) -> None:
    from ..report import files, markdown

    try:
        files.write(path, markdown.joined(markdown.markdown(content)))
    except OSError as error:
        raise _unwritten("--kv-markdown", path, error) from None


def _to_github(path: Path, content: dict[str, Any]) -> str:
    from ..report import files, markdown

    try:
        before = files.size(path)
        told = markdown.joined(["\n", *markdown.markdown(content)], at_most=_ROOM - before)
        files.append(path, told)
    except (OSError, ValueError) as error:
        return f"{_SUMMARY}: {path} cannot be written ({getattr(error, 'strerror', None) or error})"
    return "" if told else f"{_SUMMARY}: {path} holds {before:,} bytes already, and GitHub shows no more than {_ROOM:,}"


def _unwritten(option: str, path: Path, error: OSError) -> pytest.UsageError:
    return pytest.UsageError(f"kvcache: {option}: {path} cannot be written ({error.strerror})")
