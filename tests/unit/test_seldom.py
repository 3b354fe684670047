"""How often the garbage collector runs while loads are sent, and that all is as it was afterwards."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from pytest_kvcache.garbage import seldom

USUAL = gc.get_threshold()
RARER = (10 * USUAL[0], *USUAL[1:])


def test_it_runs_less_often_until_the_load_has_ended_however() -> None:
    def load() -> None:
        with seldom():
            assert gc.get_threshold() == RARER
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load()
    assert gc.get_threshold() == USUAL


def test_of_several_loads_the_last_one_to_end_puts_it_back() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(seldom())
    second.enter_context(seldom())
    assert gc.get_threshold() == RARER
    first.close()
    assert gc.get_threshold() == RARER
    second.close()
    assert gc.get_threshold() == USUAL
