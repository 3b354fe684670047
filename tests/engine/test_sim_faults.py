"""Faults on demand: each does what its line in ``faults.py`` says, and nothing once it is taken back."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .wire import Wire, cached

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(scope="module")
def shared(start_module_sim: Callable[..., str]) -> Wire:
    return Wire(start_module_sim(), model="sim")


@pytest.fixture
def server(shared: Wire) -> Iterator[Wire]:
    """One engine for all tests here; every test ends without faults."""
    yield shared
    assert shared.put("/faults", {})[0] == 200
    shared.post("/restart", {})


def plant(server: Wire, **faults: Any) -> None:
    status, now = server.put("/faults", faults)
    assert status == 200
    assert {name: now[name] for name in faults} == faults


def pieces(server: Wire, max_tokens: int = 4, **more: Any) -> list[str]:
    """The data of a stream's events, as far as they came."""
    text = server.stream("/v1/completions", prompt=[1, 2, 3], max_tokens=max_tokens, **more)
    return [piece.removeprefix("data: ") for piece in text.split("\n\n") if piece]


def test_every_nth_request_is_refused(server: Wire) -> None:
    plant(server, status=429, retry_after=2.5, every=3)
    assert [server.complete([1])[0] for _ in range(6)] == [200, 200, 429, 200, 200, 429]
    status, headers = server.raw("/v1/completions", {"prompt": [1]}), server.headers
    assert (status, headers.get("Retry-After")) == (200, None)
    plant(server, status=503, retry_after=2.5)
    assert server.raw("/v1/completions", {"prompt": [1]}) == 503
    assert server.headers["Retry-After"] == "2.5"


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_cut_stream_ends_after_so_many_chunks(server: Wire, cut: int) -> None:
    plant(server, cut_stream=cut)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)) as caught:
        pieces(server)
    got = getattr(caught.value, "partial", b"").decode()
    assert got.count("data: ") <= cut
    assert '"finish_reason":"length"' not in got
    plant(server)
    assert len(pieces(server)) == 5


def test_an_error_inside_a_stream(server: Wire) -> None:
    plant(server, error_in_stream=True)
    (only,) = pieces(server)
    assert "message" in json.loads(only)["error"]


def test_streams_without_done_and_with_usage_everywhere(server: Wire) -> None:
    plant(server, no_done=True, usage_every_chunk=True)
    seen = [json.loads(piece) for piece in pieces(server, stream_options={"include_usage": True})]
    assert [event["usage"]["completion_tokens"] for event in seen] == [1, 2, 3, 4, 4]
    assert ["prompt_tokens_details" in event["usage"] for event in seen] == [False] * 4 + [True]


def test_cached_tokens_absent(server: Wire) -> None:
    plant(server, no_cached_tokens=True)
    assert cached(server.complete([1, 2])[1]) is None
    plant(server)
    assert cached(server.complete([1, 2])[1]) == 0


def test_traffic_of_others_is_in_the_counters_and_in_no_usage(server: Wire) -> None:
    plant(server, foreign=1000)
    before = server.counters()
    assert server.complete([1, 2, 3])[1]["usage"]["prompt_tokens"] == 3
    assert server.moved(before)["q"] == 1003


def test_requests_of_others_are_counted_in_full(server: Wire) -> None:
    plant(server, foreign_tokens=1000, foreign_hit_tokens=800)
    before = server.counters()
    assert cached(server.complete([1, 2, 3])[1]) == 0
    moved = {key: value for key, value in server.moved(before).items() if key in ("q", "h", "pt", "ptc", "src_compute")}
    assert moved == {"q": 1003, "h": 800, "pt": 1003, "ptc": 800, "src_compute": 203}


def test_look_ups_that_are_counted_again(server: Wire) -> None:
    prompt = list(range(33))
    server.complete(prompt)
    plant(server, retry_lookups=5)
    before = server.counters()
    assert cached(server.complete(prompt)[1]) == 32
    moved = server.moved(before)
    assert (moved.pop("q"), moved.pop("h")) == (165, 160)
    assert [moved[key] for key in ("pt", "ptc", "src_hit", "src_compute", "dev", "kvc_sum")] == [33, 32, 32, 1, 32, 1]


