"""What is wrong with a measurement, or worth knowing about it: rules over the evidence, each with a stable code.

======  ===============================================================================================
KV100   an error that no other code names
KV101   the counters that the engine profile names are absent
KV102   a counter fell: the engine restarted
KV103   more query tokens than were sent: another client, or double counting
KV104   fewer query tokens than were sent: a partial scrape, or requests that bypass the cache
KV105   the counters never came to rest
KV106   nothing was looked up: 0 of 0 is no rate
KV107   the server says that its prefix cache is off
KV108   the rate is above what any cache could reach on this workload
KV109   every request failed
KV110   prefill failed, so the cache was not warm
KV111   the replies do not report cached tokens
KV112   a reply reports more cached than prompt tokens
KV113   the server counted another prompt length than was composed: another tokenizer
KV114   counters and usage disagree
KV115   no rate is predicted here, and none was asked for
KV116   interrupted
KV117   the counters could not be read at the end
KV118   an option, marker argument or profile that cannot be used
KV119   the workload cannot be built for this server
KV120   the endpoint cannot be reached, refuses, or serves something else
KV121   a reply or a metrics page cannot be understood
KV122   a reply reports its whole prompt as cached, which this engine cannot do
KV123   what was asked for lies inside the room that printed digits or failed requests leave
KV124   this version's counters are known not to mean what they say
KV125   a trace that cannot be read, or does not tell what is asked of it
KV126   too few samples for what is asked of latency or throughput, or none
KV127   the load generator was the bottleneck
KV128   the cold run of a speed-up found its prompts in the cache
KV129   the workload ended before the time of a level was over, or before a search had ended
KV130   a process that sent the load died
KV131   there is nothing to compare with: no baseline, or no entry of the test
KV132   what is compared with the baseline is not the same: another engine, version, model, workload, ...
KV133   too few runs, or values that spread too widely, to tell a change from chance
KV201   the hit rate is below what was asked for
KV202   the hit rate is above what was asked for
KV203   some requests failed
KV205   what should separate caches does not
KV206   a warm answer differs from the cold one
KV207   latency, throughput, errors or a speed-up miss what was asked for
KV208   worse than the baseline by more than is allowed
KV301   the cache was warm before the run
KV302   the counters cannot be read; judged by usage alone
KV303   the shared prefix is shorter than one block
KV304   the traffic was not ours, so foreign traffic cannot be told apart
KV305   requests hit less than predicted
KV306   the engine counted waiting requests again; counters that do not were used
KV307   the engine's own health checks are among the query tokens
KV308   a prefix was computed on several engines
KV309   the replies came from a decode engine, so their cached tokens were not used
KV310   how this engine reports is known to have quirks, or is unconfirmed
KV312   nothing was cached, and the cache had little time to take it in
KV313   requests failed, no more than the test allows
KV314   requests were tried again, and may find what their earlier attempts computed
KV315   the prompts share less than was asked for
KV320   tokens missed because nobody had sent them before
KV321   tokens missed because they do not fill a block
KV322   tokens missed because the template or the tokenizer made others of them
KV323   tokens missed because the request that computes them was still in flight
KV324   tokens missed because they were evicted
KV325   tokens missed because the cache was emptied
KV326   tokens missed, and the data does not tell why
KV327   the limit of an objective lies inside its confidence interval
KV330   where requests that should share a prefix part
KV331   compared although something is not the same, because that is allowed
KV332   worse than the baseline for certain, and by how much lies on both sides of what is allowed
======  ===============================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from .divergence import advice, sentence
from .model import Cause, Exchange, Expectation, Finding, Loss, Measurement, Prediction
from .model.loss import TITLES
from .reconcile import cached_tokens, compare, prompt_tokens
from .spread import spread_over_engines

_LOSSES: dict[Cause, str] = {
    "cold": "KV320",
    "rounding": "KV321",
    "template": "KV322",
    "tokenizer": "KV322",
    "duplicates": "KV323",
    "routing": "KV308",
    "eviction": "KV324",
    "reset": "KV325",
    "unexplained": "KV326",
}
_OF_PROMPTS = frozenset({"cold", "rounding", "template"})  # no cache of whole blocks is spared them
_ORDINARY = frozenset({"cold", "rounding"})  # every workload has them: no finding, only told as a cause


def findings(measurement: Measurement) -> tuple[Finding, ...]:
    """Return every finding about one measurement: those made while measuring, and those the evidence gives."""
    before = (
        *measurement.findings,
        *_doubts_of_server(measurement),
        *compare(measurement),
        *_doubts_of_replies(measurement),
    )
    if measurement.facts.caching is False:
        return before  # that is why nothing was reused
    return (
        *before,
        *_against_prediction(measurement),
        *(_loss(measurement, loss) for loss in _losses(measurement) if loss.cause not in _ORDINARY),
        *_divergence(measurement),
    )


def _loss(m: Measurement, loss: Loss) -> Finding:
    """Return a step of the waterfall as a finding; routing is told by engine where each of them missed evenly."""
    if loss.cause == "routing":
        for finding in spread_over_engines(m):
            return finding
    told = f"; {loss.evidence}" if loss.evidence else ""
    known = m.facts.note if loss.cause == "unexplained" else ""  # how this engine reuses may be the reason
    advice = "; ".join(filter(None, (loss.advice, known)))
    return Finding(_LOSSES[loss.cause], f"{loss.tokens:,} tokens lost to {TITLES[loss.cause]}{told}", advice)


def main_cause(expectation: Expectation, measurements: Sequence[Measurement], wanted: float) -> Finding | None:
    """Return what explains most of the reuse that is missing, None when nothing is known of it.

    A divergence comes first, unless something else lost more: it is a defect of the prompts, and the waterfall shows
    what it costs as cold use, as a changed turn or not at all. Then comes a wish that no cache can fulfil, because the
    prompts do not share so much, unless something went wrong that lost more; then the largest loss.

    Args:
        expectation: what was asked for.
        measurements: judged together.
        wanted: the lowest rate that would have been good enough.
    """
    if expectation.target == "simulated" and wanted > (expectation.min or 0.0):
        return _beyond_simulated(measurements)
    for measurement in measurements:
        others = (loss.tokens for loss in _losses(measurement) if loss.cause != "template")
        if measurement.divergence is not None and _cost(measurement) >= max(others, default=0):
            return next(_divergence(measurement))
    part = expectation.requests == "warm" or expectation.skip_turns > 0  # first uses are not in what is judged
    losses = [(m, loss) for m in measurements for loss in _losses(m) if not (part and loss.cause == "cold")]
    wrong = max((loss.tokens for _, loss in losses if loss.cause not in _ORDINARY), default=0)
    if not part and expectation.weight == "token" and expectation.tier == "total":
        for missing, finding in _unreachable(measurements, wanted):
            if missing >= wrong:
                return finding
    return _loss(*max(losses, key=lambda pair: pair[1].tokens)) if losses else None


def surplus(measurements: Sequence[Measurement]) -> Finding | None:
    """Return that more was reused than the requests themselves explain, None when it was not or is not known."""
    more = -sum(m.waterfall.of("surplus") for m in measurements if m.waterfall is not None)
    if more <= 0:
        return None
    what = f"{more:,} tokens more were cached than these requests explain"
    return Finding(
        "KV301", what, "were they sent before (same seed)? Leave the seed out, or reset (--kv-reset=require)"
    )


def _beyond_simulated(measurements: Sequence[Measurement]) -> Finding | None:
    """Return the largest of the losses that a simulated cache does not have: it evicts too, no more than it must."""
    found: list[tuple[int, Measurement, Loss]] = []
    for m in measurements:
        foreseen = m.prediction.hit_tokens - m.simulated.hit_tokens if m.prediction and m.simulated else 0
        for loss in _losses(m):
            beyond = loss.tokens - foreseen if loss.cause == "eviction" else loss.tokens
            if loss.cause not in _OF_PROMPTS and beyond > 0:
                found.append((beyond, m, loss))
    return _loss(*max(found, key=lambda one: one[0])[1:]) if found else None


def _cost(m: Measurement) -> float:
    """Return about how many tokens were not reused because requests part as those do that were compared."""
    parted = m.divergence
    if parted is None or m.waterfall is None:
        return 0.0
    share = (parted.pairs or 0) / (parted.of_pairs or 1)
    gain = max(0, (parted.recoverable or 0) - (parted.token or 0))
    in_turns = m.waterfall.of("template") if parted.cause == "template_history" else 0
    return max(gain * share * len(m.exchanges), in_turns)


def _unreachable(measurements: Sequence[Measurement], wanted: float) -> Iterator[tuple[float, Finding]]:
    """Return by how many tokens the wish is out of reach, and that it is."""
    shared = sum(m.waterfall.ceiling for m in measurements if m.waterfall is not None)
    query = sum(prompt_tokens(e) for m in measurements for e in m.exchanges if e.ok)  # those that failed are in neither
    known = all(m.waterfall is not None for m in measurements)
    if known and query and shared / query < wanted:
        told_so = Finding(
            "KV315",
            f"these prompts share {shared:,} of {query:,} tokens with each other: no cache reaches more than"
            f" {shared / query:.3f}",
            "share more of them, or ask for less",
        )
        yield wanted * query - shared, told_so


def _losses(m: Measurement) -> list[Loss]:
    return [] if m.waterfall is None else [loss for loss in m.waterfall.losses if loss.cause != "surplus"]


def _divergence(m: Measurement) -> Iterator[Finding]:
    if m.divergence is not None:
        yield Finding("KV330", sentence(m.divergence, show_text=False), advice(m.divergence))


def length_mismatch(exchange: Exchange) -> Finding | None:
    """Return a finding when the server counted another prompt length than was composed."""
    sent, seen = exchange.prompt_len, exchange.prompt_tokens
    if sent is None or seen is None or sent == seen:
        return None
    return Finding(
        "KV113",
        f"the server counted {seen:,} prompt tokens where {sent:,} were composed",
        "the tokenizer is not the server's: name the model's with --kv-tokenizer",
    )


def prefill_problem(exchanges: Sequence[Exchange]) -> Finding | None:
    """Return why the cache cannot have been warmed as planned, None when it was."""
    failed = [e.failure for e in exchanges if e.failure is not None]
    if failed:
        return Finding(
            "KV110", f"prefill failed: {len(failed)} of {len(exchanges)} requests, first: {failed[0].message}"
        )
    return next((wrong for wrong in map(length_mismatch, exchanges) if wrong is not None), None)


def _doubts_of_server(m: Measurement) -> Iterator[Finding]:
    if m.facts.caching is False:
        how = f" ({m.facts.caching_flag})" if m.facts.caching_flag else ""
        yield Finding("KV107", "the server says that its prefix cache is off", f"switch it on{how}")
    if not m.own_traffic:
        yield Finding(
            "KV304", "the traffic was not sent by this package, so foreign traffic in it cannot be told apart"
        )
    if m.facts.unconfirmed:
        yield Finding(
            "KV310",
            f"unconfirmed: how {m.facts.engine} reports reuse was not read in its own source, only elsewhere",
            "compare one prompt sent twice with what you expect, and tell us",
        )


def _doubts_of_replies(m: Measurement) -> Iterator[Finding]:
    failed = [e.failure for e in m.exchanges if e.failure is not None]
    if failed:
        total = len(m.exchanges)
        kinds = ", ".join(
            f"{count} x {message}" for message, count in Counter(f.message for f in failed).most_common(3)
        )
        waits = [f.retry_after for f in failed if f.retry_after is not None]
        asked = f"; the server asked to wait {max(waits):g} s" if waits else ""
        if len(failed) == total:
            yield Finding("KV109", f"all {total} requests failed: {kinds}{asked}")
        else:
            yield Finding("KV203", f"{len(failed)} of {total} requests failed: {kinds}{asked}")
    lost = sum(f.kind == "process" for f in failed)
    if lost and not any(f.code == "KV130" for f in m.findings):  # else that tells how it died
        yield Finding(
            "KV130",
            f"{lost} of {len(m.exchanges)} requests were in flight in a process of the load generator that died: the"
            " load was not the one that was asked for",
        )
    retried = [e for e in m.exchanges if e.earlier]
    if retried:
        first = retried[0].earlier[0].failure
        yield Finding(
            "KV314",
            f"{len(retried)} of {len(m.exchanges)} requests were tried again, first because of"
            f" {first.message if first is not None else 'a failure'}: a retry may find what its earlier attempt"
            " computed",
        )
    if not m.disaggregated:
        yield from _impossible(m)
    wrong = next((w for w in map(length_mismatch, m.exchanges) if w is not None), None)
    if wrong is not None and wrong not in m.findings:
        yield wrong


def _impossible(m: Measurement) -> Iterator[Finding]:
    for exchange in chain(m.prefill, m.exchanges):
        cached, prompt = exchange.cached_tokens, exchange.prompt_tokens
        if cached is None or prompt is None or not (prompt or cached):
            continue
        if cached > prompt:
            yield Finding(
                "KV112",
                f"a reply reports {cached:,} cached of {prompt:,} prompt tokens",
                "does its prompt number leave the cached part out? Then --kv-usage-prompt=uncached",
            )
            return
        if cached == prompt and not m.facts.whole_prompt_hits:
            yield Finding(
                "KV122",
                f"a reply reports all of its {prompt:,} prompt tokens as cached; at least one is always computed",
                "decode engines of a disaggregated pair do that: measure the prefill side (--kv-metrics prefill=URL)",
            )
            return


def _against_prediction(m: Measurement) -> Iterator[Finding]:
    prediction = m.prediction
    if prediction is None:
        return
    yield from _warm_start(m, prediction)
    block = m.facts.block_size
    if m.prefix_len and block and m.prefix_len < block:
        yield Finding(
            "KV303",
            f"the shared prefix of {m.prefix_len} tokens is shorter than one block of {block}: nothing can be reused",
            f"share at least {block} tokens",
        )
    yield from _too_soon(m)
    if m.waterfall is None or not m.waterfall.of("routing"):
        yield from spread_over_engines(m)
    if m.disaggregated or not prediction.exact or len(m.exchanges) != len(prediction.per_request):
        return
    cached = [e.cached_tokens for e in m.exchanges]
    short = [
        (number, seen, wanted)
        for number, (seen, wanted) in enumerate(zip(cached, prediction.per_request, strict=True))
        if seen is not None and seen < wanted
    ]
    if short:
        number, seen, wanted = short[0]
        first = f"request {number} with {seen:,} of {wanted:,}"
        hits, predicted = sum(seen for _, seen, _ in short), sum(wanted for _, _, wanted in short)
        together = f" ({hits:,} of {predicted:,} tokens)" if len(short) > 1 else ""
        yield Finding(
            "KV305",
            f"{len(short)} of {len(cached)} requests hit less than predicted{together}, first: {first}",
            "" if m.waterfall else "evicted before they came, spread over engines, or never cached",
        )


def _warm_start(m: Measurement, prediction: Prediction) -> Iterator[Finding]:
    warmed = cached_tokens(m.prefill)
    if m.disaggregated or warmed is None:
        warmed = 0
    extra = max(0, warmed - prediction.prefill_hit_tokens)
    chance = len(m.prefill) if m.facts.grain.block == 1 else 0  # two prompts may begin with the same token
    if prediction.fresh and extra > chance:
        yield Finding(
            "KV301",
            f"warm start: {warmed:,} tokens of prompts that nobody should have sent before were cached",
            "an earlier run used the same seed; leave --kv-seed out, or reset (--kv-reset=require)",
        )
    elif not prediction.fresh:
        hits = cached_tokens(m.exchanges) if not m.disaggregated else None
        extra += max(0, (hits or 0) - prediction.hit_tokens - prediction.slack)
        if extra:
            yield Finding(
                "KV301",
                f"warm start: {extra:,} tokens more were cached than these requests explain: they were sent before",
                "for a rate that does not depend on what the server did before, reset it (--kv-reset=require)",
            )


def _too_soon(m: Measurement) -> Iterator[Finding]:
    """Nothing was reused although it was all there: a hosted cache needs a while until what it wrote can be read."""
    prediction = m.prediction
    if prediction is None or not prediction.hit_tokens or cached_tokens(m.exchanges) != 0:
        return
    if m.waterfall is not None and not m.waterfall.of("unexplained"):
        return
    answers = sorted(e.end for e in chain(m.prefill, m.exchanges) if e.ok)
    later = [e.sent for e, hit in zip(m.exchanges, prediction.per_request, strict=True) if hit and e.sent is not None]
    if answers and later:
        yield Finding(
            "KV312",
            f"nothing was cached; the first request that could hit was sent {max(0.0, min(later) - answers[0]):.1f} s"
            " after the first answer",
            "a hosted cache may need up to half a minute until a prefix can be read: "
            + (
                "kv.run(..., settle=30)"
                if m.prefill
                else "warm it first with settle=30, or conversation(..., think_time=30)"
            ),
        )
