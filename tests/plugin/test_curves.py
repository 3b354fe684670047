"""Curves of traces in the document: of whoever swept them, with and without workers, and of no measured test at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..documents import Seen
from .conftest import PASSING, Run

TRACE = "\n".join(
    json.dumps({"timestamp": n, "input_length": 64, "output_length": 1, "hash_ids": [n % 5 * 2, n % 5 * 2 + 1]})
    for n in range(20)
)
"""Five prompts of two blocks of 32 tokens in turn, four times: 10 blocks hold all, and 15 of 20 requests can hit."""
TESTS = """
import pytest

@pytest.fixture(scope="module")
def shared(kv_trace):
    return kv_trace("trace.jsonl", block_size=32, kv_bytes_per_token=2**20).sweep()

def test_shared_one(shared):
    assert shared.ceiling == 0.75

def test_shared_two(shared):
    assert shared.hit_rate(blocks=10) == 0.75

@pytest.mark.parametrize("count", [10, 20])
def test_first(kv_trace, count):
    assert kv_trace("trace.jsonl", block_size=32).first(count).sweep().ceiling > 0

class TestPolicies:
    def test_twice(self, kv_trace):
        trace = kv_trace("trace.jsonl", block_size=32)
        trace.sweep("fifo", budgets=[5])
        trace.scaled(16).sweep(rules="engine")
        trace.sweep("fifo", budgets=[5])

def test_other(kv_trace):
    len(kv_trace("trace.jsonl", block_size=32))
