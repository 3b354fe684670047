"""How one engine or provider reports reuse: the strict model of a data file.

Every file in this folder is one profile; a user's own file has the same form. Sample names are written as the engine's
page shows them; the scraper also accepts them without ``_total``, with ``_`` for ``:`` and behind ``ray_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Grade = Literal["S", "R", "D", "I", "T", "N"]
Api = Literal["completions", "chat", "responses", "messages", "generate", "completion", "gemini", "converse", "ollama"]
LOCAL = "local"


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from None
    return value


def _several(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else [value]


Versions = Annotated[str, AfterValidator(_specifier)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Selector(_Strict):
    """Series of one sample: ``"name"``, or ``{sample = "name", where = {label = ["one", "of"]}}``.

    A label that a series lacks counts as ``""``, as in PromQL.
    """

    sample: str
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"sample": value} if isinstance(value, str) else value

    def matches(self, labels: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a series with these labels is meant."""
        if not self.where:
            return True
        known = dict(labels)
        return all(known.get(label, "") in allowed for label, allowed in self.where.items())


Selectors = Annotated[tuple[Selector, ...], BeforeValidator(_several)]


class Detect(_Strict):
    """What gives an engine away.

    Attributes:
        any: one of these samples is on its page.
        none: none of these is.
        without_label: this label is on no series of the samples in ``any``.
        hosts: host names of a provider's API; a name that begins with a dot means every host that ends so.
        first: profiles that would match the same page and are less specific.
    """

    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    without_label: str | None = None
    hosts: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


class Recount(_Strict):
    """A second pair of counters that counts each prompt once, where the main pair repeats itself under pressure.

    Attributes:
        hits / query: as in a variant.
        less: counters to subtract from the hits.
    """

    hits: dict[str, Selectors]
    query: Selectors
    less: Selectors = ()


class Variant(_Strict):
    """How a range of versions counts.

    Attributes:
        id: named in reports.
        versions: PEP 440 specifier of the engine versions it holds for; empty: every version.
        present: samples that only pages of this variant or a later one carry; decides when the version is unknown.
        by_version: True when no sample tells it from another variant: it never holds for an unknown version.
        hits: counters of tokens found, by tier; ``local`` is the device cache. Together they are all hits.
        query: counters of tokens looked up; their sum is the denominator.
        query_instead: the denominator when the device cache is off and only another tier looks prompts up.
        unit: what is counted. Blocks become tokens with the server's block size.
        counted: when. ``admission`` and ``finish`` count a request once; ``lookup`` counts again whenever a waiting
            request is looked up again.
        preempted: what a resumed request adds to both counters.
        lazy: series appear with their first increment, so absent means zero on both pages.
        digits: significant digits that the page prints; None: all of them.
        recount: see there.
        recount_versions: engine versions whose page carries the recount.
        grade: evidence. ``S`` = read in the release's source, ``R`` = in a snapshot of the repository, ``D`` = in the
            vendor's documentation, ``I`` = stated in a public thread, ``T`` = by third parties, ``N`` = concluded.
        source: where the facts were read.
        note: what a reader of the report should know.
    """

    id: str
    versions: Versions = ""
    present: tuple[str, ...] = ()
    by_version: bool = False
    hits: dict[str, Selectors]
    query: Selectors
    query_instead: Selectors = ()
    unit: Literal["tokens", "blocks"] = "tokens"
    counted: Literal["admission", "lookup", "first_token", "prefill", "finish"]
    preempted: Literal["excluded", "counted_again"] = "excluded"
    lazy: bool = False
    digits: int | None = None
    recount: Recount | None = None
    recount_versions: Versions = ""
    grade: Grade
    source: str
    note: str = ""

    def covers(self, version: str) -> bool:
        """Tell whether an engine version is in range; False when it is no version at all."""
        return in_range(version, self.versions)

    def needed(self) -> frozenset[str]:
        """Return the samples without which a page cannot be counted."""
        if self.lazy:
            return frozenset()
        return frozenset(s.sample for selectors in (*self.hits.values(), self.query) for s in selectors)

    def selectors(self) -> Iterator[Selector]:
        """Return every selector of the variant."""
        for tier in self.hits.values():
            yield from tier
        yield from self.query
        yield from self.query_instead
        if self.recount is not None:
            for tier in self.recount.hits.values():
                yield from tier
            yield from (*self.recount.query, *self.recount.less)


class Distrust(_Strict):
    """A known defect: in these versions the counters or the usage do not mean what they say.

    Attributes:
        versions: PEP 440 specifier; empty: every version.
        role: only on pages of that role, such as ``decode``.
        why: for the report, with the public thread's number.
        invalid: True makes the verdict inconclusive, False only tells.
    """

    versions: Versions = ""
    role: str | None = None
    why: str
    invalid: bool = False


class Unmeasurable(_Strict):
    """Pages of this engine that hold no counter pair, only gauges that must never be differenced.

    Attributes:
        present: samples on such a page.
        why: for the message.
    """

    present: tuple[str, ...]
    why: str


class Gauges(_Strict):
    """Samples that tell whether the engine is at rest and how full its cache is."""

    running: Selectors = ()
    waiting: Selectors = ()
    kv_usage: Selectors = ()


