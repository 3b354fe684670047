"""The part of the prefix tree that many requests share, beside plain lists."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity.trunk import Trunk, mix, shared

Ids = list[int]
IDS = st.lists(st.integers(0, 2), max_size=6)


def ids(given: Ids) -> array[int]:
    return array("q", given)


def test_marks_are_the_same_everywhere() -> None:
    # 1 gives the first odd number A; A ^ A / 2**29 times the second one, and that ^ itself / 2**32
    first = 0x9E3779B97F4A7C15
    second = (first ^ first // 2**29) * 0xBF58476D1CE4E5B9 % 2**64
    assert [mix(0), mix(1)] == [0, second ^ second // 2**32] == [0, 0xCA009717F87D8879]
    # and no salt of this process is in that of a scope
    assert Trunk(0).follow(ids([]), 0, "a")[2] == 2636110247030249744


def test_mixing_is_one_to_one_and_even() -> None:
    mixed = [mix(number) for number in range(1 << 14)]
    assert len(set(mixed)) == 1 << 14
    assert all(0 <= number < 2**64 for number in mixed)
    for bit in range(64):  # sequential numbers: 16,384 draws of a fair coin, and four standard deviations of 64
        assert abs(sum(number >> bit & 1 for number in mixed) - (1 << 13)) < 256


@given(st.lists(IDS, max_size=6), IDS, st.integers(0, 6))
def test_a_request_is_followed_as_far_as_it_goes(beginnings: list[Ids], request: Ids, end: int) -> None:
    trunk = Trunk(7)
    for one in beginnings:
        trunk.grow(ids(one), None, None)
    known = {tuple(one[:at]) for one in beginnings for at in range(1, len(one) + 1)}
    assert trunk.blocks == len(known)
    end = min(end, len(request))
    part, at, mark = trunk.follow(ids(request), end, None)
    assert at == max((size for size in range(end + 1) if tuple(request[:size]) in known), default=0)
    told = Trunk(7)
    told.grow(ids(request[:at]), None, None)
    assert mark == told.follow(ids(request), at, None)[2]  # whatever the trunk looks like, a place has one mark
    assert [block for step in part.path() for block in step.ids] == request[:at] if part else at == 0
    assert part is None or all(step.ids for step in part.path())


def test_places_have_marks_of_their_own() -> None:
    trunk = Trunk(0)
    paths = [[1], [2], [1, 2], [2, 1], [2, 2], [1, 2, 2]]
    scopes: list[Hashable] = [None, 0, "a", ("a", 1)]
    for scope in scopes:
        for path in paths:
            trunk.grow(ids(path), scope, None)
    marks = {trunk.follow(ids(path), len(path), scope)[2] for scope in scopes for path in paths}
    assert len(marks) == len(scopes) * len(paths)
    assert len({Trunk(seed).follow(ids([]), 0, None)[2] for seed in range(50)}) == 50
    assert trunk.follow(ids([1]), 1, "unknown")[:2] == (None, 0)


@given(st.lists(IDS, min_size=1, max_size=5), st.lists(st.tuples(IDS, st.booleans()), max_size=12))
def test_what_was_used_since(beginnings: list[Ids], requests: list[tuple[Ids, bool]]) -> None:
    trunk = Trunk(0)
    for one in beginnings:
        trunk.grow(ids(one), None, None)
    last: dict[tuple[int, ...], int] = {}  # by block, the row that used it last
    for row, (request, asked) in enumerate(requests):
        part, at, _ = trunk.follow(ids(request), len(request), None)
        if asked:
            trunk.settle()
            steps, place = part.path() if part else [], 0
            for step in steps:
                place += len(step.ids)
                used = last.get(tuple(request[:place]))
                assert (step.last and step.last[0]) == used
                if step.last is not None:
                    assert trunk.younger(step.last) == sum(other > step.last[0] for other in last.values())
            before = min(last.get(tuple(request[:size]), 0) for size in range(1, at + 1)) if at else row
            for then in range(before + 1):
                assert trunk.since(then) == sum(used >= then for used in last.values())
        if part is not None:
            trunk.fresh[part] = (row, 0, 0, 0.0)
            last.update({tuple(request[:size]): row for size in range(1, at + 1)})


def test_uses_can_be_renewed() -> None:
    trunk = Trunk(0)
    trunk.grow(ids([1, 2]), None, (5, 10, 3, 8.0))
    trunk.settle()
    trunk.renew(lambda use: (use[0], use[1], use[2] - 1, use[3] / 2))
    part, _, _ = trunk.follow(ids([1, 2]), 2, None)
    assert part is not None
    assert part.last == (5, 10, 2, 4.0)


def test_shared_is_what_goes_on_in_many_ways() -> None:
    session = [(None, ids([1, 2, *range(10, 10 + turn)])) for turn in range(1, 30)]  # it goes on in one way
    users = [(None, ids([1, 2, user])) for user in range(100, 104)]
    tools = [("s", ids([5, kind, user])) for kind in (6, 7) for user in range(4)]
    asked = [*session, *users, *tools]
    assert sorted((scope, list(found)) for scope, found in shared(asked, 4) if scope is None) == [(None, [1, 2])]
    assert sorted(list(found) for scope, found in shared(asked, 4) if scope == "s") == [[5, 6], [5, 7]]
    assert [list(found) for scope, found in shared(asked, 5)] == [[1, 2]]  # four users and the session
    assert list(shared(asked, 6)) == []
    assert list(shared([(None, ids([n])) for n in range(9)], 2)) == []  # nothing is before these
