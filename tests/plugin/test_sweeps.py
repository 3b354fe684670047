"""Parametrised tests are sweeps: one grid at the end, one result set in the document, the same under workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Run
from .test_reports import stable

SUITE = """
import pytest
import pytest_kvcache

@pytest.mark.parametrize("context", [256, 512])
@pytest.mark.parametrize("rate", pytest_kvcache.rates(high=0.5, step=0.25))
@pytest.mark.hit_rate(tol=0.0)
def test_grid(kv, kv_workload, rate, context):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=context, hit_rate=rate, output_len=2))

@pytest.mark.parametrize("api", ["completions", "chat"])
def test_words(kv, kv_workload, api):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=256, hit_rate=0.5, output_len=1))

@pytest.mark.parametrize("n", [1, 2])
def test_measures_nothing(n):
    pass

@pytest.mark.kv_sweep("given", axes={"rate": 0.5, "kind": "shared"})
def test_alone(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=256, hit_rate=0.5, output_len=1))
"""


def sweeps_of(pytester: pytest.Pytester, name: str) -> Any:
    return json.loads((pytester.path / name).read_text())["sweeps"]


def test_a_sweep_in_the_document_and_at_the_end(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_s=SUITE)
    result = run(f"--kv-endpoint={sim}", "--kv-report=o.json")
    result.assert_outcomes(passed=11)
    given, by_function = sweeps_of(pytester, "o.json")
    assert by_function["name"] == "test_s.py::test_grid"
    axes = {axis["name"]: axis["values"] for axis in by_function["axes"]}
    assert axes == {"rate": [0.0, 0.25, 0.5], "context": [256, 512]}
    assert {(cell["axes"]["rate"], cell["axes"]["context"]): cell["hit_rate"] for cell in by_function["cells"]} == {
        (rate, context): rate for rate in axes["rate"] for context in axes["context"]
    }
    assert "test_s.py::test_grid[0.25-512]" in {cell["nodeid"] for cell in by_function["cells"]}
    assert given["name"] == "given"
    assert [cell["axes"] for cell in given["cells"]] == [{"rate": 0.5, "kind": "shared"}]
    result.stdout.fnmatch_lines(
        [
            "sweep given at kind shared: 1 passed",
            "* rate *hit rate *TTFT p50 *output tok/s",
            "* 0.5 *0.500 *",
            "sweep test_s.py::test_grid: 6 passed",
            "*by rate:",
            "*context *0 *0.25 *0.5*",
            "* 256 *0.000 *0.250 *0.500*",
            "* 512 *0.000 *0.250 *0.500*",
        ]
    )
    assert not any(line.startswith("sweep ") and "words" in line for line in result.outlines)


@pytest.mark.parametrize("word", ["-q", "--no-summary"])
def test_no_grid_where_little_is_wanted(pytester: pytest.Pytester, run: Run, sim: str, word: str) -> None:
    pytester.makepyfile(test_s=SUITE)
    result = run(f"--kv-endpoint={sim}", "--kv-report=o.json", word)
    result.stdout.no_fnmatch_line("sweep *")
    assert len(sweeps_of(pytester, "o.json")) == 2


def test_workers_change_nothing(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_s=SUITE)
    alone = run(f"--kv-endpoint={sim}", "--kv-report=alone.json")
    shared = run(f"--kv-endpoint={sim}", "--kv-report=shared.json", "-n", "2", "--dist=loadgroup")
    times = {"ttft_p50_s", "ttft_p95_s", "output_tok_s", "statements"}
    found = [
        [[{k: v for k, v in cell.items() if k not in times} for cell in sweep["cells"]] for sweep in stable(sweeps)]
        for sweeps in ({"sweeps": sweeps_of(pytester, f"{name}.json")}["sweeps"] for name in ("alone", "shared"))
    ]
    assert found[0] == found[1] != []
    titles = [[line for line in result.outlines if line.startswith("sweep ")] for result in (alone, shared)]
    assert titles[0] == titles[1] != []


AXES = """
import pytest

class Big:
    pass

def named():
    pass

PARAMETERS = [PARAMETER]

@pytest.mark.parametrize("x", PARAMETERS)
@pytest.mark.parametrize("n", [1, 2])
MARKER
def test_it(kv, kv_workload, x, n):
    kv.run(kv_workload.shared_prefix(requests=1, input_len=64, hit_rate=0, output_len=1))
