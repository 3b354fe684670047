"""Requests of the past: files in the forms that are about, read, checked, and held as a trace."""

from .opening import open_trace
from .trace import Trace

__all__ = ["Trace", "open_trace"]
