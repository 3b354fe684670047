"""Whom the garbage collector leaves alone, and that all is as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pytest_kvcache.garbage import only_new


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


class Node:
    """In a cycle with itself."""

    def __init__(self, died: list[str], name: str) -> None:
        self.me, self.died, self.name = self, died, name

    def __del__(self) -> None:
        self.died.append(self.name)


def test_what_was_there_before_is_not_looked_at_and_what_is_new_is() -> None:
    died: list[str] = []
    before = Node(died, "before")
    with only_new():
        new = Node(died, "new")
        del before, new
        gc.collect()
        assert died == ["new"]
    gc.collect()
    assert died == ["new", "before"]


def test_it_ends_with_an_error_too() -> None:
    usual = gc.get_threshold()

    def load() -> None:
        with only_new():
            assert gc.get_freeze_count() > 0
            assert gc.get_threshold() == (10 * usual[0], *usual[1:])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("enabled", [True, False])
def test_who_has_an_arrangement_of_his_own_keeps_it(enabled: bool) -> None:
    if enabled:
        gc.freeze()
    else:
        gc.disable()
    frozen, usual = gc.get_freeze_count(), gc.get_threshold()
    with only_new():
        assert (gc.get_freeze_count(), gc.get_threshold()) == (frozen, usual)
    assert (gc.get_freeze_count(), gc.get_threshold()) == (frozen, usual)
    assert gc.isenabled() is enabled


def test_of_two_loads_at_once_the_second_changes_nothing() -> None:
    with only_new():
        frozen = gc.get_freeze_count()
        _more = [Node([], str(number)) for number in range(1000)]
        with only_new():
            assert gc.get_freeze_count() <= frozen
        assert gc.get_freeze_count() > 0
