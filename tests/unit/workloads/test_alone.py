"""What a prediction need not remember: rests that nobody shares. Leaving them out changes no number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.lookups import lookups_of
from pytest_kvcache.model import Grain, Lookup, Request, ServerFacts
from pytest_kvcache.prefix import common
from pytest_kvcache.simulate.replay import UnlimitedCache, predict
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.lasting import Lasting

from ..tokenizers_zoo import builtin

WORDS = builtin()
SHAPES = st.fixed_dictionaries(
    {
        "requests": st.integers(1, 30),
        "input_len": st.integers(24, 90),
        "prefix_len": st.integers(0, 23),
        "prefixes": st.integers(1, 3),
        "prefill": st.booleans(),
        "seed": st.integers(0, 3),
    }
)
GRAINS = st.builds(Grain, st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([0, 0, 40]), st.booleans())


def lookups(requests: Iterator[Request], *, whole: bool) -> list[Lookup]:
    made = list(lookups_of(requests, lambda request: request.api))
    return [replace(lookup, alone=None) for lookup in made] if whole else made


@settings(max_examples=120)
@given(SHAPES, GRAINS, st.integers(1, 3))
def test_a_prediction_is_the_same_without_what_nobody_shares(shape: dict[str, int], grain: Grain, laps: int) -> None:
    facts = ServerFacts("sim", "m", block_size=grain.block)
    made = SharedPrefix(output_len=1, align=None, tol=1.0, **shape).compose(facts, WORDS, "n", as_ids=True)  # type: ignore[arg-type] # drawn above
    lasting = Lasting(made).of(laps * len(made))
    both = [
        predict(
            lookups(lasting.load() or iter(()), whole=whole),
            grain,
            prefill=lookups(lasting.prefill(), whole=whole),
            exact=True,
        )
        for whole in (True, False)
    ]
    assert both[0] == both[1]


def test_prompts_are_alone_from_where_they_say() -> None:
    facts = ServerFacts("sim", "m", block_size=16)
    made = SharedPrefix(40, 64, prefix_len=32, prefixes=2, output_len=1, align=None).compose(
        facts, WORDS, "n", as_ids=True
    )
    prompts = [request.prompt for request in islice(Lasting(made).load() or (), 80)]
    for at, prompt in enumerate(prompts):
        assert prompt.alone is not None
        assert 32 < prompt.alone <= 35
        assert all(common(prompt.ids, other.ids) < prompt.alone + 8 for other in prompts[:at])


def test_memory_does_not_grow_with_requests_that_share_nothing_new() -> None:
    facts = ServerFacts("sim", "m", block_size=16)
    made = SharedPrefix(500, 64, prefix_len=32, prefixes=2, output_len=1, align=None).compose(
        facts, WORDS, "n", as_ids=True
    )
    cache = UnlimitedCache(Grain(16))
    for lookup in lookups_of(made.prefill(), lambda _: None):
        cache.look_up(lookup)
    (tree,) = cache._trees.values()
    before = list(tree.nodes())
    hits = [cache.look_up(lookup).tokens for lookup in lookups_of(made.load(), lambda _: None)]
    assert hits == [32] * 500
    assert [node.run for node, _ in tree.nodes()] == [node.run for node, _ in before]
