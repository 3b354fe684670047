"""What a Prometheus server cannot say, or says in another shape, is an error that tells what to do."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.errors import EndpointError, ProtocolError
from pytest_kvcache.scrape import fetch

from .played import PROMPTS, URL, Answer, Played, Values, alive, at, engine, every, playing, read, recorded, success


def test_matchers_that_nothing_matches_say_what_is_known() -> None:
    with pytest.raises(EndpointError) as caught:
        read(Played(alive=recorded("nothing.json")), PROMPTS)
    assert str(caught.value) == (
        'Prometheus at http://127.0.0.1:9090 has scraped no target that matches {job="engine"} (matchers select by the'
        ' labels of `up`); it knows instance="127.0.0.1:8001",job="engine" (up);'
        ' instance="127.0.0.1:8001",job="minute0" (unknown); instance="127.0.0.1:8002",job="engine" (up);'
        ' instance="127.0.0.1:9",job="dead" (down)'
    )
    nothing = recorded("nothing.json")
    with pytest.raises(EndpointError, match=r'it knows instance="127.0.0.1:8001",job="engine" \(up\); .*\(down\)$'):
        read(Played(alive=nothing, targets=(404, recorded("no_such_route.txt"))), PROMPTS)
    empty = Played(alive=nothing, up=nothing, targets=(404, ""))
    with pytest.raises(EndpointError, match="has scraped no target so far; it knows no target at all"):
        read(empty, PROMPTS, source=MetricsSource(URL, kind="prometheus"))


def test_a_long_list_of_targets_is_cut() -> None:
    rows = [{"metric": {"job": f"j{number:02}"}, "value": [1, "1"]} for number in range(14)]
    client = Played(alive=recorded("nothing.json"), targets=(404, ""), up=success("vector", rows))
    with pytest.raises(EndpointError, match=r'job="j09" \(up\); 4 more$'):
        read(client, PROMPTS)


def test_a_target_that_is_down() -> None:
    down = recorded("down.json")
    values: Values = {("up", "job", "dead", "instance", "127.0.0.1:9"): [(1795975785.662, 0)]}
    with pytest.raises(
        EndpointError, match=r'could not scrape instance="127.0.0.1:9",job="dead" the last time .*knows'
    ):
        read(Played(alive=alive(values), samples=down), PROMPTS)


def test_a_target_that_came_back_counts_from_its_newest_scrape() -> None:
    values: Values = {engine("up"): [(1.0, 1), (2.0, 0), (3.0, 1)], engine(PROMPTS): [(1.0, 9), (3.0, 1)]}
    assert list(read(playing(values, time=at(4)), PROMPTS).samples.values()) == [1]


def test_a_target_that_is_scraped_no_more() -> None:
    with pytest.raises(
        EndpointError, match=r'has not scraped instance="a",job="engine" for 91 s; expected .*every 30 s'
    ):
        read(playing(every(1.0, 1), time=at(92)), PROMPTS)


def test_an_answer_without_up() -> None:
    with pytest.raises(ProtocolError, match=r'shows no `up` of instance="127.0.0.1:8002",job="engine"'):
        read(Played(samples=recorded("nothing.json").replace("vector", "matrix")), PROMPTS)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            (400, recorded("bad_query.json")),
            EndpointError,
            r'refused a query \(bad_data\): .*unexpected identifier "typo"',
        ),
        ((401, "Unauthorized"), EndpointError, "answered 401: Unauthorized; it wants other credentials"),
        ((404, recorded("no_such_route.txt")), EndpointError, "answered 404: .*is the path of the URL right"),
        ((503, "Service Unavailable"), EndpointError, "answered 503: .*is the server ready"),
        ((502, '{"status": "success"}'), EndpointError, "answered 502"),
        ("<html><title>Sign in</title></html>", ProtocolError, "expected JSON .* an HTML page titled 'Sign in'"),
        ('{"data": 1}', ProtocolError, "expected JSON of Prometheus' HTTP API"),
        ("[]", ProtocolError, "expected JSON of Prometheus' HTTP API"),
        ("", ProtocolError, r"got \(empty body\)"),
        (success("vector", []), ProtocolError, "expected a scalar"),
        ('{"status":"success"}', ProtocolError, "expected a scalar .* 'None'"),
        (success("scalar", [1]), ProtocolError, "not the shape"),
        (success("scalar", [1, "soon"]), ProtocolError, "not the shape .*1: Input should be a valid number"),
        ('{"status":"success","warnings":["a store is away"],"data":{}}', EndpointError, "a store is away"),
    ],
)
def test_answers_that_are_none(answer: Answer, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=f"^Prometheus at {URL}.*{said}"):
        read(Played(time=answer), PROMPTS)


@pytest.mark.parametrize(
    "result", ["x", [{"values": []}], [{"metric": {}, "values": [[1]]}], [{"metric": {}, "values": 1}]]
)
def test_rows_of_another_shape(result: object) -> None:
    with pytest.raises(ProtocolError, match=f"^Prometheus at {URL}: not the shape that Prometheus' HTTP API has"):
        read(Played(samples=success("matrix", result)), PROMPTS)


def test_a_server_that_is_not_there_or_wants_a_password() -> None:
    """Over a socket: what is sent, and that no message shows a password or a query."""
    asked: list[str | None] = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.Response(status=401, text="Unauthorized")

    async def attempt() -> list[str]:
        app = web.Application()
        app.router.add_get("/api/v1/query", refuse)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"127.0.0.1:{runner.addresses[0][1]}"
        source = MetricsSource(f"http://me:secret@{address}", kind="prometheus")
        said = []
        async with Client(Endpoint("http://engine.test", api_key="key-of-the-engine")) as client:
            for _ in range(2):
                with pytest.raises(EndpointError) as caught:
                    await fetch(client, source, [PROMPTS])
                said.append(str(caught.value).replace(address, "HOST"))
                await runner.cleanup()
        return said

    refused, away = asyncio.run(attempt())
    assert asked == ["Basic bWU6c2VjcmV0"]
    assert refused.startswith("Prometheus at http://HOST answered 401: Unauthorized; it wants other credentials")
    assert away.startswith("nobody answers at Prometheus at http://HOST (")
    assert "secret" not in refused + away
