"""Which rates are in reach, to the token, and what is said when one is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Grain, ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.frame import Frame
from pytest_kvcache.workloads.reach import Reach
from pytest_kvcache.workloads.working_set import WorkingSet

from ..tokenizers_zoo import ZOO, builtin, with_bos_and_eos

HEADER = Frame(tuple(range(5000, 5040)), (6000, 6001, 6002))  # 40 tokens in front of a message, 3 behind it


def compose(shape: SharedPrefix, block: int | None = 16, frame: Frame | None = None, **facts: int) -> ComposedPrefix:
    told = ServerFacts("sim", "m", block_size=block, **facts)  # type: ignore[arg-type] # numbers of the facts
    return shape.compose(told, builtin(), "n", as_ids=True, frame=frame)


@settings(max_examples=200, derandomize=True)
@given(
    length=st.integers(1, 400), block=st.sampled_from([1, 7, 16, 128]), minimum=st.sampled_from([0, 40, 100]),
    header=st.integers(0, 60), own=st.integers(1, 5), rate=st.floats(0, 1),
)  # fmt: skip
def test_nearest_is_the_nearest_of_all_lengths(
    length: int, block: int, minimum: int, header: int, own: int, rate: float
) -> None:
    length += header + own
    grain = Grain(block, minimum)
    reach = Reach(length, grain, header, own)
    hits = {grain.credit(max(shared, header), length) for shared in range(length - own + 1)}
    assert (reach.lowest, reach.highest) == (min(hits), max(hits))
    found = reach.nearest(rate, 1.0)
    assert reach.hit_tokens(found) in hits
    assert abs(reach.hit_tokens(found) / length - rate) <= min(abs(hit / length - rate) for hit in hits) + 1e-9


@pytest.mark.parametrize(
    ("context", "rate", "chunk", "shared"),
    [
        (16_000, 0.7, 64, 11_200),  # 175 chunks exactly: what 0.7 is in binary must not cost one
        (16_000, 0.7, 256, 11_008),  # 43.75 chunks
        (1_000, 0.29, 10, 290),  # 0.29 * 1000 is 290.0 by luck, 0.57 * 100 is 56.99999999999999
        (100, 0.57, 1, 57),
        (100, 1.0, 1, 99),  # a last token of its own
        (128, 1.0, 64, 64),
        (128, 0.0, 64, 0),
        (100, 0.5, 64, 0),
    ],
)
def test_chunks_by_hand(context: int, rate: float, chunk: int, shared: int) -> None:
    assert Reach(context, Grain(16)).in_chunks(rate, chunk, 0.01) == shared


def test_a_prefix_below_the_smallest_that_is_credited_is_not_offered() -> None:
    with pytest.raises(
        WorkloadError, match=r"are 0\.000 \(prefix_len=0\) or 0\.512 \(prefix_len=1024\), the highest is 0\.960"
    ):
        compose(SharedPrefix(2, 2000, 0.3), block=None, step=128, minimum=1024)
    assert compose(SharedPrefix(2, 2000, 0.51), block=None, step=128, minimum=1024).prefix_len == 1024


def test_a_header_of_whole_blocks_makes_zero_unreachable() -> None:
    with pytest.raises(WorkloadError) as caught:
        compose(SharedPrefix(2, 200, 0.0, send="chat"), frame=HEADER)
    assert (
        "hit_rate=0.0 is out of reach with 200-token prompts and blocks of 16: the 40 tokens that the chat template"
        " puts in front of every message are shared by all, so the lowest is 0.160; the nearest reachable are 0.160"
        in str(caught.value)
    )
    # floor((200 - 4) / 16) * 16
    assert "the highest is 0.960" in str(caught.value)


def test_a_set_of_short_chats_cannot_be_cold() -> None:
    facts = ServerFacts("sim", "m", block_size=16)
    with pytest.raises(WorkloadError, match=r"working_set: hit_rate=0\.0 is out of reach .* so the lowest is 0\.160;"):
        WorkingSet(400, 200, 0.0, send="chat").compose(facts, builtin(), "n", as_ids=True, frame=HEADER)
    composed = WorkingSet(8000, 4000, 0.0, send="chat").compose(facts, builtin(), "n", as_ids=True, frame=HEADER)
    assert composed.notes[0] == "hit rate 0.00 is 0.008 in chunks of 16: 32 of 4,000 tokens"
    # one chunk of 192 tokens is out of reach, which is no fault of the header's
    composed = WorkingSet(400, 200, 0.9, chunk=192, send="chat").compose(
        facts, builtin(), "n", as_ids=True, frame=HEADER
    )
    assert composed.prefix_len == 0


def test_the_lowest_rate_is_taken_where_it_is_near_enough_and_told() -> None:
    composed = compose(SharedPrefix(2, 4000, 0.0, send="chat"), frame=HEADER)
    assert composed.notes[0] == "hit rate 0.00 is 0.008 in blocks of 16: 32 of 4,000 tokens"
    composed = compose(SharedPrefix(2, 200, 0.0, send="chat"), block=64, frame=HEADER)
    assert composed.notes == (
        "highest rate in reach: 0.960 (a prompt's last 4 tokens are always computed, blocks of 64)",
    )
    with pytest.raises(WorkloadError, match=r"so the lowest is 0\.160"):
        compose(SharedPrefix(2, 200, 0.0, send="chat", align=None), frame=HEADER)


@pytest.mark.parametrize(
    ("shape", "block", "notes"),
    [
        (SharedPrefix(1, 8192, 0.7), 16,
         ["hit rate 0.70 is 0.699 in blocks of 16: 5,728 of 8,192 tokens",
          "highest rate in reach: 0.998 (a prompt's last token is always computed, blocks of 16)"]),
        (SharedPrefix(1, 1024, 0.5), 16,
         ["highest rate in reach: 0.984 (a prompt's last token is always computed, blocks of 16)"]),
        (SharedPrefix(1, 1000, 0.333, align=None), 16,
         ["hit rate 0.333 is 0.320 in blocks of 16: 320 of 1,000 tokens",
          "highest rate in reach: 0.992 (a prompt's last token is always computed, blocks of 16)"]),
        (SharedPrefix(1, 40_000, 0.70013), 16,
         ["hit rate 0.70013 is 0.70000 in blocks of 16: 28,000 of 40,000 tokens",
          "highest rate in reach: 1.000 (a prompt's last token is always computed, blocks of 16)"]),
        (SharedPrefix(1, 1000, 0.9995), None,
         ["hit rate 0.9995 is 0.999 in whole tokens: 999 of 1,000 tokens",
          "highest rate in reach: 0.999 (a prompt's last token is always computed)"]),
        (SharedPrefix(4, [64, 128], 0.5), 16,  # (48 + 112) / (64 + 128)
         ["highest rate in reach: 0.833 (a prompt's last token is always computed, blocks of 16)"]),
        (SharedPrefix(1, 1000, prefix_len=333), 16, []),
        (SharedPrefix(1, 1000, tree=[(1, 333)]), 16, []),
        (SharedPrefix(2000, 10, prefix_len=1, prefixes=2000), 1,
         ["2,000 prefixes of 1 token cannot all be different: some are the same"]),
        (SharedPrefix(1, 100, tree=[(1, 9), (2000, 1), (2000, 5)]), 1,
         ["2,000 prefixes of level 2 of 1 token cannot all be different: some are the same"]),
    ],
    ids=str,
)  # fmt: skip
def test_notes(shape: SharedPrefix, block: int | None, notes: list[str]) -> None:
    assert list(compose(shape, block).notes) == notes


def test_many_rates_do_not_fill_the_screen() -> None:
    rates = [0.1 + n / 100 for n in range(20)]
    notes = compose(SharedPrefix(20, 1003, rates)).notes
    assert [note[:8] for note in notes] == ["hit rate"] * 3 + ["and 17 m", "highest "]


def test_what_is_too_long_to_share_says_why() -> None:
    facts = ServerFacts("sim", "m", block_size=16)
    shape = SharedPrefix(2, 200, prefix_len=197, send="chat")
    with pytest.raises(
        WorkloadError, match=r"197 is more than the 196 tokens .* as chat: the chat template adds tokens"
    ):
        compose(shape, frame=HEADER)
    tree = SharedPrefix(2, 50, tree=[(1, 30), (4, 19)], send="text")
    with pytest.raises(
        WorkloadError, match="is more than the 48 tokens that 50-token prompts can share as text: the tok"
    ):
        tree.compose(facts, with_bos_and_eos(), "n", as_ids=False)
    with pytest.raises(
        WorkloadError, match=r"tree=\[\(1, 40\), \(2, 9\)\]: the first level must be longer than the 40"
    ):
        compose(SharedPrefix(2, 200, tree=[(1, 40), (2, 9)], send="chat"), frame=HEADER)


def test_a_chat_without_a_frame_or_room_is_refused() -> None:
    with pytest.raises(WorkloadError, match='send="chat": what the chat template puts around a message is not known'):
        compose(SharedPrefix(2, 200, 0.5, send="chat"))
    with pytest.raises(
        WorkloadError, match="input_len=43 leaves no room beside the 43 tokens that the chat template puts"
    ):
        compose(SharedPrefix(2, [100, 43], prefix_len=0, send="chat"), frame=HEADER)


@pytest.mark.parametrize("name", ZOO)
def test_header_counts_as_shared(name: str) -> None:
    facts = ServerFacts("sim", "m", block_size=16)
    shape = SharedPrefix(6, 160, 0.5, prefixes=2, send="chat", output_len=1)
    composed = shape.compose(facts, ZOO[name](), "n", as_ids=True, frame=HEADER)
    for request in [*composed.load(), *composed.prefill()]:
        assert tuple(request.prompt.ids[:40]) == HEADER.lead
        assert tuple(request.prompt.ids[-3:]) == HEADER.trail
        assert (request.api, request.whole) == ("chat", False)
    assert composed.prefix_len == 80
    assert composed.title.endswith("80 shared (0.500) in 2 prefixes, 1 out, as chat")


def test_a_chats_header_is_warmed_where_nothing_else_is() -> None:
    for shape in (SharedPrefix(3, 4000, 0.0, send="chat"), SharedPrefix(3, 4000, 0.5, send="chat", prefill=False)):
        composed = compose(shape, frame=HEADER)
        (warm,), (before,) = list(composed.prefill()), list(composed.warmed())
        assert tuple(warm.prompt.ids[:40]) == HEADER.lead
        assert tuple(before.prompt.ids) == (*HEADER.lead, *HEADER.trail)
        first = {request.prompt.ids[40] for request in [warm, *composed.load()]}
        assert len(first) == (4 if shape.prefill else 2)
    composed = compose(SharedPrefix(3, 4000, 0.0, send="chat"), block=64, frame=HEADER)
    assert [*composed.prefill(), *composed.warmed()] == []
    composed = compose(SharedPrefix(3, 4000, 0.5, send="chat"), frame=HEADER)
    assert len(list(composed.prefill())) == 1
