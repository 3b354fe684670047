"""What ``kv.probe`` and ``kv.aprobe`` offer: questions about the cache itself, answered from outside.

Each holds the endpoint's lock, sends prompts that nobody sent before (``--kv-seed`` does not fix them: a probe must not
find what an earlier one left), and notes its outcome in the test's output. What was asked is said by the arguments:

- ``settle``: seconds that the cache needs until what was just computed can be read; hosted ones: some.
- ``api``: ``completions`` or ``chat``; None: completions where the engine takes token ids, else chat.
- ``body``: further fields of every request, such as a ``prompt_cache_key`` that keeps them on one machine.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from ..endpoint import Endpoint
from ..errors import ConfigurationError, ProbeFailed
from .settings import Settings
from .sync import run_sync

if TYPE_CHECKING:
    from ..probes import Capacity, Equivalence, Granularity, Isolation, Lifetime, Terms
    from ..probes.prober import Api
    from .state import TestState

Found = TypeVar("Found")
Checked = TypeVar("Checked", "Isolation", "Equivalence")


class AsyncProbes:
    """The probes for an async test; see :class:`Probes`."""

    def __init__(self, endpoint: Endpoint, settings: Settings, state: TestState) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._state = state

    async def granularity(
        self,
        *,
        up_to: int = 4096,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Granularity:
        """Do what :meth:`Probes.granularity` does."""
        from ..probes import granularity

        found = await self._ask(partial(granularity, up_to=up_to), settle, api, body)
        self._state.keep_grain(self._endpoint, found.grain())
        return found

    async def capacity(
        self,
        *,
        at_most: int = 262_144,
        settle: float = 0.0,
        body: Mapping[str, Any] | None = None,
    ) -> Capacity:
        """Do what :meth:`Probes.capacity` does."""
        from ..probes import capacity

        return await self._ask(partial(capacity, at_most=at_most), settle, None, body)

    async def lifetime(
        self,
        *,
        at_most: float = 8.0,
        first: float = 1.0,
        tokens: int | None = None,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Lifetime:
        """Do what :meth:`Probes.lifetime` does."""
        from ..probes import lifetime

        return await self._ask(partial(lifetime, at_most=at_most, first=first, tokens=tokens), 0.0, api, body)

    async def isolation(
        self,
        *,
        by: str = "cache_salt",
        a: Any = None,
        b: Any = None,
        tokens: int | None = None,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Isolation:
        """Do what :meth:`Probes.isolation` does."""
        from ..probes import isolation

        return _checked(
            await self._ask(partial(isolation, by=by, a=a, b=b, tokens=tokens), settle, api, body), self._state
        )

    async def equivalence(
        self,
        *,
        prompts: int = 4,
        output: int = 16,
        tokens: int | None = None,
        tol: float | None = None,
        ties: bool = False,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Equivalence:
        """Do what :meth:`Probes.equivalence` does."""
        from ..probes import equivalence
        from ..probes.equivalence import TOL

        asked = partial(
            equivalence, prompts=prompts, output=output, tokens=tokens, tol=TOL if tol is None else tol, ties=ties
        )
        return _checked(await self._ask(asked, settle, api, body), self._state)

    async def _ask(
        self,
        probe: Callable[[Endpoint, Terms], Awaitable[Found]],
        settle: float,
        api: Api | None,
        body: Mapping[str, Any] | None,
    ) -> Found:
        from ..probes import Terms
        from .lock import aendpoint_lock

        if not 0 <= settle < float("inf"):
            raise ConfigurationError(f"kv.probe: settle={settle}; expected seconds, 0 or more")
        if api not in (None, "completions", "chat"):
            raise ConfigurationError(f"kv.probe: api={api!r}; expected 'completions' or 'chat'")
        self._state.refuse_in_block("kv.probe")
        terms = Terms(
            nonce=f"{self._state.next_nonce()}/{os.urandom(8).hex()}",
            tokenizer=self._settings.tokenizer,
            usage_prompt=self._settings.usage_prompt,
            usage_absent=self._settings.usage_absent,
            api=api,
            body=dict(body or {}),
            settle=settle,
            grain=self._state.grain_at(self._endpoint),
        )
        async with aendpoint_lock(self._endpoint.base):
            found = await probe(self._endpoint, terms)
        self._state.probes.append(str(found))
        return found


class Probes:
    """Finds out from outside how a cache behaves.

    Args:
        endpoint: where.
        settings: tokenizer, and what is declared of the usage.
        state: of the test.

    Every probe raises ``KVCacheError`` when nothing could be found out; such a test is inconclusive.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, state: TestState) -> None:
        self._later = AsyncProbes(endpoint, settings, state)

    def granularity(
        self,
        *,
        up_to: int = 4096,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Granularity:
        """Find the steps of the credit, the shortest credited prefix and what a full hit is credited.

        Later runs of this session predict with it where the server does not tell its block size. Some ten requests, up
        to 36 where the cache has both small steps and a minimum.

        Args:
            up_to: longest shared prefix to try, in tokens.
            settle / api / body: see the module.
        """
        asked = self._later.granularity(up_to=up_to, settle=settle, api=api, body=body)
        return run_sync(asked, "await kv.aprobe.granularity(...)")

    def capacity(
        self,
        *,
        at_most: int = 262_144,
        settle: float = 0.0,
        body: Mapping[str, Any] | None = None,
    ) -> Capacity:
        """Find how many tokens one engine's cache holds; what was cached before is lost.

        Args:
            at_most: tokens to look at. About as many are sent when the server tells what it holds, else up to nine
                times as many.
            settle / body: see the module. It is always asked by completions.
        """
        asked = self._later.capacity(at_most=at_most, settle=settle, body=body)
        return run_sync(asked, "await kv.aprobe.capacity(...)")

    def lifetime(
        self,
        *,
        at_most: float = 8.0,
        first: float = 1.0,
        tokens: int | None = None,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Lifetime:
        """Find how long a prompt that nobody reads stays cached; takes about ``at_most`` seconds.

        Where one was not found, it is made sure that time is the reason and not the number of prompts or of caches.

        Args:
            at_most: seconds to look.
            first: seconds until the first reading; each further one is twice as late.
            tokens: length of the prompts; None: enough for the cache to credit them.
            api / body: see the module.
        """
        asked = self._later.lifetime(at_most=at_most, first=first, tokens=tokens, api=api, body=body)
        return run_sync(asked, "await kv.aprobe.lifetime(...)")

    def isolation(
        self,
        *,
        by: str = "cache_salt",
        a: Any = None,
        b: Any = None,
        tokens: int | None = None,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Isolation:
        """Fail the test (KV205) when tokens are reused across a border between caches.

        Args:
            by: a field of the body such as ``cache_salt``, ``model``, or ``header:X-Tenant``.
            a / b: two values of it; None: made up, except for models.
            tokens: length of the prompts; None: enough for the cache to credit them.
            settle / api / body: see the module.
        """
        asked = self._later.isolation(by=by, a=a, b=b, tokens=tokens, settle=settle, api=api, body=body)
        return run_sync(asked, "await kv.aprobe.isolation(...)")

    def equivalence(
        self,
        *,
        prompts: int = 4,
        output: int = 16,
        tokens: int | None = None,
        tol: float | None = None,
        ties: bool = False,
        settle: float = 0.0,
        api: Api | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Equivalence:
        """Fail the test (KV206) when a warm greedy answer or its log probabilities differ from the cold one's.

        Args:
            prompts: how many, each asked twice, and once more where the answers differ.
            output: tokens to generate.
            tokens: length of the prompts; None: enough for the cache to credit them.
            tol: largest difference of two log probabilities that rounding explains; None: 0.2.
            ties: let a token differ where the cold answer held both within ``tol``.
            settle / api / body: see the module.
        """
        asked = self._later.equivalence(
            prompts=prompts, output=output, tokens=tokens, tol=tol, ties=ties, settle=settle, api=api, body=body
        )
        return run_sync(asked, "await kv.aprobe.equivalence(...)")


def _checked(found: Checked, state: TestState) -> Checked:
    """Return what was found when the cache is not at fault, else fail the test without a traceback of ours."""
    try:
        found.check()
    except ProbeFailed as error:
        from ..model import Finding
        from ..report.text import visible

        state.faults.append(Finding(error.code, str(error).removesuffix(f" [{error.code}]")))
        failure = visible(str(error))
    else:
        return found
    pytest.fail(failure, pytrace=False)
