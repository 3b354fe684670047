"""Several engines behind one port: who gets a request, and what the page tells of each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .wire import Wire, cached

Start = Callable[..., str]
DATA = Path(__file__).parent.parent / "data/vllm-0.32.0"
RECORDED = json.loads((DATA / "40_data_parallel_2.json").read_text())


def pinned(server: Wire, rank: str) -> Wire:
    """The same server for a client that asks for one engine."""
    client = Wire(server.url, server.prefix, server.model)
    client.more = {"X-data-parallel-rank": rank}
    return client


def prompt(number: int, length: int = 600) -> list[int]:
    return list(range(number * 10_000, number * 10_000 + length))


def one_prefix(server: Wire) -> None:
    """Sixteen prompts of 1024 shared tokens and 16 of their own, one after another."""
    for number in range(16):
        assert server.complete([*range(1024), *range(5000 + 16 * number, 5016 + 16 * number)])[0] == 200


def test_the_same_prompt_misses_once_on_each_engine_as_recorded(start_sim: Start) -> None:
    server = Wire(start_sim("--model=tiny", "--block-size=32", "--engines=2"))
    for _, hit, _ in RECORDED["same_prompt_six_times_no_pin"]:
        assert cached(server.complete(prompt(0))[1]) == hit
    assert server.by_engine("prefix_cache_queries_total") == {"0": 1800, "1": 1800}
    assert server.by_engine("prefix_cache_hits_total") == {"0": 1152, "1": 1152}


def test_a_client_pins_the_engine_as_recorded(start_sim: Start) -> None:
    server = Wire(start_sim("--model=tiny", "--block-size=32", "--engines=2"))
    for rank, status, hit, delta in RECORDED["x_data_parallel_rank"]:
        before = server.by_engine("prefix_cache_queries_total")
        got, reply = pinned(server, str(rank)).complete(prompt(0))
        assert (got, cached(reply)) == (status, hit)
        after = server.by_engine("prefix_cache_queries_total")
        moved = {engine: after[engine] - before[engine] for engine in after if after[engine] != before[engine]}
        assert moved == {key.split("/")[1]: grown for key, grown in delta.items() if key.startswith("prefix_cache_q")}


@pytest.mark.parametrize("rank", ["-1", "2"])
def test_an_engine_that_is_not_there_is_refused(start_sim: Start, rank: str) -> None:
    server = Wire(start_sim("--engines=2"), model="sim")
    status, reply = pinned(server, rank).complete([1])
    assert (status, reply["error"]["message"]) == (400, f"data_parallel_rank {rank} is out of range [0, 2)")
    assert server.counters()["q"] == 0
    assert pinned(server, "no number").complete([1])[0] == 200


def test_round_robin_computes_a_prefix_once_on_each_engine(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=8"), model="sim")
    one_prefix(server)
    # 16 requests over 8 engines: two each, of which the second hits 1024 of its 1040 tokens
    assert server.by_engine("prefix_cache_queries_total") == {str(n): 2080 for n in range(8)}
    assert server.by_engine("prefix_cache_hits_total") == {str(n): 1024 for n in range(8)}
    assert (server.counters()["h"], server.counters()["q"]) == (8192, 16640)


def test_prefix_routing_computes_a_prefix_once(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=8", "--routing=prefix"), model="sim")
    one_prefix(server)
    assert (server.counters()["h"], server.counters()["q"]) == (15 * 1024, 16640)
    assert server.by_engine("prefix_cache_queries_total") == {"0": 16640, **{str(n): 0 for n in range(1, 8)}}
    for number in range(1, 8):  # new prompts go to the next in turn
        server.complete(prompt(number, 16))
    assert server.by_engine("prefix_cache_queries_total") == {"0": 16640, **{str(n): 16 for n in range(1, 8)}}


def test_prompts_of_one_request_are_spread_too(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=2"), model="sim")
    server.complete([prompt(0)] * 4)
    assert server.by_engine("prefix_cache_hits_total") == {"0": 592, "1": 592}


def test_every_series_names_its_engine_and_none_tells_when_it_began(start_sim: Start, sim: str) -> None:
    def series(url: str) -> list[str]:
        page = Wire(url).get("/metrics")[1]
        return [line.rsplit(" ", 1)[0] for line in page.splitlines() if not line.startswith("#")]

    alone = [line for line in series(sim) if "_created{" not in line and "process_start" not in line]
    expected = {line.replace('engine="0"', f'engine="{n}"') for n in range(3) for line in alone}
    seen = series(start_sim("--engines=3"))
    assert len(seen) == len(set(seen)) == 3 * len(alone)
    assert set(seen) == expected
    assert sum('engine="2"' in line and "cache_config_info" in line for line in seen) == 1


def test_one_reset_clears_all_and_is_refused_while_any_runs(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=2", "--decode-time=0.005"), model="sim")
    for rank in ("0", "1"):
        pinned(server, rank).complete(prompt(0))
    long = threading.Thread(target=pinned(server, "1").complete, args=(prompt(1), 200))
    long.start()
    server.wait_until(lambda: server.by_engine("num_requests_running")["1"] == 1)
    assert server.post("/reset_prefix_cache", {}) == (200, {"success": False})
    long.join()
    assert cached(pinned(server, "0").complete(prompt(0))[1]) == 592  # nothing was cleared anywhere
    assert server.post("/reset_prefix_cache", {}) == (200, {"success": True})
    assert [cached(pinned(server, rank).complete(prompt(0))[1]) for rank in ("0", "1")] == [0, 0]


def test_a_restart_empties_all_and_begins_with_the_first_engine(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=2", "--routing=prefix"), model="sim")
    server.complete(prompt(0))
    server.post("/restart", {})
    assert server.counters()["q"] == 0
    assert cached(server.complete(prompt(1, 32))[1]) == 0
    assert server.by_engine("prefix_cache_queries_total") == {"0": 32, "1": 0}


def test_series_of_one_engine_that_are_gone(start_sim: Start) -> None:
    server = Wire(start_sim("--engines=2", "--fault=dropped_engine=1"), model="sim")
    page: Any = server.get("/metrics")[1]
    assert 'engine="0"' in page
    assert 'engine="1"' not in page
    server.put("/faults", {})
    assert 'engine="1"' in server.get("/metrics")[1]
