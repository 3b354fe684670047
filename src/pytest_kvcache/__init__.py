"""Cache-regression tests for LLM serving: assert the real prefix / KV-cache hit rate in an ordinary pytest suite.

Nothing is imported here; names resolve when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client as Client
    from .endpoint import Endpoint as Endpoint
    from .endpoint import MetricsSource as MetricsSource
    from .experiment import Plan as Plan
    from .experiment import observe as observe
    from .experiment import run as run
    from .model import Divergence as Divergence
    from .model import Expectation as Expectation
    from .model import Measurement as Measurement
    from .model import Verdict as Verdict
    from .model import Waterfall as Waterfall
    from .pace import Pace as Pace
    from .plugin.runner import Runner as Runner
    from .plugin.runner import Sampler as Sampler
    from .plugin.settings import Settings as Settings
    from .result import Result as Result
    from .turns import Turns as Turns
    from .workloads import WorkloadBuilder as WorkloadBuilder

_HOME = {
    "Client": "client",
    "Divergence": "model",
    "Endpoint": "endpoint",
    "Expectation": "model",
    "Measurement": "model",
    "MetricsSource": "endpoint",
    "Pace": "pace",
    "Plan": "experiment",
    "Result": "result",
    "Runner": "plugin.runner",
    "Sampler": "plugin.runner",
    "Settings": "plugin.settings",
    "Turns": "turns",
    "Verdict": "model",
    "Waterfall": "model",
    "WorkloadBuilder": "workloads",
    "observe": "experiment",
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
