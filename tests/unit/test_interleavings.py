"""Whatever happens to the counters meanwhile: a verdict that is given is right, and everything else is inconclusive.

An engine is played token by token. The test knows which query and hit tokens belong to the requests that were answered;
the product sees two pages and the replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines import Reader, shipped
from pytest_kvcache.engines.counters import recounted, tokens_by_engine
from pytest_kvcache.errors import MeasurementError
from pytest_kvcache.judge import judge
from pytest_kvcache.model import Exchange, Expectation, Failure, Finding, Measurement, ServerFacts
from pytest_kvcache.reconcile import corrected, sent
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import Snapshot, spellings

VLLM = shipped().get("vllm")
LLAMA = shipped().get("llamacpp")
FACTS = ServerFacts(engine="vllm", model="m", variant="v", block_size=16, caching=True)


@dataclass
class Counts:
    """What one engine has counted."""

    query: int = 0
    hit: int = 0
    prompt: int = 0
    cached: int = 0
    born: float = 1.0


@dataclass
class Play:
    """Two engines, what happened to them, and what is true of our own requests."""

    engines: list[Counts] = field(default_factory=lambda: [Counts(1000, 400, 1000, 400), Counts(50, 0, 50, 0)])
    exchanges: list[Exchange] = field(default_factory=list)
    query: int = 0
    hit: int = 0
    hidden: list[tuple[int, int, int]] = field(default_factory=list)  # counted too late to be on the page
    lost: set[int] = field(default_factory=set)

    def look_up(self, engine: int, length: int, hit: int, times: int = 1) -> None:
        counts = self.engines[engine]
        counts.query += length * times
        counts.hit += hit * times
        counts.prompt += length
        counts.cached += hit

    def page(self) -> str:
        lines = []
        for number, c in enumerate(self.engines):
            if number in self.lost:
                continue
            late = [entry for entry in self.hidden if entry[0] == number]
            query = c.query - sum(length for _, length, _ in late)
            hit = c.hit - sum(hit for *_, hit in late)
            where = f'{{engine="{number}"}}'
            lines += [
                f"vllm:prefix_cache_queries_total{where} {query}",
                f"vllm:prefix_cache_queries_created{where} {c.born}",
                f"vllm:prefix_cache_hits_total{where} {hit}",
                f"vllm:external_prefix_cache_queries_total{where} 0",
                f"vllm:external_prefix_cache_hits_total{where} 0",
                f"vllm:prompt_tokens_total{where} {c.prompt}",
                f'vllm:prompt_tokens_by_source_total{{engine="{number}",source="local_compute"}} {c.prompt - c.cached}',
                f'vllm:prompt_tokens_by_source_total{{engine="{number}",source="local_cache_hit"}} {c.cached}',
                f'vllm:prompt_tokens_by_source_total{{engine="{number}",source="external_kv_transfer"}} 0',
            ]
        return "\n".join(lines) + "\n"


LENGTH = st.integers(1, 40)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("answered"), st.integers(0, 1), LENGTH, LENGTH, st.just(1)),
        st.tuples(st.just("answered"), st.integers(0, 1), LENGTH, LENGTH, st.integers(1, 3)),
        st.tuples(st.sampled_from(["failed", "refused", "late"]), st.integers(0, 1), LENGTH, LENGTH, st.just(1)),
        st.tuples(st.just("foreign"), st.integers(0, 1), LENGTH, LENGTH, st.just(1)),
        st.tuples(st.sampled_from(["restart", "lost"]), st.integers(0, 1), LENGTH, LENGTH, st.just(1)),
    ),
    max_size=12,
)


def exchange(length: int, cached: int | None, failure: Failure | None = None) -> Exchange:
    told = length if failure is None else None
    return Exchange(
        "load", 0.0, 1.0, sent=0.0, prompt_len=length, prompt_tokens=told, cached_tokens=cached, failure=failure
    )


def happen(play: Play, kind: str, engine: int, length: int, hit: int, times: int) -> None:
    hit = min(hit, length - 1)  # at least one token is computed
    if kind in ("answered", "late"):
        play.look_up(engine, length, hit, times)
        play.query += length
        play.hit += hit
        play.exchanges.append(exchange(length, hit))
        if kind == "late":
            play.hidden.append((engine, length, hit))
    elif kind == "failed":  # it left after it had been looked up
        play.look_up(engine, length, hit)
        play.exchanges.append(exchange(length, None, Failure("timeout", "no answer")))
    elif kind == "refused":
        play.exchanges.append(exchange(length, None, Failure("http", "HTTP 429")))
    elif kind == "foreign":
        play.look_up(engine, length, hit)
    elif kind == "restart":
        play.engines[engine] = Counts(born=play.engines[engine].born + 1)
        play.hidden = [entry for entry in play.hidden if entry[0] != engine]
    else:
        play.lost.add(engine)


def snapshot(text: str) -> Snapshot:
    samples, kinds = parse(text, spellings(VLLM.samples()), "page")
    return Snapshot(0.0, samples, "page", kinds=kinds)


def measured(play: Play, before: str, version: str) -> Measurement:
    """What window.close makes of two pages."""
    reader = Reader(MetricsSource("http://h"), VLLM, VLLM.variant(version, snapshot(before).names()), version)
    expected = sent(play.exchanges)
    engines, findings = {}, []
    text = "up 0\n" if len(play.lost) == len(play.engines) else play.page()
    try:
        after = snapshot(text)
        found = tokens_by_engine(reader, snapshot(before), after)
        engines, finding = corrected(found, recounted(reader, snapshot(before), after), expected)
        findings = [finding] if finding is not None else []
    except MeasurementError as error:
        findings = [Finding(error.code, str(error))]
    return Measurement("t", FACTS, dict(engines), exchanges=tuple(play.exchanges), findings=tuple(findings))


@settings(max_examples=400, derandomize=True)
@given(EVENTS, st.sampled_from(["0.32.0", "0.20.0", "0.10.0"]), st.integers(0, 20))
def test_a_verdict_that_is_given_is_right(
    events: list[tuple[str, int, int, int, int]], version: str, wanted: int
) -> None:
    play = Play()
    before = play.page()
    for event in events:
        happen(play, *event)
    verdict = judge(Expectation(min=wanted / 20, max_failed=99), [measured(play, before, version)])
    if verdict.status == "inconclusive":
        return
    truth = play.hit / play.query
    assert verdict.hit_rate is not None
    low = verdict.hit_rate if verdict.low is None else verdict.low
    high = verdict.hit_rate if verdict.high is None else verdict.high
    assert low - 1e-9 <= truth <= high + 1e-9, verdict.sentence
    assert (verdict.status == "pass") == (truth >= wanted / 20 - 1e-9)


def test_an_undisturbed_window_is_judged() -> None:
    play = Play()
    before = play.page()
    for engine, hit in ((0, 10), (1, 30)):
        happen(play, "answered", engine, 40, hit, 1)
    verdict = judge(Expectation(target=0.5, tol=0.0), [measured(play, before, "0.32.0")])
    assert (verdict.status, verdict.hit_tokens, verdict.query_tokens, verdict.low) == ("pass", 40, 80, None)


@settings(max_examples=300, derandomize=True)
@given(st.integers(0, 9_999_999), st.integers(0, 9_999_999), st.integers(1, 99_999), st.integers(0, 99_999), st.data())
def test_the_interval_of_few_digits_holds_the_truth(
    cached: int, computed: int, more: int, hits: int, data: st.DataObject
) -> None:
    """llama.cpp prints six significant digits; the denominator is the sum of both counters."""
    hits = min(hits, more - 1)
    reader = Reader(MetricsSource("http://h"), LLAMA, LLAMA.variants[0])

    def page(c: int, p: int) -> Snapshot:
        text = f"llamacpp:prompt_tokens_cached_total {c:g}\nllamacpp:prompt_tokens_total {p:g}\n"
        return Snapshot(0.0, parse(text, spellings(LLAMA.samples()), "p")[0], "p")

    found = tokens_by_engine(reader, page(cached, computed), page(cached + hits, computed + more - hits))
    m = Measurement("t", FACTS, found, exchanges=(exchange(more, None),))
    wanted = data.draw(st.integers(0, 100)) / 100
    verdict = judge(Expectation(min=wanted), [m])
    if verdict.status != "inconclusive":
        truth = hits / more
        assert (verdict.status == "pass") == (truth >= wanted - 1e-9)
        assert verdict.hit_rate is not None
        low, high = verdict.low, verdict.high
        assert (low or verdict.hit_rate) - 1e-9 <= truth <= (high or verdict.hit_rate) + 1e-9
