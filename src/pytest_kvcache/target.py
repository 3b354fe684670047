"""What server is this? Its model, engine, counters and block size, asked once before anything is measured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from . import scrape
from .answers import parse_json
from .client import Client
from .endpoint import MetricsSource
from .engines import Catalogue, Profile, Reader, Variant, shipped
from .engines.counting import in_range
from .engines.rules import FactSource
from .errors import CounterMissing, EndpointError, KVCacheError, ProtocolError
from .model import Finding, ServerFacts
from .savings.listed import listed
from .savings.prices import Prices
from .scrape import Snapshot

USAGE = "usage"
_CONFIRMED = frozenset("SR")
_BLOCK = re.compile(r"[1-9][0-9]{0,8}")
_TOKENS = re.compile(r"[1-9][0-9]{0,14}")
_RESOURCE = "models/"  # Gemini lists its models under their resource names and takes them without


@dataclass(frozen=True, slots=True)
class Target:
    """A checked endpoint.

    Attributes:
        profile: how its engine reports reuse.
        facts: what goes into the report.
        readers: one for each source of counters; empty when there are none to read.
        findings: what is wrong with its counters.
        first: the counters when they were first read, before anything was sent, in the order of ``readers``.
    """

    profile: Profile
    facts: ServerFacts
    readers: tuple[Reader, ...] = ()
    findings: tuple[Finding, ...] = ()
    first: tuple[Snapshot, ...] = ()

    @property
    def disaggregated(self) -> bool:
        """True when replies come from a decode engine, to which the prompt's KV was transferred."""
        return any(reader.source.role == "decode" for reader in self.readers)


async def inspect(client: Client, *, counters: bool = True) -> Target:
    """Check an endpoint and find out how to measure it.

    Args:
        client: open.
        counters: False when only ``usage`` will be judged: then an unreadable metrics page is a doubt, not an error.

    Raises:
        EndpointError: unreachable, refused, the model is not served, or the counters cannot be had.
        ProtocolError: a reply or the page is not understood.
        ConfigurationError: the engine is unknown.
    """
    catalogue = Catalogue(client.endpoint.profiles) if client.endpoint.profiles else shipped()
    known = _known_profile(client, catalogue)
    if known is not None:
        _speak_as(client, known)
    model, limit, prices = await _choose_model(client, known)
    if known is not None and not known.variants:
        return Target(known, _facts(known, model, limit, prices))
    try:
        readers, first = await _read_sources(client, catalogue, known, model)
    except (EndpointError, ProtocolError, CounterMissing) as error:
        if counters:
            family = next(k for k in (EndpointError, ProtocolError, CounterMissing) if isinstance(error, k))
            raise family(f"{error}, or judge by usage alone: --kv-engine=usage") from None
        profile = catalogue.get(USAGE)
        finding = Finding("KV302", f"no counters: {error}", "the rate comes from usage alone")
        return Target(profile, _facts(profile, model, limit, prices), findings=(finding,))
    main, page = next((r, p) for r, p in zip(readers, first, strict=True) if not r.aside)
    _speak_as(client, main.profile)
    facts = replace(
        _facts(main.profile, model, limit, prices),
        variant=main.variant.id if main.variant else None,
        version=main.version,
        block_size=main.block_size,
        capacity=_capacity(main.profile, page, main.block_size),
        caching=_caching(main.profile, page),
        unit=main.variant.unit if main.variant else "tokens",
        counted=main.variant.counted if main.variant else "",
        note=main.variant.note if main.variant else "",
        unconfirmed=main.variant is not None and main.variant.grade not in _CONFIRMED,
    )
    findings = tuple(finding for reader in readers for finding in known_defects(reader))
    return Target(main.profile, facts, readers, findings, first)


def _known_profile(client: Client, catalogue: Catalogue) -> Profile | None:
    if client.endpoint.engine is not None:
        return catalogue.get(client.endpoint.engine)
    if client.endpoint.metrics:
        return None
    return catalogue.provider(urlsplit(client.endpoint.base).hostname or "")


def _speak_as(client: Client, profile: Profile) -> None:
    client.speak(profile.auth, profile.headers, profile.paths, profile.auth_for, keep_alive=profile.keep_alive)


