"""What of a call travels to the process that sends it, and what of its exchange comes back.

The parent keeps the call, so only what the child needs goes out, and only what it found out returns.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from ..client import Call
from ..distribution import Latency
from ..encoded import encoded
from ..endpoint import Endpoint
from ..engines.rules import UsageRule
from ..model import Exchange, Failure
from ..replies import UsageReading
from .frames import Frame

_MANY = 64  # token ids from which on JSON costs more than an array of them


def packed_endpoint(endpoint: Endpoint) -> Frame:
    """Return where and as whom, without what only the parent uses."""
    return endpoint.base, endpoint.model, endpoint.api_key, endpoint.headers, endpoint.timeout


def endpoint_of(packed: Frame) -> Endpoint:
    """Return the endpoint of :func:`packed_endpoint`."""
    base, model, api_key, headers, timeout = packed
    return Endpoint(base, model=model, api_key=api_key, headers=headers, timeout=timeout)


def packed_usage(usage: Sequence[UsageReading]) -> Frame:
    """Return how the usage of answers is read."""
    return tuple((reading.rule.model_dump(), reading.absent_is_zero) for reading in usage)


def usage_of(packed: Frame) -> tuple[UsageReading, ...]:
    """Return the readings of :func:`packed_usage`."""
    return tuple(UsageReading(UsageRule.model_construct(**rule), absent) for rule, absent in packed)


def packed_body(body: Mapping[str, Any]) -> Frame:
    """Return a body as its JSON text, and long lists of token ids, which JSON is slow with, beside it.

    Raises:
        TypeError, ValueError, RecursionError: JSON has no form for it.
    """
    ids = {name: packed for name, value in body.items() if (packed := _packed_tokens(value)) is not None}
    return encoded({**body, **dict.fromkeys(ids)} if ids else body), ids


def body_of(packed: Frame) -> dict[str, Any]:
    """Return the body of :func:`packed_body`, its fields in their order."""
    text, ids = packed
    body: dict[str, Any] = json.loads(text)
    for name, numbers in ids.items():
        body[name] = array("I", numbers).tolist()
    return body


def _packed_tokens(value: object) -> bytes | None:
    if type(value) is not list or len(value) < _MANY or type(value[0]) is not int:
        return None
    try:
        return array("I", value).tobytes()
    except (TypeError, OverflowError):  # not all of them are token ids
        return None


def call_of(api: str, model: str, samples: int, usage: tuple[UsageReading, ...], body: Frame) -> Call:
    """Return the call as far as the client that sends it needs it."""
    return Call(api, body_of(body), model, samples=samples, usage=usage)


def packed_exchange(e: Exchange) -> Frame:
    """Return what was found out by sending."""
    return (
        e.end,
        e.sent,
        e.first_content,
        e.last_content,
        array("d", e.chunks).tobytes(),
        e.prompt_tokens,
        e.cached_tokens,
        e.completion_tokens,
        e.written_tokens,
        e.finish_reason,
        e.status,
        e.failure and (e.failure.kind, e.failure.message, e.failure.retry_after),
        e.text,
        e.reasoning,
        e.tool_calls,
        _packed_ids(e.prompt_ids),
        _packed_ids(e.output_ids),
    )


def exchange_of(call: Call, queued: float, packed: Frame) -> Exchange:
    """Return the exchange of a call that was handed over at ``queued``."""
    end, sent, first, last, chunks, prompt, cached, completion, written, *rest = packed
    finish, status, failure, text, reasoning, tool_calls, prompt_ids, output_ids = rest
    return Exchange(
        call.phase,
        queued,
        end,
        None,
        sent,
        first,
        last,
        array("d", chunks),
        call.prompt_len,
        prompt,
        cached,
        completion,
        written,
        call.lookups,
        call.partial,
        finish,
        status,
        failure and Failure(*failure),
        text,
        reasoning,
        tool_calls,
        _ids_of(prompt_ids),
        _ids_of(output_ids),
        call.session,
        call.turn,
    )


def failed(call: Call, queued: float, end: float, failure: Failure, sent: float | None = None) -> Exchange:
    """Return the exchange of a call that no client answered."""
    return Exchange(
        call.phase,
        queued,
        end,
        sent=sent,
        prompt_len=call.prompt_len,
        lookups=call.lookups,
        partial=call.partial,
        failure=failure,
        session=call.session,
        turn=call.turn,
    )


def packed_latency(latency: Latency) -> Frame:
    """Return samples in the order in which they stand."""
    return array("d", latency.samples).tobytes(), array("q", latency.behind).tobytes()


def latency_of(packed: Frame) -> Latency:
    """Return the samples of :func:`packed_latency`."""
    samples, behind = packed
    return Latency(array("d", samples), array("q", behind) if behind else ())


def _packed_ids(ids: Sequence[int] | None) -> Frame | None:
    if ids is None:
        return None
    numbers = ids if isinstance(ids, array) else array("q", ids)
    return numbers.typecode, numbers.tobytes()


def _ids_of(packed: Frame | None) -> Sequence[int] | None:
    return None if packed is None else array(*packed)
