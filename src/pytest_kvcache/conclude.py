"""What follows from prompts that were sent: what should have been reused, what was lost, where they part. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from .divergence import Sent, between
from .lookups import SpaceOf, by_time, load_lookups, lookups_of
from .model import Composed, Divergence, Lookup, Measurement, Prediction, ServerFacts, Waterfall
from .simulate.replay import predict
from .simulate.turns_forecast import predict_by_usage
from .waterfall import explain

_MOST_TOKENS = 64_000_000  # of all prompts: the waterfall holds them, four bytes each


def conclude(measured: Measurement, composed: Composed, space: SpaceOf) -> Measurement:
    """Return a measurement with its prediction, and where less was reused than could be, with the reasons.

    Args:
        measured: the window, whole or ended early.
        composed: what was sent.
        space: what separates the caches of requests.
    """
    prediction = _prediction(measured, composed, space)
    if prediction is not None:
        measured = replace(measured, prediction=replace(prediction, fresh=composed.fresh))
    if not measured.exchanges:
        return measured
    waterfall = _waterfall(measured, composed, space) if prediction is not None else None
    return replace(measured, waterfall=waterfall, divergence=_divergence(measured, composed))


def _prediction(measured: Measurement, composed: Composed, space: SpaceOf) -> Prediction | None:
    facts = measured.facts
    lookups = load_lookups(composed, measured.exchanges, space)
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
        prefill=lookups_of(composed.prefill(), space),
        warmed=lookups_of(composed.warmed(), space),
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


def _waterfall(measured: Measurement, composed: Composed, space: SpaceOf) -> Waterfall | None:
    if measured.prediction is None or measured.prediction.query_tokens > _MOST_TOKENS:
        return None
    load = load_lookups(composed, measured.exchanges, space)
    if load is None:
        return None
    return explain(
        measured,
        [_packed(lookup) for lookup in load],
        prefill=[_packed(lookup) for lookup in lookups_of(composed.prefill(), space)],
        warmed=[_packed(lookup) for lookup in lookups_of(composed.warmed(), space)],
    )


def _packed(lookup: Lookup) -> Lookup:
    return lookup if isinstance(lookup.ids, array) else replace(lookup, ids=array("I", lookup.ids))


def _there(measured: Measurement) -> list[int | None]:
    """Return what each request found, or would have found in a cache that keeps all: that is not lost by parting."""
    told = [exchange.cached_tokens for exchange in measured.exchanges]
    prediction = measured.prediction
    if prediction is None or len(prediction.per_request) != len(told):
        return told
    return [max(hit or 0, there) for hit, there in zip(told, prediction.per_request, strict=True)]


def _divergence(measured: Measurement, composed: Composed) -> Divergence | None:
    """Compare requests that were given as they are, and the turns of conversations as the server rendered them.

    Prompts that were built share exactly what they should.
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
        first = [exchange.cached_tokens for exchange in measured.prefill]
        both = zip(
            (*composed.prefill(), *requests), (*measured.prefill, *measured.exchanges), (*first, *there), strict=False
        )
        sent = [
            Sent(request.body, request.prompt.ids, request.session, hit, at)
            for at, (request, exchange, hit) in enumerate(both)
            if request.whole and exchange.ok
        ]
    return between(sent, block=measured.facts.block_size, isolation=measured.facts.isolation) if sent else None
