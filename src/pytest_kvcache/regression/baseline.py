"""A baseline as text: reviewed like code, so a test that changed is a small difference and nothing else moves. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import plain
from .asked import Allowed, Asked
from .metrics import METRICS
from .values import BOUNDS, COUNTS, Entry, Group

SCHEMA = "pytest-kvcache-baseline/1"


def narrowed(entry: Entry, names: Sequence[str]) -> Entry:
    """Return an entry with what is needed to compare some metrics, and nothing else."""
    wanted = set(names) | (set(COUNTS) | set(BOUNDS) if "hit_rate" in names else set())
    groups = [
        Group(group.where, group.runs, {name: values for name, values in group.values.items() if name in wanted})
        for group in entry.groups
    ]
    return Entry(entry.context, groups)


def entry_of(check: Mapping[str, Any]) -> Entry:
    """Return what a record holds to be compared with later."""
    return Entry(check["context"], [Group(each["where"], each["runs"], each["values"]) for each in check["values"]])


def asked_of(check: Mapping[str, Any]) -> Asked:
    """Return what was compared in a record."""
    limits = {one["name"]: one for one in check["regressions"]}
    return Asked(tuple(Allowed(METRICS[name], abs(one["allowed"]), one["relative"]) for name, one in limits.items()))


def text(entries: Mapping[str, Entry]) -> str:
    """Return the file: sorted by test, indented, the values of a metric on one line."""
    checks = {nodeid: plain.entry(entry) for nodeid, entry in sorted(entries.items())}
    return _text({"schema": SCHEMA, "checks": checks}) + "\n"


def _text(value: Any, indent: str = "") -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        return "[\n" + ",\n".join(f"{inner}{_text(each, inner)}" for each in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)
