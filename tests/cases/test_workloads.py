"""Prompts that were not what was asked: of another length, without special tokens, warm from the run before."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models

from pytest_kvcache.model import ServerFacts
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.tokens import LocalTokenizer

from ..plugin.conftest import Run
from ..unit.tokenizers_zoo import byte_level, toy

FACTS = ServerFacts("sim", "m", block_size=16)


@pytest.mark.parametrize("send", ["ids", "text"])
def test_w01_1000_prompts_of_exactly_7_tokens_where_encode_is_not_the_inverse_of_decode(send: str) -> None:
    inner = toy().inner
    assert inner.encode(inner.decode([0]) + inner.decode([1])).ids == [2]  # [a, b] -> "ab" -> [ab]
    shape = SharedPrefix(1000, 7, prefix_len=0, output_len=1, send=send)  # type: ignore[arg-type] # a Literal
    composed = shape.compose(FACTS, toy(), "n", as_ids=True)
    load = list(composed.load())
    assert [len(request.prompt.ids) for request in load] == [7] * 1000
    for request in load:
        assert request.prompt.text is None or inner.encode(request.prompt.text).ids == list(request.prompt.ids)


def test_w04_three_prefixes_of_64_tokens_without_bos_and_eos() -> None:
    for tokenizer in (
        byte_level(),
        LocalTokenizer("toy", Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))),
    ):
        assert tokenizer.inner.token_to_id("<s>") is None
        composed = SharedPrefix(3, 80, prefix_len=64, prefixes=3, output_len=1).compose(
            FACTS, tokenizer, "n", as_ids=True
        )
        prefixes = {tuple(request.prompt.ids[:64]) for request in composed.prefill()}
        assert [len(prefix) for prefix in prefixes] == [64] * 3
        assert all(isinstance(token, int) for prefix in prefixes for token in prefix)
        assert {tuple(request.prompt.ids[:64]) for request in composed.load()} == prefixes


W05 = """
import pytest

@pytest.mark.hit_rate(min=0.0)
@pytest.mark.parametrize("run", "AB")
def test_unique(kv, kv_workload, run):
    result = kv.run(kv_workload.shared_prefix({workload}, output_len=1), concurrency=1)
    print("RATE", run, result.hit_rate, [finding.code for finding in result.verdict.findings])
"""


def test_w05_the_second_run_of_unique_prompts_is_cold(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(W05.format(workload="8, 256, 0.0"))
    result = run("--kv-endpoint=sim", "--kv-sample-interval=0", "-s")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*RATE A 0.0 []*", "*RATE B 0.0 []*"])


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_w05_with_a_fixed_seed_the_second_run_is_told_to_be_warm(
    pytester: pytest.Pytester, run: Run, rate: float
) -> None:
    pytester.makepyfile(W05.format(workload=f"8, 256, {rate}, seed=0"))
    result = run("--kv-endpoint=sim", "--kv-sample-interval=0", "-s")
    lines = [line.partition("RATE ")[2] for line in result.outlines if "RATE" in line]
    assert lines[0] == f"A {rate} []"
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*inconclusive: the measured rate 0.9375 is above*cached before the run*KV108*"])