class FactSource(_Strict):
    """Where the server tells a fact: a label of a sample, a sample's value, or a field of a JSON route.

    Attributes:
        sample / label: label of an info sample; without ``label`` the sample's value.
        route / field: dotted path in the JSON of a route beside ``/v1``.
        off: the label's value that means "no".
    """

    sample: str | None = None
    label: str | None = None
    route: str | None = None
    field: str | None = None
    off: str = "False"


class FullHit(_Strict):
    """How much of a prompt that is cached whole can hit: ``L-1`` or all ``L`` tokens, down to a block or a token."""

    cap: Literal["L-1", "L"] = "L-1"
    align: Literal["block", "token"] = "block"


class Reset(_Strict):
    """How the cache is emptied.

    Attributes:
        method / path: beside ``/v1``. ``{slot}`` in the path: once for each slot.
        slots_route / slots_field: where the number of slots is told.
        success_field: boolean in the answer's body that tells whether anything was reset; the status does not.
        busy_status: status that means "refused while requests run".
        needs: what the operator must set for the route to exist.
        survives: what the reset leaves in place.
    """

    method: Literal["POST", "GET", "DELETE"] = "POST"
    path: str
    slots_route: str | None = None
    slots_field: str | None = None
    success_field: str | None = None
    busy_status: int | None = None
    needs: str = ""
    survives: str = ""


class UsageRule(_Strict):
    """Where an answer says how much of its prompt was cached. Paths are dotted, the first that is there wins.

    Attributes:
        api: form of the answer.
        prompt / cached / written: prompt tokens, tokens read from the cache, tokens written to it.
        prompt_is: whether the prompt number holds all tokens, or only those neither read nor written; then they add up.
        computed: a number that excludes the cached tokens and nothing else; the prompt is both together.
        absent_is_zero: versions that leave the cached number out when it is zero; empty: absent is unknown.
        headers: the paths are names of response headers instead.
        grade: as for a variant.
    """

    api: Api
    prompt: Annotated[tuple[str, ...], BeforeValidator(_several)]
    cached: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    written: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    prompt_is: Literal["total", "uncached", "computed"] = "total"
    absent_is_zero: Versions | None = None
    headers: bool = False
    grade: Grade = "S"


class Lookups(_Strict):
    """What one request adds to the query counter, where it is not simply its prompt once.

    Attributes:
        samples: ``n`` samples look the prompt up ``each`` or ``once``.
        prompt_logprobs: False when a request for the prompt's logprobs is not looked up at all.
        samples_usage / list_usage: False when the usage of an answer with several samples, or to a list of prompts,
            does not add up over them.
        probe_tokens: tokens that the engine sends to itself, at most once a second, and counts.
    """

    samples: Literal["each", "once"] = "each"
    prompt_logprobs: bool = True
    samples_usage: bool = True
    list_usage: bool = True
    probe_tokens: int = 0


class Events(_Strict):
    """Counters of pressure: preempted or retracted requests, evicted blocks or tokens."""

    preemptions: Selectors = ()
    evictions: Selectors = ()


class Latencies(_Strict):
    """Histograms in seconds, by the family's name: those of a request, and how long cached blocks live."""

    ttft: str | None = None
    itl: str | None = None
    queue: str | None = None
    prefill: str | None = None
    decode: str | None = None
    e2e: str | None = None
    block_lifetime: str | None = None
    block_idle_before_evict: str | None = None
    block_reuse_gap: str | None = None

    def families(self) -> dict[str, str]:
        """Return the families by our names."""
        return {name: family for name, family in self if family is not None}


class Profile(_Strict):
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
        request: fields added to every generation request of the built workloads, such as ``ignore_eos``.
        auth: header that carries the API key; ``Authorization`` has it as a bearer token.
        headers: further headers that every request needs.
        variants: empty for an engine without usable counters.
        prompt: independent counter of prompt tokens, cached ones included.
        engine_labels: labels that tell several engines on one page apart.
        duplicate_labels: labels whose values repeat the same tokens (tensor-parallel ranks): one of each is kept.
        model_label: label with the model, where one page serves several.
        metrics_path: beside ``/v1``; a page of JSON statistics is read through ``json_page``.
        json_page: samples made of the last entry of a JSON list, by dotted path; the list is drained by reading.
        version_route / version_field: route beside ``/v1`` whose JSON tells the version.
        block_size: tried in order; ``block_fixed``: it is always so; ``block_usual``: only a hint for messages.
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
    request: dict[str, Any] = Field(default_factory=dict)
    auth: str = "Authorization"
    headers: dict[str, str] = Field(default_factory=dict)
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
    block_size: Annotated[tuple[FactSource, ...], BeforeValidator(_several)] = ()
    block_fixed: int | None = None
    block_usual: int | None = None
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
        names |= {fact.sample for fact in (*self.block_size, self.caching) if fact and fact.sample}
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


HISTOGRAM = ("_bucket", "_sum", "_count")


def in_range(version: str, specifier: str) -> bool:
    """Tell whether an engine's version is within a specifier; release candidates count as their release."""
    try:
        return SpecifierSet(specifier).contains(Version(version).base_version)
    except InvalidVersion:
        return False


def _is_numbered(version: str) -> bool:
    """False for a build from a checkout without tags (such as 0.1.dev5) and for what is no version."""
    try:
        return not Version(version).is_devrelease
    except InvalidVersion:
        return False
