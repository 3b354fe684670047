"""What can go wrong on demand, so that tests see how a client takes it.

Set with ``--fault NAME=VALUE`` at start or ``PUT /faults`` (a JSON object; ``{}`` ends all) while the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigurationError


class Faults(BaseModel):
    """Each field is one fault; the default is none. Sample names are written as on an undamaged page.

    Attributes:
        metrics_status: the metrics page answers this status.
        metrics_body: the metrics page is ``html``, ``truncated`` in the middle of a needed line, or ``empty``.
        metrics_drop: this sample is absent from the page.
        metrics_nan: this sample reads NaN.
        metrics_redirect: ``/metrics`` answers 307: to ``/metrics/``, or to the URL given here.
        metrics_gzip: the page is compressed, whatever the client accepts.
        metrics_openmetrics: the page is OpenMetrics 1.0: ``# EOF``, families without ``_total``, exemplars.
        names_without_total: counters on the page lack ``_total``.
        names_underscore: ``:`` in names is written ``_``, as by Ray and OpenTelemetry.
        dropped_engine: the series of the engine of this number are absent.
        duplicate_ranks: each counter series stands there so many times, with labels ``tp_rank="0"`` and up.
        status: generation requests are refused with this status.
        retry_after: seconds in the ``Retry-After`` header of refused requests.
        every: only every Nth generation request is refused or cut.
        cut_stream: the connection is dropped after N content chunks, before a finish reason.
        error_in_stream: an error object takes the place of the first content chunk of a 200 stream.
        no_done: streams end without ``[DONE]``.
        no_cached_tokens: ``usage`` comes without details, as from a server that does not report them.
        usage_every_chunk: every chunk carries the usage so far.
        usage_off: every Nth answer has no usage at all.
        usage_drop_zero: ``usage`` comes without details when nothing was cached, as of vLLM before it told zeros.
        usage_all_cached: cached tokens are told as all prompt tokens, as the decode side of a split pair does.
        usage_uncached_prompt: ``prompt_tokens`` leaves out the cached ones.
        tokens_off: the server counts this many tokens more than the prompt has, as with another tokenizer.
        foreign: every request counts this many further query tokens and nothing else.
        foreign_tokens: with every request another client's is served, of so many prompt tokens, counted in full.
        foreign_hit_tokens: of these, so many hit.
        retry_lookups: each admission is counted so many times in local queries and hits, as vLLM up to 0.26 does while
            a request waits; all other counters stay right.
        health_probe_tokens: each scrape finds so many tokens more looked up, as by an engine's own health check.
        preemptions: each generation counts as preempted so many times; queries and hits do not move (vLLM 0.32).
        restart_after: after N generation requests the engine restarts: counters at zero, cache empty.
        counters_reset_once: after N generation requests the counters start from zero, the cache and start time stay.
        stuck_running: the running gauge never falls to zero.
        late_counters: what a generation request counted appears on the metrics page this many seconds after its end.
        readable_after: a prefix is found in the cache only so many seconds after the first answer to it, as in hosted
            caches; what was cached before this fault is not affected.
        isolation_leak: the salt of a request separates nothing.
        salt_required: a request without a salt is refused, as by a gateway that insists on a tenant.
        no_logprobs: a request for log probabilities is refused.
        wrong_kv: what is computed behind cached blocks comes out wrong, so a warm answer differs from the cold one.
        warm_logprobs_off: the log probabilities of a warm answer are so much too high; its tokens are right.
        reset_lies: a reset answers success and clears nothing, as vLLM before 0.26 may.
        reset_keeps_external: a reset that asks for the external store answers success and leaves the store.
        version: what ``/version`` says.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics_status: int | None = None
    metrics_body: Literal["html", "truncated", "empty"] | None = None
    metrics_drop: str | None = None
    metrics_nan: str | None = None
    metrics_redirect: bool | str = False
    metrics_gzip: bool = False
    metrics_openmetrics: bool = False
    names_without_total: bool = False
    names_underscore: bool = False
    dropped_engine: int | None = Field(default=None, ge=0)
    duplicate_ranks: int = Field(default=0, ge=0)
    status: int | None = None
    retry_after: float | None = None
    every: int = Field(default=1, ge=1)
    cut_stream: int | None = Field(default=None, ge=0)
    error_in_stream: bool = False
    no_done: bool = False
    no_cached_tokens: bool = False
    usage_every_chunk: bool = False
    usage_off: int | None = Field(default=None, ge=1)
    usage_drop_zero: bool = False
    usage_all_cached: bool = False
    usage_uncached_prompt: bool = False
    tokens_off: int = 0
    foreign: int = 0
    foreign_tokens: int = Field(default=0, ge=0)
    foreign_hit_tokens: int = Field(default=0, ge=0)
    retry_lookups: int = Field(default=1, ge=1)
    health_probe_tokens: int = Field(default=0, ge=0)
    preemptions: int = Field(default=0, ge=0)
    restart_after: int | None = None
    counters_reset_once: int | None = Field(default=None, ge=0)
    stuck_running: bool = False
    late_counters: float = Field(default=0.0, ge=0.0)
    readable_after: float = Field(default=0.0, ge=0.0)
    isolation_leak: bool = False
    salt_required: bool = False
    no_logprobs: bool = False
    wrong_kv: bool = False
    warm_logprobs_off: float = 0.0
    reset_lies: bool = False
    reset_keeps_external: bool = False
    version: str | None = None

    def at(self, served: int) -> Faults:
        """Return the faults of the ``served``-th generation request, where some strike only every Nth."""
        quiet: dict[str, None] = {}
        if served % self.every:
            quiet.update(status=None, cut_stream=None)
        if self.usage_off is not None and served % self.usage_off:
            quiet.update(usage_off=None)
        return self.model_copy(update=quiet) if quiet else self


def parse_faults(pairs: Iterable[str]) -> Faults:
    """Return the faults of ``NAME=VALUE`` (or ``NAME`` for one without a value) pairs.

    Raises:
        ConfigurationError: an unknown name or a wrong value.
    """
    named = (pair.partition("=") for pair in pairs)
    return checked_faults({name: value if separator else True for name, separator, value in named})


def checked_faults(values: object) -> Faults:
    """Return the faults in a mapping.

    Raises:
        ConfigurationError: an unknown name or a wrong value.
    """
    try:
        return Faults.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(Faults.model_fields)
        raise ConfigurationError(f"fault {where!r}: {first['msg']}; known are {known}") from None
