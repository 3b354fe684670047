"""Probes against simulated engines: what was planted is found, and nothing else."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import ConfigurationError, EndpointError, MeasurementError, ProbeFailed, WorkloadError
from pytest_kvcache.model import Grain
from pytest_kvcache.probes import Terms, capacity, equivalence, granularity, isolation, lifetime
from pytest_kvcache.probes.answered import Said

from ..conftest import starting
from .wire import Wire

StartSim = Callable[..., str]
SILENT = ("--fault", "metrics_drop=sim:cache_config_info")  # tells neither block size nor capacity
UNTOLD = "--no-prompt-tokens-details"


def ask(probe: Callable[..., Any], url: str, *, engine: str | None = None, **arguments: Any) -> Any:
    """Ask a probe; of its terms, those that are no arguments of its own."""
    terms = {name: arguments.pop(name) for name in ("api", "body", "settle", "grain", "tokenizer") if name in arguments}
    ask.asked += 1  # type: ignore[attr-defined] # every question is of fresh content
    nonce = f"test {ask.asked}"  # type: ignore[attr-defined] # as above
    return asyncio.run(probe(Endpoint(url, engine=engine), Terms(nonce, **terms), **arguments))


ask.asked = 0  # type: ignore[attr-defined] # as above


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    """One engine with blocks of 16 for what changes nothing."""
    with starting() as start:
        yield start()


# --- granularity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 16, 64, 128, 256])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_steps_are_found(start_sim: StartSim, block: int, api: str) -> None:
    found = ask(granularity, start_sim("--block-size", str(block)), api=api)
    assert (found.step, found.minimum, found.full_hit, found.told, found.agrees) == (block, block, "L-1", block, True)
    assert found.requests <= 14


@pytest.mark.parametrize(("block", "minimum", "most"), [(128, 1024, 18), (1, 1000, 36), (64, 1000, 20)])
@pytest.mark.parametrize("more", [(), (UNTOLD,)], ids=["usage", "counters"])
def test_a_minimum_is_found(start_sim: StartSim, block: int, minimum: int, most: int, more: tuple[str, ...]) -> None:
    url = start_sim("--block-size", str(block), "--minimum-tokens", str(minimum), *more)
    found = ask(granularity, url)
    assert found.grain() == Grain(block, -(-minimum // block) * block)
    assert found.requests <= most
    assert f" from {found.minimum:,} on" in str(found)
    seen = Wire(url).sample("request_prompt_tokens_count")
    assert seen == found.requests


def test_a_server_that_does_not_tell_its_blocks(start_sim: StartSim) -> None:
    found = ask(granularity, start_sim("--block-size", "32", *SILENT), engine="sim")
    assert (found.step, found.told, found.agrees) == (32, None, None)


@pytest.mark.parametrize(("api", "tokenizer"), [("completions", "builtin"), ("chat", "builtin"), ("chat", None)])
def test_a_server_that_takes_only_text(start_sim: StartSim, api: str, tokenizer: str | None) -> None:
    """Without a tokenizer only chats can be counted, and where their template stands in them is open."""
    url = start_sim("--block-size", "64", "--minimum-tokens", "320")
    found = ask(granularity, url, engine="usage", api=api, tokenizer=tokenizer)
    assert (found.grain(), found.full_hit, found.told) == (Grain(64, 320), "L-1", None)
    more = {"engine": "usage", "api": api, "tokenizer": tokenizer, "grain": found.grain()}
    assert ask(isolation, url, **more).leaked == {"another": 0, "to none": 0, "from none": 0}
    assert ask(equivalence, url, prompts=1, **more).logprobs == 0.0


def test_capacity_by_text(start_sim: StartSim) -> None:
    url = start_sim("--capacity-blocks", "400")
    found = ask(capacity, url, engine="usage", tokenizer="builtin", grain=Grain(16))
    assert (found.survived, found.lost, found.told) == (6400, 6416, None)


def test_nothing_is_cached(start_sim: StartSim) -> None:
    found = ask(granularity, start_sim("--no-prefix-caching"), up_to=500)
    assert (found.step, found.minimum, found.full_hit, found.grain(), found.requests) == (None, None, None, None, 2)
    assert str(found) == "granularity: nothing was cached up to 500 tokens (2 requests)"


def test_several_engines_are_told(start_sim: StartSim) -> None:
    found = ask(granularity, start_sim("--engines", "3"))
    assert (found.step, found.engines) == (None, 3)


def test_the_head_of_all_chats_is_no_credit(start_sim: StartSim) -> None:
    """Engines in turn that only their answers tell of: what the template puts in front is cached in each of them."""
    found = ask(granularity, start_sim("--engines", "2"), engine="usage", tokenizer="builtin", up_to=1000)
    assert (found.step, found.minimum, found.requests) == (None, None, 2)
    assert "nothing but the 16 tokens that every prompt begins with was cached up to 1,000 tokens" in str(found)


def test_a_short_context_bounds_what_is_tried(start_sim: StartSim) -> None:
    found = ask(granularity, start_sim("--max-model-len", "200"))
    assert (found.up_to, found.step) == (196, 16)
    with pytest.raises(WorkloadError, match="up_to=1 leaves 1 tokens to share"):
        ask(granularity, start_sim("--max-model-len", "200"), up_to=1)


def test_a_cache_that_needs_time(start_sim: StartSim) -> None:
    url = start_sim("--fault", "readable_after=3600")
    assert ask(granularity, url, up_to=100).step is None
    assert Wire(url).put("/faults", {"readable_after": 0.05})[0] == 200
    assert ask(granularity, url, settle=0.1, up_to=100).step == 16


def test_other_engines_in_turn_contradict_each_other(plain: str) -> None:
    """Every second pair is lost, as behind a router that does not look at caches."""

    async def odd(endpoint: Endpoint, terms: Terms) -> None:
        from pytest_kvcache.probes.granularity import _Pairs
        from pytest_kvcache.probes.prober import opened

        async with opened(endpoint, terms, "granularity", 60) as prober:
            pairs = _Pairs(prober)
            assert [await pairs.ask(shared) for shared in (40, 47, 48, 40)] == [32, 32, 48, 32]
            assert prober.requests == 6  # what was asked is remembered
            pairs.check(Grain(16, 16))
            with pytest.raises(MeasurementError, match=r"in 8-token steps, and 40 shared tokens were credited 32"):
                pairs.check(Grain(8))

    ask(odd, plain)


def test_traffic_of_others_is_noticed_by_counters(start_sim: StartSim) -> None:
    url = start_sim(UNTOLD, "--fault", "foreign=7")
    with pytest.raises(
        MeasurementError, match=r"the counters show 4,103 query tokens for a prompt of 4,096: is another"
    ):
        ask(granularity, url, up_to=4093)


def test_nobody_tells(start_sim: StartSim) -> None:
    with pytest.raises(
        MeasurementError, match="neither usage nor counters tell how many tokens of a prompt were cached"
    ):
        ask(granularity, start_sim(UNTOLD), engine="usage", tokenizer="builtin", up_to=100)


def test_a_server_that_refuses(plain: str) -> None:
    with pytest.raises(EndpointError, match=r"granularity: request 1 failed: HTTP 400: max_tokens"):
        ask(granularity, plain, body={"max_tokens": 0})


@pytest.mark.parametrize("field", ["prompt", "messages", "stream", "n", "echo"])
def test_what_a_probe_sends_itself_is_not_replaced(field: str) -> None:
    nowhere = "http://127.0.0.1:1"
    with pytest.raises(ConfigurationError, match=f"granularity: a request's {field} cannot be set"):
        ask(granularity, nowhere, body={field: 2})


def test_a_cache_smaller_than_what_is_tried(start_sim: StartSim) -> None:
    options = ("--capacity-blocks", "37")
    found = ask(granularity, start_sim(*options))
    assert (found.step, found.up_to) == (16, 296)
    with pytest.raises(MeasurementError, match=r"4,096 shared tokens were credited 592: .* or hold less than up_to"):
        ask(granularity, start_sim(*options, *SILENT), engine="sim")
    assert ask(granularity, start_sim(*options, *SILENT), engine="sim", up_to=500).step == 16


# --- capacity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "block", "more"),
    [(1000, 16, ()), (37, 16, ()), (1300, 32, ()), (5000, 1, ()), (1000, 16, SILENT), (1300, 32, SILENT)],
)
def test_capacity_is_found_to_the_block(start_sim: StartSim, blocks: int, block: int, more: tuple[str, ...]) -> None:
    url = start_sim("--capacity-blocks", str(blocks), "--block-size", str(block), *more)
    found = ask(capacity, url, engine="sim")
    assert (found.survived, found.lost) == (blocks * block, (blocks + 1) * block)
    assert found.told == (None if more else blocks * block)


def test_capacity_is_looked_at_no_further_than_asked(start_sim: StartSim) -> None:
    url = start_sim()
    found = ask(capacity, url, at_most=20_000)
    assert (found.survived, found.lost) == (4096 + 15_904, None)
    assert found.tokens == 3 * (4096 + 4097) + 8192 + 15_904
    assert found.tokens == Wire(url).sample("prompt_tokens_total")


def test_a_known_grain_is_not_asked_for_again(start_sim: StartSim) -> None:
    url = start_sim("--capacity-blocks", "300", "--block-size", "32", *SILENT)
    known, asked = (ask(capacity, url, engine="sim", **more) for more in ({"grain": Grain(32, 32)}, {}))
    assert known.survived == asked.survived == 9600
    assert asked.requests == known.requests + 8


def test_capacity_of_several_engines_is_refused(start_sim: StartSim) -> None:
    with pytest.raises(MeasurementError, match="2 engines stand behind this endpoint"):
        ask(capacity, start_sim("--engines", "2"))


def test_capacity_needs_a_cache(start_sim: StartSim) -> None:
    with pytest.raises(MeasurementError, match=r"nothing of a prompt of 4,096 tokens was cached when it came again"):
        ask(capacity, start_sim("--no-prefix-caching"))
    with pytest.raises(
        MeasurementError, match="in which steps the cache gives credit is not known; granularity: nothing"
    ):
        ask(capacity, start_sim("--no-prefix-caching", *SILENT), engine="sim")
    with pytest.raises(WorkloadError, match="prompts of 100 tokens are too short for a cache that gives credit in 128"):
        ask(capacity, start_sim("--block-size", "128"), at_most=100)


# --- lifetime --------------------------------------------------------------------------------------------------------


def test_a_lifetime_is_bounded_from_both_sides(start_sim: StartSim) -> None:
    found = ask(lifetime, start_sim("--lifetime", "1.0"), first=0.05, at_most=6.4)
    assert found.there <= 1.0 <= found.gone
    assert found.absent is None
    assert found.requests <= 22


def test_what_stays(plain: str) -> None:
    found = ask(lifetime, plain, first=0.05, at_most=0.2)
    assert found.gone is None
    assert found.there > 0.19
    assert found.requests == 6


def test_what_is_not_readable_at_once(start_sim: StartSim) -> None:
    found = ask(lifetime, start_sim("--fault", "readable_after=0.8"), first=0.01, at_most=5.2)
    assert found.absent is not None
    assert found.absent < found.there
    assert "not readable yet after 0." in str(found)


def test_engines_in_turn_are_no_lifetime(start_sim: StartSim) -> None:
    """Of three engines in turn the first and the third prompt are read elsewhere, and the second one where it is."""
    with pytest.raises(MeasurementError, match="do several caches share the requests"):
        ask(lifetime, start_sim("--engines", "3"), first=0.01, at_most=0.04)


@pytest.mark.parametrize("blocks", [64, 100, 130, 190])
def test_prompts_that_push_each_other_out_have_no_lifetime(start_sim: StartSim, blocks: int) -> None:
    with pytest.raises(MeasurementError, match=r"or does the cache hold less than [2-4],\d+ tokens"):
        ask(lifetime, start_sim("--capacity-blocks", str(blocks)), first=0.01, at_most=0.08)


def test_a_lifetime_needs_a_cache(start_sim: StartSim) -> None:
    with pytest.raises(MeasurementError, match=r"of 2 prompts of 1,024 tokens, read 0.01 to 0.02 s after .* none"):
        ask(lifetime, start_sim("--no-prefix-caching"), first=0.01, at_most=0.02)


# --- isolation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), (UNTOLD,)], ids=["usage", "counters"])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_salt_separates_unless_it_leaks(start_sim: StartSim, more: tuple[str, ...], api: str) -> None:
    url = start_sim(*more)
    found = ask(isolation, url, api=api)
    assert (found.leaked_tokens, found.own, found.requests) == (0, 1008, 6)
    assert found.check() is found
    assert Wire(url).put("/faults", {"isolation_leak": True})[0] == 200
    found = ask(isolation, url, api=api)
    assert found.leaked == {"another": 1008, "to none": 1008, "from none": 1008}
    with pytest.raises(ProbeFailed, match="1,008 of 1,024 tokens cached under another cache_salt were reused"):
        found.check()


def test_what_the_server_does_not_heed_separates_nothing(plain: str) -> None:
    assert ask(isolation, plain, by="header:X-Tenant").leaked_tokens == 1008
    assert ask(isolation, plain, by="user", a="x", b="y").leaked_tokens == 1008


def test_a_header_that_separates(start_sim: StartSim) -> None:
    """One engine a rank: a pinned request finds nothing that another rank has computed."""
    url = start_sim("--engines", "2", "--routing", "prefix")
    found = ask(isolation, url, by="header:X-data-parallel-rank", a=1, b=0)
    assert (found.own, found.leaked["another"]) == (1008, 0)


def test_a_border_that_insists_on_a_value(start_sim: StartSim) -> None:
    found = ask(isolation, start_sim("--fault", "salt_required"))
    assert (found.leaked, found.refused) == ({"another": 0}, ("a request without cache_salt",))
    assert "; refused by the server: a request without cache_salt (4 requests)" in str(found)


def test_a_prompt_is_no_border(plain: str) -> None:
    with pytest.raises(ConfigurationError, match="isolation: a request's prompt cannot be set"):
        ask(isolation, plain, by="prompt", a="one", b="two")


def test_a_header_is_one_line(plain: str) -> None:
    for by, a in (("header:X-Tenant", "secret\r\nX-Other: 1"), ("header:X Tenant", "secret")):
        with pytest.raises(ConfigurationError, match="expected a header's name, and values of one") as refused:
            ask(isolation, plain, by=by, a=a)
        assert "secret" not in str(refused.value)


def test_isolation_between_models(plain: str) -> None:
    with pytest.raises(ConfigurationError, match="give b=, another model"):
        ask(isolation, plain, by="model")
    with pytest.raises(ConfigurationError, match="two different values"):
        ask(isolation, plain, by="model", b="sim")
    with pytest.raises(ConfigurationError, match="two different values of a named field"):
        ask(isolation, plain, by="header:")
    with pytest.raises(EndpointError, match="isolation: request 3 failed: HTTP 404"):
        ask(isolation, plain, by="model", b="other")


def test_isolation_without_a_cache_proves_nothing(start_sim: StartSim) -> None:
    with pytest.raises(MeasurementError, match="nothing is cached even under the same cache_salt"):
        ask(isolation, start_sim("--no-prefix-caching"))
    with pytest.raises(MeasurementError, match="nothing is cached even under the same"):
        ask(isolation, start_sim("--minimum-tokens", "1024"), tokens=1000)


def test_prompts_are_long_enough_for_the_cache(start_sim: StartSim) -> None:
    url = start_sim("--block-size", "128", "--minimum-tokens", "4000", *SILENT)
    assert ask(isolation, url, engine="sim", grain=Grain(128, 4000)).tokens == 4256
    with pytest.raises(WorkloadError, match="tokens=131073, and the server takes 131072"):
        ask(isolation, url, engine="sim", tokens=131_073)


# --- equivalence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), (UNTOLD,)], ids=["usage", "counters"])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_warm_answers_equal_cold_ones_unless_the_kv_is_wrong(
    start_sim: StartSim, more: tuple[str, ...], api: str
) -> None:
    url = start_sim(*more)
    found = ask(equivalence, url, api=api)
    assert (found.logprobs, found.cached, found.requests, found.tokens) == (0.0, 4032, 8, True)
    assert found.check() is found
    assert Wire(url).put("/faults", {"wrong_kv": True})[0] == 200
    found = ask(equivalence, url, api=api, prompts=2)
    assert (found.wrong, found.requests) == ((0, 1), 6)  # each warm answer is asked for once more
    with pytest.raises(ProbeFailed, match="2 of 2 prompts: the warm answer leaves the cold one at token 0 of 16"):
        found.check()


def test_wrong_numbers_behind_the_right_tokens(start_sim: StartSim) -> None:
    url = start_sim("--fault", "warm_logprobs_off=0.25")
    found = ask(equivalence, url, prompts=1)
    assert found.logprobs == pytest.approx(0.25)
    with pytest.raises(ProbeFailed, match=r"logprobs are up to 0.2500 apart, more than 0.2"):
        found.check()
    assert ask(equivalence, url, prompts=1, tol=0.3).wrong == ()


def test_a_server_that_never_repeats_itself_proves_nothing(plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    module = importlib.import_module("pytest_kvcache.probes.equivalence")
    monkeypatch.setattr(module, "said", lambda _: Said(f"answer {next(numbers)}"))
    with pytest.raises(MeasurementError, match="the same prompt otherwise each time it comes again, so its cache need"):
        ask(equivalence, plain, prompts=2)
    assert next(numbers) == 3


def test_a_server_that_refuses_logprobs_is_compared_by_text(start_sim: StartSim) -> None:
    url = start_sim("--fault", "no_logprobs")
    found = ask(equivalence, url, prompts=2)
    assert (found.logprobs, found.wrong, found.requests) == (None, (), 5)
    assert "logprobs are not told" in str(found)
    assert Wire(url).put("/faults", {"no_logprobs": True, "wrong_kv": True})[0] == 200
    assert ask(equivalence, url, prompts=2).wrong == (0, 1)


def test_equivalence_needs_a_warm_answer(start_sim: StartSim) -> None:
    with pytest.raises(MeasurementError, match=r"of 1,024 tokens 0 were cached at first and 0 when they came again"):
        ask(equivalence, start_sim("--no-prefix-caching"))
    with pytest.raises(WorkloadError, match="output=131,072 leaves no room for a prompt; the server takes 131,072"):
        ask(equivalence, start_sim(), output=131_072)
    with pytest.raises(EndpointError, match="equivalence: request 1 failed: HTTP 503"):
        ask(equivalence, start_sim("--fault", "status=503"))
    for wrong in ({"prompts": 0}, {"output": 0}, {"tol": -1.0}, {"tol": float("nan")}):
        with pytest.raises(ConfigurationError, match="expected at least 1, 1, 0"):
            ask(equivalence, "http://127.0.0.1:1", **wrong)
