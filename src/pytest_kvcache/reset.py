"""Empty the server's cache, and prove it: a reset is believed only after a probe shows a cold cache."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .client import Client, Page, parse_json
from .errors import EndpointError, ProtocolError
from .model import Exchange, Request, ResetMode
from .target import Target

NOT_RESET = "not reset"
VERIFIED = "reset, verified by a probe"


async def reset(
    client: Client,
    target: Target,
    mode: ResetMode,
    make_probe: Callable[[], Request],
    send: Callable[[Request], Awaitable[Exchange]],
) -> str:
    """Reset the cache as asked and return what is known of its state, one line for every result.

    Args:
        client: open.
        target: whose profile knows the route.
        mode: ``never`` touches nothing, ``auto`` resets where that is possible, ``require`` insists.
        make_probe: makes a prompt that nobody sent before, longer than two blocks; called only when something is reset.
        send: sends one request of the workload.

    Raises:
        EndpointError: ``require`` and the cache was not shown to be cold.
    """
    if mode == "never":
        return NOT_RESET
    state = await _reset(client, target, make_probe, send)
    if mode == "require" and state != VERIFIED:
        raise EndpointError(f"--kv-reset=require: the cache could not be reset; {state}")
    return state


async def _reset(
    client: Client, target: Target, make_probe: Callable[[], Request], send: Callable[[Request], Awaitable[Exchange]]
) -> str:
    rule = target.profile.reset
    if rule is None:
        return f"reset: unavailable ({target.profile.title} has no route for it)"
    probe = make_probe()
    warmed = await send(probe)
    page = await client.post(client.endpoint.route(rule.path))
    if page.status != 200:
        return f"reset: unavailable ({page.status}); it needs {rule.needs}"
    if rule.success_field is not None and not _succeeded(page, rule.success_field):
        return f"reset: refused by the server ({client.explain(page)})"
    again = await send(probe)
    if warmed.failure or again.failure:
        failure = warmed.failure or again.failure
        return f"reset: sent, but the probe failed ({failure.message if failure else ''})"
    if again.cached_tokens is None:
        return f"reset: sent, but not verified (no cached_tokens; the server needs {target.profile.usage_flag})"
    if again.cached_tokens:
        return f"reset: incomplete (a prompt sent before it still hit {again.cached_tokens} tokens)"
    return VERIFIED


def _succeeded(page: Page, field: str) -> bool:
    try:
        body = parse_json(page)
    except ProtocolError:
        return True  # before vLLM 0.26 the body is empty; only the probe can tell
    return not isinstance(body, dict) or body.get(field) is not False
