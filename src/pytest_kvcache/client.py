"""Speak to one endpoint for one run: requests, streams, stamps.

A :class:`Client` lives inside a run and inside its event loop. Errors of single requests are data
(:class:`~pytest_kvcache.model.Failure`); only the control calls (models, pages) raise.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

import aiohttp

from .endpoint import Endpoint, without_userinfo
from .errors import EndpointError, ProtocolError
from .model import Exchange, Failure, Phase
from .reply import Answer, error_message
from .sse import EventStream

_READ = 1 << 16
_LARGE = 1 << 20  # aiohttp warns of larger bodies given as bytes, because they are written in one go


@dataclass(frozen=True, slots=True)
class Call:
    """One generation request, ready to be sent.

    Attributes:
        path: below ``/v1/``, such as ``completions``.
        body: the JSON object; ``model`` and ``stream`` included.
        phase: where the exchange belongs.
        prompt_len: tokens the client believes it sends; None when it cannot know.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    phase: Phase = "load"
    prompt_len: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One HTTP answer read whole."""

    url: str
    status: int
    content_type: str
    text: str = field(repr=False)


class Client:
    """An open session with one endpoint.

    Args:
        endpoint: where and as whom.

    The connector has no limit of its own: how many requests are in flight is the load loop's business, so a request
    never waits here unseen.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        trace = aiohttp.TraceConfig()
        trace.on_request_chunk_sent.append(_stamp_sent)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"User-Agent": "pytest-kvcache"},
            timeout=aiohttp.ClientTimeout(total=self.endpoint.timeout),
            trace_configs=[trace],
            read_bufsize=_READ,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- generation --------------------------------------------------------------------------------------------------

    async def send(self, call: Call) -> Exchange:
        """Send one request and read its answer. Never raises for what the server or the network does."""
        queued = time.monotonic()
        stamp = SimpleNamespace(sent=None)
        answer = Answer()
        status: int | None = None
        try:
            body = json.dumps(call.body, separators=(",", ":")).encode()
            url = self.endpoint.api(call.path)
            async with self._open.post(
                url,
                data=body if len(body) < _LARGE else io.BytesIO(body),
                headers={**self.endpoint.headers_for(url), "Content-Type": "application/json"},
                trace_request_ctx=stamp,
            ) as response:
                status = response.status
                await self._read_answer(response, answer)
        except Exception as error:  # whatever it is, it is this request's outcome, not the loop's
            answer.failure = self._failure(error)
        end = time.monotonic()
        return Exchange(
            phase=call.phase,
            queued=queued,
            end=end,
            sent=stamp.sent,
            first_content=answer.chunks[0] if answer.chunks else None,
            chunks=tuple(answer.chunks),
            prompt_len=call.prompt_len,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            completion_tokens=answer.completion_tokens,
            finish_reason=answer.finish_reason,
            status=status,
            failure=answer.failure,
            text="".join(answer.text),
            reasoning="".join(answer.reasoning),
        )

    async def _read_answer(self, response: aiohttp.ClientResponse, answer: Answer) -> None:
        if response.status != 200:
            text = await response.text(errors="replace")
            message = f"HTTP {response.status}: {self._explain(text)}"
            answer.failure = Failure("http", message, _retry_after(response.headers.get("Retry-After")))
            return
        if response.content_type == "text/event-stream":
            stream = EventStream()
            async for piece in response.content.iter_any():
                at = time.monotonic()
                for event in stream.feed(piece):
                    answer.take_event(event.data, at)
        elif response.content_type == "text/html":
            text = await response.text(errors="replace")
            answer.failure = Failure("protocol", f"expected JSON, got {self._explain(text)}")
        else:
            answer.take_body(await response.read(), time.monotonic())
        if answer.failure is None and not answer.complete:
            answer.failure = Failure("cut", "the answer ended without a finish reason and without [DONE]")
        elif answer.failure is not None:
            clean = self._shorten(answer.failure.message)
            answer.failure = Failure(answer.failure.kind, clean, answer.failure.retry_after)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, asyncio.TimeoutError):
            return Failure("timeout", f"no complete answer within {self.endpoint.timeout:g} s")
        if isinstance(error, aiohttp.ClientConnectionError) and not isinstance(error, aiohttp.ServerDisconnectedError):
            return Failure("connect", self._shorten(str(error)))
        if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
            return Failure("cut", self._shorten(f"the connection ended inside the answer ({type(error).__name__})"))
        return Failure("protocol", self._shorten(f"{type(error).__name__}: {error}"))

    # --- control -----------------------------------------------------------------------------------------------------

    async def get(self, url: str, *, timeout: float | None = None) -> Page:
        """Return a page, whatever its status.

        Raises:
            EndpointError: nobody listens, the connection broke, or the time is over.
        """
        return await self._fetch("GET", url, None, timeout)

    async def post(self, url: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Page:
        """Return the answer to a POST of ``body`` as JSON, whatever its status.

        Raises:
            EndpointError: nobody listens, the connection broke, or the time is over.
        """
        return await self._fetch("POST", url, body, timeout)

    async def models(self) -> list[dict[str, Any]]:
        """Return the entries of ``/v1/models``.

        Raises:
            EndpointError: unreachable, refused (401, 403), or no such route.
            ProtocolError: not a model list.
        """
        page = await self.get(self.endpoint.api("models"))
        shown = without_userinfo(page.url)
        if page.status in (401, 403):
            raise EndpointError(
                f"{shown} answered {page.status}: {self._explain(page.text)}; "
                f"{'the API key was refused' if self.endpoint.api_key else 'it wants an API key'}"
                " (set the variable that --kv-api-key-env names)"
            )
        if page.status != 200:
            raise EndpointError(
                f"{shown} answered {page.status}: {self._explain(page.text)}; expected a list of models"
                " (is --kv-endpoint the base URL of an OpenAI-compatible server?)"
            )
        body = parse_json(page)
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(
            isinstance(e, dict) and isinstance(e.get("id"), str) for e in entries
        ):
            raise ProtocolError(
                f"{shown}: expected an object with a list of models under 'data', got {page.text[:120]!r}"
            )
        return entries

    def explain(self, page: Page) -> str:
        """Return what a refused page says, one short line without secrets."""
        return self._explain(page.text)

    async def _fetch(self, method: str, url: str, body: Mapping[str, Any] | None, timeout: float | None) -> Page:
        shown = without_userinfo(url)
        limit = aiohttp.ClientTimeout(total=timeout or min(self.endpoint.timeout, 30.0))
        try:
            headers = self.endpoint.headers_for(url)
            async with self._open.request(method, shown, json=body, headers=headers, timeout=limit) as response:
                text = await response.text(errors="replace")
                return Page(url, response.status, response.content_type, text)
        except asyncio.TimeoutError:
            raise EndpointError(f"{shown}: no answer within {limit.total:g} s") from None
        except aiohttp.ClientPayloadError:
            raise EndpointError(f"{shown}: the answer is incomplete, the connection ended inside it") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError(
                f"nobody answers at {shown} ({self._shorten(_reason(error))}); is the server up?"
            ) from None

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise EndpointError("the client is used outside of its `async with` block")
        return self._session

    def _explain(self, text: str) -> str:
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if isinstance(body, dict):
            message = error_message(body)
            if message is not None:
                return self._shorten(message)
        if re.match(r"\s*(<!doctype|<html)", text, re.IGNORECASE):
            title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            return self._shorten("an HTML page" + (f" titled {title[1].strip()!r}" if title else ""))
        return self._shorten(text) or "(empty body)"

    def _shorten(self, text: str, limit: int = 300) -> str:
        line = " ".join(self.endpoint.redact(text).split())
        return line if len(line) <= limit else line[:limit] + "…"


def parse_json(page: Page) -> Any:
    """Return the JSON of a page.

    Raises:
        ProtocolError: it is none.
    """
    try:
        return json.loads(page.text)
    except ValueError:
        kind = f" ({page.content_type})" if page.content_type else ""
        raise ProtocolError(f"{without_userinfo(page.url)}: expected JSON{kind}, got {page.text[:80]!r}") from None


async def _stamp_sent(_session: object, context: SimpleNamespace, _params: object) -> None:
    # Fires when aiohttp hands (a part of) the body to the socket; the last part counts.
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.sent = time.monotonic()


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    return f"{type(error).__name__}: {error}"


def _retry_after(value: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header; an HTTP date is left out, as the server's clock is not ours."""
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None
