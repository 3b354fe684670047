"""Does a warm request answer as the cold one did?

Greedy answers to the same prompt, first computed, then read from the cache: a cache that hands out the wrong KV shows
here, whatever its hit rate. Where the two differ the warm one is asked for once more: a server that does not even
repeat that one shows nothing of its cache.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..answers import parse_json
from ..endpoint import Endpoint
from ..errors import ConfigurationError, EndpointError, MeasurementError, ProbeFailed
from ..model import Exchange, Failure, Request
from ..replies import Answer
from .answered import Difference, Said, difference, said
from .prober import Prober, Terms, opened, plural
from .sizes import prompt_length

DIFFERS = "KV206"
TOL = 0.2
_REFUSED = (400, 404, 422)
_LOGPROBS: Mapping[str, Mapping[str, Any]] = {
    "completions": {"logprobs": 2},
    "chat": {"logprobs": True, "top_logprobs": 2},
}


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Warm answers held against cold ones.

    Attributes:
        differences: of each prompt.
        cached: tokens that the warm requests found, all prompts together.
        output: generated tokens of each answer that were asked for.
        tol: largest difference of two log probabilities that is let pass.
        ties: a token may differ where the cold answer held both within ``tol``.
        tokens: False where answers tell neither tokens nor log probabilities: texts were compared.
        requests: that were sent.
    """

    differences: tuple[Difference, ...]
    cached: int
    output: int
    tol: float
    ties: bool
    tokens: bool
    requests: int

    @property
    def wrong(self) -> tuple[int, ...]:
        """Numbers of the prompts whose warm answer is another one."""
        return tuple(n for n, found in enumerate(self.differences) if not _passes(found, self.tol, self.ties))

    @property
    def logprobs(self) -> float | None:
        """The largest difference of two log probabilities; None where they are not told."""
        return max((found.logprobs for found in self.differences if found.logprobs is not None), default=None)

    def __str__(self) -> str:
        asked = f"({plural(self.requests, 'request')}, {self.cached:,} cached tokens)"
        count = plural(len(self.differences), "prompt")
        if not self.wrong:
            same = f"largest difference of logprobs {self.logprobs:.4f}" if self.logprobs is not None else "logprobs"
            same += "" if self.logprobs is not None else " are not told"
            how = "" if self.tokens else " as text"
            return f"equivalence: warm answers to {count} equal the cold ones{how}, {same} {asked}"
        worst = self.differences[self.wrong[0]]
        return f"equivalence: {len(self.wrong)} of {count}: {self._said(worst)} [{DIFFERS}] {asked}"

    def _said(self, found: Difference) -> str:
        parts = []
        if found.position is not None:
            unit = "token" if self.tokens else "character"
            parts.append(f"the warm answer leaves the cold one at {unit} {found.position} of {self.output} tokens")
            if found.gap is not None:
                parts.append(f"which held the two {found.gap:.4f} apart")
                if found.gap <= self.tol:
                    parts.append("a tie that rounding may decide: ties=True lets it pass")
        if found.logprobs is not None and not found.logprobs <= self.tol:
            before = "" if found.position is None else " before that"
            parts.append(f"logprobs are up to {found.logprobs:.4f} apart{before}, more than {self.tol:g}")
        return ", ".join(parts)

    def check(self) -> Equivalence:
        """Return itself when all answers are the same.

        Raises:
            ProbeFailed: one is not.
        """
        if self.wrong:
            raise ProbeFailed(str(self), DIFFERS, self)
        return self


