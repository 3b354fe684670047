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
from .load import ClientLoad, Level, Limit, Period, Stretch
from .loss import Cause, Loss, Waterfall
from .measured import Finding, Measurement, Prediction, Pressure, Severity, Tokens
from .objective import Attained, Objective, PerRequest, ServiceLevel
from .phases import Moment, PhaseName, Span
from .regressed import Regression
from .sent import Composed, Lookup, Prompt, Request, Session
from .server import ServerFacts

__all__ = [
    "Attained",
    "Cause",
    "ClientLoad",
    "Composed",
    "Divergence",
    "Exchange",
    "Expectation",
    "Failure",
    "Finding",
    "Grain",
    "Level",
    "Limit",
    "Lookup",
    "Loss",
    "Measurement",
    "Moment",
    "Note",
    "Objective",
    "PerRequest",
    "Period",
    "Phase",
    "PhaseName",
    "Prediction",
    "Pressure",
    "Prompt",
    "Regression",
    "Request",
    "ResetMode",
    "Row",
    "Scope",
    "ServerFacts",
    "ServiceLevel",
    "Session",
    "Severity",
    "Source",
    "Span",
    "Status",
    "Stretch",
    "Tier",
    "Tokens",
    "Verdict",
    "Waterfall",
    "Weight",
]
