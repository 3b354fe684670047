"""How is this session repeated? A shell script with the very command, and nothing in it that is secret."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ..report.shell import Secrets, command, comment, userinfos, variable, wanted
from .keys import SETTINGS
from .options import OPTIONS
from .settings import SIM, Settings

if TYPE_CHECKING:
    from .leaving import Left

_ADDOPTS = "PYTEST_ADDOPTS"
_OF_PYTEST = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_PLUGINS")
_HEADER, _HEADERS, _IN_INI = "--kv-header", "PYTEST_KV_HEADER", "kv_header="
_GIT_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # of a variable that a shell can export


def write(path: Path, left: Left) -> list[str]:
    """Write the script, and let its owner run it.

    Raises:
        OSError: it cannot be written.
    """
    from ..report import files

    files.write(path, script(left.config, path))
    with suppress(OSError):  # a file system without modes; `sh reproduce.sh` runs it all the same
        path.chmod(path.stat().st_mode | 0o100)
    return []


def script(config: pytest.Config, path: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return the script.

    Args:
        config: of the session.
        path: where the script will be: it finds the folder of the session from there.
        environ: of the session.
    """
    settings = config.stash[SETTINGS]
    arguments = [*shlex.split(environ.get(_ADDOPTS, "")), *map(str, config.invocation_params.args)]
    variables = dict(_environment(config, environ))
    words = [Word(word, after) for word, after in zip(["", *arguments], arguments, strict=False)]
    secrets = _secrets(settings, [*words, *(Word(name, value) for name, value in variables.items())])
    parts = [
        "#!/bin/sh",
        *comment(_about(config, settings)),
        "set -eu",
        *_folder(config, path),
        *_key(settings),
        "# no other setting of whoever runs this counts",
        f"unset {' '.join([_ADDOPTS, *_OF_PYTEST, *(option.variable for option in OPTIONS)])}",
        *(f"export {name}={secrets.quoted(value, Word(name, value).secrets())}" for name, value in variables.items()),
        *_typed(),
        f"exec {command(_program(), [secrets.quoted(word.text, word.secrets()) for word in words])}",
    ]
    return "\n".join(parts) + "\n"


class Word(NamedTuple):
    """One word of the command, or the value of a variable.

    Attributes:
        before: the word in front of it, or the name of the variable.
        text: itself.
    """

    before: str
    text: str

    def headers(self) -> Iterator[tuple[str, str]]:
        """Return name and value of every header that it says."""
        said = ""
        if self.before in (_HEADER, _HEADERS):
            said = self.text
        elif self.text.startswith(f"{_HEADER}="):
            said = self.text.partition("=")[2]
        elif _IN_INI in self.text:  # -o kv_header=..., --override-ini=kv_header=...
            said = self.text.partition(_IN_INI)[2]
        for line in said.split("\n"):
            name, _, value = line.partition(":")
            yield name.strip(), value.strip()

    def secrets(self) -> list[str]:
        """Return what in it nobody may see."""
        return [*userinfos(self.text), *(value for _, value in self.headers())]


def _about(config: pytest.Config, settings: Settings) -> Iterator[str]:
    yield "Repeats a session of pytest with pytest-kvcache: sh reproduce.sh"
    yield f"python {platform.python_version()}, pytest {pytest.__version__}, pytest-kvcache {version('pytest-kvcache')}"
    dists = {(dist.project_name, dist.version) for _, dist in config.pluginmanager.list_plugin_distinfo()}
    others = [f"{name} {number}" for name, number in sorted(dists) if name != "pytest-kvcache"]
    if others:
        yield f"plugins: {', '.join(others)}"
    if config.invocation_params.plugins:
        yield "plugins that were given as objects, and not by name, are not repeated"
    commit = _commit(config.rootpath)
    if commit:
        yield f"tests: {commit}"
    yield from _sameness(settings)


