"""Which tokenizer counts this server's tokens: the one that was named, the engine's own, or what the server answers."""

from __future__ import annotations

from .answers import parse_json
from .client import Client
from .errors import EndpointError, ProtocolError, WorkloadError
from .protocols import Tokenizer
from .target import Target


class NoTokenizer(WorkloadError):
    """The server does not tell its tokens, and no tokenizer was named."""


async def tokenizer_of(client: Client, target: Target, spec: str | None) -> Tokenizer:
    """Return the server's tokenizer.

    Args:
        client: open.
        target: whose profile may know a tokenizer, or a route that tokenises.
        spec: file, folder, hub id or ``builtin``; None: what the profile says.

    Raises:
        NoTokenizer: there is none.
        WorkloadError: it cannot be loaded.
        EndpointError, ProtocolError: the route refuses, or its answer is not understood.
    """
    from .workloads.tokens import learn_server_tokenizer, load_tokenizer

    chosen = spec or target.profile.tokenizer
    if chosen is not None:
        return load_tokenizer(chosen)
    route = target.profile.tokenize
    if route is None:
        raise NoTokenizer(
            f"{target.profile.title} does not tell its tokens; name its tokenizer with --kv-tokenizer"
            " (a tokenizer.json, a folder with one, or a hub id)"
        )
    field = target.profile.tokenize_field

    async def tokenize(text: str) -> list[int]:
        body = {"model": target.facts.model, field: text, **target.profile.tokenize_request}
        page = await client.post(client.endpoint.route(route), body)
        if page.status != 200:
            raise EndpointError(
                f"{client.endpoint.url}{route} answered {page.status}: {client.explain(page)};"
                " name the tokenizer with --kv-tokenizer"
            )
        reply = parse_json(page)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ProtocolError(
                f"{client.endpoint.url}{route}: expected 'tokens', a list of ids, got {page.text[:120]!r}"
            )
        return tokens

    return await learn_server_tokenizer(tokenize)