"""


@pytest.fixture
def curves(pytester: pytest.Pytester, run: Run) -> Any:
    """Run the tests, and return the curves of the document and the result."""
    (pytester.path / "trace.jsonl").write_text(TRACE)

    def curves(*words: str) -> tuple[list[dict[str, Any]], pytest.RunResult]:
        result = run("--kv-report=o.json", *words)
        return json.loads((pytester.path / "o.json").read_text())["curves"], result

    return curves


def test_curves_belong_to_who_swept_them(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(test_c=TESTS)
    found, result = curves()
    result.assert_outcomes(passed=6)
    assert [(c["nodeid"], c["policy"], c["rules"], c["block_size"], c["ceiling"]) for c in found] == [
        ("test_c.py", "lru", "reference", 32, 0.75),
        ("test_c.py::TestPolicies::test_twice", "lru", "engine", 16, 15 * 16 / 640),
        ("test_c.py::TestPolicies::test_twice", "fifo", "reference", 32, 0.75),
        ("test_c.py::test_first[10]", "lru", "reference", 32, 0.5),
        ("test_c.py::test_first[20]", "lru", "reference", 32, 0.75),
    ]
    shared = found[0]
    assert (shared["requests"], shared["input_tokens"], shared["bytes_per_token"]) == (20, 1280, 2**20)
    assert shared["knee"] == {"blocks": 10, "tokens": 320, "gib": 0.3125}
    assert [(point["blocks"], point["hit_rate"]) for point in shared["points"]] == [
        *((blocks, 0.0) for blocks in range(1, 9)),
        (9, 0.375),
        (10, 0.75),
    ]
    assert [point["blocks"] for point in found[2]["points"]] == [5, 10]


def test_they_are_the_same_with_workers(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(test_c=TESTS)
    alone, _ = curves()
    shared, result = curves("-n", "2")
    result.assert_outcomes(passed=6)
    assert shared == alone
    assert len(shared) == 5


def test_they_are_told(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(test_c=TESTS)
    _, result = curves("--kv-markdown=o.md", "-k", "shared")
    result.stdout.fnmatch_lines(
        [
            "*= kvcache =*",
            "ceiling *knee *GiB  policy  curve of     test",
            "  0.750  10 blocks, 320 tokens  0.312  lru     trace.jsonl  test_c.py",
        ]
    )
    seen = Seen.of((pytester.path / "o.md").read_text())
    assert seen.rows[-2:] == [
        ["ceiling", "knee", "GiB", "policy", "curve of", "test"],
        ["0.750", "10 blocks, 320 tokens", "0.312", "lru", "trace.jsonl", "test_c.py"],
    ]
    _, quiet = curves("-q", "-k", "shared")
    quiet.stdout.no_fnmatch_line("*ceiling*")


def test_a_sampled_curve_says_so(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(
        test_s="""
        from array import array
        from pytest_kvcache.rows import Row

        def test_sampled(kv_trace):
            trace = kv_trace("sessions.jsonl", block_size=16)
            assert trace.sweep(sample=0.5).error(blocks=10) > 0
        """
    )
    rows = [
        {"input_length": 32, "output_length": 1, "timestamp": n, "hash_ids": [2 * s, 2 * s + 1], "session_id": str(s)}
        for n in range(3)
        for s in range(300)
    ]
    (pytester.path / "sessions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (found,), result = curves()
    result.assert_outcomes(passed=1)
    assert found["error"] == max(point["error"] for point in found["points"]) > 0
    result.stdout.fnmatch_lines([f"*±{found['error']:.3f}*sessions.jsonl*"])


@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["alone", "worker"])
def test_of_a_rerun_the_last_attempt_counts(pytester: pytest.Pytester, curves: Any, words: tuple[str, ...]) -> None:
    pytester.makepyfile(
        test_r="""
        tried = []

        def test_it(kv_trace):
            tried.append(1)
            kv_trace("trace.jsonl", block_size=32).first(9 + len(tried)).sweep()
            assert len(tried) > 1
        """
    )
    found, result = curves("--reruns=1", *words)
    result.assert_outcomes(passed=1)
    assert [curve["requests"] for curve in found] == [11]


def test_a_test_that_measures_has_both(pytester: pytest.Pytester, curves: Any, sim: str) -> None:
    body = PASSING.replace("(kv,", "(kv_trace, kv,")
    pytester.makepyfile(test_b=body + "    kv_trace('trace.jsonl', block_size=32).sweep()\n")
    found, result = curves(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1)
    assert [curve["nodeid"] for curve in found] == ["test_b.py::test_shared"]


def test_a_failed_sweep_and_a_trace_of_ones_own_leave_none(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(
        test_n="""
        import pytest
        from pytest_kvcache import open_trace

        def test_fails(kv_trace):
            with pytest.raises(Exception, match="policy"):
                kv_trace("trace.jsonl", block_size=32).sweep("nobody")

        def test_pure():
            open_trace("trace.jsonl", block_size=32).sweep()
        """
    )
    found, result = curves()
    result.assert_outcomes(passed=2)
    assert found == []


def test_hostile_names(pytester: pytest.Pytester, curves: Any) -> None:
    name = "a|b<script>`\x1b[31m.jsonl"
    (pytester.path / name).write_text(TRACE)
    pytester.makepyfile(test_h=f"def test_it(kv_trace):\n    kv_trace({name!r}, block_size=32).sweep()\n")
    (found,), result = curves("--kv-markdown=o.md")
    assert found["name"] == "a|b<script>`\\x1b[31m.jsonl"
    result.stdout.fnmatch_lines(["*a|b<script>`\\x1b[[]31m.jsonl*"])
    seen = Seen.of((pytester.path / "o.md").read_text())
    assert seen.rows[-1][-2] == "a|b<script>`\\x1b[31m.jsonl"


def test_the_check_of_traces_leaves_its_curve(pytester: pytest.Pytester, curves: Any) -> None:
    (pytester.path / "trace.jsonl").write_text(TRACE)
    words = [
        "--pyargs",
        "pytest_kvcache.suite.trace",
        "--kv-set=trace.file=trace.jsonl",
        "--kv-set=trace.block_size=32",
    ]
    found, result = curves(*words, "-k", "budgets")
    result.assert_outcomes(passed=1)
    assert [(curve["nodeid"], curve["ceiling"]) for curve in found] == [
        ("pytest_kvcache/suite/trace.py::test_budgets", 0.75)
    ]


def test_what_a_sweep_returns_is_what_it_always_was(pytester: pytest.Pytester, curves: Any) -> None:
    pytester.makepyfile(
        test_same="""
        import inspect
        import pickle
        from pytest_kvcache import open_trace
        from pytest_kvcache.traces import Trace

        def test_it(kv_trace):
            ours, pure = kv_trace("trace.jsonl", block_size=32), open_trace("trace.jsonl", block_size=32)
            assert isinstance(ours, Trace)
            assert (str(ours), list(ours), ours.notes) == (str(pure), list(pure), pure.notes)
            assert ours.sweep() == pure.sweep()
            assert ours.between(0, 9).first(3).sweep() == pure.between(0, 9).first(3).sweep()
            assert ours.simulate(blocks=9).hit_tokens == pure.simulate(blocks=9).hit_tokens
        """
    )
    found, result = curves()
    result.assert_outcomes(passed=1)
    assert len(found) == 2
