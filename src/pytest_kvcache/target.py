"""What server is this? Its model, engine, block size and tokenizer, asked once before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import scrape
from .client import Client, parse_json
from .engines import Profile, Variant, builtin_profiles, detect
from .errors import ConfigurationError, EndpointError, KVCacheError, ProtocolError
from .model import Finding, ServerFacts

USAGE = "usage"


@dataclass(frozen=True, slots=True)
class Target:
    """A checked endpoint.

    Attributes:
        profile: how its engine reports reuse.
        variant: how its version counts; None when there are no counters to read.
        facts: what goes into the report.
        findings: what is wrong with its counters, when the run does without them.
        page: the counters when they were first read, before anything was sent; None without counters.
    """

    profile: Profile
    variant: Variant | None
    facts: ServerFacts
    findings: tuple[Finding, ...] = ()
    page: scrape.Snapshot | None = None


async def inspect(client: Client, *, counters: bool = True) -> Target:
    """Check an endpoint and find out how to measure it.

    Args:
        client: open.
        counters: False when only ``usage`` will be judged: then an unreadable metrics page is a doubt, not an error.

    Raises:
        EndpointError: unreachable, refused, the model is not served, or the metrics page cannot be had.
        ProtocolError: a reply or the page is not understood.
        ConfigurationError: the engine is unknown.
    """
    model, limit = _choose_model(client, await client.models())
    forced = _forced_profile(client)
    if forced is not None and not forced.variants:
        return Target(forced, None, _usage_facts(forced, model, limit))
    try:
        profile, page = await _read_page(client, forced)
        version = await _version(client, profile)
        variant = _variant(profile, version, page)
    except (EndpointError, ProtocolError) as error:
        if counters:
            raise type(error)(f"{error}, or judge by usage alone: --kv-engine=usage") from None
        profile = builtin_profiles()[USAGE]
        finding = Finding("KV302", f"no counters: {error}", "the rate comes from usage alone")
        return Target(profile, None, _usage_facts(profile, model, limit), (finding,))
    facts = ServerFacts(
        engine=profile.id,
        model=model,
        variant=variant.id,
        version=version,
        block_size=_block_size(profile, page),
        caching=_caching(profile, page),
        max_model_len=limit,
        simulated=profile.simulated,
        usage_flag=profile.usage_flag,
        caching_flag=profile.caching_flag,
    )
    return Target(profile, variant, facts, page=page)


def _usage_facts(profile: Profile, model: str, limit: int | None) -> ServerFacts:
    return ServerFacts(profile.id, model, max_model_len=limit, usage_flag=profile.usage_flag)


def _choose_model(client: Client, entries: list[dict[str, Any]]) -> tuple[str, int | None]:
    ids = [entry["id"] for entry in entries]
    wanted = client.endpoint.model
    served = f"{client.endpoint.url} serves {_listed(ids)}"
    if wanted is None:
        roots = [e for e in entries if not e.get("parent")]  # adapters name their base model as parent
        if len(roots) != 1:
            raise EndpointError(f"{served}; say which one to ask for with --kv-model")
        chosen = roots[0]
    else:
        found = [entry for entry in entries if entry["id"] == wanted]
        if not found:
            raise EndpointError(f"{served}, not {wanted!r}; correct --kv-model")
        chosen = found[0]
    limit = chosen.get("max_model_len")
    return chosen["id"], limit if isinstance(limit, int) else None


def _forced_profile(client: Client) -> Profile | None:
    name = client.endpoint.engine
    if name is None:
        return None
    profiles = builtin_profiles()
    if name not in profiles:
        raise ConfigurationError(f"unknown engine {name!r}; known are {_listed(profiles)}")
    return profiles[name]


async def _read_page(client: Client, forced: Profile | None) -> tuple[Profile, scrape.Snapshot]:
    candidates = [forced] if forced else builtin_profiles().values()
    page = await scrape.fetch(client, {name for profile in candidates for name in profile.samples()})
    profile = forced or detect(name for name, _ in page.samples)
    if profile is None:
        raise ProtocolError(
            f"{page.origin} carries none of the samples of a known engine ({_listed(_detectable())});"
            " are its statistics switched off, or is this a router's page? Name the engine's page with --kv-metrics"
        )
    return profile, page


async def _version(client: Client, profile: Profile) -> str | None:
    if profile.version_route is None:
        return None
    try:
        page = await client.get(client.endpoint.route(profile.version_route))
        body = parse_json(page) if page.status == 200 else None
    except KVCacheError:
        return None  # a proxy may hide the route; the page's samples decide then
    version = body.get("version") if isinstance(body, dict) else None
    return version if isinstance(version, str) else None


def _variant(profile: Profile, version: str | None, page: scrape.Snapshot) -> Variant:
    variant = profile.variant(version, (name for name, _ in page.samples))
    if variant is None:
        known = _listed(variant.versions for variant in profile.variants)
        raise EndpointError(
            f"{profile.title} {version or '(version unknown)'} has no counters that can be measured; known are {known}"
        )
    return variant


def _block_size(profile: Profile, page: scrape.Snapshot) -> int | None:
    source = profile.block_size
    values = page.label(source.sample, source.label) if source else []
    if len(values) > 1:
        raise ProtocolError(
            f"{page.origin}: engines with different block sizes ({_listed(values)}) behind one endpoint"
        )
    return int(values[0]) if values and values[0].isdigit() and int(values[0]) > 0 else None


def _caching(profile: Profile, page: scrape.Snapshot) -> bool | None:
    source = profile.caching
    values = page.label(source.sample, source.label) if source else []
    return source.off not in values if source and values else None


def _detectable() -> list[str]:
    return [profile.id for profile in builtin_profiles().values() if profile.detect.any]


def _listed(names: Iterable[object]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown) if shown else "nothing"
