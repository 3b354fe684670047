"""What an answer says: content, usage, finish reason and errors, in the form of each API, streamed or whole."""

from __future__ import annotations

from .answer import Answer
from .errors import error_message
from .phrases import Phrases
from .reader import Reader
from .usage import Usage, UsageReading, declared, readings

__all__ = ["Answer", "Phrases", "Reader", "Usage", "UsageReading", "declared", "error_message", "readings"]
