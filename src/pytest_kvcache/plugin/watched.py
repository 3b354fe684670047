"""A trace whose curves are told to somebody: sweeping it stays what it is, and parts of it are watched as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..traces import Trace

if TYPE_CHECKING:
    from ..capacity.curve import Curve

Swept = Callable[["Curve"], None]


class WatchedTrace(Trace):
    """A trace that was read already, with what it tells of its curves."""

    _swept: Swept

    @classmethod
    def of_trace(cls, trace: Trace, swept: Swept) -> WatchedTrace:
        """Watch a trace; it is not read again."""
        watched = cls.__new__(cls)
        vars(watched).update(vars(trace), _swept=swept)
        return watched

    def sweep(self, *arguments: Any, **named: Any) -> Curve:
        """Do what :meth:`Trace.sweep` does, and tell the curve."""
        curve = super().sweep(*arguments, **named)
        self._swept(curve)
        return curve

    def _part(self, *arguments: Any, **named: Any) -> Trace:
        return self.of_trace(super()._part(*arguments, **named), self._swept)
