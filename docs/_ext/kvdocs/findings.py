"""Findings: what each code means, from the table in ``diagnose.py``; what to do about it, from ``findings.toml``."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from pytest_kvcache import diagnose
from pytest_kvcache import errors as tree
from pytest_kvcache.slo.verdict import OF_RATE

from .markup import code

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ADVICE = Path(__file__).parents[2] / "reference" / "findings.toml"
KINDS = {
    "KV1": ("The measurement is invalid", "The test is inconclusive, or an error: there is no number to judge."),
    "KV2": ("The expectation is missed", "The number is valid, and not what was asked for: the test fails."),
    "KV3": ("A doubt, or a cause", "Told beside a verdict; does not change it by itself."),
}
_ROW = re.compile(r"^(KV\d{3})  +(.+)$", re.MULTILINE)


def listed() -> str:
    """Return a section for each kind, with a part for each code."""
    meanings, advice = meaning(), what_to_do()
    parts = []
    for prefix, (title, told) in KINDS.items():
        parts.append(f"## {prefix}xx: {title}\n\n{told}")
        parts += [_part(each, text, advice[each]) for each, text in sorted(meanings.items()) if each.startswith(prefix)]
    return "\n\n".join(parts)


def _part(name: str, text: str, advice: str) -> str:
    raised = ", ".join(code(each) for each in _raised_as(name))
    notes = [f"**What to do:** {advice.strip()}"]
    if raised:
        notes.append(f"As an exception: {raised}.")
    if name in OF_RATE:
        notes.append("Of no consequence to a test without a `hit_rate` marker.")
    return "\n\n".join((f"({name.lower()})=\n### {name}", f"{text[0].upper()}{text[1:]}.", *notes))


def _raised_as(name: str) -> list[str]:
    kinds = [each for each in vars(tree).values() if isinstance(each, type) and issubclass(each, tree.KVCacheError)]
    return [each.__name__ for each in kinds if "code" in vars(each) and each.code == name]


def meaning() -> dict[str, str]:
    """Return what each code means."""
    return dict(_ROW.findall(diagnose.__doc__ or ""))


@cache
def what_to_do() -> dict[str, str]:
    """Return what to do about each code.

    Raises:
        FileNotFoundError: not in a checkout.
    """
    return tomllib.loads(ADVICE.read_text(encoding="utf-8"))
