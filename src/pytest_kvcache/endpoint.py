"""Where the server is: one base URL, however it was written, and what may be said of it in a report."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from .errors import ConfigurationError
from .hidden import hide

if TYPE_CHECKING:
    from .savings.prices import PriceList

_SERVER = "prometheus+"
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2


Role = Literal["engine", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """Where counters are read.

    Attributes:
        url: a metrics page, or the base of a Prometheus server's HTTP API; may carry user-info.
        name: tells several sources apart; empty: unnamed.
        kind: a ``page``, or a ``prometheus`` server that scrapes it.
        match: label matchers for a server, as PromQL writes them between braces; empty: everything it has.
        renamed: the prefix of the profile's sample names and what the server writes in its place.
        json_page: samples as (name, dotted path) when the page is a list of JSON statistics, drained by reading.
    """

    url: str = field(repr=False)
    name: str = ""
    kind: Literal["page", "prometheus"] = "page"
    match: str = ""
    renamed: tuple[str, str] | None = None
    json_page: tuple[tuple[str, str], ...] = ()

    @property
    def role(self) -> Role:
        """What its engines do: ``prefill`` or ``decode`` at the head of the name are a disaggregated pair's sides."""
        for role in ("prefill", "decode"):
            if self.name.startswith(role):
                return role
        return "engine"

    @property
    def shown(self) -> str:
        """Name, or the URL without user-info."""
        return self.name or without_userinfo(self.url)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One OpenAI-compatible server and how to speak to it. Data only; connections are opened inside a run.

    Attributes:
        base: URL without ``/v1`` and without a slash at the end; user-info, if any, takes the place of a key.
        model: model to ask for; None: the served one, when there is exactly one.
        metrics: where the counters are read; empty: derived from ``base``.
        engine: id of an engine profile; None: detected.
        profiles: the user's own engine profiles, as files or tables.
        api_key: bearer token; never shown.
        headers: further request headers as (name, value); values are never shown.
        timeout: seconds for one request, from queueing to the last byte.
        prices: of models, as the user gave them; None: as the endpoint tells them.
    """

    base: str = field(repr=False)
    model: str | None = None
    metrics: tuple[MetricsSource, ...] = field(default=(), repr=False)
    engine: str | None = None
    profiles: tuple[Path | Mapping[str, Any], ...] = field(default=(), repr=False)
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 300.0
    prices: PriceList | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The base URL without user-info, for reports."""
        return without_userinfo(self.base)

    def sources(self, path: str = "/metrics") -> tuple[MetricsSource, ...]:
        """Return where the counters are read: what was given, else ``path`` beside ``/v1``."""
        if len(self.metrics) < 2:
            return self.metrics or (MetricsSource(f"{self.base}{path}"),)
        return tuple(replace(source, name=source.shown) for source in self.metrics)  # a name tells their engines apart

    def api(self, path: str) -> str:
        """Return the URL of an OpenAI route for traffic of your own, such as ``chat/completions``."""
        return f"{self.url}/v1/{path}"

    def route(self, path: str, own: Iterable[str] = ()) -> str:
        """Return the URL of a path from the base, such as ``/tokenize`` or ``/v1/models``.

        Args:
            path: with a slash at its head.
            own: the provider's own paths, ``{model}`` in them: where the base ends with the head of one, as vendors
                write it (``https://h/v1beta/openai``), that part is not the base's.
        """
        return _without_head(self.url, own) + path

    def headers_for(
        self, url: str, auth: str = "Authorization", headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the request headers for a URL: its own user-info first, and our credentials for our own host only.

        Args:
            url: what is asked for.
            auth: header that carries the API key: a bearer token in ``Authorization``, the bare key in any other.
            headers: what the engine or provider wants beside it; the endpoint's own headers win.
        """
        basic = _basic(url)
        if urlsplit(url).hostname != urlsplit(self.base).hostname:
            return basic
        own = _basic(self.base)
        if not own and self.api_key:
            own = {auth: f"Bearer {self.api_key}" if auth.lower() == "authorization" else self.api_key}
        # names of headers are the same in any case, and one that is sent twice is refused by some servers
        merged: dict[str, tuple[str, str]] = {}
        for part in (headers or {}, own, basic, dict(self.headers)):
            merged.update({name.lower(): (name, value) for name, value in part.items()})
        return dict(merged.values())

    def redact(self, text: str) -> str:
        """Return ``text`` with every secret of this endpoint replaced, for messages that a server may have echoed."""
        return hide(text, self.secrets())

    def secrets(self) -> frozenset[str]:
        """Return everything that no report may show: keys, header values, and user-info of the URLs in any form."""
        told = {self.api_key or "", *(value for _, value in self.headers)}
        for url in (self.base, *(source.url for source in self.metrics)):
            told |= _userinfo(url)
        return frozenset(told - {""})


def parse_base_url(url: str, origin: str) -> str:
    """Return the base of ``url``: scheme, host and path prefix, without ``/v1`` and what follows it.

    ``http://h/gw``, ``http://h/gw/``, ``http://h/gw/v1`` and ``http://h/gw/v1/chat/completions`` are the same base.

    Raises:
        ConfigurationError: not an http(s) URL with a host; ``origin`` says where the value came from.
    """
    parts = _http_url(url, origin, or_else=", or sim for the built-in simulated engine")
    path = parts.path.rstrip("/")
    segments = path.split("/")
    if "v1" in segments:
        last = len(segments) - 1 - segments[::-1].index("v1")
        path = "/".join(segments[:last])
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_header(name: str, value: str) -> bool:
    """Tell whether a header can be sent: a token as its name, and a value without control characters."""
    return _TOKEN.fullmatch(name) is not None and value.replace("\t", " ").isprintable()


def parse_metrics_source(value: str, origin: str) -> MetricsSource:
    """Return a source of counters: ``URL``, ``name=URL``, or either with ``prometheus+`` before the scheme.

    A Prometheus server takes label matchers after ``?match=``, such as ``?match=job="vllm",instance="h:8000"``.

    Raises:
        ConfigurationError: not an http(s) URL with a host, or a name that is none.
    """
    name, separator, url = value.strip().partition("=")
    if not separator or not _NAME.fullmatch(name):
        name, url = "", value
    server = url.strip().startswith(_SERVER)
    parts = _http_url(url.strip().removeprefix(_SERVER), origin)._replace(fragment="")
    if not server:
        return MetricsSource(urlunsplit(parts), name)
    marker, _, match = parts.query.partition("=")
    if parts.query and marker != "match":
        raise ConfigurationError(f'{origin}: expected ?match= with label matchers, such as ?match=job="vllm"')
    base = urlunsplit(parts._replace(query="", path=parts.path.rstrip("/")))
    return MetricsSource(base, name, "prometheus", unquote(match).strip("{}"))


def _without_head(url: str, paths: Iterable[str]) -> str:
    """Return a base without the longest of its ends that is the head of one of the paths."""
    parts = urlsplit(url)
    base = parts.path.split("/")[1:]
    longest = 0
    for path in paths:
        segments = path.partition("?")[0].split("/")[1:]
        for size in range(longest + 1, min(len(base), len(segments)) + 1):
            if all("{model}" in s or s == b for s, b in zip(segments, base[-size:], strict=False)):
                longest = size
    kept = "".join(f"/{segment}" for segment in base[: len(base) - longest])
    return urlunsplit(parts._replace(path=kept))


def _userinfo(url: str) -> set[str]:
    """Return user name and password of a URL, as written and decoded, and the pair as a header carries it."""
    parts = urlsplit(url)
    written = {parts.username or "", parts.password or ""}
    return {*written, *map(unquote, written), *(value.removeprefix("Basic ") for value in _basic(url).values())}


def _basic(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Return what makes two URLs lead to the same server."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def without_userinfo(url: str) -> str:
    """Return ``url`` without user name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _http_url(url: str, origin: str, or_else: str = "") -> SplitResult:
    text = url.strip()
    expected = "expected a URL such as http://127.0.0.1:8000"
    if not text:
        raise ConfigurationError(f"{origin} is empty; {expected}, or leave it out")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # reading the port validates it
    except ValueError as error:
        raise ConfigurationError(
            f"{origin}: {without_userinfo_text(text)!r} is not a URL ({error}); {expected}"
        ) from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(
            f"{origin}: {without_userinfo_text(text)!r} is not an http(s) URL; {expected}{or_else}"
        )
    return parts


def without_userinfo_text(text: str) -> str:
    """Return a malformed URL without what may be a password in front of an ``@``."""
    scheme, separator, rest = text.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
