"""An engine that is played from hand-written pages, what is measured of it, and what a naive script would say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_kvcache import experiment
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.judge import judge
from pytest_kvcache.model import Expectation, Measurement, Verdict
from pytest_kvcache.pace import Pace
from pytest_kvcache.protocols import Workload
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.bodies import Bodies

from ..cases.stage import Reply, Stage, playing, versioned, window

__all__ = [
    "HITS",
    "QUERIES",
    "Engine",
    "Reply",
    "Seen",
    "measured",
    "naive",
    "naive_rate",
    "prompts",
    "rest",
    "served",
    "twice",
    "versioned",
    "vllm",
    "window",
]

QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"


@dataclass
class Engine(Stage):
    """A stage whose page may also be a function of what happened so far. Every answer ends its connection.

    Attributes:
        metrics: the page, given the requests answered and the scrapes of it since the last answer.
        path: where it is.
        content_type: of it.
    """

    metrics: Callable[[int, int], str] | None = None
    path: str = "/metrics"
    content_type: str = "text/plain; version=0.0.4"
    scrapes: int = 0
    given: list[str] = field(default_factory=list)

    def get(self, path: str) -> Reply:
        if path != self.path or self.metrics is None:
            return _closing(super().get(path))
        self.given.append(self.metrics(self.served, self.scrapes))
        self.scrapes += 1
        return _closing(Reply(200, self.given[-1], {"Content-Type": self.content_type}))

    def post(self) -> Reply:
        self.scrapes = 0
        return _closing(super().post())


def _closing(reply: Reply) -> Reply:
    return reply._replace(headers={**reply.headers, "Connection": "close"})


@dataclass(frozen=True)
class Seen:
    """What was measured, to be judged as often as one likes."""

    measurement: Measurement

    def verdict(self, **expectation: Any) -> Verdict:
        """Judge by the marker's arguments."""
        return judge(Expectation(**expectation), [self.measurement])

    def refused(self, code: str) -> str:
        """Make sure that there is no verdict whatever is asked for, and return why."""
        for wish in ({"min": 0.0}, {"max": 1.0}, {"target": 0.5, "tol": 0.5}):
            verdict = self.verdict(**wish)
            assert verdict.status == "inconclusive", verdict.sentence
        found = [f"{f.sentence}; {f.advice}" for f in verdict.findings if f.code == code]
        assert found, verdict.findings
        assert verdict.findings[0].code == code, verdict.findings
        return found[0]

    def exactly(self, hit: int, query: int) -> Verdict:
        """Make sure that the verdict is by these tokens and no others."""
        verdict = self.verdict(target=hit / query, tol=0.0)
        assert (verdict.hit_tokens, verdict.query_tokens) == (hit, query), verdict.sentence
        assert verdict.status == "pass", verdict.sentence
        assert self.verdict(min=hit / query + 0.001).status == "fail"
        return verdict


def measured(
    played: Stage | Mapping[str, Stage],
    workload: Workload | int = 1,
    *,
    body: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    **endpoint: Any,
) -> Seen:
    """Run a workload against an engine, one request after another.

    Args:
        played: one engine, or several by the name of their page; requests go to the last one.
        workload: a number means so many requests of ``body``.
        body: of each request.
        options: of the plan.
        source: how the page is read, where that has to be said.
        endpoint: its further attributes.

    Raises:
        KVCacheError: as :func:`pytest_kvcache.experiment.run`.
    """
    if isinstance(workload, int):
        workload = Bodies((dict(body or {"prompt": "x"}),) * workload, "completions")
    plan = experiment.Plan(
        **{"nonce": "n", "pace": Pace(1), "stream": False, "tokenizer": "builtin", **(options or {})}
    )
    stages = {"": played} if isinstance(played, Stage) else played
    with served(stages) as urls:
        if len(urls) > 1:
            endpoint["metrics"] = tuple(MetricsSource(f"{url}/metrics", name) for name, url in urls.items())
        if source is not None:
            endpoint["metrics"] = (MetricsSource(f"{urls['']}/metrics", **source),)
        at = Endpoint(list(urls.values())[-1], **endpoint)
        return Seen(asyncio.run(experiment.run(at, workload, plan)))


@contextmanager
def served(stages: Mapping[str, Stage]) -> Iterator[dict[str, str]]:
    """Serve stages and hand out their URLs by name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(playing(stage)) for name, stage in stages.items()}


# --- what is played --------------------------------------------------------------------------------------------------


def prompts(*lengths: int, cached: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Return the usage of answers to prompts of these lengths."""
    usages: list[dict[str, Any]] = [{"prompt_tokens": length} for length in lengths]
    for usage, tokens in zip(usages, cached, strict=False):
        usage["prompt_tokens_details"] = {"cached_tokens": tokens}
    return usages


def rest(engine: str = "vllm") -> str:
    """Return the gauges of an engine at rest."""
    running, waiting = {
        "vllm": ("num_requests_running", "num_requests_waiting"),
        "sglang": ("num_running_reqs", "num_queue_reqs"),
        "lmdeploy": ("num_requests_running", "num_requests_waiting"),
        "llamacpp": ("requests_processing", "requests_deferred"),
    }[engine]
    return f"{engine}:{running} 0\n{engine}:{waiting} 0\n"


def vllm(query: int, hit: int, block: int = 16, caching: bool = True, more: str = "") -> str:
    """Return a page of one vLLM at rest."""
    config = f'vllm:cache_config_info{{engine="0",block_size="{block}",enable_prefix_caching="{caching}"}} 1\n'
    return f'{QUERIES}{{engine="0"}} {query}\n{HITS}{{engine="0"}} {hit}\n{config}{more}{rest()}'


def twice(length: int, hit: int) -> Seen:
    """The same prompt, first to warm the cache and once more."""
    workload = WorkloadBuilder().shared_prefix(1, length, prefix_len=length - 1, align=None, output_len=1, seed=1)
    return measured(Engine([vllm(0, 0), vllm(length, 0), vllm(2 * length, hit)], prompts(length)), workload)


# --- the naive script ------------------------------------------------------------------------------------------------


def naive(page: str, name: str) -> float:
    """Add up everything whose name begins so."""
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))


def naive_rate(before: str, after: str, hits: str = HITS, queries: str = QUERIES) -> float:
    """delta(hits) / delta(queries)."""
    return (naive(after, hits) - naive(before, hits)) / (naive(after, queries) - naive(before, queries))
