"""Which files does a session leave? Those that options name, and the summary of a job on GitHub."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..endpoint import without_userinfo
from .keys import SETTINGS

if TYPE_CHECKING:
    from ..report.record import Record
    from .settings import Settings

_SUMMARY = "GITHUB_STEP_SUMMARY"  # docs.github.com, "Adding a job summary": a file that one step may add to ...
_ROOM = 1024 * 1024  # ... up to 1 MiB; of a larger one nothing is shown


@dataclass(frozen=True, slots=True)
class Left:
    """A session that has ended.

    Attributes:
        config: of the controller.
        document: what it found, the source of every form.
    """

    config: pytest.Config
    document: dict[str, Any]

    @property
    def settings(self) -> Settings:
        """What the session was asked."""
        return self.config.stash[SETTINGS]


def _json(path: Path, left: Left) -> list[str]:
    from ..report import document

    document.write(path, left.document)
    return []


def _markdown(path: Path, left: Left) -> list[str]:
    from ..report import files, markdown

    files.write(path, markdown.joined(markdown.markdown(left.document)))
    return []


def _html(path: Path, left: Left) -> list[str]:
    from ..report import files, html

    files.write(path, html.page(left.document))
    return []


def _can_make_pages() -> bool:
    from ..report import html

    return not html.missing()


def _csv(folder: Path, left: Left) -> list[str]:
    from .tables import write

    return write(folder, left)


def _reproduce(path: Path, left: Left) -> list[str]:
    from .reproducing import write

    return write(path, left)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of report.

    Attributes:
        option: that names its file or folder, as in ``Settings``.
        name: its file or folder in that of ``--kv-artifacts``.
        write: writes it, and returns what the terminal tells of it; raises OSError.
        possible: whether it can be made here; where it cannot, ``--kv-artifacts`` does without it.
    """

    option: str
    name: str
    write: Callable[[Path, Left], list[str]]
    possible: Callable[[], bool] = lambda: True


FORMS = (
    Form("report", "kvcache.json", _json),
    Form("markdown", "kvcache.md", _markdown),
    Form("html", "kvcache.html", _html, _can_make_pages),
    Form("csv", "csv", _csv),
    Form("reproduce", "reproduce.sh", _reproduce),
)


def leave(
    config: pytest.Config,
    records: Sequence[Record],
    curves: Sequence[Record] = (),
    *,
    interrupted: bool,
    environ: Mapping[str, str] = os.environ,
) -> list[str]:
    """Write every form of report that is wanted.

    Args:
        config: with the settings.
        records / curves: in the order of the report.
        interrupted: the session was stopped before its end.
        environ: where GitHub names its file.

    Returns:
        What is to be told of them, and could not be told to GitHub, which is no reason to fail a session; lines.

    Raises:
        pytest.UsageError: a file that an option names cannot be written; those that can be are.
    """
    settings = config.stash[SETTINGS]
    summary = environ.get(_SUMMARY, "") if records or curves else ""
    wanted = [(form, path) for form in FORMS if (path := place_of(form, settings)) is not None]
    if not wanted and not summary:
        return []
    from ..report.document import document

    endpoint = settings.endpoint
    content = document(
        records,
        curves=curves,
        endpoint=None if endpoint is None else without_userinfo(endpoint),
        seed=settings.seed,
        interrupted=interrupted,
    )
    left = Left(config, content)
    written = [_write(form, path, left) for form, path in wanted]
    told = [line for lines, _ in written for line in lines]
    told += [_to_github(Path(summary), content)] if summary else []
    if unwritten := [problem for _, problem in written if problem]:
        raise pytest.UsageError("\n".join(unwritten))
    return [*filter(None, told), *_left_out(settings)]


def place_of(form: Form, settings: Settings) -> Path | None:
    """Return where a form is wanted: where its option says, else in the folder of all; None: it is not."""
    path: Path | None = getattr(settings, form.option)
    if path is not None or settings.artifacts is None:
        return path
    return settings.artifacts / form.name if form.possible() else None


def _left_out(settings: Settings) -> list[str]:
    """Return what of all forms cannot be made here."""
    if settings.artifacts is None:
        return []
    from ..report.html import INSTALL

    return [f"{form.name} is left out: {INSTALL}" for form in FORMS if place_of(form, settings) is None]


def place(option: str, settings: Settings) -> Path | None:
    """Return where the form of an option is wanted; None: it is not."""
    return next(place_of(form, settings) for form in FORMS if form.option == option)


def _write(form: Form, path: Path, left: Left) -> tuple[list[str], str]:
    """Return what is to be told of a form, and why it could not be written; empty: it was."""
    try:
        return form.write(path, left), ""
    except OSError as error:
        by = "artifacts" if getattr(left.settings, form.option) is None else form.option
        return [], unwritten(by, path, error)


def unwritten(option: str, path: Path, error: OSError) -> str:
    """Return that what an option names cannot be written."""
    return f"kvcache: --kv-{option}: {path} cannot be written ({error.strerror})"


def _to_github(path: Path, content: dict[str, Any]) -> str:
    from ..report import files, markdown

    try:
        before = files.size(path)
        told = markdown.joined(["\n", *markdown.markdown(content)], at_most=_ROOM - before)
        files.append(path, told)
    except (OSError, ValueError) as error:
        return f"{_SUMMARY}: {path} cannot be written ({getattr(error, 'strerror', None) or error})"
    return "" if told else f"{_SUMMARY}: {path} holds {before:,} bytes already, and GitHub shows no more than {_ROOM:,}"
