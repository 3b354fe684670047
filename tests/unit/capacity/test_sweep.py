"""Budgets that are swept: each is the cache simulated by itself, in however many processes; and no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity import sweep as module
from pytest_kvcache.capacity import workers
from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.points import Point
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import POLICIES, simulate
from pytest_kvcache.capacity.stack import one_pass, stack_pass
from pytest_kvcache.capacity.sweep import Swept, geometric, sweep
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

B = 4
TRACES = Path(__file__).parents[2] / "data" / "traces"
ALL_RULES = [
    REFERENCE,
    ENGINE,
    Rules(match="any"),
    Rules(charge="tokens"),
    Rules(partial=False, charge="tokens", match="any"),
]


def row(line: int, ids: list[int], length: int | None = None, scope: Hashable = None) -> Row:
    return Row(line, B * len(ids) if length is None else length, array("q", ids), scope=scope)


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for line in range(draw(st.integers(1, 14))):
        ids = draw(st.lists(st.integers(0, 2), max_size=6))
        if rows and draw(st.booleans()):
            ids = [*rows[draw(st.integers(0, len(rows) - 1))].ids, *ids]
        length = max(1, len(ids) * B - draw(st.integers(0, B - 1))) + draw(st.sampled_from([0, 0, B]))
        rows.append(row(line, ids, length, draw(st.sampled_from([None, "x"]))))
    return rows


def mixed(requests: int = 60) -> list[Row]:
    """Requests that come back, the same ones in every run."""
    return [row(n, [n * n % 7, *range(100 + n % 5, 104 + n % 11), n % 3], None) for n in range(requests)]


@settings(max_examples=150)
@given(
    rows=traces(),
    policy=st.sampled_from(POLICIES),
    rules=st.sampled_from(ALL_RULES),
    budgets=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    warm=st.integers(0, 4),
)
def test_each_budget_is_the_cache_simulated_by_itself(
    rows: list[Row], policy: str, rules: Rules, budgets: list[int], warm: int
) -> None:
    swept = sweep(iter(rows), B, policy, budgets=budgets, rules=rules, warm_rows=warm, processes=1)
    assert [point.blocks for point in swept.points] == sorted(set(budgets))
    for point in swept.points:
        alone = simulate(rows, B, policy, slots=point.blocks, rules=rules, warm_rows=warm)
        assert point == Point(point.blocks, alone.hit_tokens, alone.evictions)
    assert swept.found == stack_pass(rows, B, rules, warm_rows=warm)


@given(rows=traces(), slots=st.integers(1, 6), warm=st.integers(1, 5))
def test_what_no_policy_exceeds_with_warm_rows(rows: list[Row], slots: int, warm: int) -> None:
    [point] = sweep(rows, B, "optimum", budgets=[slots], warm_rows=warm).points
    alone = simulate(rows, B, "optimum", slots=slots, warm_rows=warm)
    assert (point.hit_tokens, point.evictions) == (alone.hit_tokens, alone.evictions)


def test_what_no_policy_exceeds_is_no_more_than_all_that_could_hit() -> None:
    # more than 16 sizes of blocks, that are not all told apart; each hits at once, so one slot is enough
    rows = [row(n, [n // 2], 1 + n // 2) for n in range(60)]
    swept = sweep(rows, 64, "optimum", budgets=[1])
    assert swept.points == (Point(1, sum(range(1, 31)), swept.points[0].evictions),)
    assert swept.notes == ()


def test_blocks_that_hold_more_than_their_size_take_as_much_of_the_budget() -> None:
    heavy = array("q", [3 * B])
    rows = [Row(n, 3 * B, array("q", [n % 2]), weights=heavy) for n in range(4)]
    swept = sweep(rows, B, "lru", budgets=[2, 3, 6], rules=Rules(charge="tokens"))
    assert swept.points == (Point(2, 0, 0), Point(3, 0, 3), Point(6, 6 * B, 0))


@given(rows=traces(), slots=st.integers(0, 12))
def test_a_cache_whose_requests_age_from_the_head(rows: list[Row], slots: int) -> None:
    rules = Rules(ages="head_first")
    [point] = sweep(rows, B, budgets=[slots], rules=rules).points
    alone = simulate(rows, B, slots=slots, rules=rules)
    assert (point.hit_tokens, point.evictions) == (alone.hit_tokens, alone.evictions)


@given(rows=traces(), warm=st.integers(0, 3))
def test_lru_swept_is_the_one_pass_curve(rows: list[Row], warm: int) -> None:
    found = stack_pass(rows, B, ENGINE, warm_rows=warm)
    for point in sweep(rows, B, budgets=range(found.blocks + 2), rules=ENGINE, warm_rows=warm).points:
        assert point == Point(point.blocks, found.tokens(point.blocks), found.evictions(point.blocks))


@pytest.mark.parametrize(
    ("policy", "rules", "hits"),
    [
        ("fifo", REFERENCE, [1_346_360, 4_908_762, 14_413_554, 31_068_168, 37_396_660, 39_852_661]),
        ("fifo", Rules(match="any"), [1_540_920, 5_095_804, 14_678_397, 31_222_665, 37_456_013, 39_852_661]),
        ("lru", Rules(ages="head_first"), [1_283_896, 5_142_055, 14_349_953, 33_008_707, 39_138_867, 39_852_661]),
        ("lru", Rules(charge="tokens"), [1_501_496, 5_283_879, 15_106_574, 33_235_355, 39_333_375, 39_852_661]),
    ],
)
def test_a_trace_of_mooncake(policy: str, rules: Rules, hits: list[int]) -> None:
    swept = sweep(mooncake(), 512, policy, budgets=[256, 1_000, 4_000, 16_000, 32_000, 64_000], rules=rules)
    assert [point.hit_tokens for point in swept.points] == hits
    assert (swept.found.blocks, swept.found.input_tokens) == (43_924, 61_194_628)


def mooncake() -> list[Row]:
    lines = (TRACES / "mooncake_synthetic_trace.jsonl").read_text(encoding="utf-8").splitlines()
    found = enumerate(map(json.loads, lines), 1)
    return [Row(line, one["input_length"], array("q", one["hash_ids"])) for line, one in found]


def test_a_curve_is_made_of_it() -> None:
    swept = sweep(mixed(), B, "fifo", budgets=[4, 9])
    curve = Curve.of_points(swept.points, "fifo", swept.found, B, notes=swept.notes)
    assert curve.hit_tokens(blocks=9) == simulate(mixed(), B, "fifo", slots=9).hit_tokens
    assert curve.ceiling_tokens == simulate(mixed(), B, "fifo", slots=None).hit_tokens


def test_without_budgets_a_series_up_to_all_blocks() -> None:
    assert geometric(6_400) == [100, 141, 200, 283, 400, 566, 800, 1131, 1600, 2263, 3200, 4525, 6400]
    assert geometric(3) == [1, 2, 3]
    assert geometric(1) == [1]
    assert geometric(0) == []
    rows = [row(n, [n]) for n in range(640)]
    assert [point.blocks for point in sweep(rows, B, "fifo").points] == geometric(640)
    assert sweep([row(1, [], 5)], B, "fifo").points == ()
    assert sweep([], B, "fifo").points == ()


@pytest.mark.parametrize(
    ("policy", "rules", "expected"),
    [
        ("lru", REFERENCE, True),
        ("lru", ENGINE, True),
        ("fifo", REFERENCE, False),
        ("lru", Rules(match="any"), False),
        ("lru", Rules(charge="tokens"), False),
        ("lru", Rules(ages="head_first"), False),
    ],
)
def test_what_one_pass_tells(policy: str, rules: Rules, expected: bool) -> None:
    assert one_pass(policy, rules) is expected


@pytest.mark.parametrize("policy", ["s3fifo", "optimum"])
def test_results_do_not_depend_on_the_processes(policy: str) -> None:
    found = [sweep(mixed(), B, policy, budgets=[3, 5, 8, 13, 21], rules=ENGINE, processes=n) for n in (1, 2, 9)]
    assert found == found[:1] * 3
    assert len({point.hit_tokens for point in found[0].points}) > 3


def test_processes_work_from_a_thread_and_where_the_working_folder_has_modules_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("signal", "heapq", "array", "pytest_kvcache"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found: list[Swept] = []
    thread = threading.Thread(target=lambda: found.append(sweep(mixed(), B, "lfu", budgets=[3, 5], processes=2)))
    thread.start()
    thread.join()
    assert found == [sweep(mixed(), B, "lfu", budgets=[3, 5], processes=1)]


@pytest.mark.parametrize(
    ("asked", "budgets", "work", "expected"),
    [
        (None, 20, 999_999, 1),
        (None, 20, 2_999_999, 2),
        (None, 20, 10**9, 8),
        (None, 3, 10**9, 3),
        (None, 0, 0, 1),
        (4, 20, 10, 4),
        (4, 3, 10**9, 3),
        (1, 20, 10**9, 1),
    ],
)
def test_processes_as_far_as_the_work_is_worth_it(
    asked: int | None, budgets: int, work: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_processors", lambda: 8)
    assert module._processes(asked, budgets, work) == expected
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert module._processes(asked, budgets, work) == 1


def test_the_processors_are_those_that_may_be_used() -> None:
    assert 1 <= module._processors() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("budgets", [[], [-1], [1.5], [True], ["8"]])
def test_budgets_are_whole_numbers(budgets: list[int]) -> None:
    with pytest.raises(TraceError, match="expected whole numbers of blocks from 0 on, at least one"):
        sweep(mixed(), B, "fifo", budgets=budgets)


@pytest.mark.parametrize("processes", [0, -1, 1.5, True])
def test_processes_are_counted(processes: int) -> None:
    with pytest.raises(TraceError, match="expected a whole number of processes, at least 1"):
        sweep(mixed(), B, "fifo", processes=processes)


def test_an_unknown_policy_is_told_before_anything_is_read() -> None:
    with pytest.raises(TraceError, match="policy='mru': expected 'lru', 'fifo', 'lfu', 's3fifo', 'optimum'"):
        sweep((pytest.fail("read") for _ in [1]), B, "mru")
    with pytest.raises(TraceError, match="ages='head_first'"):
        sweep([], B, "fifo", rules=Rules(ages="head_first"))


def test_an_optimum_that_no_known_schedule_reaches_is_told() -> None:
    rows = [row(n, ids, length) for n, (ids, length) in enumerate(UNREACHED)]
    swept = sweep(rows, B, "optimum", budgets=[0, 1, 2, 3, 4])
    short = [slots for slots in range(5) if simulate(rows, B, "optimum", slots=slots).notes]
    assert short
    assert [(note.reason, note.count) for note in swept.notes] == [("optimum_schedule", len(short))]
    assert sweep(rows, B, "optimum", budgets=[100]).notes == ()


UNREACHED = [([1], 1), ([2], 4), ([1], 1), ([2], 4), ([3], 3), ([1], 1), ([3], 3), ([2], 4), ([1], 1), ([3], 3)]


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    children: list[subprocess.Popen[bytes]] = []
    start: Callable[[], subprocess.Popen[bytes]] = workers._start

    def started() -> subprocess.Popen[bytes]:
        children.append(start())
        return children[-1]

    monkeypatch.setattr(workers, "_start", started)
    return children


def gone(child: subprocess.Popen[bytes]) -> bool:
    return child.returncode is not None and child.stdin is not None and child.stdin.closed


def test_one_task_is_done_here_and_each_other_one_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    children = recorded(monkeypatch)
    here, *there = workers.shared(eval, ["__import__('os').getpid()"] * 3)
    assert here == os.getpid()
    assert there == [child.pid for child in children]
    assert all(map(gone, children))


def test_what_a_process_raises_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    children = recorded(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        workers.shared(eval, ["1", "1 / 0", "__import__('time').sleep(600)"])
    assert len(children) == 2
    assert all(map(gone, children))


@pytest.mark.parametrize("how", ["__import__('os')._exit(3)", "__import__('os').close(1)"])
def test_a_process_without_a_result_is_told(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    children = recorded(monkeypatch)
    with pytest.raises(TraceError, match=r"exit code \d+ and without a result; processes=1"):
        workers.shared(eval, ["1", how])
    assert all(map(gone, children))


def test_a_process_that_ends_before_it_was_told_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CHILD", "raise SystemExit(4)")
    with pytest.raises(TraceError, match="exit code 4 and without a result"):
        workers.shared(len, ["1", "2" * 10_000_000])


def test_no_process_is_left_when_this_one_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    children = recorded(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        workers.shared(exec, ["raise KeyboardInterrupt", *["__import__('time').sleep(600)"] * 2])
    assert len(children) == 2
    assert all(map(gone, children))


def test_where_no_process_can_start_everything_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = workers._start

    def once() -> subprocess.Popen[bytes]:
        if started:
            raise BlockingIOError("no more processes")
        started.append(start())
        return started[0]

    monkeypatch.setattr(workers, "_start", once)
    tasks = [f"({n}, __import__('os').getpid())" for n in range(4)]
    found = workers.shared(eval, tasks)
    assert [n for n, _ in found] == [0, 1, 2, 3]
    assert [pid == os.getpid() for _, pid in found] == [True, False, True, True]


WAITING = """
import sys
from pytest_kvcache.capacity.workers import shared
here = "print('ready', flush=True) or __import__('time').sleep(600)"
shared(eval, [here, "print('child', file=__import__('sys').stderr, flush=True) or __import__('time').sleep(600)"])
"""


def waiting() -> subprocess.Popen[str]:
    """A script without a guard, that shares a task and waits for ever, in a session of its own."""
    pipe = subprocess.PIPE
    script = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=pipe, stderr=pipe, text=True, start_new_session=os.name == "posix"
    )
    assert script.stdout is not None
    assert script.stderr is not None
    assert script.stdout.readline() == "ready\n"
    assert script.stderr.readline() == "child\n"
    return script


def test_no_process_outlives_one_that_is_killed() -> None:
    with waiting() as script:
        script.kill()
        _, errors = script.communicate(timeout=60)  # ends when nobody has the pipe any more: the child is gone
    assert errors == ""


@pytest.mark.skipif(os.name != "posix", reason="a terminal's Ctrl-C is sent to a process group")
def test_ctrl_c_ends_all_and_one_traceback_is_seen() -> None:
    with waiting() as script:
        os.killpg(script.pid, signal.SIGINT)
        _, errors = script.communicate(timeout=60)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
