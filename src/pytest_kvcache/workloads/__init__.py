"""What to send: workloads whose reuse is known to the token."""

from __future__ import annotations

from .bodies import Bodies
from .builder import WorkloadBuilder
from .shapes import SharedPrefix

__all__ = ["Bodies", "SharedPrefix", "WorkloadBuilder"]
