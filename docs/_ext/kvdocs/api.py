"""The Python API: every public name, and the objects that a test holds without importing them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module

import pytest_kvcache
from pytest_kvcache import errors as tree

HELD = {
    "What `kv` returns and holds": (
        "limits.steps.Steps",
        "speedup.SpeedUp",
        "plugin.probing.Probes",
        "model.Exchange",
        "model.Tokens",
        "model.Finding",
        "model.Stretch",
        "model.Limit",
        "model.Level",
        "distribution.Latency",
    ),
    "What a trace does, argument by argument": (
        "capacity.simulate.simulate",
        "capacity.fleet.fleet",
        "traces.export.export",
    ),
}
_INHERITED = "object, tuple, Sequence, Collection, Reversible, Iterable, Container, Sized"


def public() -> str:
    """Return a part for each name of ``pytest_kvcache.__all__``, then for what is only held."""
    names = [(name, f"pytest_kvcache.{name}") for name in pytest_kvcache.__all__]
    parts = ["## Names of `pytest_kvcache`", *(_documented(name, path) for name, path in names)]
    for title, held in HELD.items():
        parts.append(f"## {title}")
        parts += [_documented(path.rpartition(".")[2], f"pytest_kvcache.{path}") for path in held]
    return "\n\n".join(parts)


def errors() -> str:
    """Return the tree of the exceptions, as the module draws it."""
    return f"```{{eval-rst}}\n{inspect.cleandoc(tree.__doc__ or '')}\n```"


def _documented(name: str, path: str) -> str:
    module, _, attribute = path.rpartition(".")
    if inspect.isclass(getattr(import_module(module), attribute)):
        return _directive(name, "autoclass", path, ("members", f"inherited-members: {_INHERITED}"))
    return _directive(name, "autofunction", path, ())


def _directive(name: str, kind: str, path: str, options: Iterable[str]) -> str:
    lines = [f".. {kind}:: {path}", *(f"   :{option if ':' in option else option + ':'}" for option in options)]
    return "\n".join((f"### `{name}`", "", "```{eval-rst}", *lines, "```"))
