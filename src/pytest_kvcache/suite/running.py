"""What the checks have in common: what was asked of them, and what the server told of itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from ..endpoint import Endpoint
from ..errors import KVCacheError
from ..plugin.keys import GRAINS
from ..plugin.runner import Runner
from ..plugin.settings import Settings
from ..plugin.sync import run_sync
from ..report.text import visible
from . import asked

if TYPE_CHECKING:
    from ..model import ServerFacts
    from ..target import Target

Asked = TypeVar("Asked")
_UP_TO = 2048  # tokens: hosted caches begin at 1,024


def given(settings: Settings, check: type[Asked]) -> Asked:
    """Return what ``--kv-set`` asks of a check."""
    return asked.given(settings.parameters, check)


def target_at(endpoint: Endpoint) -> Target:
    """Return what the server tells of itself, its counters aside; fail the test when it cannot be asked."""
    with explained():
        return run_sync(_target_at(endpoint), "await")


def facts_at(endpoint: Endpoint, kv: Runner, config: pytest.Config) -> ServerFacts:
    """Return what is known of a server; in which steps its cache gives credit is found out where it does not tell.

    Without these nothing is predicted. They are found once a session, by some 20 requests.
    """
    facts = target_at(endpoint).facts
    if facts.grain_known:
        return facts
    known = config.stash[GRAINS].get((endpoint.base, endpoint.model))
    return facts.probed(known or kv.probe.granularity(up_to=_UP_TO).grain())


@contextmanager
def explained() -> Iterator[None]:
    """Fail the test with what an error says, without a traceback through our own code."""
    try:
        yield
    except KVCacheError as error:
        raise pytest.fail.Exception(visible(f"inconclusive: {error}"), pytrace=False) from None


async def _target_at(endpoint: Endpoint) -> Target:
    from ..client import Client
    from ..target import inspect

    async with Client(endpoint) as client:
        return await inspect(client, counters=False)


def fitting(longest: int | None, tokens: int, output: int) -> int:
    """Return the length of a prompt that is ``tokens`` or, where the model takes less, as much as it takes.

    It is a multiple of 64, so that common blocks reach common rates.
    """
    if longest is None or tokens + output <= longest:
        return tokens
    return max(64, (longest - output) // 64 * 64)
