"""What stands around a text counts: room for it, and how much of a prompt can be shared at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.tokens import load_tokenizer

from ..forecast import forecast
from ..tokenizers_zoo import with_bos_and_eos

FACTS = ServerFacts(engine="sim", model="m", block_size=1)


def compose(shape: SharedPrefix) -> ComposedPrefix:
    return shape.compose(FACTS, with_bos_and_eos(), "n", as_ids=False)


def test_the_most_that_a_text_shares_leaves_a_boundary_and_the_end_token() -> None:
    composed = compose(SharedPrefix(4, 10, 1.0, tol=0.2, output_len=1))
    assert composed.prefix_len == 8
    assert len({tuple(r.prompt.ids) for r in composed.load()}) == 4
    assert {tuple(r.prompt.ids[:8]) for r in composed.load()} == {tuple(next(composed.load()).prompt.ids[:8])}
    assert forecast(composed, 1).per_request == (8,) * 4


def test_the_highest_rate_in_the_error_is_that_of_a_text() -> None:
    with pytest.raises(WorkloadError, match=r"0\.800 \(prefix_len=8\), the highest is 0\.800"):
        compose(SharedPrefix(4, 10, 1.0, output_len=1))


def test_a_longer_prefix_is_refused_as_text_and_taken_as_ids() -> None:
    with pytest.raises(WorkloadError, match="prefix_len=9 is more than the 8 tokens that 10-token prompts can share"):
        compose(SharedPrefix(4, 10, prefix_len=9, output_len=1))
    assert compose(SharedPrefix(4, 10, prefix_len=9, output_len=1, send="ids")).prefix_len == 9


def test_a_prompt_without_room_beside_them_is_refused() -> None:
    with pytest.raises(WorkloadError, match="input_len=2 leaves no room beside the 2 special tokens"):
        compose(SharedPrefix(1, 2, 0.0, output_len=1))
    (request,) = compose(SharedPrefix(1, 3, 0.0, output_len=1)).load()
    assert len(request.prompt.ids) == 3


def test_without_a_prefix_only_the_first_special_token_is_shared_and_predicted() -> None:
    composed = compose(SharedPrefix(3, 20, 0.0, output_len=1))
    assert list(composed.prefill()) == []
    assert forecast(composed, 1).per_request == (0, 1, 1)
    assert forecast(composed, 4).hit_tokens == 0


def test_padding_that_a_file_asks_for_is_not_counted(tmp_path: Path) -> None:
    copy = type(with_bos_and_eos().inner).from_str(with_bos_and_eos().inner.to_str())
    copy.enable_padding(length=20)
    copy.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(str(tmp_path)).encode([""]) == with_bos_and_eos().encode([""])


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"hit_rate": "0.5"}, "hit_rate='0.5' must be a ratio between 0 and 1"),
        ({"hit_rate": float("nan")}, "hit_rate=nan must be a ratio between 0 and 1"),
        ({"hit_rate": True}, "hit_rate=True must be a ratio between 0 and 1"),
        ({"hit_rate": None, "prefix_len": 2.5}, "prefix_len=2.5 must be a whole number of at least 0 and below"),
        ({"input_len": 8.0}, "input_len=8.0 must be a whole number of at least 1"),
        ({"prefill": "no"}, "prefill='no' must be True or False"),
        ({"seed": "x"}, "seed='x' must be a whole number or None"),
        ({"tol": -0.1}, "tol=-0.1 must be a distance between 0 and 1"),
        ({"align": 16}, 'align=16 must be "block" or None'),
        ({"prefix_len": 3}, "give either hit_rate or prefix_len, got hit_rate=0.5 and prefix_len=3"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named_with_what_is_allowed(wrong: dict[str, object], allowed: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        SharedPrefix(**{"requests": 4, "input_len": 100, "hit_rate": 0.5, **wrong})  # type: ignore[arg-type] # wrong on purpose
    assert allowed in str(caught.value)
