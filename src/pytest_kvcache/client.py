"""Speak to one endpoint for one run: requests, streams, stamps.

A :class:`Client` lives inside a run and inside its event loop. Errors of single requests are data
(:class:`~pytest_kvcache.model.Failure`); only the control calls (models, pages) raise.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from .answers import Page, parse_json
from .apis import path_of
from .arrivals import arrivals
from .encoded import encoded
from .endpoint import Endpoint, origin_of, without_userinfo
from .errors import EndpointError, NoModelList, ProtocolError, Redirected
from .failures import explained, failure_of, reason_of, retry_after, shortened
from .model import Exchange, Failure, Phase
from .replies import Answer, Phrases, Reader, UsageReading
from .unquoted import unquoted

_READ = 1 << 16
_REDIRECTS = 5
_REPEATED = (307, 308)  # the only ones after which a POST is sent again as it was
_REDIRECTED = frozenset({301, 302, 303, *_REPEATED})
_PART = 1 << 20  # bytes of a body that are written in one go


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


class _Route(NamedTuple):
    """Where requests go, and what every one of them says."""

    url: str
    headers: Mapping[str, str]


class _Body(aiohttp.Payload):
    """The body of a request, which notes when it was handed to the socket.

    Attributes:
        sent: when (the last part of) it was, in monotonic seconds; None: it never was.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content, content_type="application/json")
        self._content = content
        self.sent: float | None = None

    @property
    def size(self) -> int:
        return len(self._content)

    @property
    def autoclose(self) -> bool:
        return True  # there is nothing to close

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._content.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for start in range(0, len(self._content), _PART):
            part = self._content[start : start + _PART]
            self.sent = time.monotonic()
            await writer.write(part)


