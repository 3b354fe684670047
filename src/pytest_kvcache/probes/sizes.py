"""How long must a prompt be so that a cache credits it when it comes again?"""

from __future__ import annotations

from ..errors import WorkloadError
from .prober import Prober

_KNOWN, _UNKNOWN = 1024, 2048  # hosted caches begin at 1,024


def prompt_length(prober: Prober, asked: int | None, output: int = 1) -> int:
    """Return the length of prompts that are sent again: what was asked for, else enough for two steps of the cache.

    Raises:
        WorkloadError: the server does not take so long a prompt.
    """
    grain = prober.grain
    enough = _UNKNOWN if grain is None else max(_KNOWN, grain.minimum + 2 * grain.block)
    limit = prober.facts.max_model_len
    if limit is not None and output >= limit:
        raise WorkloadError(f"{prober.what}: output={output:,} leaves no room for a prompt; the server takes {limit:,}")
    if asked is None:
        return enough if limit is None else min(enough, limit - output)
    if asked < 1 or (limit is not None and asked + output > limit):
        raise WorkloadError(f"{prober.what}: tokens={asked}, and the server takes {limit or 'at least 1'}")
    return asked