def test_preemptions(server: Wire) -> None:
    plant(server, preemptions=3)
    before = server.counters()
    server.complete([[1, 2], [3, 4]])
    assert server.sample("num_preemptions_total") == 6
    assert server.moved(before)["q"] == 4


def test_the_engines_own_probe_at_each_scrape(server: Wire) -> None:
    before = server.counters()
    plant(server, health_probe_tokens=1)
    assert [server.moved(before) for _ in range(3)] == [
        {"q": n, "pt": n, "src_compute": n} for n in (1, 2, 3)
    ]  # fmt: skip


def test_a_prefix_is_readable_only_after_a_while(server: Wire) -> None:
    prompt = list(range(33))
    plant(server, readable_after=3600)
    assert [cached(server.complete(prompt)[1]) for _ in range(2)] == [0, 0]
    assert server.sample("prefix_cache_hits_total") == 0
    plant(server, readable_after=0.2)
    other = list(range(100, 133))
    server.complete(other)
    server.wait_until(lambda: cached(server.complete(other)[1]) == 32)  # asking again does not put it off
    assert cached(server.complete([*other[:16], *range(300, 317)])[1]) == 16


def test_what_was_cached_before_stays_readable(server: Wire) -> None:
    prompt = list(range(33))
    server.complete(prompt)
    plant(server, readable_after=3600)
    longer = [*prompt[:32], *range(300, 332), 1]
    assert [cached(server.complete(longer)[1]) for _ in range(2)] == [32, 32]
    plant(server)
    assert cached(server.complete(longer)[1]) == 64


def test_counters_that_begin_again_over_a_warm_cache(server: Wire) -> None:
    prompt = list(range(33))
    begun = server.sample("prefix_cache_queries_created")
    plant(server, counters_reset_once=2)
    assert [cached(server.complete(prompt)[1]) for _ in range(4)] == [0, 32, 32, 32]
    assert (server.counters()["q"], server.counters()["h"]) == (66, 64)
    assert server.sample("prefix_cache_queries_created") == begun


def usage(server: Wire, length: int = 33, **more: Any) -> dict[str, Any]:
    return server.complete(list(range(length)), **more)[1]["usage"]


def test_zeros_that_are_left_out(server: Wire) -> None:
    plant(server, usage_drop_zero=True)
    assert [usage(server)["prompt_tokens_details"] is None for _ in range(2)] == [True, False]
    last = json.loads(pieces(server, stream_options={"include_usage": True})[-2])
    assert set(last["usage"]) == {"prompt_tokens", "total_tokens", "completion_tokens"}


def test_every_nth_answer_without_usage(server: Wire) -> None:
    plant(server, usage_off=2)
    assert [usage(server) is None for _ in range(4)] == [False, True, False, True]
    asked = {"include_usage": True, "continuous_usage_stats": True}
    told = [[piece for piece in pieces(server, stream_options=asked) if '"usage":{' in piece] for _ in range(2)]
    assert [len(of_one) for of_one in told] == [5, 0]


def test_prompts_that_are_told_as_cached_entirely(server: Wire) -> None:
    plant(server, usage_all_cached=True)
    before = server.counters()
    told = usage(server)
    assert (told["prompt_tokens"], told["prompt_tokens_details"]["cached_tokens"]) == (33, 33)
    assert "h" not in server.moved(before)


def test_prompt_tokens_without_the_cached_ones(server: Wire) -> None:
    plant(server, usage_uncached_prompt=True)
    told = [usage(server, max_tokens=2) for _ in range(2)]
    assert [(one["prompt_tokens"], one["total_tokens"]) for one in told] == [(33, 35), (1, 3)]
    assert [one["prompt_tokens_details"]["cached_tokens"] for one in told] == [0, 32]


def test_another_version(server: Wire) -> None:
    plant(server, version="0.26.0")
    assert json.loads(server.get("/version")[1]) == {"version": "0.26.0"}


def test_counters_that_come_late(server: Wire) -> None:
    server.complete([1, 2, 3])
    plant(server, late_counters=3600)
    before = server.counters()
    assert before["q"] == 3
    server.complete([4, 5, 6])
    assert server.moved(before) == {}
    plant(server, late_counters=0.001)
    server.complete([7, 8, 9])
    server.wait_until(lambda: server.counters()["q"] == 9)


