"""What was sent against what the counters saw: every token must be accounted for, or there is no number. Pure.

Query tokens must lie between what was certainly looked up and what may have been. More is another client, or an engine
that counts a request again; less is a page that misses an engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .model import Exchange, Finding, Measurement, ServerFacts, Tokens


@dataclass(frozen=True, slots=True)
class Sent:
    """Query tokens that some requests must show.

    Attributes:
        low: of the requests that were answered.
        high: with those that failed after they were sent, earlier attempts of answered ones included: whether they
            were looked up is not known (a request refused before admission is not, one lost by a gateway may be).
        lengths: prompt tokens of each answered request that was looked up once, for counters in blocks.
    """

    low: int
    high: int
    lengths: tuple[int, ...] = ()


def sent(exchanges: Iterable[Exchange]) -> Sent:
    """Return what some requests must have added to the query counters."""
    low = more = 0
    lengths: list[int] = []
    for exchange in exchanges:
        tokens = prompt_tokens(exchange) * exchange.lookups
        more += tokens * sum(attempt.sent is not None for attempt in exchange.earlier)
        if exchange.ok:
            low += tokens
            lengths += [prompt_tokens(exchange)] * exchange.lookups
        elif exchange.sent is not None:
            more += tokens
    return Sent(low, low + more, tuple(lengths))


def prompt_tokens(exchange: Exchange) -> int:
    """Return the prompt tokens of a request: what the server reports, else what was sent; 0 when nobody tells."""
    return _prompt_tokens(exchange) or 0


def _prompt_tokens(exchange: Exchange) -> int | None:
    if exchange.prompt_tokens is not None:
        return exchange.prompt_tokens
    if exchange.prompt_len is None and exchange.prompt_ids is not None and not exchange.partial:
        return len(exchange.prompt_ids)  # they come first, also in an answer that is cut before its usage
    return exchange.prompt_len


def cached_tokens(exchanges: Iterable[Exchange]) -> int | None:
    """Return the cached tokens of all whole answers; None when there is none, or one does not report them."""
    values = [e.cached_tokens for e in exchanges if e.ok]
    if not values or any(value is None for value in values):
        return None
    return sum(value for value in values if value is not None)


def own_probes(facts: ServerFacts, seconds: float) -> int:
    """Return how many tokens the engine may have sent to itself in a window, such as SGLang's 1-token health check."""
    return facts.probe_tokens * (1 + math.ceil(seconds)) if facts.probe_tokens else 0


# --- counters that need work before they can be compared -------------------------------------------------------------


def corrected(
    engines: Mapping[str, Tokens], recounted: Mapping[str, Tokens], expected: Sent
) -> tuple[Mapping[str, Tokens], Finding | None]:
    """Return the counters that count every prompt once, when the others counted prompts again and these fit.

    vLLM up to 0.26 looks a waiting request up again at every step (vllm #43736, fixed in 0.27.0); from 0.16 on its
    ``prompt_tokens_by_source`` is counted once, with the first token.
    """
    seen, once = _query(engines), _query(recounted)
    if not recounted or seen <= expected.high or not expected.low <= once <= expected.high:
        return engines, None
    return recounted, Finding(
        "KV306",
        f"the engine counted waiting requests again ({seen:,} tokens looked up where {expected.low:,} were sent); the"
        f" rate comes from its prompt counters by source, which show {once:,}",
    )


def counted_once(
    engines: Mapping[str, Tokens], recounted: Mapping[str, Tokens], *, repeats: bool
) -> tuple[Mapping[str, Tokens], Finding | None]:
    """Return counters of traffic that is not ours, of an engine that may count waiting requests again.

    What was sent is not known, so its own prompt counter, which counts a prompt once, is the measure.

    Args:
        engines / recounted: as in :func:`corrected`.
        repeats: the engine is one that does.
    """
    prompts = [tokens.prompt for tokens in engines.values() if tokens.prompt is not None]
    seen, once = _query(engines), sum(prompts)
    if not repeats or not prompts or seen <= once:
        return engines, None
    numbers = f"{seen:,} tokens were looked up where the engine's own counter shows {once:,} prompt tokens"
    if recounted:
        return recounted, Finding("KV306", f"{numbers}; the rate comes from its prompt counters by source")
    return engines, Finding("KV103", numbers, "it counts waiting requests again (vllm #43736): vLLM 0.27 does not")


