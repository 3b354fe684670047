"""The README does not lie: every block of it is run, and what it shows is what comes out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_kvcache.engines import shipped

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
GUIDES = {
    path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md")
}
GUIDE_BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in sorted(GUIDES.items())
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
]
Engine = Callable[[str], str]
FAST = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
TRACE = ROOT / "tests" / "data" / "traces" / "mooncake_conversation_trace.jsonl.gz"


def blocks(kind: str) -> list[str]:
    return [text for language, text in BLOCKS if language == kind]


def figures_out(text: str) -> str:
    """Text without digits and spaces, for comparing shape and words where times and versions differ."""
    return re.sub(r"[\d.,]+|\s+", "", text)


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "console", "text", "ini"}


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_blocks(pytester: pytest.Pytester, engine_for: Engine, number: int) -> None:
    run_block(pytester, engine_for, blocks("python")[number])


@pytest.mark.parametrize("code", GUIDE_BLOCKS)
def test_python_blocks_of_the_guides(pytester: pytest.Pytester, engine_for: Engine, code: str) -> None:
    run_block(pytester, engine_for, code)


@pytest.fixture
def engine_for(sim: str, start_sim: Callable[..., str]) -> Engine:
    """The URL of an engine for a block; where time is judged, of one whose prefill takes its time.

    It takes 80 ms for the longest prompts of the guides, 8 ms when most is cached.
    """

    def engine_for(code: str) -> str:
        timed = "kv_speedup" in code or "kv.sustain" in code
        return start_sim("--prefill-rate", "100000", "--batch-slots", "64") if timed else sim

    return engine_for


def run_block(pytester: pytest.Pytester, engine_for: Engine, code: str) -> None:
    """Run a block as a test file of its own; the trace of the examples lies beside it, and minutes become seconds."""
    engine = engine_for(code)
    code = re.sub(r"duration=[\d.]+, assessment=[\d.]+", "duration=20, assessment=0.4", code)
    code = re.sub(r"duration=60\b", "duration=1", code)
    pytester.makepyfile(test_block=code)
    shutil.copy(TRACE, pytester.path / "conversation_trace.jsonl.gz")
    pytester.makeini(FAST)
    baseline = ["--kv-baseline=b.json", "--kv-update-baseline"] if "mark.kv_regression" in code else []
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--kv-endpoint={engine}", *baseline)
    passed, tests = result.parseoutcomes().get("passed", 0), code.count("def test_")
    expected = code.count("mark.xfail(strict=True")  # shown as a failure
    assert passed > tests if "parametrize(" in code else passed + expected == tests
    result.assert_outcomes(passed=passed, xfailed=expected)


def test_console_blocks_are_three_kinds() -> None:
    first, second, real, suite, pair, simulate = (text.strip() for text in blocks("console"))
    # the two set-up commands build environments of their own: the continuous integration runs them as written
    for line in (first, second):
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert real.startswith("pytest test_cache.py --kv-endpoint=http://127.0.0.1:8000 ")
    assert suite.startswith("pytest --pyargs pytest_kvcache.suite.")
    assert pair.startswith("pytest test_cache.py --kv-endpoint=http://router:8000 ")
    assert simulate == "python -m pytest_kvcache.simulate --help"


def test_console_block_of_the_main_job(pytester: pytest.Pytester) -> None:
    command = blocks("console")[0].strip().rpartition(" && ")[2]
    words = [str(ROOT / word) if word.startswith("conftest_examples") else word for word in shlex.split(command)[1:]]
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *words)
    result.assert_outcomes(passed=1, failed=1)
    assert blocks("text")[0].strip() in result.outlines


def test_console_block_against_a_server(pytester: pytest.Pytester, sim: str) -> None:
    pytester.makeini(FAST)
    command = blocks("console")[2].strip().replace("http://127.0.0.1:8000", sim)
    pytester.makepyfile(test_cache=blocks("python")[0])
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *shlex.split(command)[1:])
    result.assert_outcomes(passed=1)
    shown, line = blocks("text")[1].splitlines()
    assert shown.split() == next(out for out in result.outlines if out.startswith("verdict")).split()
    mine = next(out for out in result.outlines if "test_cache.py::test_shared_prefix" in out and "tok/s" in out)
    assert figures_out(line).replace("vllm", "") == figures_out(mine).replace("sim", "").replace("(ulated)", "")
    assert (pytester.path / "junit.xml").exists()
    assert (pytester.path / "kv.json").exists()


def test_console_block_without_a_test(pytester: pytest.Pytester, sim: str) -> None:
    pytester.makeini(FAST)
    command = blocks("console")[3].strip().replace("http://127.0.0.1:8000", sim)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *shlex.split(command)[1:])
    result.assert_outcomes(passed=6, skipped=1)


def test_console_block_of_a_disaggregated_pair(
    pytester: pytest.Pytester, sim: str, start_sim: Callable[..., str]
) -> None:
    pytester.makeini(FAST)
    command = blocks("console")[4].strip().replace("http://router:8000", sim).replace("http://p:8100", sim)
    pytester.makepyfile(test_cache=blocks("python")[0])
    words = shlex.split(command.replace("http://d:8200", start_sim()))[1:]
    pytester.runpytest_inprocess("-p", "no:cacheprovider", *words).assert_outcomes(passed=1)


def test_console_block_of_the_simulated_engine() -> None:
    words = shlex.split(blocks("console")[5])[1:]
    shown = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "--block-size" in shown


def test_failure_text_is_what_a_failure_looks_like(pytester: pytest.Pytester, sim: str) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hit_rate(min=0.8)
        def test_agent(kv, kv_workload):
            system = "You help customers. Now: 2026-01-05 10:41:0{}. Rules: " + "answer in one word and be kind. " * 60
            chats = [
                {"messages": [{"role": "system", "content": system.format(n)}, {"role": "user", "content": "Red?"}]}
                for n in range(4)
            ]
            kv.run(kv_workload.requests(chats), concurrency=1)
        """
    )
    pytester.makeini(FAST)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--kv-endpoint={sim}")
    for line in blocks("text")[2].splitlines():
        assert figures_out(line) in {figures_out(out) for out in result.outlines}, line


def test_ini_block(pytester: pytest.Pytester) -> None:
    pytester.makeini(blocks("ini")[0])
    pytester.makepyfile("def test_a(kv_settings): assert (kv_settings.concurrency, kv_settings.timeout) == (4, 60.0)")
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "ignore").assert_outcomes(passed=1)


def test_the_number_of_profiles_is_right() -> None:
    assert f"knows how [{len(list(shipped()))} engines" in README


def test_option_table_is_complete_and_right(pytester: pytest.Pytester) -> None:
    pytester.makeini(FAST)
    shown = pytester.runpytest_inprocess("--help").stdout.str()
    known = set(re.findall(r"--kv-[a-z-]+", shown)) - {"--kv-params"}  # shows something and ends, as --markers
    rows = re.findall(r"^\| `(--kv-[a-z-]+)[=`][^|]*\| `(\w+)` \| `(\w+)` \|", README, re.MULTILINE)
    assert {option for option, *_ in rows} == known
    for option, variable, ini in rows:
        name = option.removeprefix("--kv-").replace("-", "_")
        assert (variable, ini) == (f"PYTEST_KV_{name.upper()}", f"kv_{name}")
