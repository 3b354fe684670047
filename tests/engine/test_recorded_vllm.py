"""The simulated engine answers as a recorded vLLM 0.32 did: same cached_tokens, same counter differences, to the token.

The recording holds lengths, not prompts, so fresh prompts of the same lengths and the same sharing are sent here.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .wire import COUNTERS, Wire, cached

DATA = Path(__file__).parent.parent / "data/vllm-0.32.0"
RECORDED = json.loads((DATA / "semantics_block128.json").read_text())
PARTS = json.loads((DATA / "samples_lists_aborts_block128.json").read_text())
EVICTION = json.loads((DATA / "eviction_block32_blocks100.json").read_text())
_seeds = itertools.count()


@pytest.fixture(scope="module")
def server() -> Any:
    from pytest_kvcache.simulate.process import SimProcess

    arguments = ("--model=tiny", "--block-size=128", "--max-model-len=8192", "--prefill-rate=1e9", "--decode-time=0")
    with SimProcess(*arguments) as process:
        yield Wire(process.url)


@pytest.fixture(scope="module")
def slow_server() -> Any:
    """Prefill takes its time, so that requests of one burst are in flight together."""
    from pytest_kvcache.simulate.process import SimProcess

    arguments = ("--model=tiny", "--block-size=128", "--max-model-len=8192", "--prefill-rate=40000", "--decode-time=0")
    with SimProcess(*arguments) as process:
        yield Wire(process.url)


def fresh(length: int) -> list[int]:
    source = random.Random(next(_seeds))
    return [source.randrange(10, 4000) for _ in range(length)]


def expected(record: dict[str, Any]) -> tuple[Any, ...]:
    moved = {key: value for key, value in record["delta"].items() if key in COUNTERS}
    return record["status"], record["cached_tokens"], record["prompt_tokens"], moved


def send(server: Wire, prompt: Any, max_tokens: int = 1, **more: Any) -> tuple[Any, ...]:
    before = server.counters()
    status, reply = server.complete(prompt, max_tokens, **more)
    usage = reply.get("usage") or {}
    return status, cached(reply), usage.get("prompt_tokens"), server.moved(before)


@pytest.mark.parametrize("row", RECORDED["lengths"], ids=lambda row: f"L={row['L']}")
def test_identical_prompts_of_every_length(server: Wire, row: dict[str, Any]) -> None:
    prompt = fresh(row["L"])
    for record in row["sends"]:
        assert send(server, prompt) == expected(record)


@pytest.mark.parametrize("row", [r for r in RECORDED["shared_prefix"] if "P" in r], ids=lambda row: f"P={row['P']}")
def test_shared_prefixes(server: Wire, row: dict[str, Any]) -> None:
    base = fresh(row["L"])
    send(server, base)
    assert send(server, base[: row["P"]] + fresh(row["L"] - row["P"])) == expected(row)


@pytest.mark.parametrize("row", [r for r in RECORDED["shared_prefix"] if "P" not in r], ids=str)
def test_prompts_that_are_a_prefix_of_an_earlier_one(server: Wire, row: dict[str, Any]) -> None:
    base = fresh(650)
    send(server, base)
    assert send(server, base[: row["strict_prefix_len"]]) == expected(row)


@pytest.mark.parametrize("row", RECORDED["generated"], ids=lambda row: f"L={row['L']} G={row['G']}")
def test_generated_tokens_fill_blocks(server: Wire, row: dict[str, Any]) -> None:
    prompt = fresh(row["L"])
    _, reply = server.complete(prompt, row["G"], ignore_eos=True, return_token_ids=True)
    said = reply["choices"][0]["token_ids"]
    assert len(said) == row["n_gen"]
    assert send(server, prompt + said) == expected(row["follow_up_exact"])
    assert send(server, prompt + said + fresh(5)) == expected(row["follow_up_plus5"])


@pytest.mark.parametrize("row", RECORDED["concurrent_identical"], ids=lambda row: f"{row['n']}x{row['L']}")
def test_of_identical_prompts_at_once_only_the_first_misses(slow_server: Wire, row: dict[str, Any]) -> None:
    before = slow_server.counters()
    replies = slow_server.burst([fresh(row["L"])] * row["n"])
    assert sorted(cached(reply) or 0 for reply in replies) == row["cached"]
    assert slow_server.moved(before) == {key: value for key, value in row["delta"].items() if key in COUNTERS}


def test_the_last_generated_tokens_kv_is_never_computed(server: Wire) -> None:
    # asked of a running vLLM 0.32 apart: the block that the one generated token would fill is not there
    prompt = fresh(255)
    _, reply = server.complete(prompt, 1, ignore_eos=True, return_token_ids=True)
    assert send(server, prompt + reply["choices"][0]["token_ids"] + fresh(5))[1] == 128


def test_salts_are_separate_caches(server: Wire) -> None:
    prompt = fresh(600)
    for record in RECORDED["cache_salt"]:
        more = {} if record["salt"] is None else {"cache_salt": record["salt"]}
        assert send(server, prompt, **more) == expected(record)


def test_logprobs_and_what_bypasses_the_cache(server: Wire) -> None:
    first, second = fresh(600), fresh(600)
    for record in RECORDED["logprobs"]:
        assert send(server, second if "note" in record else first, **record["kw"]) == expected(record)


def test_a_list_of_prompts_reports_the_last_ones_cached_tokens(server: Wire) -> None:
    assert send(server, [fresh(600)] * 2) == expected(RECORDED["prompt_list_of_2_identical"])


def test_several_samples_look_up_each(server: Wire) -> None:
    # recorded apart: n=3 at temperature 1 of a fresh prompt of 600: queries 1800, hits 1024, cached_tokens 512
    status, hit, prompt, moved = send(server, fresh(600), n=3, temperature=1.0)
    assert (status, hit, prompt, moved["q"], moved["h"]) == (200, 512, 600, 1800, 1024)
    assert send(server, fresh(600), n=3) == expected(RECORDED["n3"])  # greedy: refused


@pytest.mark.parametrize("row", RECORDED["bad_requests"], ids=lambda row: str(row["status"]) + str(row["body"])[:40])
def test_bad_requests_move_nothing(server: Wire, row: dict[str, Any]) -> None:
    body = dict(row["body"])
    if str(body["prompt"]).endswith(" ids"):
        body["prompt"] = fresh(int(body["prompt"].split()[0]))
    before = server.counters()
    status, reply = server.post("/v1/completions", body)
    assert status == row["status"]
    assert reply["error"]["code"] == row["answer"]["error"]["code"]
    assert server.moved(before) == {}


def test_text_and_ids_share_one_cache(server: Wire) -> None:
    text = " keep the keys and values of a beginning that others share" * 60
    _, told = server.post("/tokenize", {"model": "tiny", "prompt": text})
    ids = told["tokens"]
    hit = (len(ids) - 1) // 128 * 128
    assert send(server, text)[:3] == (200, 0, len(ids))
    assert send(server, ids)[:3] == (200, hit, len(ids))


def test_chat_shares_with_the_same_tokens_as_completion(server: Wire) -> None:
    messages = [{"role": "system", "content": "be kind " * 300}, {"role": "user", "content": "hello"}]
    _, told = server.post("/tokenize", {"model": "tiny", "messages": messages})
    length = told["count"]
    hit = (length - 1) // 128 * 128
    body = {"model": "tiny", "messages": messages, "max_tokens": 4}
    _, first = server.post("/v1/chat/completions", body)
    _, again = server.post("/v1/chat/completions", body)
    told_first, told_again = (reply["usage"]["prompt_tokens_details"] for reply in (first, again))
    assert (told_first["cached_tokens"], told_first["created_cache_tokens"]) == (0, length // 128 * 128)
    assert (told_again["cached_tokens"], told_again["created_cache_tokens"]) == (hit, 0)
    assert send(server, told["tokens"])[1] == hit


def test_reset_is_refused_while_anything_runs(start_sim: Callable[..., str]) -> None:
    import threading

    server = Wire(start_sim("--model=tiny", "--decode-time=0.005"))
    prompt = fresh(600)
    long = threading.Thread(target=server.complete, args=(prompt, 200))
    long.start()
    while server.counters()["q"] < 600:
        pass
    assert server.post("/reset_prefix_cache", {}) == (200, {"success": False})
    long.join()
    assert send(server, prompt)[1] == 592
    assert server.post("/reset_prefix_cache", {}) == (200, {"success": True})
    assert send(server, prompt)[1] == 0


def test_three_samples_of_one_prompt(server: Wire) -> None:
    prompt = fresh(600)
    for record in PARTS["samples_and_lists"][:2]:
        status, hit, length, moved = send(server, prompt, **record["asked"])
        usage = record["usage"]
        assert (status, length) == (record["status"], usage["prompt_tokens"])
        assert hit == usage["prompt_tokens_details"]["cached_tokens"]
        assert moved == record["delta"]


def test_a_list_with_another_prompt_at_its_end(server: Wire) -> None:
    record, prompt = PARTS["samples_and_lists"][2], fresh(600)
    # 2000 tokens in all; whichever comes last has no hit
    status, hit, length, moved = send(server, [prompt, prompt, prompt, fresh(200)])
    assert (status, hit, length) == (record["status"], 0, record["usage"]["prompt_tokens"])
    assert moved == record["delta"]


def test_caching_off(start_sim: Callable[..., str]) -> None:
    recorded = json.loads((DATA / "50_prefix_caching_off.json").read_text())
    server = Wire(start_sim("--model=tiny", "--no-prefix-caching", "--no-dev-mode"))
    prompt = fresh(600)
    for usage, delta in (recorded["first"], recorded["second"]):
        moved = {key: value for key, value in delta.items() if key in COUNTERS}
        assert send(server, prompt) == (200, usage["prompt_tokens_details"]["cached_tokens"], 600, moved)
    assert list(server.post("/reset_prefix_cache", {})) == recorded["reset_without_dev_mode"]
    assert 'enable_prefix_caching="False"' in server.get("/metrics")[1]


def test_eviction(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--model=tiny", "--block-size=32", "--capacity-blocks=100"))
    for row in EVICTION["eviction"]:
        prompt = fresh(600)
        server.complete(prompt)
        for _ in range(row["others"]):
            server.complete(fresh(600))
        assert send(server, prompt)[3] == row["delta"]


def leave(server: Wire, body: dict[str, Any], when: Callable[[http.client.HTTPConnection], object]) -> dict[str, float]:
    """Send a request and close the connection when ``when`` returns; return what was counted."""
    before = server.counters()
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    sent = json.dumps({"model": "tiny", **body})
    connection.request("POST", "/v1/completions", sent, {"Content-Type": "application/json"})
    when(connection)
    if connection.sock is not None:
        connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    server.wait_until(lambda: server.sample("num_requests_running") == 0)
    return server.moved(before)


def test_a_client_that_leaves_while_it_is_answered(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--model=tiny", "--block-size=128", "--decode-time=0.1"))
    prompt = fresh(600)

    def three_chunks(connection: http.client.HTTPConnection) -> None:
        reply = connection.getresponse()
        while (reply.readline().startswith(b"data: ")) and server.counters()["gen"] < 3:
            reply.readline()

    moved = leave(server, {"prompt": prompt, "max_tokens": 1000, "stream": True}, three_chunks)
    recorded = dict(PARTS["aborts"]["stream, closed after 3 chunks"])
    assert recorded.pop("gen") <= moved.pop("gen") < 1000  # when the engine notices is a matter of time
    assert moved == recorded
    assert send(server, prompt)[3] == PARTS["aborts"]["repeat of an aborted prompt"]


def test_a_client_that_leaves_during_prefill(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--model=tiny", "--prefill-rate=10"))  # 400 s, unless the client leaves

    def looked_up(connection: http.client.HTTPConnection) -> None:
        server.wait_until(lambda: server.counters()["q"] == 4000)

    moved = leave(server, {"prompt": fresh(4000), "max_tokens": 1}, looked_up)
    assert moved == PARTS["aborts"]["closed during prefill"]
    assert server.complete(fresh(1))[0] == 200  # and the next prompt does not wait for a prefill that nobody wants
