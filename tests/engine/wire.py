"""A client for these tests that shares no code with the package: urllib, json and a line split."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

# The recording's short names for counters, as (sample without prefix, labels that must be there).
COUNTERS = {
    "q": ("prefix_cache_queries_total", ""),
    "h": ("prefix_cache_hits_total", ""),
    "pt": ("prompt_tokens_total", ""),
    "ptc": ("prompt_tokens_cached_total", ""),
    "src_compute": ("prompt_tokens_by_source_total", 'source="local_compute"'),
    "src_hit": ("prompt_tokens_by_source_total", 'source="local_cache_hit"'),
    "dev": ("prompt_tokens_cached_by_source_total", 'source="device"'),
    "xq": ("external_prefix_cache_queries_total", ""),
    "xh": ("external_prefix_cache_hits_total", ""),
    "src_ext": ("prompt_tokens_by_source_total", 'source="external_kv_transfer"'),
    "xun": ("prompt_tokens_cached_by_source_total", 'source="external_unspecified"'),
    "gen": ("generation_tokens_total", ""),
    "kvc_sum": ("request_prefill_kv_computed_tokens_sum", ""),
    "kvc_n": ("request_prefill_kv_computed_tokens_count", ""),
    "rp_sum": ("request_prompt_tokens_sum", ""),
    "ok_len": ("request_success_total", 'finished_reason="length"'),
}


class Wire:
    """One server."""

    def __init__(self, url: str, prefix: str = "sim:", model: str = "tiny", key: str | None = None) -> None:
        self.url, self.prefix, self.model = url, prefix, model
        self.more = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, content: bytes | None = None) -> tuple[int, str]:
        """Return status and text; the headers stay in ``self.headers``."""
        sent = {"Content-Type": "application/json", **self.more}
        request = urllib.request.Request(self.url + path, content, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                self.headers = dict(reply.headers)
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            self.headers = dict(error.headers)
            return error.code, error.read().decode()

    def get(self, path: str) -> tuple[int, str]:
        return self.send("GET", path)

    def raw(self, path: str, body: dict[str, Any]) -> int:
        return self.send("POST", path, json.dumps(body).encode())[0]

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, text = self.send("POST", path, json.dumps(body).encode())
        return status, json.loads(text or "null")

    def put(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, text = self.send("PUT", path, json.dumps(body).encode())
        return status, json.loads(text)

    def stream(self, path: str, **body: Any) -> str:
        status, text = self.send("POST", path, json.dumps({"model": self.model, "stream": True, **body}).encode())
        assert status == 200, text
        return text

    def complete(self, prompt: Any, max_tokens: int = 1, **more: Any) -> tuple[int, Any]:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more}
        return self.post("/v1/completions", body)

    def counters(self) -> dict[str, float]:
        lines = self.get("/metrics")[1].splitlines()
        found = dict.fromkeys(COUNTERS, 0.0)
        for line in lines:
            for key, (name, label) in COUNTERS.items():
                if line.startswith(f"{self.prefix}{name}{{") and label in line:
                    found[key] += float(line.rsplit(" ", 1)[1])
        return found

    def sample(self, name: str) -> float:
        """The sum of a sample over its series."""
        start = f"{self.prefix}{name}{{"
        return sum(float(line.split()[-1]) for line in self.get("/metrics")[1].splitlines() if line.startswith(start))

    def by_engine(self, name: str) -> dict[str, float]:
        """A sample by the number of its engine."""
        found: dict[str, float] = {}
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{self.prefix}{name}{{"):
                engine = line.partition('engine="')[2].partition('"')[0]
                found[engine] = found.get(engine, 0.0) + float(line.split()[-1])
        return found

    @staticmethod
    def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s"
            time.sleep(0.005)

    def moved(self, before: dict[str, float]) -> dict[str, float]:
        """What grew since ``before``, in the form of the recording: counters that stood still are left out."""
        return {key: value - before[key] for key, value in self.counters().items() if value != before[key]}

    def burst(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Send all prompts at the same moment."""
        replies: list[Any] = [None] * len(prompts)
        barrier = threading.Barrier(len(prompts))

        def one(index: int) -> None:
            barrier.wait()
            replies[index] = self.complete(list(prompts[index]))[1]

        threads = [threading.Thread(target=one, args=(index,)) for index in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return replies


def cached(reply: Any) -> int | None:
    details = (reply.get("usage") or {}).get("prompt_tokens_details")
    return None if details is None else details["cached_tokens"]