def _sameness(settings: Settings) -> Iterator[str]:
    """Return what of the session comes out the same."""
    if settings.seed is None:
        yield "There was no seed: prompts carried a fresh nonce. A rerun sends others, as long and as alike, to a cache"
        yield "that has none of them. What is deterministic comes out equal: hit tokens of a cache that evicts nothing,"
        yield "predictions, verdicts on these. Times do not."
    else:
        yield f"With seed {settings.seed} a rerun sends the same prompts: a cache that still has them begins warm, so"
        yield "empty it first, or take --kv-reset=require. Times differ from run to run."
    if settings.endpoint not in (None, SIM):
        yield "The result is that of the endpoint and its state; the script does not start it."


def _commit(root: Path) -> str:
    """Return the commit that the tests are of, and whether they have changed since; empty: there is none."""
    revision = _git(root, "rev-parse", "HEAD")
    if not revision:
        return ""
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    state = ", its state unknown" if changed is None else ", with changes that were not committed" if changed else ""
    return f"git commit {revision}{state}"


def _git(root: Path, *words: str) -> str | None:
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *words],  # no program of the repository's own
            cwd=root,
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=True,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _folder(config: pytest.Config, path: Path) -> Iterator[str]:
    """Change to the folder in which pytest was called: as seen from the script, where both lie among the tests."""
    called, here, root = (p.resolve() for p in (config.invocation_params.dir, path.parent, config.rootpath))
    folder, seen = shlex.quote(str(called)), ""
    if here.is_relative_to(root) and called.is_relative_to(root):
        folder, seen = f'"$(dirname -- "$0")"/{shlex.quote(os.path.relpath(called, here))}', " as seen from this file,"
    yield f"# the folder in which pytest was called,{seen} unless KV_FOLDER names another"
    yield "unset CDPATH"
    yield 'folder="${KV_FOLDER:-}"'
    yield f'[ -n "$folder" ] || folder={folder}'
    yield 'cd -- "$folder"'


def _program() -> str:
    """Return how pytest was called."""
    name, after = _called()
    return (name if _seen_from_folder() is None else '"$program"') + after


def _called() -> tuple[str, str]:
    return ("pytest", "") if Path(sys.argv[0]).stem in ("pytest", "py.test") else ("python", " -m pytest")


def _seen_from_folder() -> str | None:
    """Return a program that was called by its path from there, such as ``.venv/bin/pytest``; None: by its name."""
    said = sys.orig_argv[0] if _called()[1] else sys.argv[0]
    return said if os.sep in said and not Path(said).is_absolute() else None


def _typed() -> Iterator[str]:
    """Take the program of the environment that was called by its path; nobody need have activated it."""
    said = _seen_from_folder()
    if said is not None:
        yield "# the program that was called, where it still is; else the one of the active environment"
        yield f"program={shlex.quote(said)}"
        yield f'[ -x "$program" ] || program={_called()[0]}'


def _secrets(settings: Settings, words: Sequence[Word]) -> Secrets:
    """Return everything that is secret, whichever word it is in: messages and names may repeat it."""
    secrets = Secrets()
    if settings.api_key is not None:
        secrets.add(settings.api_key, variable(settings.api_key_env), "API key of the endpoint")
    for name, value in (*settings.headers, *(pair for word in words for pair in word.headers())):
        secrets.add(value, f"KV_HEADER_{variable(name)}", f"value of the header {name}")
    for userinfo in (found for word in words for found in userinfos(word.text)):
        secrets.add(userinfo, "KV_USERINFO", "user:password of the URL")
    return secrets


def _key(settings: Settings) -> Iterator[str]:
    """Ask for the variable of the API key, which pytest reads itself."""
    name = settings.api_key_env
    if settings.api_key is not None and settings.endpoint not in (None, SIM) and _NAME.fullmatch(name):
        yield f': "${{{name}:?{wanted("API key of the endpoint")}}}"'


def _environment(config: pytest.Config, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return variables as far as they counted: an option on the command line wins over its variable."""
    yield from ((name, environ[name]) for name in _OF_PYTEST if name in environ)
    for option in OPTIONS:
        if option.variable in environ and config.getoption(option.flag) is None:
            yield option.variable, environ[option.variable]
