"""How a shared_prefix is described: what may be said, what is refused, and what never depends on the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix, WorkloadBuilder
from pytest_kvcache.workloads.composed import ComposedPrefix

from ..forecast import forecast
from ..tokenizers_zoo import builtin

BUILD = WorkloadBuilder()


def compose(shape: SharedPrefix, nonce: str = "n") -> ComposedPrefix:
    return shape.compose(ServerFacts("sim", "m", block_size=16), builtin(), nonce, as_ids=True)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"weights": [1, 2]}, "weights=[1, 2] must be"),
        ({"weights": "pareto"}, "weights='pareto' must be"),
        ({"input_len": []}, "input_len=[] must hold at least one value"),
        ({"input_len": [100, 0]}, "input_len=[100, 0] must be a whole number of at least 1, or several"),
        ({"input_len": {}}, "input_len={} must hold at least one value"),
        ({"input_len": {100: -1}}, "input_len={100: -1} must give every value a share of at least 0"),
        ({"input_len": {100: 0}}, "input_len={100: 0} must give every value a share of at least 0"),
        ({"input_len": "100"}, "input_len='100' must be a whole number of at least 1"),
        ({"input_len": None}, "input_len=None must be a whole number of at least 1"),
        ({"hit_rate": [0.5, 1.5]}, "hit_rate=[0.5, 1.5] must be a ratio between 0 and 1, or several"),
        ({"hit_rate": {0.5: "all"}}, "hit_rate={0.5: 'all'} must give every value a share"),
        ({"hit_rate": []}, "hit_rate=[] must hold at least one value"),
        ({"hit_rate": None, "prefix_len": 50, "input_len": [100, 50]}, "at least 0 and below input_len=50"),
        ({"tree": [(1, 50)]}, "the tree says what is shared; leave out hit_rate=0.5"),
        (
            {"hit_rate": None, "tree": [(1, 50)], "prefix_len": 5},
            "the tree says what is shared; leave out prefix_len=5",
        ),
        ({"hit_rate": None, "tree": [(1, 50)], "prefixes": 3}, "the tree says what is shared; leave out prefixes=3"),
        ({"hit_rate": None, "tree": []}, "tree=[] must be (nodes, tokens) of each level"),
        ({"hit_rate": None, "tree": [(2, 5), (1, 5)]}, "tree=[(2, 5), (1, 5)] must be (nodes, tokens) of each level"),
        ({"hit_rate": None, "tree": [(1, 0)]}, "tree=[(1, 0)] must be"),
        ({"hit_rate": None, "tree": [(1, 5, 5)]}, "tree=[(1, 5, 5)] must be"),
        ({"hit_rate": None, "tree": "x"}, "tree='x' must be"),
        ({"hit_rate": None, "tree": [(1, 5), (4, 5)], "weights": [1, 2, 3]}, "or 4 weights of at least 0"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        SharedPrefix(**{"requests": 4, "input_len": 100, "hit_rate": 0.5, **wrong})
    assert "shared_prefix: " in str(caught.value)
    assert complaint in str(caught.value)


def test_the_builder_hands_everything_on() -> None:
    given: dict[str, Any] = {
        "requests": 4, "input_len": [100, 200], "hit_rate": {0.5: 1.0}, "prefix_len": None, "prefixes": 2,
        "weights": ("zipf", 2.0), "tree": None, "output_len": 7, "align": None, "prefill": False, "seed": 3,
        "send": "chat", "tol": 0.5,
    }  # fmt: skip
    assert BUILD.shared_prefix(**given) == SharedPrefix(**given)
    tree = {"requests": 4, "input_len": 100, "tree": [(1, 50)]}
    assert BUILD.shared_prefix(**tree) == SharedPrefix(**tree)  # type: ignore[arg-type] # of several types
    own: dict[str, Any] = {
        "tokens": 900, "context": 90, "hit_rate": 0.3, "requests": 5, "chunk": 8, "selection": "random",
        "reinit": "once", "output_len": 6, "seed": 4, "send": "text",
    }  # fmt: skip
    shape = BUILD.working_set(**own)
    assert {name: getattr(shape, name) for name in own} == own


SHAPES = [
    BUILD.shared_prefix(50, [400, 800], {0.0: 0.3, 0.4: 0.3, 0.8: 0.4}, prefixes=4, weights="zipf", prefill=False),
    BUILD.shared_prefix(50, 400, tree=[(1, 64), (5, 64)], weights=("zipf", 1.5), prefill=False),
]


@pytest.mark.parametrize("shape", SHAPES, ids=["mix", "tree"])
def test_order_and_prediction_are_those_of_every_run(shape: SharedPrefix) -> None:
    one, other = compose(shape, "a"), compose(shape, "b")
    assert list(one.plan) == list(other.plan)
    assert forecast(one, 16) == forecast(other, 16)
    assert not {r.prompt.ids[:8].tobytes() for r in one.load()} & {r.prompt.ids[:8].tobytes() for r in other.load()}  # type: ignore[attr-defined] # packed


def test_another_seed_is_another_order() -> None:
    shapes = [BUILD.shared_prefix(50, 400, [0.0, 0.48], tol=0.1, weights="zipf", prefixes=4, seed=s) for s in (1, 2)]
    assert [p.leaf for p in compose(shapes[0]).plan] != [p.leaf for p in compose(shapes[1]).plan]
    assert Counter(p.leaf for p in compose(shapes[0]).plan) == {0: 24, 1: 12, 2: 8, 3: 6}


def test_prefix_length_and_rate_are_dealt_apart() -> None:
    plan = compose(BUILD.shared_prefix(400, [400, 800], [0.0, 0.48], tol=0.1, prefixes=2, weights=[1, 1])).plan
    kinds = Counter((p.leaf, p.input_len, p.column) for p in plan)
    assert len(kinds) == 8
    assert min(kinds.values()) > 25  # 50 each on average; in one order for all, four of them would be 0
    for axis in (0, 1, 2):
        sums: Counter[int] = Counter()
        for kind, count in kinds.items():
            sums[kind[axis]] += count
        assert set(sums.values()) == {200}


def test_prefixes_that_nobody_takes_are_not_warmed() -> None:
    composed = compose(BUILD.shared_prefix(10, 160, 0.5, prefixes=4, weights=[5, 0, 0, 5]))
    assert [r.group for r in composed.prefill()] == [0, 3]
    composed = compose(BUILD.shared_prefix(3, 160, tree=[(2, 40), (6, 40)], weights=[0, 1, 0, 0, 0, 1]))
    assert [r.group for r in composed.prefill()] == [1, 5]


def test_totals_are_those_of_the_prompts() -> None:
    for shape in SHAPES:
        composed = compose(shape)
        assert composed.plan.query_tokens == sum(len(r.prompt.ids) for r in composed.load())
        assert composed.plan.shared_tokens == sum(p.prefix_len for p in composed.plan)
        assert composed.rate == composed.plan.shared_tokens / composed.plan.query_tokens


@pytest.mark.parametrize(
    ("shape", "title", "prefix_len", "input_len"),
    [
        (BUILD.shared_prefix(4, [400, 800], 0.5, tol=0.1),
         "4 x 400 to 800 tokens, 192 to 400 shared (0.493) in 1 prefix, 128 out, as ids", 0, 800),
        (BUILD.shared_prefix(4, 2000, tree=[(1, 500), (1000, 20), (2000, 30)], output_len=1),
         "4 x 2,000 tokens, 550 shared (0.275) in a tree of 1 > 1,000 > 2,000 prefixes, 1 out, as ids", 550, 2000),
    ],
    ids=["lengths", "tree"],
)  # fmt: skip
def test_title(shape: SharedPrefix, title: str, prefix_len: int, input_len: int) -> None:
    composed = compose(shape)
    assert composed.title == f"shared_prefix: {title}"
    assert (composed.prefix_len, composed.input_len) == (prefix_len, input_len)


def test_what_is_kept_of_many_prefixes_is_bounded() -> None:
    composed = compose(BUILD.shared_prefix(22, 30_100, prefix_len=30_000, prefixes=22, output_len=1))
    first = [r.prompt.ids[:30_000] for r in composed.prefill()]
    kept = sum(len(head.numbers) for head in composed._heads._kept.values())
    assert 0 < kept < 600_000 < 22 * 30_000
    assert [r.prompt.ids[:30_000] for r in composed.load()] == first  # drawn again, the same
    assert composed._heads._size == sum(count + 64 for _, count in composed._heads._kept)
