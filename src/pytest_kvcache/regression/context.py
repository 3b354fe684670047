"""Under which circumstances was it measured, and have they changed? Pure.

A comparison says something about one thing only when the rest stayed as it was. So what answered, and what was sent, is
kept with every value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..model import Expectation, Measurement, Verdict

Context = Mapping[str, "str | int | bool | None"]

DIGEST = "sent"
NAMES = ("engine", "variant", "engine_version", "model", "block_size", "simulated", "counted", "workload")
"""Circumstances that may be allowed to change; ``workload`` is told by its titles, and compared by a digest."""

_LONG = 300  # characters of the titles of a test with many workloads
_DIGITS = 12  # hexadecimal, of a digest


@dataclass(frozen=True, slots=True)
class Change:
    """A circumstance that is another one.

    Attributes:
        name: of :data:`NAMES`.
        old / new: as people read them.
        allowed: it may be.
    """

    name: str
    old: str
    new: str
    allowed: bool

    def __str__(self) -> str:
        return f"{self.name} {self.old} -> {self.new}"


def context_of(
    runs: Sequence[tuple[Measurement, Verdict]], sent: Sequence[str | None], expectation: Expectation | None = None
) -> Context | None:
    """Return the circumstances of a test's measurements; None without any.

    Args:
        runs: each measurement with the verdict on it.
        expectation: how the rate is counted; None: of all tokens.
        sent: of each, the digest of what was sent and how, without nonce and seed; None: nothing tells.
    """
    if not runs:
        return None
    measurement, verdict = runs[0]
    facts = measurement.facts
    return {
        "engine": facts.engine,
        "variant": facts.variant,
        "engine_version": facts.version,
        "model": facts.model,
        "block_size": facts.block_size,
        "simulated": facts.simulated,
        "counted": _counted(expectation or Expectation(), verdict),
        "workload": _titles(runs),
        DIGEST: None if None in sent else _together([digest for digest in sent if digest is not None]),
    }


def changes(old: Context, new: Context, allowed: Collection[str] = ()) -> list[Change]:
    """Return the circumstances that are not what they were."""
    found = []
    for name in NAMES:
        before, now = old.get(name), new.get(name)
        if name == "workload":
            digests = old.get(DIGEST), new.get(DIGEST)
            if None not in digests:
                if digests[0] == digests[1]:
                    continue
                if before == now:  # the same lengths, sent in another way
                    before, now = f"{before} ({digests[0]})", f"{now} ({digests[1]})"
        if before != now:
            found.append(Change(name, _shown(before), _shown(now), name in allowed))
    return found


def _titles(runs: Sequence[tuple[Measurement, Verdict]]) -> str:
    titles = "; ".join(dict.fromkeys(measurement.title for measurement, _ in runs))
    return titles if len(titles) <= _LONG else titles[:_LONG] + "..."


def _together(digests: Sequence[str]) -> str:
    """Return one digest; how often the same was sent does not matter."""
    different = list(dict.fromkeys(digests))
    return different[0] if len(different) == 1 else hashlib.sha256("+".join(different).encode()).hexdigest()[:_DIGITS]


def _counted(expectation: Expectation, verdict: Verdict) -> str | None:
    """Return how the rate was counted; None: there is none."""
    if verdict.source is None:
        return None
    told = [f"{expectation.weight}s by {verdict.source}"]
    told += [f"tier {expectation.tier}"] if expectation.tier != "total" else []
    told += ["warm requests"] if expectation.requests == "warm" else []
    told += [f"from turn {expectation.skip_turns} on"] if expectation.skip_turns else []
    return ", ".join(told)


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)
