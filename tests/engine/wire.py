"""A client for these tests that shares no code with the package: urllib, json and a line split."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
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
    "gen": ("generation_tokens_total", ""),
    "kvc_sum": ("request_prefill_kv_computed_tokens_sum", ""),
    "kvc_n": ("request_prefill_kv_computed_tokens_count", ""),
    "rp_sum": ("request_prompt_tokens_sum", ""),
    "ok_len": ("request_success_total", 'finished_reason="length"'),
}


class Wire:
    """One server."""

    def __init__(self, url: str, prefix: str = "sim:", model: str = "tiny") -> None:
        self.url, self.prefix, self.model = url, prefix, model

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> tuple[int, Any]:
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def complete(self, prompt: Any, max_tokens: int = 1, **more: Any) -> tuple[int, Any]:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **more}
        return self.post("/v1/completions", body)

    def counters(self) -> dict[str, float]:
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        found = dict.fromkeys(COUNTERS, 0.0)
        for line in lines:
            for key, (name, label) in COUNTERS.items():
                if line.startswith(f"{self.prefix}{name}{{") and label in line:
                    found[key] += float(line.rsplit(" ", 1)[1])
        return found

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
