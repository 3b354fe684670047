"""Several engines, each with a cache of its own: how many copies of a prefix had to be computed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .model import Finding, Measurement


def spread_over_engines(m: Measurement) -> Iterator[Finding]:
    """Tell when reuse was lost only because requests of one prefix went to several engines.

    R requests of one prefix spread over N caches find it at most R - N times. The engines' counters tell how often each
    of them missed: its requests times the prefix, less its hits.
    """
    prediction, block = m.prediction, m.facts.block_size
    serving = {name: tokens for name, tokens in m.engines.items() if tokens.query}
    if prediction is None or not block or not m.prefix_len or len(serving) < 2:
        return
    lengths = {e.prompt_tokens or e.prompt_len for e in m.exchanges if e.ok}
    if len(lengths) != 1 or len(m.exchanges) != len(prediction.per_request):
        return
    length = lengths.pop() or 0
    reusable = max(prediction.per_request, default=0)
    lost = prediction.hit_tokens - sum(tokens.hit for tokens in serving.values())
    if not length or not reusable or lost <= 0:
        return
    misses = {name: (t.query // length) * reusable - t.hit for name, t in serving.items()}
    if any(tokens.query % length for tokens in serving.values()) or any(miss % reusable for miss in misses.values()):
        return  # something else was lost too
    each = _counted({name: miss // reusable for name, miss in misses.items()})
    total = sum(tokens.query for tokens in serving.values())
    hits = sum(tokens.hit for tokens in serving.values())
    yield Finding(
        "KV308",
        f"{len(serving)} engines served the same prefixes, each with a cache of its own: {each}. They reached"
        f" {hits:,} of {total:,} tokens, one cache would {prediction.hit_tokens:,}",
        "route by prefix or session, or send enough requests per engine",
    )


def _counted(misses: Mapping[str, int]) -> str:
    counts = set(misses.values())
    if len(counts) == 1:
        count = counts.pop()
        return f"{len(misses)} engines with {count} {'miss' if count == 1 else 'misses'} each"
    return "misses: " + ", ".join(f"engine {name} {count}" for name, count in misses.items())
