"""Empty the server's cache, and prove it: a reset is believed only after a probe shows a cold cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .answers import Page, parse_json
from .client import Client
from .engines.counters import tokens_by_engine
from .engines.counting import LOCAL
from .engines.rules import Reset
from .errors import EndpointError, KVCacheError, ProtocolError
from .model import Exchange, Request, ResetMode
from .reconcile import sent
from .target import Target
from .window import settle

NOT_RESET = "not reset"
VERIFIED = "reset, verified by a probe"
BUSY_SECONDS = 10.0  # how long a refusal because of running requests is tried again
_PAUSE = 0.2

Send = Callable[[Request], Awaitable[Exchange]]


async def reset(
    client: Client, target: Target, mode: ResetMode, make_probe: Callable[[], Awaitable[Request]], send: Send
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
    if mode == "require" and not state.startswith(VERIFIED):
        raise EndpointError(f"--kv-reset=require: the cache could not be reset; {state}")
    return state


async def _reset(client: Client, target: Target, make_probe: Callable[[], Awaitable[Request]], send: Send) -> str:
    rule = target.profile.reset
    if rule is None:
        return f"reset: unavailable ({target.profile.title} has no route for it)"
    probe = await make_probe()
    warmed = await send(probe)
    refusal = await _empty(client, rule)
    if refusal is not None:
        return refusal
    again, tiers = await _send_and_count(client, target, probe, send)
    if warmed.failure or again.failure:
        failure = warmed.failure or again.failure
        return f"reset: sent, but the probe failed ({failure.message if failure else ''})"
    left = sum(tiers.values()) if tiers is not None else again.cached_tokens
    if left is None:
        return f"reset: sent, but not verified (no cached_tokens; the server needs {target.profile.usage_flag})"
    if left:
        where = ", ".join(f"{tier} still hit {tokens:,}" for tier, tokens in (tiers or {}).items() if tokens)
        kept = f"; {rule.survives} survives it" if rule.survives else ""
        return f"reset: incomplete (a prompt sent before it: {where or f'still hit {left:,}'} tokens{kept})"
    unseen = rule.survives if set(tiers or ()) <= {LOCAL} else ""  # a tier with counters of its own was seen cold
    return f"{VERIFIED}; it may leave {unseen}" if unseen else VERIFIED


async def _empty(client: Client, rule: Reset) -> str | None:
    """Ask the server to empty its cache, again while requests run; return why it did not, None when it says it did."""
    try:
        paths = await _paths(client, rule)
        for path in paths:
            refusal = await _ask(client, rule, path)
            if refusal is not None:
                return refusal
    except KVCacheError as error:
        return f"reset: unavailable ({error})"
    return None


async def _ask(client: Client, rule: Reset, path: str) -> str | None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        page = await client.request(rule.method, client.endpoint.route(path))
        busy = page.status == rule.busy_status or (page.status == 200 and _says_no(page, rule.success_field))
        if not busy:
            needs = f"; it needs {rule.needs}" if rule.needs else ""
            return None if page.status == 200 else f"reset: unavailable ({page.status}){needs}"
        if time.monotonic() > deadline:
            return (
                f"reset: refused by the server for {BUSY_SECONDS:g} s, requests were running ({client.explain(page)})"
            )
        await asyncio.sleep(_PAUSE)


async def _paths(client: Client, rule: Reset) -> list[str]:
    if "{slot}" not in rule.path or rule.slots_route is None:
        return [rule.path]
    found: Any = parse_json(await client.get(client.endpoint.route(rule.slots_route)))
    slots = found.get(rule.slots_field) if isinstance(found, dict) else None
    if not isinstance(slots, int):
        raise ProtocolError(f"{rule.slots_route}: expected {rule.slots_field}, a number of slots, got {slots!r}")
    return [rule.path.replace("{slot}", str(slot)) for slot in range(slots)]


async def _send_and_count(
    client: Client, target: Target, probe: Request, send: Send
) -> tuple[Exchange, Mapping[str, int] | None]:
    """Send the probe again and return what each tier found of it, None when the counters cannot tell."""
    if not target.readers or target.facts.unit != "tokens":
        return await send(probe), None
    before = await settle(client, target.readers, target.first, 0)
    exchange = await send(probe)
    expected = sent([exchange])
    after = await settle(client, target.readers, before, expected.low)
    tiers: dict[str, int] = {}
    looked_up = 0
    for reader, first, last in zip(target.readers, before, after, strict=True):
        if reader.aside:
            continue
        for tokens in tokens_by_engine(reader, first, last).values():
            looked_up += tokens.query
            for tier, hits in tokens.hits.items():
                tiers[tier] = tiers.get(tier, 0) + hits
    return exchange, tiers if looked_up == expected.low else None  # else another client's hits may be among them


def _says_no(page: Page, field: str | None) -> bool:
    if field is None:
        return False
    try:
        body = parse_json(page)
    except ProtocolError:
        return False  # before vLLM 0.26 the body is empty; only the probe can tell
    return isinstance(body, dict) and body.get(field) is False
