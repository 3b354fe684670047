"""How a probe speaks to a server: prompts of exactly known tokens, and how many of them were found in its cache."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..calls import Calls
from ..client import Client
from ..endpoint import Endpoint
from ..engines.counters import tokens_by_engine
from ..errors import ConfigurationError, EndpointError, MeasurementError, WorkloadError
from ..model import Exchange, Grain, Prompt, Request, ServerFacts
from ..reconcile import sent
from ..replies.usage import Absent, Convention
from ..scrape import Snapshot
from ..site import Site
from ..target import inspect
from ..window import settle
from ..workloads.calibrated import chat_words
from ..workloads.frame import Frame
from ..workloads.vocabulary import Vocabulary

Api = Literal["completions", "chat"]

_OWN = frozenset({"prompt", "messages", "stream", "n", "echo"})


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a probe asks.

    Attributes:
        nonce: makes its prompts distinct from everybody else's.
        tokenizer: file, folder, hub id or ``builtin``; None: what the engine profile says.
        usage_prompt / usage_absent: what the user declares of the replies' usage; None: as the profile says.
        api: ``completions`` or ``chat``; None: completions where the engine takes token ids, else chat.
        body: further fields of every request, such as a ``prompt_cache_key``.
        settle: seconds that the cache may need until what was just computed can be read.
        grain: what an earlier probe found of this endpoint, for servers that do not tell.
    """

    nonce: str
    tokenizer: str | None = None
    usage_prompt: Convention | None = None
    usage_absent: Absent | None = None
    api: Api | None = None
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    settle: float = 0.0
    grain: Grain | None = None


@dataclass(slots=True)
class Prober:
    """One server that is being probed.

    Prompts are lists of piece numbers; lengths count tokens as the server does, what stands around the pieces included.

    Attributes:
        what: the probe's name, for errors.
        most: requests at most.
        requests: sent so far.
        ask: sends one request and never raises for what a server does.
    """

    what: str
    most: int
    terms: Terms
    site: Site
    api: Api
    vocabulary: Vocabulary
    frame: Frame
    ask: Callable[[Request], Awaitable[Exchange]]
    requests: int = 0
    _drawn: int = 0
    _told: Exchange | None = None
    _by_counters: bool = False

    @property
    def facts(self) -> ServerFacts:
        """What the server tells of itself."""
        return self.site.facts

    @property
    def grain(self) -> Grain | None:
        """How the cache gives credit, by the server, an earlier probe or the provider's documentation; else None."""
        return self.facts.grain if self.facts.grain_known else None

    @property
    def longest(self) -> int | None:
        """Tokens of the longest prompt with one token of output; None when the server does not tell."""
        limit = self.facts.max_model_len
        return None if limit is None else limit - 1

    @property
    def engines(self) -> int:
        """Engines that the counters tell apart; 1 without counters."""
        readers, pages = self.site.target.readers, self.site.target.first
        found = [r for r in zip(readers, pages, strict=True) if not r[0].aside]
        return max(1, sum(len(tokens_by_engine(reader, page, page)) for reader, page in found))

    # --- prompts -----------------------------------------------------------------------------------------------------

    def fresh(self, tokens: int) -> list[int]:
        """Return a prompt of so many tokens that shares nothing with any other but what stands in front of all.

        Raises:
            WorkloadError: no room for a piece beside what stands around them.
        """
        count = tokens - len(self.frame)
        if count < 1:
            raise WorkloadError(
                f"{self.what}: {tokens} tokens leave no room beside the {len(self.frame)} around a text"
            )
        numbers = self._draw(count)
        # the first piece alone tells prompts apart, as far as there are pieces: some caches credit a single token
        numbers[0] = (self.vocabulary.draw(f"{self.terms.nonce}/first", 1)[0] + self._drawn) % len(self.vocabulary)
        return numbers

    def branch(self, numbers: Sequence[int], shared: int, tail: int) -> list[int]:
        """Return a prompt that shares its first ``shared`` tokens, then goes on for ``tail`` others of its own.

        Where the frame is open, up to ``frame.open`` tokens more are shared.
        """
        kept = shared - len(self.frame.lead)
        if not 0 <= kept < len(numbers):
            raise WorkloadError(f"{self.what}: {shared} tokens cannot be shared beside the frame of a prompt")
        other = self._draw(tail)
        other[0] = (numbers[kept] + 1) % len(self.vocabulary)
        return [*numbers[:kept], *other]

    def longer(self, numbers: Sequence[int]) -> list[int]:
        """Return a prompt with one piece more."""
        return [*numbers, *self._draw(1)]

    def _draw(self, count: int) -> list[int]:
        self._drawn += 1
        return self.vocabulary.draw(f"{self.terms.nonce}/{self._drawn}", count)

    def request(self, numbers: Sequence[int], fields: Mapping[str, Any], output: int) -> Request:
        """Return the request of a prompt."""
        body = {**self.terms.body, **fields}
        ids, text = self.vocabulary.encode(numbers), self.vocabulary.text(numbers)
        if self.api == "chat":
            return Request(self.frame.prompt(ids, text), output, "load", api="chat", body=body)
        if self.site.as_ids:
            return Request(Prompt(ids), output, "load", body=body)
        framed = [*self.frame.lead, *ids, *self.frame.trail]
        return Request(Prompt(framed, self.vocabulary.prompt_text(text)), output, "load", body=body)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def write(self, numbers: Sequence[int], fields: Mapping[str, Any] | None = None) -> Exchange:
        """Send a prompt and let the cache settle.

        Raises:
            EndpointError: the request failed.
        """
        exchange = await self._send(numbers, fields or {}, 1)
        await self.pause()
        return exchange

    async def pause(self) -> None:
        """Wait until what was just computed can be read."""
        if self.terms.settle:
            await asyncio.sleep(self.terms.settle)

    async def read(self, numbers: Sequence[int], fields: Mapping[str, Any] | None = None, output: int = 1) -> int:
        """Send a prompt and return how many of its tokens were found in the cache, in whichever tier.

        By ``usage`` where answers report it, otherwise by the counters.

        Raises:
            EndpointError: the request failed.
            MeasurementError: nobody tells.
        """
        before = () if self._told is not None else await self._at_rest()
        exchange = await self._send(numbers, fields or {}, output)
        if not self._by_counters:
            reported = self._reported(exchange)
            if reported is not None:
                return reported
        return await self._counted(before, exchange)

    async def read_own(self, numbers: Sequence[int], fields: Mapping[str, Any] | None = None) -> int:
        """Do what :meth:`read` does, and return 0 for what every prompt shares: a chat template's head."""
        found = await self.read(numbers, fields)
        return found if found > len(self.frame.lead) + self.frame.open else 0

    def _reported(self, exchange: Exchange) -> int | None:
        if self._told is not None:
            (_, exchange) = self.site.calls.with_zeros((self._told, exchange))
        if exchange.cached_tokens is not None:
            self._told = self._told or exchange
        return exchange.cached_tokens

    async def _send(self, numbers: Sequence[int], fields: Mapping[str, Any], output: int) -> Exchange:
        if self.requests >= self.most:
            raise MeasurementError(f"{self.what}: no answer within {self.most} requests")
        self.requests += 1
        exchange = await self.ask(self.request(numbers, fields, output))
        if exchange.failure is not None:
            raise EndpointError(f"{self.what}: request {self.requests} failed: {exchange.failure.message}")
        return exchange

    async def _at_rest(self) -> tuple[Snapshot, ...]:
        target = self.site.target
        if not target.readers or target.facts.unit != "tokens":
            return ()
        return await settle(self.site.client, target.readers, target.first, 0)

    async def _counted(self, before: tuple[Snapshot, ...], exchange: Exchange) -> int:
        if not before or self._told is not None:
            raise MeasurementError(self._untold())
        self._by_counters = True
        readers, expected = self.site.target.readers, sent([exchange]).low
        after = await settle(self.site.client, readers, before, expected)
        found = [
            tokens
            for reader, first, last in zip(readers, before, after, strict=True)
            if not reader.aside
            for tokens in tokens_by_engine(reader, first, last).values()
        ]
        seconds = math.ceil(max(last.at - first.at for first, last in zip(before, after, strict=True)))
        looked_up, own = sum(tokens.query for tokens in found), self.facts.probe_tokens * (1 + seconds)
        if not expected <= looked_up <= expected + own:
            raise MeasurementError(
                f"{self.what}: the counters show {looked_up:,} query tokens for a prompt of {expected:,}: is another"
                " client using the server?"
            )
        return sum(hits for tokens in found for hits in tokens.hits.values())

    def _untold(self) -> str:
        needs = f"; the server needs {self.facts.usage_flag}" if self.facts.usage_flag else ""
        return f"{self.what}: neither usage nor counters tell how many tokens of a prompt were cached{needs}"


