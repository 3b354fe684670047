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
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace, TracebackType
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from .answers import Page, parse_json
from .apis import path_of
from .endpoint import Endpoint, origin_of, without_userinfo
from .errors import EndpointError, NoModelList, ProtocolError, Redirected
from .model import Exchange, Failure, Phase
from .replies import Answer, UsageReading, error_message
from .sse import EventStream
from .unquoted import unquoted

_READ = 1 << 16
_REDIRECTS = 5
_REPEATED = (307, 308)  # the only ones after which a POST is sent again as it was
_LARGE = 1 << 20  # aiohttp warns of larger bodies given as bytes, because they are written in one go


@dataclass(frozen=True, slots=True)
class Call:
    """One generation request, ready to be sent.

    Attributes:
        api: form of request and answer, a key of :data:`pytest_kvcache.apis.PATHS`.
        body: the JSON object; ``model`` and ``stream`` included, where the form has them there.
        model: where the form has it in the path.
        phase: where the exchange belongs.
        prompt_len: tokens the client believes it sends; None when it cannot know.
        lookups: how often the engine looks the prompt up for it.
        partial: the usage of its answer covers only some of its samples or prompts.
        samples: answers that are asked for to each prompt.
        usage: how to read the usage of its answer; empty: as the API's own documentation has it.
        session / turn: place in a conversation; None outside of one.
    """

    api: str
    body: Mapping[str, Any] = field(repr=False)
    model: str = ""
    phase: Phase = "load"
    prompt_len: int | None = None
    lookups: int = 1
    partial: bool = False
    samples: int = 1
    usage: tuple[UsageReading, ...] = field(default=(), repr=False)
    session: int | None = None
    turn: int | None = None


