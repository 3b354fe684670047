"""The other rules of a profile: how an engine is recognised, rests, is reset, tells facts and usage, and is wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from .counting import Grade, Selectors, Strict, Versions, several

Api = Literal["completions", "chat", "responses", "messages", "generate", "completion", "gemini", "converse", "ollama"]


class Detect(Strict):
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


class Distrust(Strict):
    """A known defect: in these versions the counters or the usage do not mean what they say.

    Attributes:
        versions: PEP 440 specifier; empty: every version.
        role: only on pages of that role, such as ``decode``.
        tier: only where that tier had hits.
        why: for the report, with the public thread's number.
        invalid: True makes the verdict inconclusive, False only tells.
    """

    versions: Versions = ""
    role: str | None = None
    tier: str | None = None
    why: str
    invalid: bool = False


class Unmeasurable(Strict):
    """Pages of this engine that hold no counter pair, only gauges that must never be differenced.

    Attributes:
        present: samples on such a page.
        why: for the message.
    """

    present: tuple[str, ...]
    why: str


class Gauges(Strict):
    """Samples that tell whether the engine is at rest and how full its cache is."""

    running: Selectors = ()
    waiting: Selectors = ()
    kv_usage: Selectors = ()


class FactSource(Strict):
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


class Rendering(Strict):
    """How the server tells the tokens of a chat request; the profile's route to tokenise does the counting.

    Attributes:
        fields: of the request body that are handed over.
        template: route that makes text of them, told as ``template_field``; None: the route to tokenise takes them.
        request: further fields for the route to tokenise when it is given that text.
    """

    fields: tuple[str, ...] = ("messages", "tools")
    template: str | None = None
    template_field: str = "prompt"
    request: dict[str, Any] = Field(default_factory=dict)


class FullHit(Strict):
    """How much of a prompt that is cached whole can hit: ``L-1`` or all ``L`` tokens, down to a block or a token."""

    cap: Literal["L-1", "L"] = "L-1"
    align: Literal["block", "token"] = "block"


class Reset(Strict):
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


class UsageRule(Strict):
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
    prompt: Annotated[tuple[str, ...], BeforeValidator(several)]
    cached: Annotated[tuple[str, ...], BeforeValidator(several)] = ()
    written: Annotated[tuple[str, ...], BeforeValidator(several)] = ()
    prompt_is: Literal["total", "uncached", "computed"] = "total"
    absent_is_zero: Versions | None = None
    headers: bool = False
    grade: Grade = "S"


class Lookups(Strict):
    """What one request adds to the query counter, where it is not simply its prompt once.

    Attributes:
        samples: ``n`` samples look the prompt up ``each`` or ``once``.
        prompt_logprobs: False when a request for the prompt's logprobs is not looked up at all.
        samples_usage / list_usage: False when the cached number of an answer with several samples, or to a list of
            prompts, does not add up over them.
        list_prompt: False when the prompt number of an answer to a list of prompts does not either.
        probe_tokens: tokens that the engine sends to itself, at most once a second, and counts.
    """

    samples: Literal["each", "once"] = "each"
    prompt_logprobs: bool = True
    samples_usage: bool = True
    list_usage: bool = True
    list_prompt: bool = True
    probe_tokens: int = 0


class Events(Strict):
    """Counters of pressure: preempted or retracted requests, evicted blocks or tokens."""

    preemptions: Selectors = ()
    evictions: Selectors = ()


class Latencies(Strict):
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
