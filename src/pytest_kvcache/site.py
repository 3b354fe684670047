"""Where a workload is bound: its server's tokens, and what it can be asked before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from .answers import parse_json
from .calls import Calls
from .client import Client
from .errors import EndpointError, ProtocolError
from .model import Exchange, Request, ServerFacts
from .protocols import Tokenizer
from .target import Target
from .tokenizer import tokenizer_of

_NO_ROUTE = (404, 405, 501)
_MOST = 1 << 32  # token ids are kept in four bytes


@dataclass(slots=True)
class Site:
    """One server, as a :class:`~pytest_kvcache.protocols.Workload` sees it.

    Attributes:
        client: open.
        target: the checked endpoint.
        calls: how requests are put to it.
        nonce: of this run.
        series: nonce of what runs of this session share.
        warm: what earlier runs of this session have warmed here.
        spec: the tokenizer that the user named; None: what the profile says.
        asked: every exchange of :meth:`ask`; the server's counters have seen them.
    """

    client: Client
    target: Target
    calls: Calls
    nonce: str
    series: str = ""
    warm: Set[str] = frozenset()
    spec: str | None = None
    asked: list[Exchange] = field(default_factory=list)
    _tokenizer: Tokenizer | None = None

    @property
    def facts(self) -> ServerFacts:
        """What the endpoint told about itself."""
        return self.target.facts

    @property
    def as_ids(self) -> bool:
        """True where completions take token ids."""
        return self.target.profile.prompt_ids

    @property
    def token_ids(self) -> Mapping[str, Any]:
        """Fields that make the server tell token ids."""
        return self.target.profile.token_ids

    async def tokenizer(self) -> Tokenizer:
        """Return the server's tokenizer, found at the first call."""
        if self._tokenizer is None:
            self._tokenizer = await tokenizer_of(self.client, self.target, self.spec)
        return self._tokenizer

    async def ask(self, request: Request) -> Exchange:
        """Send one request before the window."""
        exchange = await self.client.send(self.calls(request))
        self.asked.append(exchange)
        return exchange

    async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        """Return the token ids that the server makes of a chat or completions body; None when it does not tell."""
        prompt = body.get("prompt")
        if isinstance(prompt, str):
            return await self._tokens_of_text(prompt)
        if prompt is not None:
            return prompt if are_ids(prompt) else None
        rule = self.target.profile.rendering
        if rule is None or "messages" not in body:
            return None
        handed = {name: body[name] for name in rule.fields if name in body}
        if rule.template is None:
            return await self._tokens({"model": body.get("model", self.facts.model), **handed})
        reply = await self._post(rule.template, handed)
        if reply is None:
            return None
        text = reply.get(rule.template_field)
        if not isinstance(text, str):
            raise ProtocolError(f"{rule.template}: expected {rule.template_field!r}, a text, got {_kind(text)}")
        return await self._tokens(self._text_body(text) | rule.request)

    async def _tokens_of_text(self, text: str) -> Sequence[int] | None:
        """Return the ids of a text: by a tokenizer at hand, else by the server's."""
        if self.spec is None and self.target.profile.tokenizer is None:
            return await self._tokens(self._text_body(text))
        if any("\ud800" <= character <= "\udfff" for character in text):
            return None  # half of a surrogate pair, which JSON may carry and no tokenizer takes
        (ids,) = (await self.tokenizer()).encode([text])
        return ids or None

    def _text_body(self, text: str) -> dict[str, Any]:
        profile = self.target.profile
        return {"model": self.facts.model, profile.tokenize_field: text, **profile.tokenize_request}

    async def _tokens(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        route = self.target.profile.tokenize
        reply = None if route is None else await self._post(route, body)
        if reply is None:
            return None
        tokens = reply.get("tokens")
        if not are_ids(tokens):
            raise ProtocolError(f"{route}: expected 'tokens', a list of ids, got {_kind(tokens)}")
        return tokens

    async def _post(self, route: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what a route answers; None when there is no such route, which a proxy may hide."""
        page = await self.client.post(self.client.endpoint.route(route), body)
        if page.status in _NO_ROUTE:
            return None
        if page.status != 200:
            raise EndpointError(
                f"{self.client.endpoint.url}{route} answered {page.status}: {self.client.explain(page, body)}"
            )
        reply = parse_json(page)
        return reply if isinstance(reply, dict) else {}


def are_ids(value: object) -> TypeGuard[list[int]]:
    """Tell whether a value of JSON is a list of token ids, at least one."""
    return isinstance(value, list) and bool(value) and all(type(i) is int and 0 <= i < _MOST for i in value)


def _kind(value: object) -> str:
    # The prompt itself may stand in such an answer, so only its kind is told.
    return "nothing" if value is None else f"{type(value).__name__} of another form"
