"""The metrics page in other formats, spellings and places: the same numbers every time."""

from __future__ import annotations

import gzip
import http.client
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from .wire import Wire

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def asked(start_module_sim: Callable[..., str]) -> Wire:
    """An engine that has answered: 33 tokens twice, of which the second time 32 hit."""
    server = Wire(start_module_sim(), model="sim")
    for _ in range(2):
        server.complete(list(range(33)))
    return server


@pytest.fixture
def server(asked: Wire) -> Iterator[Wire]:
    yield asked
    asked.put("/faults", {})


def plant(server: Wire, **faults: Any) -> str:
    """Return the page with these faults."""
    assert server.put("/faults", faults)[0] == 200
    return server.get("/metrics")[1]


def numbers(families: Any) -> Samples:
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def queries(page: str, name: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(f"{name}{{")]


def test_openmetrics_has_the_same_numbers(server: Wire) -> None:
    before = numbers(plain(server.get("/metrics")[1]))
    page = plant(server, metrics_openmetrics=True)
    assert server.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert page.endswith("\n# EOF\n")
    families = list(openmetrics(page))
    assert numbers(families) == before
    kinds = {family.name: family.type for family in families}
    assert kinds["sim:prefix_cache_queries"] == "counter"
    assert kinds["sim:time_to_first_token_seconds"] == "histogram"
    with_exemplar = {s.name for family in families for s in family.samples if s.exemplar is not None}
    assert {"sim:prefix_cache_hits_total", "sim:time_to_first_token_seconds_bucket"} <= with_exemplar


def test_counters_without_total(server: Wire) -> None:
    page = plant(server, names_without_total=True)
    assert queries(page, "sim:prefix_cache_hits") == ['sim:prefix_cache_hits{engine="0",model_name="sim"} 32.0']
    assert "_total" not in page
    assert "# TYPE sim:prefix_cache_hits counter" in page


def test_colons_as_underscores(server: Wire) -> None:
    before = numbers(plain(server.get("/metrics")[1]))
    after = numbers(plain(plant(server, names_underscore=True)))
    assert after == {(name.replace(":", "_"), labels): value for (name, labels), value in before.items()}


@pytest.mark.parametrize("ranks", [1, 4])
def test_counters_of_every_rank(server: Wire, ranks: int) -> None:
    page = plant(server, duplicate_ranks=ranks)
    assert queries(page, "sim:prefix_cache_queries_total") == [
        f'sim:prefix_cache_queries_total{{engine="0",model_name="sim",tp_rank="{rank}"}} 66.0' for rank in range(ranks)
    ]
    assert "tp_rank" not in "".join(queries(page, "sim:num_requests_running"))
    assert queries(page, "sim:num_requests_running")


def test_faults_name_samples_as_on_a_sound_page(server: Wire) -> None:
    page = plant(
        server,
        names_without_total=True,
        names_underscore=True,
        metrics_drop="sim:prefix_cache_hits_total",
        metrics_nan="sim:prefix_cache_queries_total",
    )
    assert not queries(page, "sim_prefix_cache_hits")
    assert [line.split()[-1] for line in queries(page, "sim_prefix_cache_queries")] == ["NaN"]
    cut = plant(server, names_underscore=True, metrics_body="truncated")
    assert cut.splitlines()[-1].startswith("sim_prefix_cache_hits_total{")
    assert not cut.endswith("\n")


def test_a_compressed_page(server: Wire) -> None:
    page = server.get("/metrics")[1]
    server.put("/faults", {"metrics_gzip": True})
    with urllib.request.urlopen(server.url + "/metrics") as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(reply.read()).decode() == page


@pytest.mark.parametrize(("fault", "target"), [(True, "/metrics/"), ("http://127.0.0.1:9/m", "http://127.0.0.1:9/m")])
def test_a_page_that_is_elsewhere(server: Wire, fault: bool | str, target: str) -> None:
    page = server.get("/metrics")[1]
    server.put("/faults", {"metrics_redirect": fault})
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    connection.request("GET", "/metrics")
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Location"]) == (307, target)
    connection.close()
    assert server.get("/metrics/") == (200, page)


def test_a_redirect_as_an_option(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--fault=metrics_redirect", "--fault=version=9"), model="sim")
    assert server.get("/metrics")[0] == 200  # followed
    assert json.loads(server.get("/version")[1])["version"] == "9"
