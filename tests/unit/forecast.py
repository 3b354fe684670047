"""The prediction of a composed workload, for tests that have no server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from pytest_kvcache.lookups import lookups_of
from pytest_kvcache.model import Grain, Prediction, Request
from pytest_kvcache.simulate.replay import predict


class Listing(Protocol):
    def prefill(self) -> Iterable[Request]: ...

    def load(self) -> Iterator[Request] | None: ...


def forecast(workload: Listing, block: int | None) -> Prediction:
    def one_space(_: Request) -> None:
        return None

    load = workload.load()
    assert load is not None
    prefill = lookups_of(workload.prefill(), one_space)
    return predict(lookups_of(load, one_space), Grain(block or 1), prefill=prefill, exact=block is not None)
