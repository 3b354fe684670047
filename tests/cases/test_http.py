"""A metrics page behind a redirect, or no page at all (M08)."""

from __future__ import annotations

import pytest

from .conftest import Measure, Play, own
from .stage import AT_REST, Reply, Stage, window

QUERIES, HITS = 'vllm:prefix_cache_queries_total{engine="0"}', 'vllm:prefix_cache_hits_total{engine="0"}'
NOTHING_YET = f"{QUERIES} 0\n{HITS} 0\n{AT_REST}"
TEN = f"{QUERIES} 10\n{HITS} 5\n{AT_REST}"


class Behind(Stage):
    """The pages stand at ``/metrics/``, and ``/metrics`` says so with an empty body."""

    location = "/metrics/"
    status = 307

    def get(self, path: str) -> Reply:
        if path == "/metrics":
            return Reply(self.status, "", {"Location": self.location})
        return super().get("/metrics" if path == "/metrics/" else path)


def behind() -> Behind:
    return Behind(pages=window(NOTHING_YET, TEN), usages=[{"prompt_tokens": 10}])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_m08_a_redirect_within_the_origin_is_followed(measure: Measure, play: Play, status: int) -> None:
    stage = behind()
    stage.status = status
    outcome = measure(play(stage), own("target=0.5, tol=0.0"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (5, 10))


def test_m08_a_redirect_to_another_host_is_refused(
    measure: Measure, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-token")
    stage = behind()
    stage.location = "http://other.invalid/metrics"
    url = play(stage)
    outcome = measure(url, own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    expected = f"inconclusive: {url}/metrics is redirected to http://other.invalid/metrics: another origin; nothing was"
    assert outcome.sentence.startswith(expected)
    assert "secret-token" not in outcome.output
    assert stage.served == 0  # and no request was spent


def test_m08_the_token_does_not_reach_another_port_either(
    measure: Measure, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-token")
    other, stage = Stage(pages=[TEN]), behind()
    stage.location = f"{play(other)}/metrics"
    outcome = measure(play(stage), own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    assert other.seen == []
    assert {headers.get("Authorization") for _, headers in stage.seen} == {"Bearer secret-token"}  # ours knows it


def test_m08_a_redirect_to_itself_ends(measure: Measure, play: Play) -> None:
    stage = behind()
    stage.location = "/metrics"
    assert "redirects" in measure(play(stage), own("min=0.0")).sentence


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (Reply(200, ""), "/metrics holds no samples (0 characters); expected Prometheus text"),
        (Reply(200, "\n"), "/metrics holds no samples (1 characters); expected Prometheus text"),
        (Reply(204), "/metrics answered 204: (empty body)"),
        (Reply(307), "/metrics answered 307: (empty body)"),  # a redirect to nowhere
        (Reply(503, "upstream connect error"), "/metrics answered 503: upstream connect error"),
        (Reply(404, "no such page"), "/metrics answered 404: no such page; name the page with --kv-metrics"),
    ],
)
def test_m08_an_empty_or_refused_page_is_never_zero(measure: Measure, play: Play, reply: Reply, what: str) -> None:
    url = play(Stage(routes={"/metrics": reply}))
    outcome = measure(url, own("min=0.0"))
    assert outcome.verdict == "inconclusive"
    assert outcome.sentence.startswith(f"inconclusive: {url}{what}")
    assert outcome.rate is None
