"""Cache-regression tests for LLM serving: assert the real prefix / KV-cache hit rate in an ordinary pytest suite.

Nothing is imported here; names resolve when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capacity.curve import Curve as Curve
    from .capacity.rules import Rules as Rules
    from .capacity.simulated import Simulated as Simulated
    from .client import Client as Client
    from .endpoint import Endpoint as Endpoint
    from .endpoint import MetricsSource as MetricsSource
    from .experiment import Plan as Plan
    from .experiment import run as run
    from .model import Divergence as Divergence
    from .model import Expectation as Expectation
    from .model import Measurement as Measurement
    from .model import Row as Row
    from .model import Verdict as Verdict
    from .model import Waterfall as Waterfall
    from .observation import observe as observe
    from .pace import Pace as Pace
    from .plugin.observing import Sampler as Sampler
    from .plugin.replaying import TraceOpener as TraceOpener
    from .plugin.runner import Runner as Runner
    from .plugin.settings import Settings as Settings
    from .result import Result as Result
    from .traces import Trace as Trace
    from .traces import open_trace as open_trace
    from .turns import Turns as Turns
    from .workloads import WorkloadBuilder as WorkloadBuilder
    from .workloads.rates import rates as rates

_HOME = {
    "Client": "client",
    "Curve": "capacity.curve",
    "Divergence": "model",
    "Endpoint": "endpoint",
    "Expectation": "model",
    "Measurement": "model",
    "MetricsSource": "endpoint",
    "Pace": "pace",
    "Plan": "experiment",
    "Result": "result",
    "Row": "model",
    "Rules": "capacity.rules",
    "Runner": "plugin.runner",
    "Sampler": "plugin.observing",
    "Settings": "plugin.settings",
    "Simulated": "capacity.simulated",
    "Trace": "traces",
    "TraceOpener": "plugin.replaying",
    "Turns": "turns",
    "Verdict": "model",
    "Waterfall": "model",
    "WorkloadBuilder": "workloads",
    "observe": "observation",
    "open_trace": "traces",
    "rates": "workloads.rates",
    "run": "experiment",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pytest-kvcache")
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
