"""Counters out of a Prometheus server: recorded answers of Prometheus 2.42, and a brute-force reading."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.errors import CounterReset, EndpointError, ProtocolError
from pytest_kvcache.scrape import delta, prometheus

from .played import (
    ENGINES,
    FIRST,
    HITS,
    NOW,
    PROMPTS,
    SECOND,
    URL,
    Played,
    Values,
    at,
    engine,
    every,
    matrix,
    metric,
    playing,
    read,
    recorded,
)

# --- recorded --------------------------------------------------------------------------------------------------------


def test_the_newest_scrape_of_every_target() -> None:
    snapshot = read(Played(), PROMPTS, HITS)
    labels = {"engine": "0", "job": "engine", "model_name": "sim"}
    first, second = (tuple(sorted({**labels, "instance": instance}.items())) for instance in (FIRST, SECOND))
    assert snapshot.samples == {
        (PROMPTS, first): 200.0, (PROMPTS, second): 100.0, (HITS, first): 96.0, (HITS, second): 0.0
    }  # fmt: skip
    assert snapshot.taken == 1795975785.747  # the older of the two
    assert snapshot.origin == "Prometheus at http://127.0.0.1:9090"
    assert snapshot.kinds == {}


def test_buckets_come_with_their_bounds() -> None:
    snapshot = read(Played(), "sim:request_prompt_tokens_bucket")
    found = {
        dict(labels)["le"]: value
        for (_, labels), value in snapshot.samples.items()
        if dict(labels)["instance"] == FIRST
    }
    assert len(found) == 11
    assert (found["64.0"], found["256.0"], found["+Inf"]) == (0, 2, 2)  # two prompts of 100 tokens


def test_what_is_asked() -> None:
    client = Played()
    read(client, PROMPTS)
    time_, alive_, samples = client.queries()
    assert (time_, alive_) == ("time()", 'timestamp({__name__=~"up",job="engine"})')
    spelled, reach = re.fullmatch(r'\{__name__=~"(.*)",job="engine"\}\[(\d+)ms\]', samples).groups()  # type: ignore[union-attr]
    assert set(spelled.split("|")) == {
        *("up", "sim:prompt_tokens_total", "sim:prompt_tokens", "sim_prompt_tokens_total", "sim_prompt_tokens"),
        *("ray_sim_prompt_tokens_total", "ray_sim_prompt_tokens"),
    }
    assert int(reach) == 1708  # from the older scrape, 0.708 s ago, and a second
    assert [parse_qs(urlsplit(url).query).get("time") for url in client.urls] == [None, [str(NOW)], [str(NOW)]]


def test_many_names_are_asked_for_in_urls_that_proxies_take() -> None:
    nobody = recorded("history.json")  # `up` alone
    client = Played(samples=lambda query: recorded("samples.json") if PROMPTS in query else nobody)
    names = [f"vllm:a_rather_long_name_of_a_sample_{number}_total" for number in range(100)]
    assert read(client, *names, PROMPTS).has(PROMPTS)
    samples = client.queries()[2:]
    assert len(samples) > 3
    assert max(map(len, client.urls)) < 6200
    asked = [set(re.search(r'"(.*?)"', query)[1].split("|")) for query in samples]  # type: ignore[index]
    assert all("up" in names for names in asked)
    assert set(names) < set().union(*asked)


def test_a_path_and_a_query_of_the_url_are_kept_and_user_info_is_not_shown() -> None:
    client = Played()
    source = MetricsSource("http://user:secret@127.0.0.1:9090/a/b/?tenant=x", kind="prometheus", match='job="engine"')
    snapshot = read(client, PROMPTS, source=source)
    assert all(url.startswith("http://user:secret@127.0.0.1:9090/a/b/api/v1/query?tenant=x&") for url in client.urls)
    assert snapshot.origin == "Prometheus at http://127.0.0.1:9090/a/b/?tenant=x"


def test_the_time_of_the_server() -> None:
    assert asyncio.run(prometheus.now(Played(), ENGINES)) == NOW


def test_a_prefix_that_the_server_renamed() -> None:
    source = MetricsSource(URL, kind="prometheus", match='job="engine"', renamed=("vllm:", "sim:"))
    snapshot = read(Played(), "vllm:prompt_tokens_total", source=source)
    assert sum(snapshot.series("vllm:prompt_tokens_total").values()) == 300


# --- which samples count ---------------------------------------------------------------------------------------------


def test_a_series_that_the_newest_scrape_did_not_bring_is_gone() -> None:
    ups = {engine("up"): [(1.0, 1), (2.0, 1)]}
    before = read(playing({engine("up"): [(1.0, 1)], engine(PROMPTS): [(1.0, 7)]}, time=at(3)), PROMPTS)
    after = read(playing({**ups, engine(PROMPTS): [(1.0, 7)], engine(HITS): [(2.0, 1)]}, time=at(3)), PROMPTS, HITS)
    assert not after.has(PROMPTS)
    assert after.has(HITS)
    with pytest.raises(CounterReset, match=r'instance="a".* is gone'):
        delta(before, after, PROMPTS)


def test_answers_that_show_different_scrapes_are_read_at_the_one_they_share() -> None:
    older = {engine("up"): [(1.0, 1)], engine(PROMPTS): [(1.0, 10)]}
    newer = {engine("up"): [(1.0, 1), (2.0, 1)], engine(HITS): [(1.0, 5), (2.0, 6)]}

    def late(query: str) -> str:  # the second scrape has come in when the second query is asked
        return matrix(older if PROMPTS in query else newer)

    filler = [f"vllm:a_rather_long_name_of_a_sample_{number}_total" for number in range(30)]
    client = playing(older, samples=late, time=at(3))
    snapshot = read(client, HITS, PROMPTS, *filler)
    assert len(client.queries()) > 3
    assert snapshot.taken == 1.0
    assert sorted(snapshot.samples.values()) == [5, 10]


def test_an_exact_spelling_wins_in_its_own_target_only() -> None:
    values: Values = {
        engine("up"): [(1.0, 1)], engine(PROMPTS): [(1.0, 1)], engine("ray_sim_prompt_tokens"): [(1.0, 2)],
        engine("up", "b"): [(1.0, 1)], engine("ray_sim_prompt_tokens", "b"): [(1.0, 4)],
    }  # fmt: skip
    assert sorted(read(playing(values, time=at(2)), PROMPTS).series(PROMPTS).values()) == [1, 4]
    values = {engine("up"): [(1.0, 1)], engine("sim_prompt_tokens"): [(1.0, 1)],
              engine("ray_sim_prompt_tokens"): [(1.0, 2)]}  # fmt: skip
    with pytest.raises(ProtocolError, match="the same series stands twice"):
        read(playing(values, time=at(2)), PROMPTS)


def test_no_number_is_no_error_here() -> None:
    values: Values = {engine("up"): [(1.0, 1)], engine(PROMPTS): [(1.0, float("nan"))], engine(HITS): [(1.0, 1)]}
    odd = matrix(values).replace('"nan"', '"NaN"').replace('"1"]]}]}}', '"+Inf"]]}]}}')
    snapshot = read(playing(values, samples=odd, time=at(2)), PROMPTS, HITS)
    assert sorted(map(str, snapshot.samples.values())) == ["inf", "nan"]


def test_without_matchers_targets_without_the_samples_do_not_count() -> None:
    everything = MetricsSource(URL, kind="prometheus")
    values: Values = {
        engine("up"): [(4.0, 1)], engine(PROMPTS): [(4.0, 1)],
        ("up", "job", "node", "instance", "n"): [(2.0, 0)],
    }  # fmt: skip
    client = playing(values, time=at(5))
    assert read(client, PROMPTS, source=everything).taken == 4.0
    assert client.queries()[1] == 'timestamp({__name__=~"up"})'
    with pytest.raises(EndpointError, match=r'could not scrape instance="n",job="node"'):
        read(client, "sim:of_nobody", source=everything)
    with pytest.raises(EndpointError, match=r'could not scrape instance="n",job="node"'):
        read(client, PROMPTS, source=MetricsSource(URL, kind="prometheus", match='job=~".+"'))


def test_a_series_belongs_to_the_target_whose_labels_it_carries() -> None:
    values: Values = {
        engine("up", "a"): [(1.0, 1)], engine("up", "a", "pod", "p"): [(2.0, 1)],
        engine(PROMPTS, "a", "engine", "0"): [(1.0, 5)], engine(PROMPTS, "a", "pod", "p"): [(1.0, 6), (2.0, 7)],
    }  # fmt: skip
    snapshot = read(playing(values, time=at(3)), PROMPTS)
    assert sorted(snapshot.series(PROMPTS).values()) == [5, 7]
    assert snapshot.taken == 1.0


@pytest.mark.parametrize(
    ("key", "when", "what"),
    [
        (("job", "its own", "instance", "a"), 1.0, "the labels of no target"),
        (("job", "engine", "instance", "a"), 0.9, "timestamps of its own"),
    ],
)
def test_a_series_whose_scrape_cannot_be_told(key: tuple[str, ...], when: float, what: str) -> None:
    values: Values = {engine("up"): [(1.0, 1)], (PROMPTS, *key): [(when, 5)]}
    with pytest.raises(EndpointError, match=rf"{what}.*when it was read cannot be told.*with --kv-metrics"):
        read(playing(values, time=at(2)), PROMPTS)


@st.composite
def scraped(draw: st.DrawFn) -> tuple[dict[str, list[float]], Values]:
    """Targets, each with its scrapes, and series that some of the scrapes brought; ``up`` last, as it is stored."""
    starts: dict[str, list[float]] = {}
    values: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for instance in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
        starts[instance] = sorted(draw(st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True)))
        for name in (PROMPTS, HITS):
            for number in range(draw(st.integers(0, 2))):
                there = draw(st.lists(st.sampled_from(starts[instance]), min_size=1, unique=True))
                found = [(float(when), float(draw(st.integers(0, 99)))) for when in sorted(there)]
                values[engine(name, instance, "engine", str(number))] = found
        values[engine("up", instance)] = [(float(when), 1.0) for when in starts[instance]]
    return starts, values


@settings(max_examples=60)
@given(scraped())
def test_the_newest_scrape_and_nothing_else(case: tuple[dict[str, list[float]], Values]) -> None:
    starts, values = case
    snapshot = read(playing(values, time=at(61)), PROMPTS, HITS)
    expected = {}
    for key, found in values.items():
        labels = metric(key)
        name = labels.pop("__name__")
        when, value = found[-1]
        if name != "up" and when == max(starts[labels["instance"]]):
            expected[name, tuple(sorted(labels.items()))] = value
    assert snapshot.samples == expected
    assert snapshot.taken == min(max(times) for times in starts.values())


# --- the interval ----------------------------------------------------------------------------------------------------


def interval(client: Client, source: MetricsSource = ENGINES, *names: str) -> float:
    return asyncio.run(prometheus.check_interval(client, source, names))


def test_the_interval_is_the_spacing_of_scrapes() -> None:
    assert interval(Played()) == pytest.approx(1.0)
    both = {**every(5.0), engine("up", "b"): [(1.0, 1), (16.0, 1), (31.0, 1)]}
    assert interval(playing(both, time=at(31))) == 15.0


def test_one_scrape_missed_or_an_old_interval_does_not_count() -> None:
    times = [1, 61, 121, 136, 151, 181, 196, 211]  # every minute once; now every 15 s, one of them missed
    assert interval(playing({engine("up"): [(float(when), 1) for when in times]}, time=at(212))) == 15.0


@pytest.mark.parametrize(("seconds", "fine"), [(30.0, True), (31.0, False), (60.0, False)])
def test_the_ends_of_a_window_must_be_seen(seconds: float, fine: bool) -> None:
    client = playing(every(seconds), time=at(4 * seconds + 1))
    if fine:
        assert interval(client) == seconds
        return
    with pytest.raises(EndpointError) as caught:
        interval(client)
    assert str(caught.value) == (
        f'Prometheus at http://127.0.0.1:9090 scrapes every {seconds:g} s (instance="a",job="engine"): the ends of a'
        " measured window cannot be seen closely enough; at most 30 s, or name the engine's own page with --kv-metrics"
    )
    assert asyncio.run(prometheus.scrape_interval(client, ENGINES)) == seconds


def test_a_target_scraped_once_has_the_interval_that_is_listed() -> None:
    values: Values = {("up", "job", "minute0", "instance", FIRST): [(1.0, 1)]}
    with pytest.raises(EndpointError, match="scrapes every 60 s"):
        interval(playing(values, time=at(2)))
    with pytest.raises(EndpointError, match=r'has scraped instance="127.0.0.1:8001",job="minute0" once so far'):
        interval(playing(values, time=at(2), targets=(404, "404 page not found")))


def test_without_matchers_only_targets_with_the_samples_have_an_interval() -> None:
    everything = MetricsSource(URL, kind="prometheus")
    node = ("up", "job", "node", "instance", "n")
    values: Values = {**every(10.0), engine(PROMPTS): [(40.0, 1)], node: [(1.0, 1), (61.0, 1)]}
    client = playing(values, time=at(61))
    assert interval(client, everything, PROMPTS) == 10.0
    with pytest.raises(EndpointError, match=r'every 60 s .instance="n",job="node"'):
        interval(client, everything)
