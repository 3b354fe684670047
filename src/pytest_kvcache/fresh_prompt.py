"""A prompt that nobody sent before, to see whether a cache is cold."""

from __future__ import annotations

from .errors import WorkloadError
from .model import Prompt, Request
from .site import Site


async def fresh_prompt(site: Site) -> Request:
    """Return a prompt of three blocks and a half, by the server's tokenizer or, without one, of about that length."""
    from .workloads.shapes import SharedPrefix

    block = site.facts.block_size or site.facts.block_usual or 16
    length = 3 * block + max(1, block // 2)  # not at a block's edge, where tiers differ in what they keep
    try:
        tokenizer = await site.tokenizer()
    except WorkloadError:
        text = " ".join(f"{site.nonce} reset {number}" for number in range(length))
        return Request(Prompt((), text), 1, "prefill")
    shape = SharedPrefix(requests=1, input_len=length, prefix_len=0, output_len=1, align=None)
    composed = shape.compose(site.facts, tokenizer, f"{site.nonce}:reset", as_ids=site.as_ids)
    return next(composed.load())
