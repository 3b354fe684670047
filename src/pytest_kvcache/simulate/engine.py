"""One simulated engine: admission, a paged prefix cache, a timing model, and the counters of it all.

What is counted and when follows a recorded vLLM 0.32: a prompt is looked up once, when it is admitted; its blocks are
registered at that moment, so of identical concurrent prompts only the first misses; generated tokens fill blocks too,
except that the KV of the last one is never computed; requests for prompt logprobs bypass the look-up.

Behind the device cache there may be an external store. Every block that is computed is also stored there, so what the
device evicts or forgets is still found. It is asked for what the device does not have (external queries = prompt tokens
minus local hits, as vLLM 0.32's scheduler counts; a request that bypasses the look-up is counted there with no hit) and
gives the whole blocks that follow the local ones without a gap. The last prompt token is never among them, as in
vLLM 0.32's ExampleConnector; its OffloadingConnector may count the last block too.

Simpler than a real engine: a generation's own blocks are registered when it ends, a request that finds no free block
runs all the same, uncached, where vLLM makes it wait or preempts another, and a transfer from the store takes no time.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from array import array
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from ..model import Grain
from .blocks import block_keys
from .counts import Counts
from .policies import PrefixCache
from .visibility import Expiry, Visibility


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
        external_blocks: blocks in the external store; 0: there is none.
        minimum: a shorter prefix is not credited, as by hosted caches.
        lifetime: seconds after its last use until a block is not found any more, in any tier; 0: it stays.
    """

    block_size: int = 16
    capacity: int = 1_000_000
    slots: int = 16
    prefill_rate: float = 200_000.0
    decode_time: float = 0.001
    caching: bool = True
    max_model_len: int = 131_072
    external_blocks: int = 0
    minimum: int = 0
    lifetime: float = 0.0

    @property
    def grain(self) -> Grain:
        """In which steps a prompt is credited."""
        return Grain(self.block_size, self.minimum)


@dataclass(slots=True)
class Generation:
    """One generation in flight. Moments are monotonic seconds.

    Attributes:
        ids: prompt tokens.
        max_tokens: tokens to generate.
        salt: separates caches.
        lookup: False bypasses the cache, as prompt logprobs do.
        sample: number among the samples of one prompt; another sample says something else.
        lookups: how often the look-up is counted.
        readable_after: seconds from the answer until blocks that are new can be read.
        preemptions: how often this request counts as preempted.
        wrong_kv: what is cached of it is wrong, and so is what is generated behind that.
        warm_logprobs_off: its log probabilities are told so much too high when anything of it was cached.
        seed: what its tokens follow from, known at the first one.
        hit: prompt tokens that the device had, known after admission.
        external_hit: further prompt tokens that the external store had.
        created: tokens in blocks that the prompt newly cached.
        output: generated token numbers so far.
        arrived / admitted / first: when it came, got a slot, and had its first token.
    """

    ids: Sequence[int]
    max_tokens: int
    salt: str | None = None
    lookup: bool = True
    sample: int = 0
    lookups: int = 1
    readable_after: float = 0.0
    preemptions: int = 0
    wrong_kv: bool = False
    warm_logprobs_off: float = 0.0
    seed: int = 0
    hit: int = 0
    external_hit: int = 0
    created: int = 0
    output: list[int] = field(default_factory=list)
    arrived: float = 0.0
    admitted: float = 0.0
    first: float = 0.0

    @property
    def cached(self) -> int:
        """Prompt tokens that need not be computed."""
        return self.hit + self.external_hit


