"""The simulated engine as a process: how it starts, what it refuses, and that it always ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_kvcache
from pytest_kvcache.errors import EndpointError
from pytest_kvcache.simulate.process import SimProcess

from .wire import Wire

COMMAND = [sys.executable, "-m", "pytest_kvcache.simulate"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(pytest_kvcache.__file__).parents[1])}


def launch(*arguments: str, stdin: int = subprocess.PIPE) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("listening on http://127.0.0.1:"), first
    return process, first.removeprefix("listening on ").strip()


def refused(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without asking it")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [(), ("--exit-with-parent",)], ids=["alone", "with parent"])
def test_a_signal_ends_it_in_silence(number: signal.Signals, options: tuple[str, ...]) -> None:
    process, url = launch(*options)
    process.send_signal(number)
    process.wait(30)  # with its standard input still open
    said, complained = process.communicate()
    assert (process.returncode, said, complained) == (0, "", "")
    assert refused(url)


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without asking it")
def test_a_signal_ends_it_in_the_middle_of_an_answer() -> None:
    process, url = launch("--decode-time=3600", "--exit-with-parent")
    server = Wire(url, model="sim")
    ended: list[Any] = []

    def ask() -> None:
        try:
            ended.append(server.stream("/v1/completions", prompt="x", max_tokens=2))
        except Exception as error:
            ended.append(error)

    client = threading.Thread(target=ask)
    client.start()
    watch = Wire(url)
    watch.wait_until(lambda: watch.sample("generation_tokens_total") == 1)
    process.send_signal(signal.SIGTERM)
    _, complained = process.communicate(timeout=30)
    client.join(30)
    assert (process.returncode, complained) == (0, "")
    assert isinstance(ended[0], Exception)


def test_the_end_of_standard_input_ends_it() -> None:
    process, url = launch("--exit-with-parent")
    assert Wire(url).get("/health")[0] == 200
    _, complained = process.communicate(timeout=30)  # closes it
    assert (process.returncode, complained) == (0, "")
    assert refused(url)


def test_without_the_option_standard_input_does_not_matter() -> None:
    process, url = launch(stdin=subprocess.DEVNULL)
    try:
        assert Wire(url).get("/health")[0] == 200
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_sim_process_starts_again_and_leaves_nothing() -> None:
    with SimProcess() as process:
        url = process.url
        assert Wire(url).get("/health")[0] == 200
    assert refused(url)
    assert process.pid is None
    process.stop()  # harmless


def test_a_start_that_fails_tells_why() -> None:
    process = SimProcess("--block-size=0")
    with pytest.raises(EndpointError, match="argument --block-size: 0 is not at least 1"):
        process.start()
    assert process.pid is None


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--prefill-rate=0", "0 is not above 0"),
        ("--prefill-rate=nan", "nan is not above 0"),
        ("--decode-time=-1", "-1 is not a time in seconds"),
        ("--engines=0", "0 is not at least 1"),
        ("--routing=random", "invalid choice: 'random'"),
        ("--external-blocks=-1", "-1 is not at least 0"),
        ("--fault=every=0", "fault 'every'"),
        ("--api-key-env=NOT_SET_ANYWHERE", "the variable NOT_SET_ANYWHERE is not set or empty"),
    ],
)
def test_options_that_make_no_sense(option: str, message: str) -> None:
    done = subprocess.run([*COMMAND, option], capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)
    assert done.returncode == 2
    assert message in done.stderr


def test_an_api_key_guards_every_route(start_sim: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "right")
    url = start_sim("--api-key-env=SERVER_KEY")
    for key in (None, "wrong"):
        server = Wire(url, model="sim", key=key)
        assert [server.get(path)[0] for path in ("/health", "/v1/models", "/metrics")] == [401] * 3
        assert server.complete([1])[0] == 401
    assert Wire(url, model="sim", key="right").complete([1])[0] == 200


def test_it_can_pose_as_another_engine(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--metric-prefix=vllm:", '--model=a"b\\c'), prefix="vllm:", model='a"b\\c')
    server.complete([1, 2, 3])
    assert server.counters()["q"] == 3
    assert "sim:" not in server.get("/metrics")[1]
    assert 'model_name="a\\"b\\\\c"' in server.get("/metrics")[1]


def test_two_processes_give_the_same_answer(sim: str, start_sim: Callable[..., str]) -> None:
    first, second = (Wire(url, model="sim").complete([5, 6, 7], 20)[1]["choices"] for url in (sim, start_sim()))
    assert first == second
    assert len(first[0]["text"].split()) == 20


def test_requests_beyond_the_slots_wait(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--batch-slots=2", "--decode-time=0.01"), model="sim")
    clients = [threading.Thread(target=Wire(server.url, model="sim").complete, args=([n], 100)) for n in range(5)]
    for client in clients:
        client.start()
    server.wait_until(lambda: (server.sample("num_requests_running"), server.sample("num_requests_waiting")) == (2, 3))
    assert server.counters()["q"] == 2  # a request that waits has not been looked up
    for client in clients:
        client.join()
    assert (server.counters()["q"], server.counters()["ok_len"]) == (5, 5)
    assert server.sample("kv_cache_usage_perc") == 0
