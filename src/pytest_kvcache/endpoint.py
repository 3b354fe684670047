"""Where the server is: one base URL, however it was written, and what may be said of it in a report."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from .errors import ConfigurationError

_API_ROOT = "/v1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One OpenAI-compatible server and how to speak to it. Data only; connections are opened inside a run.

    Attributes:
        base: URL without ``/v1`` and without a slash at the end; user-info, if any, takes the place of a key.
        model: model to ask for; None: the served one, when there is exactly one.
        metrics: pages with the server's counters; empty: derived from ``base``.
        engine: id of an engine profile; None: detected.
        api_key: bearer token; never shown.
        headers: further request headers as (name, value); values are never shown.
        timeout: seconds for one request, from queueing to the last byte.
    """

    base: str = field(repr=False)
    model: str | None = None
    metrics: tuple[str, ...] = field(default=(), repr=False)
    engine: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 300.0

    @property
    def url(self) -> str:
        """The base URL without user-info, for reports."""
        return without_userinfo(self.base)

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        """The pages to scrape: those given, else ``/metrics`` beside ``/v1``."""
        return self.metrics or (f"{self.base}/metrics",)

    def api(self, path: str) -> str:
        """Return the URL of an OpenAI route, such as ``chat/completions``."""
        return f"{self.url}{_API_ROOT}/{path}"

    def route(self, path: str) -> str:
        """Return the URL of a route beside ``/v1``, such as ``/tokenize``."""
        return self.url + path

    def headers_for(self, url: str) -> dict[str, str]:
        """Return the request headers for a URL: its own user-info first, and our credentials for our own host only."""
        basic = _basic(url)
        if urlsplit(url).hostname != urlsplit(self.base).hostname:
            return basic
        own = _basic(self.base) or ({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {})
        return {**own, **basic, **dict(self.headers)}

    def redact(self, text: str) -> str:
        """Return ``text`` with every secret of this endpoint replaced, for messages that a server may have echoed."""
        parts = urlsplit(self.base)
        secrets = {self.api_key, parts.password, parts.username, *(value for _, value in self.headers)}
        for secret in sorted((s for s in secrets if s and len(s) > 3), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def parse_base_url(url: str, origin: str) -> str:
    """Return the base of ``url``: scheme, host and path prefix, without ``/v1`` and what follows it.

    ``http://h/gw``, ``http://h/gw/``, ``http://h/gw/v1`` and ``http://h/gw/v1/chat/completions`` are the same base.

    Raises:
        ConfigurationError: not an http(s) URL with a host; ``origin`` says where the value came from.
    """
    parts = _http_url(url, origin)
    path = parts.path.rstrip("/")
    segments = path.split("/")
    if "v1" in segments:
        last = len(segments) - 1 - segments[::-1].index("v1")
        path = "/".join(segments[:last])
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def parse_metrics_url(url: str, origin: str) -> str:
    """Return ``url`` when it is an http(s) URL with a host; its query is kept.

    Raises:
        ConfigurationError: otherwise.
    """
    return urlunsplit(_http_url(url, origin)._replace(fragment=""))


def _basic(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def without_userinfo(url: str) -> str:
    """Return ``url`` without user name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _http_url(url: str, origin: str) -> SplitResult:
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
        raise ConfigurationError(f"{origin}: {without_userinfo_text(text)!r} is not an http(s) URL; {expected}")
    return parts


def without_userinfo_text(text: str) -> str:
    """Return a malformed URL without what may be a password in front of an ``@``."""
    scheme, separator, rest = text.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]
