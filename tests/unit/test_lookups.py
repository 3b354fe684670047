"""What the measured requests look up, before anything is predicted of it."""

from __future__ import annotations

import asyncio
from array import array

from pytest_kvcache.lookups import load_lookups
from pytest_kvcache.model import Exchange, Lookup
from pytest_kvcache.workloads.bodies import Bodies, ComposedBodies

from .tokenizers_zoo import builtin
from .workloads.fake_site import FakeSite


def bound(*, renders: bool) -> ComposedBodies:
    bodies = tuple({"messages": [{"role": "user", "content": text}]} for text in ("a", "b", "c"))
    return asyncio.run(Bodies(bodies).bind(FakeSite(builtin(), renders=renders)))


def test_every_request_is_looked_up_once_in_order_with_the_length_of_its_answer() -> None:
    composed = bound(renders=True)
    exchanges = [Exchange("load", 0.0, 1.0, completion_tokens=told) for told in (3, None, 5)]
    found = load_lookups(composed, exchanges, lambda _: "one")
    assert found is not None
    assert list(found) == [
        Lookup(ids, space="one", untold=untold) for ids, untold in zip(composed.ids, (3, 0, 5), strict=True)
    ]
    assert [type(ids) for ids in composed.ids] == [array] * 3


def test_tokens_that_are_not_known_are_no_look_up_of_nothing() -> None:
    exchanges = [Exchange("load", 0.0, 1.0, prompt_tokens=9)] * 3
    assert load_lookups(bound(renders=False), exchanges, lambda _: "one") is None
