"""shared_prefix shares exactly what it says, to the token, as ids and as text."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Request, ServerFacts
from pytest_kvcache.workloads import SharedPrefix, WorkloadBuilder
from pytest_kvcache.workloads.composed import ComposedPrefix

from ..forecast import forecast
from ..tokenizers_zoo import ZOO, builtin, toy

FACTS = ServerFacts(engine="sim", model="m", block_size=16)


def compose(
    shape: SharedPrefix, *, nonce: str = "n", block: int | None = 16, tokenizer: str = "builtin"
) -> ComposedPrefix:
    facts = ServerFacts(engine="sim", model="m", block_size=block)
    return shape.compose(facts, ZOO[tokenizer](), nonce, as_ids=True)


def shared(left: Request, right: Request) -> int:
    pairs = zip(left.prompt.ids, right.prompt.ids, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("tokenizer", ZOO)
@pytest.mark.parametrize("send", ["ids", "text"])
@settings(max_examples=15)
@given(data=st.data())
def test_any_two_prompts_share_exactly_p_or_nothing(tokenizer: str, send: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(24, 300))
    prefix = data.draw(st.integers(0, length - 8))
    prefixes = data.draw(st.integers(1, 4))
    shape = SharedPrefix(9, length, prefix_len=prefix, prefixes=prefixes, output_len=1, send=send)  # type: ignore[arg-type] # a Literal
    composed = compose(shape, tokenizer=tokenizer)
    requests, warm = list(composed.load()), list(composed.prefill())
    around = 0 if send == "ids" else len(composed.wording.vocabulary.lead)
    has_prefix = prefix > around
    assert all(len(r.prompt.ids) == length for r in requests)
    for (i, left), (j, right) in itertools.combinations(enumerate(requests), 2):
        same = has_prefix and i % prefixes == j % prefixes
        assert shared(left, right) == (prefix if same else around)
    for number, request in enumerate(requests):
        for group, warmer in enumerate(warm):
            assert shared(request, warmer) == (prefix if number % prefixes == group else around)
    if send == "text":
        texts = [r.prompt.text or "" for r in [*requests, *warm]]
        assert ZOO[tokenizer]().encode(texts) == [list(r.prompt.ids) for r in [*requests, *warm]]
    else:
        assert all(r.prompt.text is None for r in requests)


@pytest.mark.parametrize(
    ("length", "rate", "block", "prefix"),
    [
        (8192, 0.7, 16, 5728),  # 5734.4 is nearer to 358 blocks (5728) than to 359 (5744)
        (8192, 0.7, 128, 5760),
        (1000, 0.5, 1, 500),
        (1024, 1.0, 1, 1023),  # the last token is always computed
        (2049, 0.9995, 16, 2048),
        (8192, 0.0, 16, 0),
    ],
)
def test_rate_becomes_the_nearest_whole_blocks(length: int, rate: float, block: int, prefix: int) -> None:
    composed = compose(SharedPrefix(2, length, rate, output_len=1), block=block)
    assert composed.prefix_len == prefix


def test_unaligned_prefix_is_exact_and_its_remainder_is_predicted_as_a_miss() -> None:
    composed = compose(SharedPrefix(4, 1000, 0.333, output_len=1, align=None))
    assert composed.prefix_len == 333
    assert forecast(composed, 16).per_request == (320,) * 4


def test_rate_out_of_reach_names_the_nearest_and_the_highest() -> None:
    with pytest.raises(WorkloadError) as caught:
        compose(SharedPrefix(2, 500, 0.5), block=784)
    assert "0.000 (prefix_len=0)" in str(caught.value)
    assert "the highest is 0.000" in str(caught.value)
    with pytest.raises(
        WorkloadError, match=r"0\.427 \(prefix_len=256\) or 0\.640 \(prefix_len=384\), the highest is 0\.853"
    ):
        compose(SharedPrefix(2, 600, 0.5), block=128)


@pytest.mark.parametrize(
    ("block", "hit"), [(784, 0), (16, 19 * 240)], ids=["prefix shorter than one block", "prefix of whole blocks"]
)
def test_cold_workload_of_20_prompts(block: int, hit: int) -> None:
    composed = compose(SharedPrefix(20, 500, prefix_len=240, output_len=1, prefill=False), block=block)
    assert list(composed.prefill()) == []
    assert forecast(composed, block).hit_tokens == hit


def test_warm_workload_by_hand() -> None:
    prediction = forecast(compose(SharedPrefix(200, 8192, 0.7, prefixes=4, output_len=1)), 16)
    assert prediction.hit_tokens == 200 * 5728
    assert prediction.query_tokens == 200 * 8192
    assert prediction.prefill_hit_tokens == 0


def test_unknown_block_size_gives_an_upper_bound_that_says_so() -> None:
    composed = compose(SharedPrefix(4, 100, 0.5, output_len=1), block=None)
    prediction = forecast(composed, None)
    assert (prediction.hit_tokens, prediction.exact) == (200, False)


def test_same_nonce_same_bytes_other_nonce_nothing_shared() -> None:
    shape = SharedPrefix(6, 192, 0.5, prefixes=2, output_len=1)
    one, same, other = compose(shape, nonce="a"), compose(shape, nonce="a"), compose(shape, nonce="b")
    assert [r.prompt for r in one.load()] == [r.prompt for r in same.load()] == [r.prompt for r in one.load()]
    worst = max(shared(x, y) for x in [*one.load(), *one.prefill()] for y in [*other.load(), *other.prefill()])
    assert worst < 16  # not even one block; a first word may coincide


def test_seed_outlives_the_nonce() -> None:
    shape = SharedPrefix(3, 96, 0.5, output_len=1, seed=7)
    assert [r.prompt for r in compose(shape, nonce="a").load()] == [r.prompt for r in compose(shape, nonce="b").load()]


def test_three_prefixes_of_64_tokens_without_special_tokens() -> None:
    composed = compose(SharedPrefix(3, 80, prefix_len=64, prefixes=3, output_len=1), tokenizer="byte-level")
    heads = [tuple(r.prompt.ids[:64]) for r in composed.prefill()]
    assert len(set(heads)) == 3
    assert all(isinstance(token, int) for head in heads for token in head)


def test_more_requests_than_words_still_share_less_than_three_tokens_more() -> None:
    composed = compose(SharedPrefix(3000, 48, prefix_len=32, output_len=1))
    ids = sorted(tuple(r.prompt.ids) for r in composed.load())
    assert len(set(ids)) == 3000
    extra = max(
        sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(a, b, strict=True))) - 32
        for a, b in itertools.pairwise(ids)
    )
    assert extra <= 2


def test_toy_tokenizer_composes_exact_text() -> None:
    shape = SharedPrefix(8, 64, prefix_len=32, output_len=1, send="text")
    composed = shape.compose(FACTS, toy(), "n", as_ids=False)
    texts = [r.prompt.text or "" for r in composed.load()]
    assert toy().encode(texts) == [list(r.prompt.ids) for r in composed.load()]
    assert {len(ids) for ids in toy().encode(texts)} == {64}


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests": 0}, {"input_len": 0}, {"prefixes": 0}, {"output_len": 0}, {"requests": True}, {"hit_rate": 1.5},
        {"hit_rate": None}, {"prefix_len": 10}, {"hit_rate": None, "prefix_len": 100},
        {"hit_rate": None, "prefix_len": -1}, {"align": "word"}, {"send": "post"},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_are_refused_when_they_are_given(wrong: dict[str, object]) -> None:
    with pytest.raises(WorkloadError, match="shared_prefix: "):
        SharedPrefix(**{"requests": 4, "input_len": 100, "hit_rate": 0.5, **wrong})  # type: ignore[arg-type]


def test_too_long_for_the_model() -> None:
    facts = ServerFacts(engine="sim", model="m", block_size=16, max_model_len=300)
    with pytest.raises(WorkloadError, match="256 prompt and 128 output tokens are more than the 300 that 'm' takes"):
        SharedPrefix(1, 256, 0.5).compose(facts, builtin(), "n", as_ids=True)


class Lying:
    """Encodes as the built-in tokenizer does, but for one word inside longer texts."""

    name = "lying"

    def words(self) -> list[str]:
        return list(builtin().words())

    def pieces(self) -> list[str]:
        return []

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [ids if len(ids) < 20 else [*ids[:9], 1, *ids[10:]] for ids in builtin().encode(texts)]


def test_text_that_does_not_come_back_is_never_sent() -> None:
    with pytest.raises(
        WorkloadError, match="'lying' does not give composed text back as it was composed: token 9 is 1"
    ):
        SharedPrefix(4, 96, 0.5).compose(FACTS, Lying(), "n", as_ids=False)  # type: ignore[arg-type]


def test_the_same_bytes_in_every_process() -> None:
    code = (
        "import hashlib\nfrom pytest_kvcache.model import ServerFacts\n"
        "from pytest_kvcache.workloads import WorkloadBuilder\n"
        "from pytest_kvcache.workloads.tokens import load_tokenizer\n"
        "w = WorkloadBuilder().shared_prefix(20, 320, 0.5, prefixes=3, send='text')\n"
        "facts = ServerFacts('sim', 'm', block_size=16)\n"
        "c = w.compose(facts, load_tokenizer('builtin'), 'seed 1/t/1/1', as_ids=True)\n"
        "print(hashlib.sha256(''.join(r.prompt.text for r in [*c.prefill(), *c.load()]).encode()).hexdigest())"
    )
    seen = set()
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        seen.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        )
    workload = WorkloadBuilder().shared_prefix(20, 320, 0.5, prefixes=3, send="text")
    composed = workload.compose(FACTS, builtin(), "seed 1/t/1/1", as_ids=True)
    text = "".join(r.prompt.text or "" for r in [*composed.prefill(), *composed.load()])
    assert seen == {hashlib.sha256(text.encode()).hexdigest() + "\n"}


def test_title_has_figures_and_no_text() -> None:
    title = compose(SharedPrefix(200, 8192, 0.7, prefixes=4)).title
    assert title == "shared_prefix: 200 x 8,192 tokens, 5,728 shared (0.699) in 4 prefixes, 128 out, as ids"