def in_tokens(engines: Mapping[str, Tokens], block_size: int | None, expected: Sent) -> Mapping[str, Tokens] | Finding:
    """Return counters of blocks as tokens: hit blocks are whole, and the prompts' tokens are known from what was sent.

    A prompt of L tokens is looked up in floor((L-1)/B) to ceil(L/B) blocks (vLLM up to 0.8.5 leaves out the last block
    of a prompt that fills it; TensorRT-LLM counts the partial one).
    """
    if block_size is None:
        return Finding("KV101", "the counters count blocks, and the server does not tell how many tokens a block has")
    if len(engines) != 1:
        return Finding(
            "KV101", f"the counters of {len(engines)} engines count blocks; their tokens cannot be told apart"
        )
    (name, blocks), *_ = engines.items()
    low = sum((length - 1) // block_size for length in expected.lengths)
    high = sum(-(-length // block_size) for length in expected.lengths)
    if low <= blocks.query <= high and expected.high != expected.low:
        return Finding(
            "KV101",
            "the counters count blocks, and whether those of requests that failed or were tried again are among them"
            " cannot be told",
        )
    if not low <= blocks.query <= high:
        return Finding(
            "KV103" if blocks.query > high else "KV104",
            f"the server looked up {blocks.query:,} blocks of {block_size} where {low:,} to {high:,} were sent",
            "measure alone, with every engine's page named (--kv-metrics)",
        )
    hits = {tier: tokens * block_size for tier, tokens in blocks.hits.items()}
    return {name: Tokens(expected.low, hits, blocks.prompt)}


def _query(engines: Mapping[str, Tokens]) -> int:
    return sum(tokens.query for tokens in engines.values())


# --- the comparison --------------------------------------------------------------------------------------------------


def too_few(seen: int, low: int) -> Finding | None:
    """Return a finding when fewer query tokens were counted than were sent, None otherwise."""
    if seen >= low:
        return None
    return Finding(
        "KV104",
        f"the server looked up {seen:,} tokens where {low:,} were sent: {low - seen:,} fewer",
        "scrape every engine behind the endpoint (--kv-metrics, repeatable); or an engine restarted meanwhile",
    )


def compare(m: Measurement) -> Iterable[Finding]:
    """Return what does not add up between what was sent, what the counters saw, and what the replies say."""
    counters = m.counters
    if counters is None or not m.own_traffic:
        return
    untold = sum(e.ok and _prompt_tokens(e) is None for e in m.exchanges)
    if untold:
        yield Finding(
            "KV111",
            f"{untold} of {len(m.exchanges)} replies do not tell how long all of their prompt was, so what the server"
            " looked up cannot be checked",
            "send token ids, or one prompt a request",
        )
        return
    expected = sent(m.exchanges)
    error = counters.query_error
    probes = own_probes(m.facts, m.ended - m.started)
    if counters.query - error > expected.high + probes:
        yield _too_many(m, counters, expected)
    elif counters.query - error > expected.high:
        yield Finding(
            "KV307",
            f"{counters.query - expected.high:,} tokens more were looked up than were sent: within the {probes:,} that"
            " the engine's own health checks may add",
        )
    elif m.facts.caching is not False:
        fewer = too_few(counters.query + error, expected.low)
        if fewer is not None:
            yield fewer
    yield from _against_usage(m, counters, expected)


def doubtful(m: Measurement, hit: int) -> tuple[int, int]:
    """Return how many query and hit tokens of a valid window may not belong to the requests that were answered.

    Failed requests may have been looked up, and an engine may ask itself; the latter never hits.

    Args:
        m: the window.
        hit: hit tokens of the tier in question.
    """
    counters = m.counters
    if counters is None or not m.own_traffic:
        return 0, 0
    expected = sent(m.exchanges)
    extra = max(0, counters.query - expected.low)
    return extra, min(hit, extra, expected.high - expected.low)


def _too_many(m: Measurement, counters: Tokens, expected: Sent) -> Finding:
    extra = counters.query - expected.high
    sentence = f"the server looked up {counters.query:,} tokens where {expected.high:,} were sent: {extra:,} more"
    if len(m.engines) > 1:
        sentence += " (" + ", ".join(f"engine {name} {t.query:,}" for name, t in m.engines.items()) + ")"
    preempted = m.pressure.preemptions if m.pressure is not None else None
    events = f", {preempted:,} preemptions" if preempted else ""
    prompt = counters.prompt
    if prompt is not None and prompt > expected.high:
        advice = f"another client used the server meanwhile: its prompt counter shows {prompt:,} too{events}"
    elif prompt is not None:
        advice = f"the engine counted requests more than once: its prompt counter shows {prompt:,}{events}"
    else:
        advice = (
            f"another client used the server meanwhile, or the engine counts a request again under pressure{events}"
        )
    return Finding("KV103", sentence, advice)


def _against_usage(m: Measurement, counters: Tokens, expected: Sent) -> Iterable[Finding]:
    cached = cached_tokens(m.exchanges)
    if cached is None or any(e.lookups != 1 for e in m.exchanges):
        return
    _, failed_hit = doubtful(m, counters.hit)  # a failed request's hits are in the counters and in no reply
    if counters.hit - failed_hit - counters.hit_error <= cached <= counters.hit + counters.hit_error:
        return
    if counters.query - counters.query_error > expected.high or counters.query + counters.query_error < expected.low:
        return  # what was not sent by us explains the difference
    if m.disaggregated:
        yield Finding(
            "KV309",
            f"the replies' cached_tokens add up to {cached:,}, the prefill side's counters to {counters.hit:,}: a"
            " decode engine reports what was transferred to it as cached, so the replies were not used",
        )
        return
    yield Finding(
        "KV114",
        f"the counters say {counters.hit:,} hit tokens, the replies' cached_tokens add up to {cached:,}",
        f"{_culprit(m, counters, cached)}; send one prompt twice, nothing else, and compare both",
    )


def _culprit(m: Measurement, counters: Tokens, cached: int) -> str:
    lengths = [prompt_tokens(e) for e in m.exchanges]
    if not counters.hit:
        return "likely the counters: this engine's scheduler may not report hits (vllm-ascend #15744, #16639)"
    if not cached:
        return "likely the replies: some engines report 0 with speculative decoding or through a proxy (sglang #20451)"
    if cached >= sum(lengths) - len(lengths):
        return "likely the replies: a decode engine reports its whole prompt as cached (vllm #44607)"
    if counters.external_hit and cached == counters.local_hit:
        return "likely the replies: they leave the external tier out"
    return "one of them is wrong"
