"""Engines and providers, from their profiles: what is read of each, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_kvcache.engines import shipped
from pytest_kvcache.engines.counting import Selector, Variant
from pytest_kvcache.engines.profile import Profile

from .markup import code, table

KINDS = ("engine", "tier", "gateway", "provider")


def overview() -> str:
    """Return one line for each profile."""
    head = ("id", "name", "kind", "counters", "usage of", "reset", "separates caches", "evidence")
    return table(head, map(_row, sorted(shipped(), key=lambda profile: KINDS.index(profile.kind))))


def details() -> str:
    """Return a section for each profile that counts: its variants, and the counters that they read."""
    return "\n\n".join(_section(profile) for profile in shipped() if profile.variants)


def _row(profile: Profile) -> tuple[str, ...]:
    units = dict.fromkeys(variant.unit for variant in profile.variants)
    name = f"[`{profile.id}`](#engine-{profile.id})" if profile.variants else code(profile.id)
    return (
        name,
        profile.title,
        profile.kind,
        ", ".join(units) or "none",
        ", ".join(dict.fromkeys(rule.api for rule in profile.usage)),
        code(f"{profile.reset.method} {profile.reset.path}") if profile.reset else "",
        ", ".join(map(code, profile.isolation)),
        _grades(profile),
    )


def _grades(profile: Profile) -> str:
    found = [variant.grade for variant in profile.variants] + [rule.grade for rule in profile.usage]
    return ", ".join(sorted(set(found or [profile.grade]), key="SRDITN".index))


def _section(profile: Profile) -> str:
    rows = [_variant(variant) for variant in profile.variants]
    head = ("variant", "versions", "hit tokens", "query tokens", "unit", "counted at", "evidence")
    hit = f"A prompt that is cached whole hits {profile.full_hit.cap} tokens, down to a {profile.full_hit.align}."
    doubts = "\n".join(f"- {each.versions or 'every version'}: {each.why}" for each in profile.distrust)
    known = f"Known defects:\n\n{doubts}" if doubts else ""
    title = f"(engine-{profile.id})=\n## {profile.title}"
    return "\n\n".join(filter(None, (title, f"`--kv-engine={profile.id}`. {hit}", table(head, rows), known)))


def _variant(variant: Variant) -> tuple[str, ...]:
    hits = "; ".join(f"{tier}: {_samples(selectors)}" for tier, selectors in variant.hits.items())
    versions = code(variant.versions) or "any"
    evidence = f"{variant.grade}: {variant.source}"
    return code(variant.id), versions, hits, _samples(variant.query), variant.unit, variant.counted, evidence


def _samples(selectors: Iterable[Selector]) -> str:
    return " + ".join(code(_selector(each)) for each in selectors)


def _selector(each: Selector) -> str:
    where = ", ".join(f"{label}={'|'.join(values)}" for label, values in each.where.items())
    return f"{each.sample}{{{where}}}" if where else each.sample
