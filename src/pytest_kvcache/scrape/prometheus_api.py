"""Ask a Prometheus server's HTTP API: what it says, in checked shapes, and what it refuses, in one sentence."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ..endpoint import MetricsSource, without_userinfo
from ..errors import EndpointError, ProtocolError

if TYPE_CHECKING:
    from ..client import Client

Labels = frozenset[tuple[str, str]]
Sample = tuple[float, float]  # time in seconds, value
_T = TypeVar("_T")

_SHOWN = 10  # targets in a message


class Row(BaseModel):
    """One series of a matrix (``values``) or of a vector (``value``)."""

    metric: dict[str, str]
    values: list[Sample] = []
    value: Sample = (0.0, 0.0)

    @property
    def name(self) -> str:
        """Sample name; empty when a function has dropped it."""
        return self.metric.get("__name__", "")

    @property
    def labels(self) -> Labels:
        """Everything but the name."""
        return frozenset((label, value) for label, value in self.metric.items() if label != "__name__")


class Listed(BaseModel):
    """One active target of ``/api/v1/targets``."""

    target: Annotated[dict[str, str], Field(alias="labels")]
    health: str = "unknown"
    every: Annotated[str, Field(alias="scrapeInterval")] = ""

    @property
    def labels(self) -> Labels:
        """As its ``up`` carries them."""
        return frozenset(self.target.items())

    @property
    def interval(self) -> float | None:
        """Seconds between two scrapes; None: not told (before Prometheus 2.28, and elsewhere)."""
        units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
        parts = re.findall(r"(\d+)(ms|[smhd])", self.every)
        return sum(int(number) * units[unit] for number, unit in parts) if parts else None


class _Listing(BaseModel):
    targets: Annotated[list[Listed], Field(alias="activeTargets")]


_ROWS = TypeAdapter(list[Row])
_SCALAR = TypeAdapter(Sample)
_LISTING = TypeAdapter(_Listing)


class Server:
    """The HTTP API of one Prometheus server.

    Every call raises EndpointError (unreachable, refused, a partial answer) or ProtocolError (not that API).

    Args:
        client: open.
        source: where; its path may have a prefix.
    """

    def __init__(self, client: Client, source: MetricsSource) -> None:
        self._client = client
        self._url = source.url
        self.shown = f"Prometheus at {without_userinfo(source.url)}"

    async def now(self) -> float:
        """Return the server's time, in seconds."""
        data = await self._ask("query", query="time()")
        return self._checked(_SCALAR, self._result(data, "scalar"))[1]

    async def rows(self, query: str, kind: Literal["matrix", "vector"], at: float | None = None) -> list[Row]:
        """Return the series that a query gives at a time of the server's; None: at its present."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        data = await self._ask("query", query=query, **when)
        return self._checked(_ROWS, self._result(data, kind))

    async def listed(self) -> list[Listed]:
        """Return the active targets; empty where none are listed, as by servers that only speak the query API."""
        try:
            return self._checked(_LISTING, await self._ask("targets", state="active")).targets
        except (EndpointError, ProtocolError):
            return []

    async def known(self) -> str:
        """Return its targets and their health, for a message."""
        found = [(written(entry.labels), entry.health) for entry in await self.listed()]
        if not found:
            found = [(written(row.labels), "up" if row.value[1] else "down") for row in await self.rows("up", "vector")]
        shown = [f"{labels} ({health})" for labels, health in sorted(found)[:_SHOWN]]
        more = [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "; ".join(shown + more) or "no target at all"

    async def _ask(self, route: str, **parameters: str) -> Any:
        """Return the ``data`` of an answer."""
        parts = urlsplit(self._url)
        query = "&".join(filter(None, (parts.query, urlencode(parameters, quote_via=quote))))
        url = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/api/v1/{route}", query=query, fragment=""))
        try:
            page = await self._client.get(url)
        except EndpointError as error:  # a query of thousands of characters explains nothing
            raise EndpointError(str(error).replace(without_userinfo(url), self.shown)) from None
        said = self._client.explain(page)
        try:
            body = json.loads(page.text)
        except ValueError:
            body = None
        if isinstance(body, dict) and body.get("status") == "error":
            raise EndpointError(f"{self.shown} refused a query ({body.get('errorType')}): {said}")
        if page.status in (401, 403):
            hint = "it wants other credentials: --kv-metrics prometheus+http://USER:PASSWORD@HOST"
            raise EndpointError(f"{self.shown} answered {page.status}: {said}; {hint}")
        if page.status != 200:
            hint = f"expected its HTTP API at /api/v1/{route}: is the path of the URL right, and is the server ready?"
            raise EndpointError(f"{self.shown} answered {page.status}: {said}; {hint}")
        if not isinstance(body, dict) or body.get("status") != "success":
            raise ProtocolError(f"{self.shown}: expected JSON of Prometheus' HTTP API, got {said}")
        if body.get("warnings"):  # of a store behind it that did not answer, for one
            raise EndpointError(f"{self.shown} answered with a warning, numbers may be missing: {body['warnings']}")
        return body.get("data")

    def _result(self, data: Any, kind: str) -> Any:
        if not isinstance(data, dict) or data.get("resultType") != kind:
            raise ProtocolError(f"{self.shown}: expected a {kind} of Prometheus' HTTP API, got {str(data)[:120]!r}")
        return data.get("result")

    def _checked(self, shape: TypeAdapter[_T], data: Any) -> _T:
        try:
            return shape.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the result"
            raise ProtocolError(
                f"{self.shown}: not the shape that Prometheus' HTTP API has: {where}: {first['msg']}"
            ) from None


def written(labels: Labels) -> str:
    """Return labels as PromQL writes them between braces."""
    return ",".join(f'{label}="{value}"' for label, value in sorted(labels))
