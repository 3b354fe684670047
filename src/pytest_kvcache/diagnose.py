"""What is wrong with a measurement, or worth knowing about it: rules over the evidence, each with a stable code.

======  ===============================================================================================
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
KV201   the hit rate is below what was asked for
KV202   the hit rate is above what was asked for
KV203   some requests failed
KV301   the cache was warm before the run
KV302   the counters cannot be read; judged by usage alone
KV303   the shared prefix is shorter than one block
KV304   the traffic was not ours, so foreign traffic cannot be told apart
KV305   requests hit less than predicted
======  ===============================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .model import Exchange, Finding, Measurement


def findings(measurement: Measurement) -> tuple[Finding, ...]:
    """Return every finding about one measurement: those made while measuring, and those the evidence gives."""
    return (*measurement.findings, *_doubts_of_counters(measurement), *_doubts_of_replies(measurement))


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


def too_few(seen: int, sent: int) -> Finding | None:
    """Return a finding when fewer query tokens were counted than were sent, None otherwise."""
    if seen >= sent:
        return None
    return Finding(
        "KV104",
        f"the server looked up {seen:,} tokens where {sent:,} were sent: {sent - seen:,} fewer",
        "scrape every engine behind the endpoint (--kv-metrics, repeatable)",
    )


def prefill_problem(exchanges: Sequence[Exchange]) -> Finding | None:
    """Return why the cache cannot have been warmed as planned, None when it was."""
    failed = [e.failure for e in exchanges if e.failure is not None]
    if failed:
        return Finding(
            "KV110", f"prefill failed: {len(failed)} of {len(exchanges)} requests, first: {failed[0].message}"
        )
    return next((wrong for wrong in map(length_mismatch, exchanges) if wrong is not None), None)


def _doubts_of_counters(m: Measurement) -> Iterator[Finding]:
    if m.facts.caching is False:
        how = f" ({m.facts.caching_flag})" if m.facts.caching_flag else ""
        yield Finding("KV107", "the server says that its prefix cache is off", f"switch it on{how}")
    if not m.own_traffic:
        yield Finding(
            "KV304", "the traffic was not sent by this package, so foreign traffic in it cannot be told apart"
        )
    counters = m.counters
    if counters is None or not m.own_traffic or not m.exchanges:
        return
    sent = sum(prompt_tokens(e) for e in m.exchanges if e.ok)
    possible = sent + sum(prompt_tokens(e) for e in m.exchanges if not e.ok and e.sent is not None)
    if counters.query > possible:
        extra = counters.query - possible
        yield Finding(
            "KV103",
            f"the server looked up {counters.query:,} tokens where {possible:,} were sent: {extra:,} more",
            "another client used the server meanwhile, or the engine counts a request more than once under pressure",
        )
    elif m.facts.caching is not False:
        fewer = too_few(counters.query, sent)
        if fewer is not None:
            yield fewer
    cached = cached_tokens(m.exchanges)
    if cached is not None and all(e.ok for e in m.exchanges) and cached != counters.hit and counters.query == sent:
        yield Finding(
            "KV114",
            f"the counters say {counters.hit:,} hit tokens, the replies' cached_tokens add up to {cached:,}",
            "one of them is wrong: send one prompt twice and compare",
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
    for exchange in m.exchanges:
        cached, prompt = exchange.cached_tokens, exchange.prompt_tokens
        if cached is not None and prompt is not None and cached > prompt:
            yield Finding("KV112", f"a reply reports {cached:,} cached of {prompt:,} prompt tokens")
            break
    wrong = next((w for w in map(length_mismatch, m.exchanges) if w is not None), None)
    if wrong is not None and wrong not in m.findings:
        yield wrong
    yield from _against_prediction(m)


def _against_prediction(m: Measurement) -> Iterator[Finding]:
    prediction = m.prediction
    if prediction is None:
        return
    warmed = cached_tokens(m.prefill)
    if warmed is not None and warmed > prediction.prefill_hit_tokens:
        yield Finding(
            "KV301",
            f"warm start: {warmed:,} tokens of prompts that nobody should have sent before were cached",
            "an earlier run used the same seed; leave --kv-seed out, or reset (--kv-reset=require)",
        )
    block = m.facts.block_size
    if m.prefix_len and block and m.prefix_len < block:
        yield Finding(
            "KV303",
            f"the shared prefix of {m.prefix_len} tokens is shorter than one block of {block}: nothing can be reused",
            f"share at least {block} tokens",
        )
    cached = [e.cached_tokens for e in m.exchanges]
    if not prediction.exact or len(cached) != len(prediction.per_request):
        return
    short = [
        (number, seen, wanted)
        for number, (seen, wanted) in enumerate(zip(cached, prediction.per_request, strict=True))
        if seen is not None and seen < wanted
    ]
    if short:
        number, seen, wanted = short[0]
        first = f"request {number} with {seen:,} of {wanted:,}"
        yield Finding(
            "KV305",
            f"{len(short)} of {len(cached)} requests hit less than predicted, first: {first}",
            "evicted before they came, spread over engines, or never cached",
        )


def cached_tokens(exchanges: Sequence[Exchange]) -> int | None:
    """Return the cached tokens of all whole answers; None when there is none, or one does not report them."""
    values = [e.cached_tokens for e in exchanges if e.ok]
    if not values or any(value is None for value in values):
        return None
    return sum(value for value in values if value is not None)


def prompt_tokens(exchange: Exchange) -> int:
    """Return the prompt tokens of a request: what the server reports, else what was sent."""
    if exchange.prompt_tokens is not None:
        return exchange.prompt_tokens
    return exchange.prompt_len or 0
