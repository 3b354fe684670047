"""Where two requests that should share a prefix part, why, and what to do about it. Pure: no I/O, no tokenizer."""

from __future__ import annotations

from .advice import TITLES, advice, sentence
from .alone import volatile
from .first import first
from .pairs import Sent, between

__all__ = ["TITLES", "Sent", "advice", "between", "first", "sentence", "volatile"]