@asynccontextmanager
async def opened(
    endpoint: Endpoint, terms: Terms, what: str, most: int, like: Prober | None = None
) -> AsyncIterator[Prober]:
    """Open an endpoint for a probe.

    Args:
        endpoint: where.
        terms: how.
        what: the probe's name, for errors.
        most: requests at most.
        like: another prober of the same server, whose pieces and frame are used.

    Raises:
        ConfigurationError: the fields of the terms would replace what the probe sends.
        EndpointError, ProtocolError: the endpoint cannot be measured.
        WorkloadError: no prompts of exactly known tokens can be made for it.
    """
    refuse_own(terms.body, what)
    async with Client(endpoint) as client:
        target = await inspect(client)
        target = replace(target, facts=target.facts.probed(terms.grain))
        calls = Calls(target.profile, target.facts, False, terms.usage_prompt, terms.usage_absent)
        site = Site(client, target, calls, terms.nonce, spec=terms.tokenizer)
        api = terms.api or ("completions" if target.profile.prompt_ids else "chat")
        vocabulary, frame = (like.vocabulary, like.frame) if like else await _pieces(site, api, what)
        yield Prober(what, most, terms, site, api, vocabulary, frame, site.ask)


def refuse_own(fields: Iterable[str], what: str) -> None:
    """Refuse fields of a request that a probe needs for itself.

    Raises:
        ConfigurationError: there is one; with it the probe would answer another question.
    """
    taken = sorted(_OWN.intersection(fields))
    if taken:
        raise ConfigurationError(f"{what}: a request's {', '.join(taken)} cannot be set, the probe itself does")


async def _pieces(site: Site, api: Api, what: str) -> tuple[Vocabulary, Frame]:
    """Return what prompts are made of, and what stands around them."""
    if api == "completions":
        vocabulary = Vocabulary.of(await site.tokenizer())
        return vocabulary, Frame((), ()) if site.as_ids else Frame(vocabulary.lead, vocabulary.trail)
    words = await chat_words(site)
    if not words.exact:
        raise WorkloadError(
            f"{what}: no words are one token each by this server's count; name its tokenizer with --kv-tokenizer"
        )
    return words.vocabulary, words.frame


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