async def equivalence(
    endpoint: Endpoint,
    terms: Terms,
    *,
    prompts: int = 4,
    output: int = 16,
    tokens: int | None = None,
    tol: float = TOL,
    ties: bool = False,
) -> Equivalence:
    """Compare warm answers with cold ones; :meth:`Equivalence.check` fails when any differs.

    Args:
        endpoint: where.
        terms: how to ask.
        prompts: how many, each asked twice, and once more where the two answers differ.
        output: tokens to generate.
        tokens: length of the prompts; None: enough for the cache to credit them.
        tol: largest difference of two log probabilities that rounding explains. The default allows for one step of bf16
            at logits from 16 to 32, which is 0.125; vLLM 0.32 on a CPU in bf16 gave differences of exactly 0.
        ties: let a token differ where the cold answer held both within ``tol``, as kernels that round otherwise for
            another length of the uncached part may choose; what follows such a token is not compared.

    Raises:
        MeasurementError: a repeated prompt was not found in the cache, or two warm answers differ from each other, so
            the probe proves nothing.
        KVCacheError: the endpoint cannot be measured.
    """
    if prompts < 1 or output < 1 or not tol >= 0:
        raise ConfigurationError(
            f"equivalence(prompts={prompts}, output={output}, tol={tol}): expected at least 1, 1, 0"
        )
    async with opened(endpoint, terms, "equivalence", 3 * prompts + 1) as prober:
        length = prompt_length(prober, tokens, output)
        raw = _Raw(prober)
        prober.ask = raw.ask
        found, cached, by_token = [], 0, True
        for _ in range(prompts):
            numbers = prober.fresh(length)
            cold, warm, hits = await _pair(prober, raw, numbers, output)
            found.append(difference(cold, warm))
            if not _passes(found[-1], tol, ties):
                again = await _warm(prober, raw, numbers, output)
                if not _passes(difference(warm, again), tol, ties):
                    raise MeasurementError(
                        "equivalence: the server answers the same prompt otherwise each time it comes again, so its"
                        " cache need not be the reason; the probe proves nothing (is others' traffic in its batches?)"
                    )
            cached += hits
            by_token &= cold.tokens is not None or cold.ids is not None
        return Equivalence(tuple(found), cached, output, tol, ties, by_token, prober.requests)


def _passes(found: Difference, tol: float, ties: bool) -> bool:
    if found.logprobs is not None and not found.logprobs <= tol:
        return False
    return found.position is None or (ties and found.gap is not None and found.gap <= tol)


async def _warm(prober: Prober, raw: _Raw, numbers: Sequence[int], output: int) -> Said:
    await prober.read(numbers, raw.fields, output)
    return raw.said


async def _pair(prober: Prober, raw: _Raw, numbers: Sequence[int], output: int) -> tuple[Said, Said, int]:
    try:
        before = await prober.read(numbers, raw.fields, output)
    except EndpointError:
        if raw.status not in _REFUSED or not raw.with_logprobs:
            raise
        raw.with_logprobs = False
        before = await prober.read(numbers, raw.fields, output)
    cold = raw.said
    await prober.pause()
    hits = await prober.read(numbers, raw.fields, output)
    if hits <= before:
        raise MeasurementError(
            f"equivalence: of {len(numbers) + len(prober.frame):,} tokens {before:,} were cached at first and {hits:,}"
            " when they came again, so no warm answer was seen; the probe proves nothing"
        )
    return cold, raw.said, hits


@dataclass(slots=True)
class _Raw:
    """Sends requests unstreamed and keeps what the last answer said, token by token.

    Attributes:
        with_logprobs: ask for them.
        said: the last answer.
        status: its HTTP status.
    """

    prober: Prober
    with_logprobs: bool = True
    said: Said = field(default_factory=lambda: Said(""))
    status: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        """Fields that make the server tell more of its answer."""
        asked = _LOGPROBS[self.prober.api] if self.with_logprobs else {}
        return {**self.prober.site.token_ids, **asked}  # the temperature of every composed request is 0

    async def ask(self, request: Request) -> Exchange:
        """Send a request; the stamps of its exchange are those of the whole answer."""
        site = self.prober.site
        call = site.calls(request)
        began = time.monotonic()
        url, limit = site.client.url(call.api, call.model), site.client.endpoint.timeout
        page = await site.client.post(url, call.body, timeout=limit)
        answer = Answer(call.api, call.usage, call.samples)
        self.status = page.status
        if page.status == 200:
            answer.take_body(page.text, time.monotonic())
            body = parse_json(page)
            self.said = said(body if isinstance(body, dict) else {})
            answer.close()
        else:
            answer.failure = Failure("http", f"HTTP {page.status}: {site.client.explain(page)}")
        return Exchange(
            "load",
            began,
            time.monotonic(),
            sent=began,
            prompt_len=call.prompt_len,
            prompt_tokens=answer.usage.prompt,
            cached_tokens=answer.usage.cached,
            completion_tokens=answer.usage.completion,
            lookups=call.lookups,
            partial=call.partial,
            status=page.status,
            failure=answer.failure,
        )