class Engine:
    """A paged cache with slots and a clock.

    Args:
        config: geometry and speed.
        words: token ids to generate from.
        external: a store shared with other engines; None: one of its own if the configuration says so.

    Attributes:
        external: the store behind the device cache; None: there is none.
    """

    def __init__(self, config: EngineConfig, words: Sequence[int], external: PrefixCache | None = None) -> None:
        self.config = config
        self.started = time.time()
        self.counts = Counts()
        self.running = 0
        self.waiting = 0
        self._words = words
        self.external = external
        if external is None and config.external_blocks:
            self.external = PrefixCache(config.external_blocks)
        self._cache = PrefixCache(config.capacity)
        self._visibility = Visibility()
        self._expiry = Expiry(config.lifetime)
        self._slots = asyncio.Semaphore(config.slots)
        self._prefilling = asyncio.Lock()
        self._prefill_free = 0.0

    @property
    def kv_usage(self) -> float:
        """Share of the cache's blocks that running requests hold, 0..1; what is only cached counts as free."""
        return self._cache.in_use / self.config.capacity

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self.running and not self.waiting

    def restart(self) -> None:
        """Begin anew: counters at zero, cache and store empty, running requests unharmed."""
        self.started = time.time()
        self.counts = Counts()
        self._cache = PrefixCache(self.config.capacity)
        self._visibility = Visibility()
        self._expiry = Expiry(self.config.lifetime)
        if self.external is not None:
            self.external.clear()

    def reset(self) -> bool:
        """Empty the device cache and leave the external store; refused while anything runs or waits."""
        return self.idle and self._cache.clear()

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
        if sequence.lookup:
            self._look_up(sequence, keys)
        if self.external is not None:
            self.counts.external_queries += len(sequence.ids) - sequence.hit
            self.counts.external_hits += sequence.external_hit
        sequence.created = (len(keys) - self._known(keys, self._cache)) * size
        self._write(sequence, keys, self._cache)
        return keys[: self._cache.match(keys)]

    def _look_up(self, sequence: Generation, keys: list[int]) -> None:
        """Find what is cached of a prompt, count it, and note it in ``sequence``."""
        size, length, counts = self.config.block_size, len(sequence.ids), self.counts
        grain = self.config.grain
        readable = self._visibility.reach(keys) if sequence.readable_after else len(keys)
        readable = min(readable, self._expiry.reach(keys))
        sequence.hit = grain.credit(min(self._cache.match(keys), readable) * size, length)
        known = min(self._known(keys, self._cache), readable)
        sequence.external_hit = max(0, grain.credit(known * size, length) - sequence.hit)
        counts.queries += sequence.lookups * length
        counts.hits += sequence.lookups * sequence.hit
        counts.device += sequence.hit

    def _known(self, keys: list[int], cache: PrefixCache) -> int:
        """Return how many leading blocks the device or, behind those, the external store has."""
        local = cache.match(keys)
        return local if self.external is None else local + self.external.match(keys[local:])

    def _write(self, sequence: Generation, keys: list[int], cache: PrefixCache) -> None:
        if sequence.readable_after:
            self._visibility.hide(keys[self._known(keys, cache) :])
        cache.insert(keys)
        self._expiry.use(keys)
        if self.external is not None:
            self.external.insert(keys)

    async def _prefill(self, sequence: Generation) -> float:
        """Wait for the engine to get round to this prompt; return the moment of the first token."""
        async with self._prefilling:
            begin = max(sequence.admitted, self._prefill_free)
            end = begin + (len(sequence.ids) - sequence.cached) / self.config.prefill_rate
            try:
                await _until(end)
            finally:  # a client that leaves gives back the time that its prefill would have taken
                self._prefill_free = min(end, max(begin, time.monotonic()))
        return end

    async def _decode(self, sequence: Generation) -> AsyncGenerator[list[int], None]:
        # Deadlines count from the first token, so that lateness never adds up; what is due together comes together.
        seed = zlib.crc32(array("I", sequence.ids).tobytes()) + sequence.sample
        seed += sequence.wrong_kv * sequence.cached
        sequence.seed = seed
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
        self.counts.transferred += sequence.external_hit
        self.counts.preemptions += sequence.preemptions
        self.counts.ttft.observe(sequence.first - sequence.arrived)

    def _count_finished(self, sequence: Generation) -> None:
        now, counts = time.monotonic(), self.counts
        counts.finished["length"] += 1
        counts.queue.observe(sequence.admitted - sequence.arrived)
        counts.prefill.observe(sequence.first - sequence.admitted)
        counts.decode.observe(now - sequence.first)
        counts.e2e.observe(now - sequence.arrived)
        counts.prompt_len.observe(len(sequence.ids))
        counts.computed.observe(len(sequence.ids) - sequence.cached)

    def _cache_output(self, sequence: Generation, cache: PrefixCache) -> None:
        if self.config.caching and sequence.output:
            computed = [*sequence.ids, *sequence.output[:-1]]  # the last token's KV is never computed
            keys = block_keys(computed, self.config.block_size, sequence.salt)
            self._write(sequence, keys, cache)
            if sequence.readable_after:
                self._visibility.show(keys, time.monotonic() + sequence.readable_after)


async def _until(moment: float) -> None:
    delay = moment - time.monotonic()
    if delay > 0:
        await asyncio.sleep(delay)
