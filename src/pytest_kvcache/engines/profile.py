"""How one engine or provider reports reuse: the strict model of a data file.

Every file in this folder is one profile; a user's own file has the same form. Sample names are written as the engine's
page shows them; the scraper also accepts them without ``_total``, with ``_`` for ``:`` and behind ``ray_``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from packaging.version import Version
from pydantic import BeforeValidator, Field

from .counting import Grade, Selectors, Strict, Variant, several
from .rules import (
    Api,
    Detect,
    Distrust,
    Events,
    FactSource,
    FullHit,
    Gauges,
    Latencies,
    Lookups,
    Rendering,
    Reset,
    Unmeasurable,
    UsageRule,
)

Route = Annotated[str, Field(pattern=r"^/[^\s#]*$")]
HISTOGRAM = ("_bucket", "_sum", "_count")


class Profile(Strict):
    """One engine or provider.

    Attributes:
        id: as ``--kv-engine`` takes it.
        title: for people.
        kind: ``engine`` computes; ``gateway`` stands before engines and its page is never taken for theirs; ``tier``
            looks up what engines hold too, so it is shown and never summed; ``provider`` is measured by usage.
        instead: what to do where there are no counters: which page to scrape, or why there are none.
        inherits: id of a profile from which everything that is not given comes.
        simulated: True for the built-in engine.
        prompt_ids: ``/v1/completions`` takes token ids.
        tokenize: route that tokenises a text beside ``/v1``; None without. It takes the text as ``tokenize_field`` and
            ``tokenize_request`` beside it, and answers with ``tokens``.
        rendering: how the tokens of a chat request are had; None: they are not.
        token_ids: fields of a request that make its answer tell the ids of prompt and output.
        request: fields added to every generation request of the built workloads, such as ``ignore_eos``.
        auth: header that carries the API key; ``Authorization`` has it as a bearer token.
        auth_for: by API, where it is another header.
        headers: further headers that every request needs.
        keep_alive: False: it closes connections without announcing it, so each request gets one of its own.
        paths: by API, or of the ``models``, where they are not the usual ones; ``{model}`` stands for the model.
        variants: empty for an engine without usable counters.
        prompt: independent counter of prompt tokens, cached ones included.
        engine_labels: labels that tell several engines on one page apart.
        duplicate_labels: labels whose values repeat the same tokens (tensor-parallel ranks): one of each is kept.
        model_label: label with the model, where one page serves several.
        metrics_path: beside ``/v1``; a page of JSON statistics is read through ``json_page``.
        json_page: samples made of the last entry of a JSON list, by dotted path; the list is drained by reading.
        version_route / version_field: route beside ``/v1`` whose JSON tells the version.
        block_size: tried in order; ``block_fixed``: it is always so; ``block_usual``: only a hint for messages.
        capacity: tokens that each engine's cache holds; ``reserved_blocks`` of them never hold any.
        usage_flag / caching_flag / metrics_flag: what the operator must set for ``cached_tokens`` to be reported, for
            the cache to work, for the counters to be there.
        isolation: request fields that separate caches.
        minimum: shortest prompt in tokens that is cached at all; ``step``: granularity of a hosted cache.
    """

    id: str
    title: str
    kind: Literal["engine", "gateway", "tier", "provider"] = "engine"
    instead: str = ""
    inherits: str | None = None
    simulated: bool = False
    prompt_ids: bool = False
    tokenize: str | None = None
    tokenize_field: str = "prompt"
    tokenize_request: dict[str, Any] = Field(default_factory=dict)
    tokenizer: str | None = None
    rendering: Rendering | None = None
    token_ids: dict[str, Any] = Field(default_factory=dict)
    request: dict[str, Any] = Field(default_factory=dict)
    auth: str = "Authorization"
    auth_for: dict[Api, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    keep_alive: bool = True
    paths: dict[Api | Literal["models"], Route] = Field(default_factory=dict)
    detect: Detect = Detect()
    variants: tuple[Variant, ...] = ()
    unmeasurable: tuple[Unmeasurable, ...] = ()
    distrust: tuple[Distrust, ...] = ()
    prompt: Selectors = ()
    gauges: Gauges = Gauges()
    events: Events = Events()
    latency: Latencies = Latencies()
    engine_labels: tuple[str, ...] = ()
    duplicate_labels: tuple[str, ...] = ()
    model_label: str | None = None
    metrics_path: str = "/metrics"
    json_page: dict[str, str] = Field(default_factory=dict)
    version_route: str | None = None
    version_field: str = "version"
    block_size: Annotated[tuple[FactSource, ...], BeforeValidator(several)] = ()
    block_fixed: int | None = None
    block_usual: int | None = None
    capacity: FactSource | None = None
    reserved_blocks: int = 0
    caching: FactSource | None = None
    full_hit: FullHit = FullHit()
    reset: Reset | None = None
    usage: tuple[UsageRule, ...] = ()
    lookups: Lookups = Lookups()
    usage_flag: str = ""
    caching_flag: str = ""
    metrics_flag: str = ""
    isolation: tuple[str, ...] = ()
    minimum: int | None = None
    step: int | None = None
    grade: Grade = "S"

    def samples(self) -> frozenset[str]:
        """Return every sample name that the profile reads, histograms by their three kinds."""
        selectors = [s for variant in self.variants for s in variant.selectors()]
        selectors += [*self.prompt, *self.events.preemptions, *self.events.evictions]
        selectors += [*self.gauges.running, *self.gauges.waiting, *self.gauges.kv_usage]
        names = {selector.sample for selector in selectors} | {n for v in self.variants for n in v.present}
        names |= {
            *self.detect.any,
            *self.detect.none,
            *self.births(),
            *(n for u in self.unmeasurable for n in u.present),
        }
        names |= {fact.sample for fact in (*self.block_size, self.capacity, self.caching) if fact and fact.sample}
        names |= {family + kind for family in self.latency.families().values() for kind in HISTOGRAM}
        return frozenset(names)

    def births(self) -> tuple[str, ...]:
        """Return samples that hold the time at which the engine's counters began, where its page has them."""
        queries = (s.sample for v in self.variants for s in v.query)
        return (
            "process_start_time_seconds",
            *dict.fromkeys(name.removesuffix("_total") + "_created" for name in queries),
        )

    def variant(self, version: str | None, present: Iterable[str]) -> Variant | None:
        """Return how this engine counts: by its version, else by what stands on its page.

        Args:
            version: as the server reports it; None or an unreadable one: unknown.
            present: sample names on the page.

        Returns:
            None when no variant holds: the engine cannot be measured by counters.
        """
        names = set(present)
        covering = [v for v in self.variants if version is not None and v.versions and v.covers(version)]
        if covering:
            return next((v for v in covering if v.needed() <= names), covering[0])
        if version is not None and _is_numbered(version) and all(v.versions for v in self.variants):
            return None
        fitting = [v for v in self.variants if not v.by_version and names.issuperset(v.present)]
        return next((v for v in fitting if v.needed() <= names), fitting[0] if fitting else None)

    def usage_rules(self, api: str) -> tuple[UsageRule, ...]:
        """Return where answers of an API tell their usage, the profile's own rules."""
        return tuple(rule for rule in self.usage if rule.api == api)


def _is_numbered(version: str) -> bool:
    """False for a build from a checkout without tags (such as 0.1.dev5) and for what is no version."""
    try:
        return not Version(version).is_devrelease
    except ValueError:  # InvalidVersion, or a number too long for Python
        return False
