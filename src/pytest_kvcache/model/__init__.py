"""The nouns of a measurement, frozen: what was asked, sent, seen, predicted and concluded.

No I/O, no clock, no pytest here. Times are seconds on the monotonic clock, tokens are integers, rates are ratios 0..1,
and ``None`` always means "not reported", never zero.
"""

from __future__ import annotations

from ..rows import Note, Row
from .asked import Expectation, ResetMode, Scope, Source, Tier, Weight
from .concluded import Status, Verdict
from .divergence import Divergence
from .exchange import Exchange, Failure, Phase
from .grain import Grain
from .loss import Cause, Loss, Waterfall
from .measured import Finding, Measurement, Prediction, Pressure, Severity, Tokens
from .sent import Composed, Lookup, Prompt, Request, Session
from .server import ServerFacts

__all__ = [
    "Cause",
    "Composed",
    "Divergence",
    "Exchange",
    "Expectation",
    "Failure",
    "Finding",
    "Grain",
    "Lookup",
    "Loss",
    "Measurement",
    "Note",
    "Phase",
    "Prediction",
    "Pressure",
    "Prompt",
    "Request",
    "ResetMode",
    "Row",
    "Scope",
    "ServerFacts",
    "Session",
    "Severity",
    "Source",
    "Status",
    "Tier",
    "Tokens",
    "Verdict",
    "Waterfall",
    "Weight",
]