def test_a_restart_in_the_middle(server: Wire) -> None:
    prompt = list(range(33))
    plant(server, restart_after=2)
    assert [cached(server.complete(prompt)[1]) for _ in range(4)] == [0, 32, 0, 32]
    assert server.counters()["q"] == 66


def test_stuck_running(server: Wire) -> None:
    plant(server, stuck_running=True)
    assert server.sample("num_requests_running") == 1
    plant(server)
    assert server.sample("num_requests_running") == 0


@pytest.mark.parametrize("status", [401, 404, 500])
def test_metrics_page_with_a_status(server: Wire, status: int) -> None:
    plant(server, metrics_status=status)
    assert server.get("/metrics")[0] == status


def test_metrics_page_damaged(server: Wire) -> None:
    plant(server, metrics_body="html")
    assert "<html>" in server.get("/metrics")[1]
    assert server.headers["Content-Type"].startswith("text/html")
    plant(server, metrics_body="empty")
    assert server.get("/metrics") == (200, "")
    plant(server, metrics_body="truncated")
    assert server.get("/metrics")[1].splitlines()[-1].startswith("sim:prefix_cache_hits_total{")
    assert not server.get("/metrics")[1].endswith("\n")


def test_samples_that_are_gone_or_no_number(server: Wire) -> None:
    plant(server, metrics_drop="sim:prefix_cache_hits_total", metrics_nan="sim:prefix_cache_queries_total")
    page = server.get("/metrics")[1]
    assert "sim:prefix_cache_hits_total{" not in page
    assert [line.split()[-1] for line in page.splitlines() if line.startswith("sim:prefix_cache_queries_total{")] == [
        "NaN"
    ]


def test_tokens_counted_by_another_tokenizer(server: Wire) -> None:
    plant(server, tokens_off=5)
    assert server.complete([1, 2, 3])[1]["usage"]["prompt_tokens"] == 8


@pytest.mark.parametrize(
    "wrong", [{"nope": 1}, {"every": 0}, {"metrics_body": "odd"}, {"late_counters": -1}, {"retry_lookups": 0}]
)
def test_a_wrong_fault_is_a_400_that_names_it_and_changes_nothing(server: Wire, wrong: dict[str, Any]) -> None:
    plant(server, status=418)
    status, reply = server.put("/faults", wrong)
    assert status == 400
    assert next(iter(wrong)) in reply["error"]["message"]
    assert server.complete([1])[0] == 418


LONG = list(range(100, 165))


def test_salts_that_separate_nothing(server: Wire) -> None:
    server.complete(LONG, cache_salt="a")
    assert cached(server.complete(LONG, cache_salt="b")[1]) == 0
    plant(server, isolation_leak=True)
    assert cached(server.complete(LONG, cache_salt="c")[1]) == 0  # what was cached under a salt stays there
    assert cached(server.complete(LONG, cache_salt="d")[1]) == 64
    assert cached(server.complete(LONG)[1]) == 64


def test_wrong_kv_shows_in_warm_answers_only(server: Wire) -> None:
    plant(server, wrong_kv=True)
    cold, warm, again = (server.complete(LONG, max_tokens=8, logprobs=1)[1]["choices"][0] for _ in range(3))
    assert cold["text"] != warm["text"] == again["text"]
    assert cold["logprobs"]["token_logprobs"] != warm["logprobs"]["token_logprobs"]
    plant(server)
    assert server.complete(LONG, max_tokens=8)[1]["choices"][0]["text"] == cold["text"]


def test_warm_logprobs_off(server: Wire) -> None:
    plant(server, warm_logprobs_off=0.5)
    cold, warm = (server.complete(LONG, max_tokens=2, logprobs=1)[1]["choices"][0] for _ in range(2))
    assert cold["text"] == warm["text"]
    numbers = zip(cold["logprobs"]["token_logprobs"], warm["logprobs"]["token_logprobs"], strict=True)
    assert [b - a for a, b in numbers] == pytest.approx([0.5, 0.5])


def test_what_is_refused(server: Wire) -> None:
    plant(server, no_logprobs=True, salt_required=True)
    assert server.complete(LONG, cache_salt="a")[0] == 200
    assert server.complete(LONG)[0] == 400
    assert server.complete(LONG, cache_salt="a", logprobs=1)[0] == 400