def _facts(profile: Profile, model: str, limit: int | None, prices: Prices | None) -> ServerFacts:
    return ServerFacts(
        engine=profile.id,
        model=model,
        max_model_len=limit,
        simulated=profile.simulated,
        usage_flag=profile.usage_flag,
        caching_flag=profile.caching_flag,
        unconfirmed=profile.grade not in _CONFIRMED,
        whole_prompt_hits=profile.full_hit.cap == "L",
        probe_tokens=profile.lookups.probe_tokens,
        block_usual=profile.block_usual,
        step=profile.step,
        minimum=profile.minimum,
        isolation=profile.isolation,
        prices=prices,
    )


# --- the model -------------------------------------------------------------------------------------------------------


async def _choose_model(client: Client, known: Profile | None) -> tuple[str, int | None, Prices | None]:
    provider = known is not None and known.kind == "provider"
    resource = _RESOURCE if provider else ""  # an engine may be started with the model in a folder of that name
    wanted = client.endpoint.model and client.endpoint.model.removeprefix(resource)
    try:
        entries = await client.models()
    except EndpointError:
        if not provider or wanted is None:
            raise
        return wanted, None, _prices(client, wanted)  # not every provider lists its models
    ids = [entry["id"] for entry in entries]
    served = f"{client.endpoint.url} serves {_listed(ids)}"
    if wanted is None:
        roots = [e for e in entries if not e.get("parent")]  # adapters name their base model as parent
        if len(roots) != 1:
            raise EndpointError(f"{served}; say which one to ask for with --kv-model")
        chosen = roots[0]
    else:
        found = [entry for entry in entries if entry["id"] in (wanted, f"{resource}{wanted}")]
        if not found:
            raise EndpointError(f"{served}, not {wanted!r}; correct --kv-model")
        chosen = found[0]
    limit = chosen.get("max_model_len")
    model = chosen["id"].removeprefix(resource)
    return model, limit if isinstance(limit, int) else None, _prices(client, model, chosen)


def _prices(client: Client, model: str, entry: Mapping[str, Any] | None = None) -> Prices | None:
    """Return what the user says of a model's prices, else what its entry in the list of models says."""
    given = client.endpoint.prices
    found = given.of(model) if given is not None else None
    found = found or listed(entry or {})
    if found is None and given is not None:
        return Prices(origin="--kv-prices", problem=f"no pattern of it fits {model!r}")
    return found


# --- the counters ----------------------------------------------------------------------------------------------------


async def _read_sources(
    client: Client, catalogue: Catalogue, known: Profile | None, model: str
) -> tuple[tuple[Reader, ...], tuple[Snapshot, ...]]:
    sources = client.endpoint.sources(known.metrics_path if known else "/metrics")
    if known is not None and known.json_page:
        sources = tuple(replace(source, json_page=tuple(known.json_page.items())) for source in sources)
    names = known.samples() if known is not None else catalogue.samples()
    pages = await asyncio.gather(*(scrape.fetch(client, source, names) for source in sources))
    readers = [
        await _reader(client, source, page, known, catalogue, model)
        for source, page in zip(sources, pages, strict=True)
    ]
    if all(reader.aside for reader in readers):
        raise EndpointError(
            f"{_listed(s.shown for s in sources)}: every page is of a decode engine or a cache server, which are"
            " shown beside an engine's; name the page of the engine that prefills too (--kv-metrics prefill=URL)"
        )
    sizes = {reader.block_size for reader in readers if not reader.aside} - {None}
    if len(sizes) > 1:
        raise ProtocolError(
            f"engines with different block sizes ({_listed(sorted(map(str, sizes)))}) behind one endpoint"
        )
    return tuple(readers), tuple(pages)


async def _reader(
    client: Client, source: MetricsSource, page: Snapshot, known: Profile | None, catalogue: Catalogue, model: str
) -> Reader:
    profile = known or catalogue.detect(page.names())
    if profile is None:
        raise ProtocolError(
            f"{page.origin} carries none of the samples of a known engine: are its statistics switched off, or is this"
            " a router's page? Name the engine's page with --kv-metrics"
        )
    if not profile.variants or profile.kind == "gateway":
        raise EndpointError(
            f"{page.origin} is the page of {profile.title}, which has no hit counters: {profile.instead}"
        )
    version = await _version(client, profile)
    variant = _variant(profile, version, page)
    return Reader(
        source=source,
        profile=profile,
        variant=variant,
        version=version,
        block_size=await _block_size(client, profile, page),
        model=_served_under(profile, variant, page, model),
    )


