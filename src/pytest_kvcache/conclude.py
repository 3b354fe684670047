"""What follows from prompts that were sent: what should have been reused, what was lost, where they part. Pure.

What should have been reused is told twice: by a cache that keeps everything, and by one that holds no more than the
server's.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from .divergence import Sent, between
from .lookups import SpaceOf, SpaceSeen, answered, by_time, load_lookups, lookups_of, may_be_cached, together
from .model import Composed, Divergence, Exchange, Lookup, Measurement, Prediction, ServerFacts
from .simulate.bounded import predict_bounded
from .simulate.replay import predict
from .simulate.turns_forecast import predict_by_usage
from .waterfall import explain

_MOST_TOKENS = 64_000_000  # of all prompts: they are held, four bytes each
_MOST_REQUESTS = 10_000  # that are explained one by one: each takes about 2 KiB while that is done
_MOST_BLOCKS = 4_000_000  # of all prompts: a bounded cache takes 2 microseconds for each


class _Asked(NamedTuple):
    """All that was sent, as a cache sees it; in lists, because it is walked more than once."""

    load: Sequence[Lookup]
    prefill: Sequence[Lookup]
    warmed: Sequence[Lookup]


def conclude(measured: Measurement, composed: Composed, space: SpaceOf, seen: SpaceSeen = together) -> Measurement:
    """Return a measurement with what was to be expected, and where less was reused than could be, with the reasons.

    Args:
        measured: the window, whole or ended early.
        composed: what was sent.
        space: what separates the caches of requests.
        seen: what separated those of requests that depend on answers.
    """
    asked = _asked(measured, composed, space, seen)
    prediction = _prediction(measured, composed, space, seen, asked)
    if prediction is not None:
        measured = replace(measured, prediction=replace(prediction, fresh=composed.fresh))
    if not measured.exchanges:
        return measured
    if prediction is None or asked is None:
        notes = (*measured.notes, *_too_many(measured))
        return replace(measured, divergence=_divergence(measured, composed), notes=notes)
    simulated = _simulated(measured, asked)
    return replace(
        measured,
        simulated=simulated,
        notes=(*measured.notes, *_as_one(measured, simulated)),
        waterfall=explain(measured, asked.load, prefill=asked.prefill, warmed=asked.warmed),
        divergence=_divergence(measured, composed),
    )


def _prediction(
    measured: Measurement, composed: Composed, space: SpaceOf, seen: SpaceSeen, asked: _Asked | None
) -> Prediction | None:
    facts = measured.facts
    lookups = load_lookups(composed, measured.exchanges, space, seen) if asked is None else asked.load
    if lookups is None:
        return _by_usage(measured, composed, facts)
    order: Sequence[int] = ()
    if composed.load() is None or any(exchange.session is not None for exchange in measured.exchanges):
        # Sessions overlap: they are replayed as they were sent.
        told, order = list(lookups), by_time(measured.exchanges)
        lookups = [told[at] for at in order if at < len(told)]
    found = predict(
        lookups,
        facts.grain,
        prefill=lookups_of(composed.prefill(), space) if asked is None else asked.prefill,
        warmed=lookups_of(composed.warmed(), space) if asked is None else asked.warmed,
        exact=facts.grain_known,
    )
    return _in_place(found, order) if order else found


def _by_usage(measured: Measurement, composed: Composed, facts: ServerFacts) -> Prediction | None:
    if not composed.append_only:
        return None
    if "cache_salt" in facts.isolation:  # then nothing is warm, the template's own head included
        return predict_by_usage(measured.exchanges, facts.grain, exact=facts.grain_known, head=0)
    return predict_by_usage(measured.exchanges, facts.grain, exact=facts.grain_known)


def _in_place(prediction: Prediction, order: Sequence[int]) -> Prediction:
    """Return a prediction in the order of the exchanges instead of the order in which they were sent."""
    places = sorted(range(len(order)), key=order.__getitem__)
    return replace(
        prediction,
        per_request=tuple(prediction.per_request[at] for at in places),
        room=tuple(prediction.room[at] for at in places) if prediction.room else (),
    )


def _asked(measured: Measurement, composed: Composed, space: SpaceOf, seen: SpaceSeen) -> _Asked | None:
    """Compose all that was sent once, and hold it; None where that is too much, or not known."""
    exchanges = measured.exchanges
    if not 0 < len(exchanges) <= _MOST_REQUESTS:
        return None
    if sum(e.prompt_tokens or e.prompt_len or 0 for e in exchanges) > _MOST_TOKENS:
        return None
    load = load_lookups(composed, exchanges, space, seen)
    if load is None:
        return None
    prefill, warmed = lookups_of(composed.prefill(), space), lookups_of(composed.warmed(), space)
    return _Asked(*([_packed(lookup) for lookup in lookups] for lookups in (load, prefill, warmed)))


def _too_many(measured: Measurement) -> list[str]:
    count = len(measured.exchanges)
    if measured.prediction is None or count <= _MOST_REQUESTS:
        return []
    return [f"{count:,} requests are more than are explained one by one ({_MOST_REQUESTS:,}): no waterfall"]


def _packed(lookup: Lookup) -> Lookup:
    return lookup if isinstance(lookup.ids, array) else replace(lookup, ids=array("I", lookup.ids))


def _simulated(measured: Measurement, asked: _Asked) -> Prediction | None:
    """Replay all that reached the engines, in order, through one cache as large as all of theirs together."""
    facts, exchanges, prediction = measured.facts, measured.exchanges, measured.prediction
    if prediction is None or facts.capacity is None or not facts.grain_known or len(asked.load) != len(exchanges):
        return None
    if any(e.ok and e.lookups != 1 for e in exchanges) or prediction.query_tokens // facts.grain.block > _MOST_BLOCKS:
        return None
    order = by_time(exchanges)
    found = predict_bounded(
        [asked.load[at] if may_be_cached(exchanges[at]) else Lookup(()) for at in order],
        facts.grain,
        facts.capacity * max(1, len(measured.engines)),
        prefill=_by_time(list(answered(asked.prefill, measured.prefill)), measured.prefill),
        warmed=asked.warmed,
    )
    return replace(_in_place(found, order), fresh=prediction.fresh)


def _by_time(lookups: Sequence[Lookup], exchanges: Sequence[Exchange]) -> Sequence[Lookup]:
    return [lookups[at] for at in by_time(exchanges)] if len(exchanges) == len(lookups) else lookups


def _as_one(measured: Measurement, simulated: Prediction | None) -> list[str]:
    engines = len(measured.engines)
    if simulated is None or engines < 2:
        return []
    return [
        f"the caches of {engines} engines are simulated as one cache of {simulated.capacity:,} tokens: which of them"
        " serves a request is not known before"
    ]


def _there(measured: Measurement) -> list[int | None]:
    """Return what each request found, or would have found in a cache that keeps all: that is not lost by parting."""
    told = [exchange.cached_tokens for exchange in measured.exchanges]
    prediction = measured.prediction
    if prediction is None or len(prediction.per_request) != len(told):
        return told
    return [max(hit or 0, there) for hit, there in zip(told, prediction.per_request, strict=True)]


def _divergence(measured: Measurement, composed: Composed) -> Divergence | None:
    """Compare requests that were given as they are, and the turns of conversations as the server rendered them.

    Prompts that were built share exactly what they should: they are not made once more for that.
    """
    requests, there = composed.load(), _there(measured)
    if requests is None:
        told = sum(e.prompt_tokens or 0 for e in measured.exchanges) <= _MOST_TOKENS
        sent = [
            Sent({}, e.prompt_ids, e.session, there[at], at)
            for at, e in enumerate(measured.exchanges)
            if told and e.ok and e.prompt_ids
        ]
    else:
        first = next(requests, None)
        if first is None or not first.whole:
            return None
        every = chain(composed.prefill(), [first], requests)  # made anew, one at a time
        warmed = [exchange.cached_tokens for exchange in measured.prefill]
        both = zip(every, chain(measured.prefill, measured.exchanges), chain(warmed, there), strict=False)
        sent = [
            Sent(request.body, request.prompt.ids, request.session, hit, at)
            for at, (request, exchange, hit) in enumerate(both)
            if request.whole and exchange.ok
        ]
    return between(sent, block=measured.facts.block_size, isolation=measured.facts.isolation) if sent else None
