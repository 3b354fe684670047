"""Why did a request fail? In one short line, without secrets."""

from __future__ import annotations

import asyncio
import json
import re

import aiohttp

from .endpoint import Endpoint
from .model import Failure
from .replies import error_message

_LONGEST = 300


def failure_of(error: BaseException, endpoint: Endpoint) -> Failure:
    """Return what an exception of the client library means for a request."""
    if isinstance(error, asyncio.TimeoutError):
        return Failure("timeout", f"no complete answer within {endpoint.timeout:g} s")
    if isinstance(error, aiohttp.ClientConnectionError) and not isinstance(error, aiohttp.ServerDisconnectedError):
        return Failure("connect", shortened(str(error), endpoint))
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return Failure("cut", f"the connection ended inside the answer ({type(error).__name__})")
    return Failure("protocol", shortened(f"{type(error).__name__}: {error}", endpoint))


def explained(text: str, endpoint: Endpoint) -> str:
    """Return what the text of a page says of a refusal."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, list) and len(body) == 1:  # Gemini's OpenAI-compatible route
        body = body[0]
    if isinstance(body, dict):
        message = error_message(body)
        if message is not None:
            return shortened(message, endpoint)
    if re.match(r"\s*(<!doctype|<html)", text, re.IGNORECASE):
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return shortened("an HTML page" + (f" titled {title[1].strip()!r}" if title else ""), endpoint)
    return shortened(text, endpoint) or "(empty body)"


def shortened(text: str, endpoint: Endpoint) -> str:
    """Return a text as one line that can be printed, cut at 300 characters."""
    printable = text.encode("utf-8", "replace").decode()  # JSON can hold halves of surrogate pairs
    line = " ".join(endpoint.redact(printable).split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def reason_of(error: BaseException) -> str:
    """Return why nobody answered."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    return f"{type(error).__name__}: {error}"


def retry_after(value: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header; an HTTP date is left out, as the server's clock is not ours."""
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None