def _variant(profile: Profile, version: str | None, page: Snapshot) -> Variant:
    names = {name for name, _ in page.samples}
    variant = profile.variant(version, names)
    if variant is not None and variant.needed() <= names:
        return variant
    for gauge in profile.unmeasurable:
        if names.issuperset(gauge.present):
            raise EndpointError(f"{page.origin} ({profile.title}): {gauge.why}")
    if variant is None:
        known = _listed(v.versions or v.id for v in profile.variants)
        names_looked_for = _listed(sorted({name for v in profile.variants for name in v.needed()}))
        raise EndpointError(
            f"{profile.title} {version or '(version unknown)'} has no counters that can be measured; known are {known};"
            f" looked for {names_looked_for}"
        )
    missing = _listed(sorted(variant.needed() - names))
    hint = f" ({profile.metrics_flag})" if profile.metrics_flag else ""
    raise CounterMissing(
        f"{page.origin} looks like {profile.title} and has no {missing}; expected its hit counters{hint}"
    )


def _served_under(profile: Profile, variant: Variant, page: Snapshot, model: str) -> str | None:
    """Return the model to filter by, when the page counts several and one is ours."""
    if profile.model_label is None:
        return None
    names = dict.fromkeys(s.sample for s in variant.query)
    values = {value for name in names for value in page.label(name, profile.model_label)}
    return model if len(values) > 1 and model in values else None


def known_defects(reader: Reader, tier: str | None = None) -> Iterable[Finding]:
    """Return what is known to be wrong with the counters of this engine, or of one of its tiers."""
    for defect in reader.profile.distrust:
        if defect.tier != tier:
            continue
        if defect.role is not None and defect.role != reader.source.role:
            continue
        if defect.versions and (reader.version is None or not in_range(reader.version, defect.versions)):
            continue
        code = "KV124" if defect.invalid else "KV310"
        yield Finding(code, f"{reader.profile.title} {reader.version or ''}: {defect.why}".replace(" :", ":"))


# --- facts that the server tells -------------------------------------------------------------------------------------


async def _version(client: Client, profile: Profile) -> str | None:
    if profile.version_route is None:
        return None
    value = await _told(client, profile.version_route, profile.version_field)
    return value if isinstance(value, str) else None


async def _block_size(client: Client, profile: Profile, page: Snapshot) -> int | None:
    if profile.block_fixed is not None:
        return profile.block_fixed
    for source in profile.block_size:
        values = await _values(client, source, page)
        if len(values) > 1:
            raise ProtocolError(
                f"{page.origin}: engines with different block sizes ({_listed(values)}) behind one endpoint"
            )
        if values and _BLOCK.fullmatch(values[0]):
            return int(values[0])
    return None


async def _values(client: Client, source: FactSource, page: Snapshot) -> Sequence[str]:
    if source.sample is not None and source.label is not None:
        return page.label(source.sample, source.label)
    if source.sample is not None:
        return sorted({f"{value:.0f}" for value in page.series(source.sample).values()})
    if source.route is not None and source.field is not None:
        value = await _told(client, source.route, source.field)
        return [] if value is None else [str(value)]
    return []


async def _told(client: Client, route: str, field: str) -> Any:
    try:
        page = await client.get(client.endpoint.route(route))
        found = parse_json(page) if page.status == 200 else None
    except KVCacheError:
        return None  # a proxy may hide the route; the page's samples decide then
    for part in field.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _capacity(profile: Profile, page: Snapshot, block: int | None) -> int | None:
    source = profile.capacity
    told = page.label(source.sample, source.label) if source and source.sample and source.label else []
    sizes = [int(value) for value in told if _TOKENS.fullmatch(value)]
    return min(sizes) - profile.reserved_blocks * (block or 0) if sizes else None


def _caching(profile: Profile, page: Snapshot) -> bool | None:
    source = profile.caching
    values = page.label(source.sample, source.label) if source and source.sample and source.label else []
    return source.off not in values if source and values else None


def _listed(names: Iterable[object]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown) if shown else "nothing"
