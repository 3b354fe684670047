"""What can go wrong on demand, so that tests see how a client takes it.

Set with ``--fault NAME=VALUE`` at start or ``PUT /faults`` (a JSON object; ``{}`` ends all) while the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigurationError


class Faults(BaseModel):
    """Each field is one fault; the default is none.

    Attributes:
        metrics_status: the metrics page answers this status.
        metrics_body: the metrics page is ``html``, ``truncated`` in the middle of a needed line, or ``empty``.
        metrics_drop: this sample is absent from the page.
        metrics_nan: this sample reads NaN.
        status: generation requests are refused with this status.
        retry_after: seconds in the ``Retry-After`` header of refused requests.
        every: only every Nth generation request is refused or cut.
        cut_stream: the connection is dropped after N content chunks, before a finish reason.
        error_in_stream: an error object takes the place of the first content chunk of a 200 stream.
        no_cached_tokens: ``usage`` comes without details, as from a server that does not report them.
        no_done: streams end without ``[DONE]``.
        usage_every_chunk: every chunk carries the usage so far.
        foreign: every request counts this many further query tokens, as another client's traffic would.
        restart_after: after N generation requests the engine restarts: counters at zero, cache empty.
        stuck_running: the running gauge never falls to zero.
        late_counters: what a generation request counted appears on the metrics page this many seconds after its end.
        reset_lies: a reset answers success and clears nothing, as vLLM before 0.26 may.
        tokens_off: the server counts this many tokens more than the prompt has, as with another tokenizer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics_status: int | None = None
    metrics_body: Literal["html", "truncated", "empty"] | None = None
    metrics_drop: str | None = None
    metrics_nan: str | None = None
    status: int | None = None
    retry_after: float | None = None
    every: int = Field(default=1, ge=1)
    cut_stream: int | None = Field(default=None, ge=0)
    error_in_stream: bool = False
    no_cached_tokens: bool = False
    no_done: bool = False
    usage_every_chunk: bool = False
    foreign: int = 0
    restart_after: int | None = None
    stuck_running: bool = False
    late_counters: float = Field(default=0.0, ge=0.0)
    reset_lies: bool = False
    tokens_off: int = 0


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