class Client:
    """An open session with one endpoint.

    Args:
        endpoint: where and as whom.

    The connector has no limit of its own: how many requests are in flight is the load loop's business, so a request
    never waits here unseen.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.spoken: Mapping[str, Any] | None = None
        self.endpoint = endpoint
        self._opened: list[aiohttp.ClientSession] = []  # the last one is in use
        self._auth = "Authorization"
        self._headers: Mapping[str, str] = {}
        self._paths: Mapping[str, str] = {}
        self._auth_for: Mapping[str, str] = {}
        self._routes: dict[tuple[str, str], _Route] = {}
        self._phrases: defaultdict[str, Phrases] = defaultdict(Phrases)  # by API

    @property
    def endpoint(self) -> Endpoint:
        """Where and as whom."""
        return self._endpoint

    @endpoint.setter
    def endpoint(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._timeout = aiohttp.ClientTimeout(total=endpoint.timeout)
        self._routes = {}

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
        self.spoken = {
            "auth": auth,
            "headers": headers,
            "paths": paths,
            "auth_for": auth_for,
            "keep_alive": keep_alive,
        }
        if not keep_alive and self._opened:
            self._opened.append(self._new_session(force_close=True))
        self._auth, self._headers = auth, dict(headers)
        self._paths, self._auth_for = dict(paths or {}), dict(auth_for or {})
        self._routes = {}

    def url(self, api: str, model: str = "") -> str:
        """Return the URL of a form, or of the ``models``."""
        return self.endpoint.route(path_of(api, model, self._paths), self._paths.values())

    async def __aenter__(self) -> Client:
        self._opened.append(self._new_session())
        return self

    def _new_session(self, *, force_close: bool = False) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=force_close),
            headers={"User-Agent": "pytest-kvcache"},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
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
        body: _Body | None = None
        answer = Answer(call.api, call.usage, call.samples)
        status: int | None = None
        headers: Mapping[str, str] = {}
        try:
            route = self._routes.get((call.api, call.model)) or self._route_of(call)
            body = _Body(encoded(call.body))
            async with await self._request("POST", route, body, self._timeout) as response:
                status, headers = response.status, response.headers
                await self._read_answer(response, answer, call.api, queued + self.endpoint.timeout)
        except Redirected as error:
            status = error.status
            answer.failure = Failure("http", str(error))
        except Exception as error:  # whatever it is, it is this request's outcome, not the loop's
            answer.failure = answer.failure or failure_of(error, self.endpoint)
        answer.close(headers)
        end, chunks, failure = time.monotonic(), answer.chunks, answer.failure
        return Exchange(
            phase=call.phase,
            queued=queued,
            end=end,
            sent=None if body is None else body.sent,
            first_content=chunks[0] if chunks else None,
            last_content=chunks[-1] if chunks else None,
            chunks=chunks,
            prompt_len=call.prompt_len,
            prompt_tokens=answer.usage.prompt,
            cached_tokens=answer.usage.cached,
            written_tokens=answer.usage.written,
            completion_tokens=answer.usage.completion,
            lookups=call.lookups,
            partial=call.partial,
            finish_reason=answer.finish_reason,
            status=status,
            failure=failure
            and replace(failure, message=unquoted(shortened(failure.message, self.endpoint), call.body)),
            text="".join(answer.text),
            reasoning="".join(answer.reasoning),
            tool_calls=answer.tool_calls,
            prompt_ids=answer.prompt_ids,
            output_ids=answer.output_ids,
            session=call.session,
            turn=call.turn,
        )

    async def _read_answer(self, response: aiohttp.ClientResponse, answer: Answer, api: str, deadline: float) -> None:
        if response.status != 200:
            text = await response.text(errors="replace")
            message = f"HTTP {response.status}: {explained(text, self.endpoint)}"
            answer.failure = Failure("http", message, retry_after(response.headers.get("Retry-After")))
            return
        if response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            await arrivals(response, Reader(answer, self._phrases[api]).feed, deadline)
        elif response.content_type == "text/html":
            text = await response.text(errors="replace")
            answer.failure = Failure("protocol", f"expected JSON, got {explained(text, self.endpoint)}")
        else:
            answer.take_body(await response.read(), time.monotonic())
            del answer.chunks[:]  # all of it came at once, which is no time to a first token

    def _route_of(self, call: Call) -> _Route:
        route = self._route(self.url(call.api, call.model), self._auth_for.get(call.api))
        self._routes[call.api, call.model] = route
        return route

    def _route(self, url: str, auth: str | None = None) -> _Route:
        return _Route(without_userinfo(url), self.endpoint.headers_for(url, auth or self._auth, self._headers))

    async def _request(
        self, method: str, route: _Route, body: _Body | None, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Open the answer, behind redirects that stay at the same origin; ``limit`` holds from here to its last byte.

        Raises:
            Redirected: elsewhere, too often, or a POST that would have to become something else.
        """
        began, url = time.monotonic(), route.url
        for _ in range(_REDIRECTS + 1):
            response = await self._open.request(
                method,
                url,
                data=body,
                headers=route.headers,
                allow_redirects=False,
                timeout=limit,
            )
            location = response.headers.get("Location") if response.status in _REDIRECTED else None
            if location is None:
                return response
            async with response:
                url = self._followed(method, response, location)
            left = (limit.total or 0.0) - (time.monotonic() - began)
            limit, began = aiohttp.ClientTimeout(total=max(left, 0.001)), time.monotonic()
        raise Redirected(f"{route.url}: more than {_REDIRECTS} redirects, the last one to {url}", response.status)

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
        raise Redirected(shortened(f"{here} is redirected to {shown}: {reason}", self.endpoint), response.status)

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
                f"{shown} answered {page.status}: {explained(page.text, self.endpoint)}; "
                f"{'the API key was refused' if self.endpoint.api_key else 'it wants an API key'}"
                " (set the variable that --kv-api-key-env names)"
            )
        if page.status != 200:
            kind = NoModelList if page.status in (404, 405) else EndpointError
            raise kind(
                f"{shown} answered {page.status}: {explained(page.text, self.endpoint)}; expected a list of models"
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
        return unquoted(explained(page.text, self.endpoint), body or {})

    async def _fetch(self, method: str, url: str, body: Mapping[str, Any] | None, timeout: float | None) -> Page:
        shown = without_userinfo(url)
        limit = timeout or min(self.endpoint.timeout, 30.0)
        content = None if body is None else _Body(encoded(body))
        try:
            async with await self._request(
                method, self._route(url), content, aiohttp.ClientTimeout(total=limit)
            ) as response:
                text = await response.text(errors="replace")
                return Page(url, response.status, response.content_type, text)
        except asyncio.TimeoutError:
            raise EndpointError(f"{shown}: no answer within {limit:g} s") from None
        except aiohttp.ClientPayloadError:
            raise EndpointError(f"{shown}: the answer is incomplete, the connection ended inside it") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError(
                f"nobody answers at {shown} ({shortened(reason_of(error), self.endpoint)}); is the server up?"
            ) from None

    @property
    def _open(self) -> aiohttp.ClientSession:
        if not self._opened:
            raise EndpointError("the client is used outside of its `async with` block")
        return self._opened[-1]
