"""The Python API: every public name, and the objects that a test holds without importing them."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest_kvcache
from pytest_kvcache import errors as tree

FIRST = (
    *("Runner", "Result", "Turns", "WorkloadBuilder", "TraceOpener", "Trace", "Simulated", "Curve"),
    *("open_trace", "rates", "Sampler", "Settings", "Endpoint", "MetricsSource"),
)  # what most tests hold
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
    names = [*FIRST, *(name for name in pytest_kvcache.__all__ if name not in FIRST)]
    parts = ["## Names of `pytest_kvcache`", *map(_documented, names)]
    for title, held in HELD.items():
        parts += [f"## {title}", *map(_documented, held)]
    return "\n\n".join(parts)


def errors() -> str:
    """Return the tree of the exceptions, as the module draws it."""
    return f"```{{eval-rst}}\n{inspect.cleandoc(tree.__doc__ or '')}\n```"


def _documented(path: str) -> str:
    module, _, attribute = f"pytest_kvcache.{path}".rpartition(".")
    if not inspect.isclass(getattr(import_module(module), attribute)):
        return _directive("autofunction", f"{module}.{attribute}")
    return _directive("autoclass", f"{module}.{attribute}", ":members:", f":inherited-members: {_INHERITED}")


def _directive(kind: str, path: str, *options: str) -> str:
    lines = [f".. {kind}:: {path}", *(f"   {option}" for option in options)]
    return "\n".join(("```{eval-rst}", *lines, "```"))