"""


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("0.5, 2, 'word', True", [0.5, 2, "word", True]),
        ("Big(), named, None, float('inf')", ["x0", "named", "None", "inf"]),
        ("'SECRET' * 20, 'SECRET' * 21", ["#31c5b62e", "#a65096a8"]),  # by their SHA-256
        ("pytest.param(Big(), id='a-b'), pytest.param(named, id='c-d'), 3", ["Big", "named", 3]),
        ("pytest.param(Big(), id='small'), pytest.param([1], id='large')", ["large", "small"]),
        ("'\\x1b[31m'", ["\\x1b[31m"]),
        ("'one\\n\\ttwo'", ["one\\n\\ttwo"]),
    ],
)
def test_values_of_axes_are_plain(
    pytester: pytest.Pytester, run: Run, sim: str, parameter: str, values: list[object]
) -> None:
    pytester.makepyfile(AXES.replace("PARAMETER]", f"{parameter}]").replace("MARKER", ""))
    run(f"--kv-endpoint={sim}", "--kv-report=o.json")
    (sweep,) = sweeps_of(pytester, "o.json")
    found = {axis["name"]: axis["values"] for axis in sweep["axes"]}
    assert sorted(found["x"], key=str) == sorted(values, key=str)
    assert found["n"] == [1, 2]


def test_parameters_of_plugins_are_no_axes(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        AXES.replace("PARAMETER]", "1]").replace('"n"', '"_n"').replace("x, n)", "x, _n)").replace("MARKER", "")
    )
    run(f"--kv-endpoint={sim}", "--kv-report=o.json").assert_outcomes(passed=2)
    assert sweeps_of(pytester, "o.json") == []


def test_the_marker_names_the_axes_that_matter(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    marker = "@pytest.mark.kv_sweep(axes=['x'])"
    pytester.makepyfile(test_a=AXES.replace("PARAMETER]", "1, 2]").replace("MARKER", marker))
    run(f"--kv-endpoint={sim}", "--kv-report=o.json").assert_outcomes(passed=4)
    (sweep,) = sweeps_of(pytester, "o.json")
    assert sweep["axes"] == [{"name": "x", "values": [1, 2]}]
    assert (sweep["name"], len(sweep["cells"])) == ("test_a.py::test_it", 4)


def test_several_functions_are_one_sweep_under_one_name(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    tests = "\n".join(
        f"@pytest.mark.kv_sweep('all', axes={{'rate': {rate}}})\ndef test_{n}(kv, kv_workload):\n"
        f"    kv.run(kv_workload.shared_prefix(requests=2, input_len=256, hit_rate={rate}, output_len=1))\n"
        for n, rate in enumerate((0.5, 0.0))
    )
    pytester.makepyfile("import pytest\n" + tests)
    run(f"--kv-endpoint={sim}", "--kv-report=o.json").assert_outcomes(passed=2)
    (sweep,) = sweeps_of(pytester, "o.json")
    assert sweep["axes"] == [{"name": "rate", "values": [0.0, 0.5]}]


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("name=''", "name='' is no name; expected kv_sweep(name, axes)"),
        ("name=3", "name=3 is no name"),
        ("axes='x'", "axes='x': expected names of parameters, or values by name"),
        ("axes=[]", "axes=[] names none"),
        ("axes={}", "axes={} names none"),
        ("axes=['y']", "axes: 'y' is no parameter of the test; it has n, x"),
        ("axes={'rate': [1]}", "axes: 'rate': [[]1] is no name with a number, text or true/false"),
        ("axes={'rate': float('nan')}", "axes: 'rate': nan is no name with a number"),
        ("axes={1: 2}", "axes: 1: 2 is no name with a number"),
        ("'a', 'b', 'c'", "takes from 0 to 2 positional arguments but 3 were given"),
    ],
)
def test_a_marker_that_cannot_be_used(pytester: pytest.Pytester, run: Run, sim: str, marker: str, message: str) -> None:
    pytester.makepyfile(AXES.replace("PARAMETER]", "1]").replace("MARKER", f"@pytest.mark.kv_sweep({marker})"))
    result = run(f"--kv-endpoint={sim}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*::test_it*: @pytest.mark.kv_sweep: *{message}*"])


def test_a_marker_without_any_axis(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.kv_sweep\ndef test_it(kv):\n    pass")
    result = run(f"--kv-endpoint={sim}")
    result.stderr.fnmatch_lines(["*the test has no parameters: give the values, axes={'rate': 0.5}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_help_tells_the_marker(run: Run) -> None:
    run("--markers").stdout.fnmatch_lines(["*@pytest.mark.kv_sweep(name, axes): Put tests together*"])