class Client:
    """An open session with one endpoint.

    Args:
        endpoint: where and as whom.

    The connector has no limit of its own: how many requests are in flight is the load loop's business, so a request
    never waits here unseen.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._opened: list[aiohttp.ClientSession] = []  # the last one is in use
        self._auth = "Authorization"
        self._headers: Mapping[str, str] = {}
        self._paths: Mapping[str, str] = {}
        self._auth_for: Mapping[str, str] = {}

    def speak(
        self,
        auth: str,
        headers: Mapping[str, str],
        paths: Mapping[Any, str] | None = None,
        auth_for: Mapping[Any, str] | None = None,
        *,
        keep_alive: bool = True,
    ) -> None:
        """Send what this engine or provider wants with every request from here on, and where it wants it.

        Args:
            auth: header that carries the API key; ``Authorization`` has it as a bearer token, any other the bare key.
            headers: further ones; those that the user gave win.
            paths: by API, or of the ``models``, where they are not the usual ones.
            auth_for: by API, where it is not ``auth``.
            keep_alive: False opens a connection for every request.
        """
        if not keep_alive and self._opened:
            self._opened.append(self._new_session(force_close=True))
        self._auth, self._headers = auth, dict(headers)
        self._paths, self._auth_for = dict(paths or {}), dict(auth_for or {})

    def url(self, api: str, model: str = "") -> str:
        """Return the URL of a form, or of the ``models``."""
        return self.endpoint.route(path_of(api, model, self._paths), self._paths.values())

    async def __aenter__(self) -> Client:
        self._opened.append(self._new_session())
        return self

    def _new_session(self, *, force_close: bool = False) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_request_chunk_sent.append(_stamp_sent)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=force_close),
            headers={"User-Agent": "pytest-kvcache"},
            timeout=aiohttp.ClientTimeout(total=self.endpoint.timeout),
            trace_configs=[trace],
            read_bufsize=_READ,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._opened:
            await self._opened.pop().close()

    # --- generation --------------------------------------------------------------------------------------------------

    async def send(self, call: Call) -> Exchange:
        """Send one request and read its answer. Never raises for what the server or the network does."""
        queued = time.monotonic()
        stamp = SimpleNamespace(sent=None)
        answer = Answer(call.api, call.usage, call.samples)
        status: int | None = None
        headers: Mapping[str, str] = {}
        try:
            body = json.dumps(call.body, separators=(",", ":")).encode()
            url, auth = self.url(call.api, call.model), self._auth_for.get(call.api)
            async with self._request("POST", url, body, self.endpoint.timeout, stamp, auth) as response:
                status, headers = response.status, response.headers
                await self._read_answer(response, answer)
        except Redirected as error:
            status = error.status
            answer.failure = Failure("http", str(error))
        except Exception as error:  # whatever it is, it is this request's outcome, not the loop's
            answer.failure = answer.failure or self._failure(error)
        answer.close(headers)
        end = time.monotonic()
        return Exchange(
            phase=call.phase,
            queued=queued,
            end=end,
            sent=stamp.sent,
            first_content=answer.chunks[0] if answer.chunks else None,
            chunks=tuple(answer.chunks),
            prompt_len=call.prompt_len,
            prompt_tokens=answer.usage.prompt,
            cached_tokens=answer.usage.cached,
            written_tokens=answer.usage.written,
            completion_tokens=answer.usage.completion,
            lookups=call.lookups,
            partial=call.partial,
            finish_reason=answer.finish_reason,
            status=status,
            failure=self._clean(answer.failure, call.body),
            text="".join(answer.text),
            reasoning="".join(answer.reasoning),
            tool_calls=answer.tool_calls,
            prompt_ids=answer.prompt_ids,
            output_ids=answer.output_ids,
            session=call.session,
            turn=call.turn,
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
            answer.chunks.clear()  # all of it came at once, which is no time to a first token

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        limit: float,
        stamp: SimpleNamespace | None = None,
        auth: str | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the answer, behind redirects that stay at the same origin; ``limit`` seconds from here to its last byte.

        Raises:
            Redirected: elsewhere, too often, or a POST that would have to become something else.
        """
        deadline = time.monotonic() + limit
        headers = self.endpoint.headers_for(url, auth or self._auth, self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        target = without_userinfo(url)
        for _ in range(_REDIRECTS + 1):
            async with self._open.request(
                method,
                target,
                data=io.BytesIO(body) if body is not None and len(body) >= _LARGE else body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=max(deadline - time.monotonic(), 0.001)),
                trace_request_ctx=stamp,
            ) as response:
                location = response.headers.get("Location")
                if response.status not in (301, 302, 303, *_REPEATED) or location is None:
                    yield response
                    return
                status, target = response.status, self._followed(method, response, location)
        raise Redirected(f"{without_userinfo(url)}: more than {_REDIRECTS} redirects, the last one to {target}", status)

    def _followed(self, method: str, response: aiohttp.ClientResponse, location: str) -> str:
        here = str(response.url)
        try:
            target = without_userinfo(urljoin(here, location))
            elsewhere = origin_of(target) != origin_of(here)
        except ValueError:
            target, elsewhere = "what is no URL", True
        if elsewhere:
            reason = "another origin; nothing was sent there (name the right server if it is yours)"
        elif method == "POST" and response.status not in _REPEATED:
            reason = f"a POST is not repeated after HTTP {response.status}"
        else:
            return target
        shown = urlsplit(target)._replace(query="", fragment="").geturl()
        raise Redirected(self._shorten(f"{here} is redirected to {shown}: {reason}"), response.status)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, asyncio.TimeoutError):
            return Failure("timeout", f"no complete answer within {self.endpoint.timeout:g} s")
        if isinstance(error, aiohttp.ClientConnectionError) and not isinstance(error, aiohttp.ServerDisconnectedError):
            return Failure("connect", self._shorten(str(error)))
        if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
            return Failure("cut", f"the connection ended inside the answer ({type(error).__name__})")
        return Failure("protocol", self._shorten(f"{type(error).__name__}: {error}"))

    # --- control -----------------------------------------------------------------------------------------------------

    async def get(self, url: str, *, timeout: float | None = None) -> Page:
        """Return a page, whatever its status.

        Redirects are followed within the same origin, at most five.

        Raises:
            EndpointError: nobody listens, the connection broke, the time is over, or it is redirected elsewhere.
        """
        return await self._fetch("GET", url, None, timeout)

    async def post(self, url: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> Page:
        """Return the answer to a POST of ``body`` as JSON, whatever its status.

        Redirects are followed as of :meth:`get`, when they ask for the same POST again.

        Raises:
            EndpointError: nobody listens, the connection broke, the time is over, or it is redirected elsewhere.
        """
        return await self._fetch("POST", url, body, timeout)

    async def request(self, method: str, url: str) -> Page:
        """Return the answer to a request without a body, whatever its status. Raises as :meth:`get`."""
        return await self._fetch(method, url, None, None)

    async def models(self) -> list[dict[str, Any]]:
        """Return the entries of the list of models.

        Raises:
            NoModelList: no such route (404, 405); a provider without one can be used when the model is named.
            EndpointError: unreachable or refused.
            ProtocolError: not a model list.
        """
        page = await self.get(self.url("models"))
        shown = without_userinfo(page.url)
        if page.status in (401, 403):
            raise EndpointError(
                f"{shown} answered {page.status}: {self._explain(page.text)}; "
                f"{'the API key was refused' if self.endpoint.api_key else 'it wants an API key'}"
                " (set the variable that --kv-api-key-env names)"
            )
        if page.status != 200:
            kind = NoModelList if page.status in (404, 405) else EndpointError
            raise kind(
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

    def explain(self, page: Page, body: Mapping[str, Any] | None = None) -> str:
        """Return what a refused page says, one short line without secrets and without the texts of the body sent."""
        return unquoted(self._explain(page.text), body or {})

    async def _fetch(self, method: str, url: str, body: Mapping[str, Any] | None, timeout: float | None) -> Page:
        shown = without_userinfo(url)
        limit = timeout or min(self.endpoint.timeout, 30.0)
        content = None if body is None else json.dumps(body).encode()
        try:
            async with self._request(method, url, content, limit) as response:
                text = await response.text(errors="replace")
                return Page(url, response.status, response.content_type, text)
        except asyncio.TimeoutError:
            raise EndpointError(f"{shown}: no answer within {limit:g} s") from None
        except aiohttp.ClientPayloadError:
            raise EndpointError(f"{shown}: the answer is incomplete, the connection ended inside it") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError(
                f"nobody answers at {shown} ({self._shorten(_reason(error))}); is the server up?"
            ) from None

    @property
    def _open(self) -> aiohttp.ClientSession:
        if not self._opened:
            raise EndpointError("the client is used outside of its `async with` block")
        return self._opened[-1]

    def _explain(self, text: str) -> str:
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if isinstance(body, list) and len(body) == 1:  # Gemini's OpenAI-compatible route
            body = body[0]
        if isinstance(body, dict):
            message = error_message(body)
            if message is not None:
                return self._shorten(message)
        if re.match(r"\s*(<!doctype|<html)", text, re.IGNORECASE):
            title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            return self._shorten("an HTML page" + (f" titled {title[1].strip()!r}" if title else ""))
        return self._shorten(text) or "(empty body)"

    def _clean(self, failure: Failure | None, body: Mapping[str, Any]) -> Failure | None:
        return failure and replace(failure, message=unquoted(self._shorten(failure.message), body))

    def _shorten(self, text: str, limit: int = 300) -> str:
        printable = text.encode("utf-8", "replace").decode()  # JSON can hold halves of surrogate pairs
        line = " ".join(self.endpoint.redact(printable).split())
        return line if len(line) <= limit else line[:limit] + "…"


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
