"""What decides a measured run? The list, part by part; what is not in it does not make a run another one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import TestCase

import pytest

from ..endpoint import without_userinfo
from .fingerprint import Fingerprint, Untold, digest, file_digest
from .markers import JUDGED
from .settings import SIM
from .source import NoSource, code_of_file, code_of_test

if TYPE_CHECKING:
    from ..endpoint import Endpoint
    from ..model import ServerFacts
    from .settings import Settings

_FACTS = ("engine", "variant", "version", "model", "block_size", "caching", "max_model_len", "capacity", "simulated")
_SETTINGS = ("usage_prompt", "usage_absent", "sample_interval", "seed", "processes")


def test_part(item: pytest.Item, known: dict[object, list[str]]) -> object:
    """Return what is known of a test before it runs: its code, its markers, its parameters.

    Of the code that it uses, its own file and the ``conftest.py`` of the folders above it are looked at; what is
    imported is not.

    Args:
        item: the test.
        known: code of other items of this session, to which that of this one is added.

    Raises:
        Untold: its code cannot be had.
    """
    return {"code": _code(item, known), "markers": _markers(item), "parameters": _parameters(item)}


def fixture_values(item: pytest.Item) -> object:
    """Return the numbers that the fixtures of a test have made so far: limits of its assertions, for instance.

    Texts are left out. Those that decide what is sent are in the workload, and many are new in every session: folders,
    ports, names of runs.
    """
    values = item.funcargs if isinstance(item, pytest.Function) else {}
    found: dict[str, object] = {}
    for name, value in sorted(values.items()):
        with suppress(RecursionError):  # it holds itself
            found[name] = _numbers(value)
    return found


def _numbers(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _numbers(inner) for key, inner in value.items()}
    return [_numbers(inner) for inner in value] if isinstance(value, (list, tuple)) else None


test_part.__test__ = False  # type: ignore[attr-defined] # no test, whatever its name begins with


def fingerprint(
    nodeid: str,
    test: object,
    number: int,
    kind: str,
    endpoint: Endpoint,
    facts: ServerFacts,
    *,
    arguments: Mapping[str, object],
    workload: object,
    settings: Settings | None,
    sim: bool,
    baseline: object = None,
) -> Fingerprint:
    """Return the fingerprint of a run.

    Args:
        nodeid: of the test.
        test: of :func:`test_part`.
        number: of the run in its test, from 1.
        kind: of the run: ``run``, ``replay``, ``steps``, ...
        endpoint: where. Neither keys nor values of headers have a part in it: they may be new in every session.
        facts: what the endpoint tells about itself.
        arguments: what the run comes to: pace, retries, reset, levels, ...
        workload: its description; None: the test's own traffic.
        settings: None where they decide nothing.
        sim: the endpoint is an engine of our own, at another port in every session.
        baseline: what the values are compared with, which a verdict depends on; None: the test asks for no comparison.

    Raises:
        Untold: something of it cannot be told from something else.
    """
    parts = {
        "version": version("pytest-kvcache"),
        "test": test,
        "call": {"number": number, "kind": kind, **arguments},
        "workload": workload,
        "endpoint": _endpoint(endpoint, SIM if sim and facts.simulated else endpoint.url),
        "engine": {name: getattr(facts, name) for name in _FACTS},
        "settings": _settings(endpoint, settings),
    }
    if baseline is not None:
        parts["baseline"] = baseline
    return Fingerprint.of(nodeid, parts)


def _endpoint(endpoint: Endpoint, url: str) -> object:
    metrics = [(without_userinfo(m.url), m.name, m.kind, m.match, m.renamed, m.json_page) for m in endpoint.metrics]
    return {"url": url, "metrics": metrics}


def _settings(endpoint: Endpoint, settings: Settings | None) -> object:
    found: dict[str, object] = {
        "timeout": endpoint.timeout,
        "profiles": endpoint.profiles,
        "headers": sorted(name.lower() for name, _ in endpoint.headers),
    }
    if settings is not None:
        found.update({name: getattr(settings, name) for name in _SETTINGS})
        found["tokenizer"] = _tokenizer(settings.tokenizer)
    return found


def _tokenizer(spec: str | None) -> str | None:
    """Return the content of a tokenizer that is a file, of others the name."""
    if spec is None:
        return None
    path = Path(spec).expanduser()
    for file in (path, path / "tokenizer.json"):
        if file.is_file():
            return file_digest(file)
    return spec


def _code(item: pytest.Item, known: dict[object, list[str]]) -> list[str]:
    """Return the code of a test; a file that has it in a thousand parameters is parsed once."""
    if not isinstance(item, pytest.Function):
        raise Untold("no function")
    if item.cls is not None and issubclass(item.cls, TestCase):
        raise Untold("a unittest.TestCase, which takes what ends it for a failure")
    names = [*(item.cls.__qualname__.split(".") if item.cls else ()), item.originalname]
    key = (item.path, *names, *item.fixturenames)
    if key not in known:
        known[key] = _read_code(item, names)
    return known[key]


def _read_code(item: pytest.Function, names: list[str]) -> list[str]:
    try:
        found = [code_of_test(item.path, names, item.fixturenames)]
        elsewhere = Path(inspect.unwrap(item.function).__code__.co_filename)
        if elsewhere.resolve() != item.path.resolve():
            found.append(code_of_file(elsewhere))  # of a class that this one inherits from
        found += [code_of_file(path) for path in _conftests(item)]
    except NoSource as error:
        raise Untold(f"code that is not known: {error}") from None
    return found


def _conftests(item: pytest.Item) -> list[Path]:
    root = item.config.rootpath
    above = [folder for folder in item.path.parents if folder == root or root in folder.parents]
    return [path for folder in above or [item.path.parent] if (path := folder / "conftest.py").is_file()]


def _markers(item: pytest.Item) -> list[Any]:
    """Return what our markers ask of a test, the closest first."""
    ours = (mark for mark in item.iter_markers() if mark.name in JUDGED or mark.name.startswith("kv_"))
    return [(mark.name, mark.args, mark.kwargs) for mark in ours]


def _parameters(item: pytest.Item) -> dict[str, str]:
    """Return the values of parameters as far as they can be told; the test's name tells them apart anyway."""
    callspec = getattr(item, "callspec", None)
    found = {}
    for name, value in callspec.params.items() if callspec is not None else ():
        with suppress(Untold):
            found[name] = digest(value)
    return found
