"""A Prometheus server that plays answers, recorded or made up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pytest_kvcache.answers import Page
from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.scrape import Snapshot, fetch

DATA = Path(__file__).parents[2] / "data" / "prometheus-2.42"
URL = "http://127.0.0.1:9090"
ENGINES = MetricsSource(URL, kind="prometheus", match='job="engine"')
PROMPTS, HITS = "sim:prompt_tokens_total", "sim:prefix_cache_hits_total"
FIRST, SECOND = "127.0.0.1:8001", "127.0.0.1:8002"
NOW = 1795975786.455

Answer = str | tuple[int, str] | Callable[[str], str]
Values = Mapping[tuple[str, ...], list[tuple[float, float]]]  # (name, label, value, label, value, ...): samples


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


class Played(Client):
    """A client whose server plays answers by what is asked: time, alive, samples, history, up, targets."""

    def __init__(self, **answers: Answer) -> None:
        super().__init__(Endpoint("http://engine.test"))
        self.answers: dict[str, Answer] = {
            **{name: recorded(f"{name}.json") for name in ("time", "alive", "samples", "history", "up", "targets")},
            **answers,
        }
        self.urls: list[str] = []

    async def get(self, url: str, *, timeout: float | None = None) -> Page:
        self.urls.append(url)
        parts = urlsplit(url)
        query = parse_qs(parts.query).get("query", ["targets"])[0]
        asked = {"time()": "time", "targets": "targets", "up": "up"}.get(query)
        if asked is None:
            asked = "alive" if query.startswith("timestamp(") else "history" if query.endswith("[5m]") else "samples"
        answer = self.answers[asked]
        if callable(answer):
            answer = answer(query)
        status, text = (200, answer) if isinstance(answer, str) else answer
        return Page(url, status, "application/json", text)

    def queries(self) -> list[str]:
        return [parse_qs(urlsplit(url).query)["query"][0] for url in self.urls if "query?" in url]


def read(client: Client, *names: str, source: MetricsSource = ENGINES) -> Snapshot:
    return asyncio.run(fetch(client, source, names))


def success(kind: str, result: Any) -> str:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


def metric(key: tuple[str, ...]) -> dict[str, str]:
    name, *labels = key
    return {"__name__": name, **dict(zip(labels[::2], labels[1::2], strict=True))}


def matrix(values: Values) -> str:
    rows = [{"metric": metric(key), "values": [[at, str(v)] for at, v in found]} for key, found in values.items()]
    return success("matrix", rows)


def alive(values: Values) -> str:
    """What `timestamp(up)` says of the same samples."""
    rows = [
        {"metric": {k: v for k, v in metric(key).items() if k != "__name__"}, "value": [NOW, str(found[-1][0])]}
        for key, found in values.items()
        if key[0] == "up"
    ]
    return success("vector", rows)


def playing(values: Values, **answers: Answer) -> Played:
    ups = {key: found for key, found in values.items() if key[0] == "up"}
    return Played(**{"alive": alive(values), "samples": matrix(values), "history": matrix(ups), **answers})


def engine(name: str, instance: str = "a", *more: str) -> tuple[str, ...]:
    return (name, "job", "engine", "instance", instance, *more)


def at(seconds: float) -> str:
    """The server's time."""
    return success("scalar", [seconds, str(seconds)])


def every(seconds: float, scrapes: int = 4) -> Values:
    """One target, scraped that often."""
    return {engine("up"): [(seconds * number, 1) for number in range(1, scrapes + 1)]}
