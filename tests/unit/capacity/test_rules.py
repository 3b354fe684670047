"""What of a prompt is cached and what its blocks count for, by hand."""

from __future__ import annotations

from array import array

import pytest

from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules, portion, rules_of
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

SHORT_OF_END = Rules(last_token=False)


def weighed(ids: int, length: int, rules: Rules, weights: list[int] | None = None) -> list[int]:
    row = Row(1, length, array("q", range(ids)), weights=None if weights is None else array("q", weights))
    found = portion(row, 16, rules)
    assert list(found.ids) == list(range(len(found.ids)))
    assert len(found.ids) == found.full + len(found.rest)
    return [16] * found.full + list(found.rest)


@pytest.mark.parametrize(
    ("ids", "length", "reference", "engine", "short_of_end"),
    [
        (3, 33, [16, 16, 1], [16, 16], [16, 16, 0]),  # the last block is partial
        (2, 33, [16, 16], [16, 16], [16, 16]),  # and has no id
        (2, 32, [16, 16], [16, 0], [16, 0]),  # the prompt ends with a block
        (1, 32, [16], [16], [16]),
        (3, 32, [16, 16], [16, 0], [16, 0]),  # the third id stands for no tokens
        (4, 33, [16, 16, 1], [16, 16], [16, 16, 0]),
        (0, 33, [], [], []),
        (1, 5, [5], [], [0]),
    ],
)
def test_blocks_by_the_block_size(
    ids: int, length: int, reference: list[int], engine: list[int], short_of_end: list[int]
) -> None:
    assert weighed(ids, length, REFERENCE) == reference
    assert weighed(ids, length, ENGINE) == engine
    assert weighed(ids, length, SHORT_OF_END) == short_of_end


@pytest.mark.parametrize(
    ("weights", "length", "reference", "engine", "short_of_end"),
    [
        ([16, 16, 1], 33, [16, 16, 1], [16, 16], [16, 16, 0]),
        ([16, 16], 32, [16, 16], [16, 0], [16, 0]),
        ([16, 16], 40, [16, 16], [16, 16], [16, 16]),
        ([16, 5, 16], 37, [16, 5, 16], [16], [16, 5, 0]),  # a short block in the middle ends what engines share
        ([20, 12], 32, [20, 12], [20], [20, 0]),
    ],
)
def test_blocks_by_the_row(
    weights: list[int], length: int, reference: list[int], engine: list[int], short_of_end: list[int]
) -> None:
    assert weighed(len(weights), length, REFERENCE, weights) == reference
    assert weighed(len(weights), length, ENGINE, weights) == engine
    assert weighed(len(weights), length, SHORT_OF_END, weights) == short_of_end


def test_rules_have_names() -> None:
    assert rules_of("reference") is REFERENCE
    assert rules_of("engine") is ENGINE
    assert rules_of(SHORT_OF_END) is SHORT_OF_END
    with pytest.raises(TraceError, match=r"rules='vllm': expected 'reference', 'engine' or Rules\(...\)"):
        rules_of("vllm")
