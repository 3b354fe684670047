"""What is a number for us, and what only looks like one?"""

from __future__ import annotations

import math

import pytest

from pytest_kvcache.checks import is_number, is_ratio, is_whole
from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.limits.asked import of_concurrency


@pytest.mark.parametrize("value", [True, None, "1", math.nan, math.inf, -1, -0.5, 10**400])
def test_what_is_no_number(value: object) -> None:
    assert not is_number(value)
    assert not is_ratio(value)


def test_numbers_ratios_and_whole_numbers() -> None:
    assert all(map(is_number, [0, 0.0, 3, 2.5, 10**300]))
    assert [is_ratio(value) for value in (0, 0.5, 1, 1.0001)] == [True, True, True, False]
    assert [is_whole(value, 1) for value in (0, 1, 10**400, True, 1.0)] == [False, True, True, False, False]
    assert is_whole(-7)


def test_a_limit_that_no_float_holds_is_refused_with_what_was_expected() -> None:
    with pytest.raises(ConfigurationError, match=r"expected seconds, above 0$"):
        of_concurrency(10**400)
