"""The simulated engine as a server: shapes of its answers, capacity, time, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_kvcache.errors import EndpointError
from pytest_kvcache.simulate.process import SimProcess

from .wire import Wire, cached

Start = Callable[..., str]


def stream(server: Wire, path: str, **body: Any) -> list[Any]:
    request = urllib.request.Request(
        server.url + path,
        json.dumps({"model": "sim", "stream": True, **body}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        events = [e.removeprefix("data: ") for e in reply.read().decode().split("\n\n") if e]
    return [event if event == "[DONE]" else json.loads(event) for event in events]


def test_completion_stream_has_the_recorded_shape(sim: str) -> None:
    events = stream(
        Wire(sim), "/v1/completions", prompt=[1, 2, 3], max_tokens=4, stream_options={"include_usage": True}
    )
    assert [len(e["choices"]) for e in events[:-1]] == [1, 1, 1, 1, 0]
    assert [e["choices"][0]["finish_reason"] for e in events[:4]] == [None, None, None, "length"]
    assert events[4]["usage"] == {
        "prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip
    assert events[-1] == "[DONE]"


def test_chat_stream_begins_with_a_role_that_is_no_token(sim: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    events = stream(Wire(sim), "/v1/chat/completions", messages=messages, max_tokens=2)
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(e["choices"][0]["delta"]["content"] for e in events[1:3])
    assert len(events) == 4


def test_usage_in_every_chunk_has_details_only_in_the_last(sim: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = stream(Wire(sim), "/v1/completions", prompt="x", max_tokens=2, stream_options=options)
    assert ["prompt_tokens_details" in e["usage"] for e in events[:-1]] == [False, False, True]


def test_the_same_prompt_gives_the_same_answer_and_tools_count(sim: str) -> None:
    server = Wire(sim, model="sim")
    assert server.complete([5, 6, 7], 9)[1]["choices"] == server.complete([5, 6, 7], 9)[1]["choices"]
    messages = [{"role": "user", "content": "hi"}]
    plain = server.post("/tokenize", {"messages": messages})[1]["count"]
    tools = server.post("/tokenize", {"messages": messages, "tools": [{"type": "function"}]})[1]["count"]
    assert tools > plain


def test_tokenize_and_detokenize_are_inverse(sim: str) -> None:
    text = "any text: ünïcode, \x00 and\nlines"
    server = Wire(sim)
    ids = server.post("/tokenize", {"prompt": text})[1]["tokens"]
    assert server.post("/detokenize", {"tokens": ids})[1]["prompt"] == text


def test_least_recently_used_leaves_go_first(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--capacity-blocks=12"), model="sim")

    def ask(start: int) -> int | None:
        return cached(server.complete(list(range(start, start + 41)))[1])

    assert [ask(0), ask(1000), ask(2000)] == [0, 0, 0]  # twelve blocks: full
    assert ask(0) == 40  # touched again
    assert ask(3000) == 0  # takes the four oldest blocks: those of 1000
    assert ask(0) == 40
    assert ask(2000) == 40
    assert ask(1000) == 0


def test_a_prompt_larger_than_the_cache_keeps_its_head(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--capacity-blocks=3"), model="sim")
    ids = list(range(100))
    server.complete(ids)
    assert cached(server.complete(ids)[1]) == 30


def test_page_is_what_prometheus_expects(sim: str) -> None:
    with urllib.request.urlopen(sim + "/metrics") as reply:
        families = list(text_string_to_metric_families(reply.read().decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    config = next(f for f in families if f.name == "sim:cache_config_info").samples[0]
    assert (config.labels["block_size"], config.labels["enable_prefix_caching"]) == ("16", "True")


def test_time_to_first_token_falls_with_the_cached_part(start_sim: Start) -> None:
    server = Wire(start_sim("--prefill-rate=20000"), model="sim")

    def ttft() -> float:
        with urllib.request.urlopen(server.url + "/metrics") as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("sim:time_to_first_token_seconds_sum"))

    server.complete(list(range(4000)))
    cold = ttft()
    server.complete(list(range(4000)))
    assert cold >= 0.2  # 4,000 tokens at 20,000 a second
    assert ttft() - cold < cold / 2


def test_a_client_that_leaves_during_prefill_is_counted_as_vllm_counts_it(start_sim: Start) -> None:
    import http.client
    import time

    server = Wire(start_sim("--prefill-rate=1000"), model="sim")
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    body = json.dumps({"model": "sim", "prompt": list(range(5000)), "max_tokens": 1})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    deadline = time.monotonic() + 10
    while server.counters()["q"] < 5000 and time.monotonic() < deadline:
        pass
    connection.close()
    while "sim:num_requests_running" and running(server) and time.monotonic() < deadline:
        pass
    counters = server.counters()
    assert (counters["q"], counters["pt"], counters["ok_len"]) == (5000, 0, 0)


def running(server: Wire) -> float:
    with urllib.request.urlopen(server.url + "/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sim:num_requests_running{"))


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"prompt": 7}', b'{"prompt": [], "model": "sim"}', b'{"prompt": "x", "n": 0}']
)
def test_bad_bodies_are_400_with_a_message(sim: str, body: bytes) -> None:
    request = urllib.request.Request(sim + "/v1/completions", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.request.HTTPError) as caught:  # type: ignore[attr-defined] # re-exported by urllib.request
        urllib.request.urlopen(request)
    assert caught.value.code == 400
    assert json.loads(caught.value.read())["error"]["message"]


def test_help_and_wrong_options() -> None:
    command = [sys.executable, "-m", "pytest_kvcache.simulate"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "--block-size" in shown
    assert "metrics_status" in shown
    wrong = subprocess.run([*command, "--fault=nope"], capture_output=True, text=True, timeout=60, check=False)
    assert wrong.returncode == 2
    assert "fault 'nope'" in wrong.stderr


def test_a_port_in_use_is_one_clear_line(sim: str) -> None:
    port = sim.rpartition(":")[2]
    with pytest.raises(EndpointError, match=f"cannot listen on 127.0.0.1:{port}"):
        SimProcess("--port", port).start()


def test_faults_can_be_changed_while_it_runs(start_sim: Start) -> None:
    server = Wire(start_sim(), model="sim")

    def put(faults: dict[str, Any]) -> None:
        request = urllib.request.Request(server.url + "/faults", json.dumps(faults).encode(), method="PUT")
        urllib.request.urlopen(request).close()

    put({"status": 429})
    assert server.complete([1])[0] == 429
    put({})
    assert server.complete([1])[0] == 200
