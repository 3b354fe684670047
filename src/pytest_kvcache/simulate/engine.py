"""One simulated engine: admission, a paged prefix cache, a timing model, and the counters of it all.

What is counted and when follows a recorded vLLM 0.32: a prompt is looked up once, when it is admitted; its blocks are
registered at that moment, so of identical concurrent prompts only the first misses; generated tokens fill blocks too,
except that the KV of the last one is never computed; requests for prompt logprobs bypass the look-up.

Simpler than a real engine: a generation's own blocks are registered when it ends, and a request that finds no free
block runs all the same, uncached, where vLLM makes it wait or preempts another.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from array import array
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from .blocks import block_keys, reusable_tokens
from .counts import Counts
from .policies import PrefixCache


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The geometry and speed of an engine.

    Attributes:
        block_size: tokens per block.
        capacity: blocks in the cache.
        slots: requests that run at once; others wait.
        prefill_rate: prompt tokens per second, on the part that is not cached; prefills follow one another.
        decode_time: seconds per generated token of a request, whatever else runs.
        caching: False switches the prefix cache off.
        max_model_len: prompt plus output tokens of one request.
    """

    block_size: int = 16
    capacity: int = 1_000_000
    slots: int = 16
    prefill_rate: float = 200_000.0
    decode_time: float = 0.001
    caching: bool = True
    max_model_len: int = 131_072


@dataclass(slots=True)
class Generation:
    """One generation in flight. Moments are monotonic seconds.

    Attributes:
        ids: prompt tokens.
        max_tokens: tokens to generate.
        salt: separates caches.
        lookup: False bypasses the cache, as prompt logprobs do.
        sample: number among the samples of one prompt; another sample says something else.
        hit: prompt tokens that were cached, known after admission.
        created: tokens in blocks that the prompt newly cached.
        output: generated token numbers so far.
        arrived / admitted / first: when it came, got a slot, and had its first token.
    """

    ids: Sequence[int]
    max_tokens: int
    salt: str | None = None
    lookup: bool = True
    sample: int = 0
    hit: int = 0
    created: int = 0
    output: list[int] = field(default_factory=list)
    arrived: float = 0.0
    admitted: float = 0.0
    first: float = 0.0


class Engine:
    """A paged cache with slots and a clock.

    Args:
        config: geometry and speed.
        words: token ids to generate from.
    """

    def __init__(self, config: EngineConfig, words: Sequence[int]) -> None:
        self.config = config
        self.started = time.time()
        self.counts = Counts()
        self.running = 0
        self.waiting = 0
        self._words = words
        self._cache = PrefixCache(config.capacity)
        self._slots = asyncio.Semaphore(config.slots)
        self._prefilling = asyncio.Lock()
        self._prefill_free = 0.0

    @property
    def kv_usage(self) -> float:
        """Share of the cache's blocks that running requests hold, 0..1; what is only cached counts as free."""
        return self._cache.in_use / self.config.capacity

    def restart(self) -> None:
        """Begin anew: counters at zero, cache empty, running requests unharmed."""
        self.started = time.time()
        self.counts = Counts()
        self._cache = PrefixCache(self.config.capacity)

    def reset(self) -> bool:
        """Empty the cache; refused while anything runs or waits."""
        return not self.running and not self.waiting and self._cache.clear()

    async def generate(self, sequence: Generation) -> AsyncGenerator[list[int], None]:
        """Run one sequence and yield the tokens that have become due, at least one at a time."""
        sequence.arrived = time.monotonic()
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        cache = self._cache  # a restart in between must not confuse the pins
        keys = self._admit(sequence)
        cache.pin(keys)
        whole = False
        try:
            sequence.first = await self._prefill(sequence)
            self._count_first_token(sequence)
            async for due in self._decode(sequence):
                yield due
            whole = True
        finally:
            cache.unpin(keys)
            self._cache_output(sequence, cache)
            if whole:  # a client that leaves moves no finish counter (vLLM 0.32)
                self._count_finished(sequence)
            self.running -= 1
            self._slots.release()

    def _admit(self, sequence: Generation) -> list[int]:
        sequence.admitted = time.monotonic()
        if not self.config.caching:
            return []
        size = self.config.block_size
        keys = block_keys(sequence.ids, size, sequence.salt)
        matched = self._cache.match(keys)
        if sequence.lookup:
            sequence.hit = reusable_tokens(matched * size, len(sequence.ids), size)
            self.counts.queries += len(sequence.ids)
            self.counts.hits += sequence.hit
        sequence.created = (len(keys) - matched) * size
        self._cache.insert(keys)
        return keys[: self._cache.match(keys)]

    async def _prefill(self, sequence: Generation) -> float:
        """Wait for the engine to get round to this prompt; return the moment of the first token."""
        async with self._prefilling:
            begin = max(sequence.admitted, self._prefill_free)
            end = begin + (len(sequence.ids) - sequence.hit) / self.config.prefill_rate
            try:
                await _until(end)
            finally:  # a client that leaves gives back the time that its prefill would have taken
                self._prefill_free = min(end, max(begin, time.monotonic()))
        return end

    async def _decode(self, sequence: Generation) -> AsyncGenerator[list[int], None]:
        # Deadlines count from the first token, so that lateness never adds up; what is due together comes together.
        seed = zlib.crc32(array("I", sequence.ids).tobytes()) + sequence.sample
        step = self.config.decode_time
        while len(sequence.output) < sequence.max_tokens:
            done = len(sequence.output)
            await _until(sequence.first + done * step)
            ready = sequence.max_tokens if not step else 1 + int((time.monotonic() - sequence.first) / step)
            due = [
                self._words[(seed + 7919 * number) % len(self._words)]
                for number in range(done, max(done + 1, min(ready, sequence.max_tokens)))
            ]
            sequence.output += due
            self.counts.generated += len(due)
            yield due

    def _count_first_token(self, sequence: Generation) -> None:
        self.counts.prompt += len(sequence.ids)
        self.counts.cached += sequence.hit
        self.counts.ttft.observe(sequence.first - sequence.arrived)

    def _count_finished(self, sequence: Generation) -> None:
        now, counts = time.monotonic(), self.counts
        counts.finished["length"] += 1
        counts.queue.observe(sequence.admitted - sequence.arrived)
        counts.prefill.observe(sequence.first - sequence.admitted)
        counts.decode.observe(now - sequence.first)
        counts.e2e.observe(now - sequence.arrived)
        counts.prompt_len.observe(len(sequence.ids))
        counts.computed.observe(len(sequence.ids) - sequence.hit)

    def _cache_output(self, sequence: Generation, cache: PrefixCache) -> None:
        if self.config.caching and sequence.output:
            computed = [*sequence.ids, *sequence.output[:-1]]  # the last token's KV is never computed
            cache.insert(block_keys(computed, self.config.block_size, sequence.salt))


async def _until(moment: float) -> None:
    delay = moment - time.monotonic()
    if delay > 0:
        await asyncio.sleep(delay)
