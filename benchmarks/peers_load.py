"""How does each public load client send n requests at a concurrency? One entry a client: its files and its command.

Each is installed in a folder of its own below ``--peers``, named as in :data:`CLIENTS`; requirements-load.txt says how
and which versions. Whatever a client does beyond sending (telemetry, colours, plots) is switched off where it has an
option for that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from load_inputs import LENGTH, SHARED, Inputs
from load_stream import MODEL


class Job(NamedTuple):
    """What is asked of a client.

    Attributes:
        url: of the server, without a path.
        requests: how many.
        concurrency: how many at once.
        tokens: of each answer.
        inputs: prompts and tokenizer.
        folder: its own, empty; it works there.
        timed: note what was measured of each request; only timing needs that, and it costs.
    """

    url: str
    requests: int
    concurrency: int
    tokens: int
    inputs: Inputs
    folder: Path
    timed: bool = False

    def prompts(self) -> list[str]:
        """As many prompts as requests: some clients end with their file."""
        return list(islice(cycle(self.inputs.texts()), self.requests))


class Client(NamedTuple):
    """A client.

    Attributes:
        version: that it was tried with.
        command: writes its files into the job's folder and returns its words; the program is found in ``bin``.
        environment: added to ours.
        most: requests, where it would take minutes for more.
    """

    version: str
    command: Callable[[Job, Path], list[str]]
    environment: Mapping[str, str] = {}
    most: int = 1_000_000


def _lines(file: Path, rows: list[object]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def _vllm(job: Job, bin: Path) -> list[str]:
    rows = _lines(job.folder / "prompts.jsonl", [{"prompt": text} for text in job.inputs.texts()])
    command = [str(bin / "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", job.url]
    command += ["--endpoint", "/v1/chat/completions", "--model", MODEL, "--tokenizer", str(job.inputs.tokenizer)]
    command += ["--dataset-name", "custom", "--dataset-path", str(rows), "--custom-output-len", str(job.tokens)]
    command += ["--skip-chat-template", "--disable-shuffle", "--disable-tqdm", "--ready-check-timeout-sec", "0"]
    command += ["--num-prompts", str(job.requests), "--max-concurrency", str(job.concurrency)]
    return [*command, "--save-result", "--result-filename", "result.json", *(["--save-detailed"] if job.timed else [])]


def _evalscope(job: Job, bin: Path) -> list[str]:
    lines = job.folder / "prompts.txt"
    lines.write_text("\n".join(job.prompts()))
    command = [str(bin / "evalscope"), "perf", "--model", MODEL, "--api", "openai", "--stream"]
    command += ["--url", f"{job.url}/v1/chat/completions", "--tokenizer-path", str(job.inputs.tokenizer)]
    command += ["--dataset", "line_by_line", "--dataset-path", str(lines), "--max-tokens", str(job.tokens)]
    command += ["--number", str(job.requests), "--parallel", str(job.concurrency), "--no-test-connection"]
    return [*command, "--outputs-dir", "outputs", "--no-timestamp", "--log-every-n-query", "100000"]


def _guidellm(job: Job, bin: Path) -> list[str]:
    rows = _lines(
        job.folder / "prompts.jsonl", [{"prompt": t, "output_tokens_count": job.tokens} for t in job.prompts()]
    )
    command = [str(bin / "guidellm"), "run", "--disable-console", "--output", "kind=json,path=result.json"]
    command += ["--backend", f"kind=openai_http,target={job.url},model={MODEL},request_format=/v1/chat/completions"]
    command += ["--profile", f"kind=concurrent,streams={job.concurrency}", "--data", f"kind=json_file,path={rows}"]
    command += ["--constraint", f"kind=max_requests,count={job.requests}"]
    return [*command, "--tokenizer", f"kind=huggingface_auto,model={job.inputs.tokenizer}"]


def _aiperf(job: Job, bin: Path) -> list[str]:
    rows = _lines(job.folder / "prompts.jsonl", [{"text": text} for text in job.inputs.texts()])
    command = [str(bin / "aiperf"), "profile", "--model", MODEL, "--url", job.url, "--endpoint-type", "chat"]
    command += ["--streaming", "--tokenizer", str(job.inputs.tokenizer), "--input-file", str(rows)]
    command += ["--custom-dataset-type", "single_turn", "--dataset-sampling-strategy", "sequential"]
    command += ["--request-count", str(job.requests), "--concurrency", str(job.concurrency), "--ui", "none"]
    command += ["--use-server-token-count", "--extra-inputs", f"max_tokens:{job.tokens}"]
    return [*command, "--artifact-dir", str(job.folder / "result"), "--export-level", "records"]


def _inference_perf(job: Job, bin: Path) -> list[str]:
    command = [str(bin / "inference-perf"), "--api.type", "chat", "--api.streaming", "true"]
    command += ["--server.type", "vllm", "--server.model_name", MODEL, "--server.base_url", job.url]
    command += ["--tokenizer.pretrained_model_name_or_path", str(job.inputs.tokenizer)]
    command += ["--data.type", "shared_prefix", "--data.shared_prefix.num_groups", "1"]
    command += ["--data.shared_prefix.num_prompts_per_group", "50", "--data.shared_prefix.seed", "0"]
    command += ["--data.shared_prefix.system_prompt_len", str(SHARED)]
    command += ["--data.shared_prefix.question_len", str(LENGTH - SHARED)]
    command += ["--data.shared_prefix.output_len", str(job.tokens), "--load.type", "concurrent"]
    stages = [{"num_requests": job.requests, "concurrency_level": job.concurrency}]
    command += ["--load.stages", json.dumps(stages), "--load.num_workers", "1"]
    command += ["--report.request_lifecycle.per_request", str(job.timed).lower()]
    return [*command, "--storage.local_storage.path", str(job.folder / "result")]


def _clawperf(job: Job, bin: Path) -> list[str]:
    command = [str(bin / "clawperf"), "--mode", "hitrate", "--endpoint", f"{job.url}/v1", "--model", MODEL]
    command += ["--tokenizer", str(job.inputs.tokenizer), "--num-requests", str(job.requests)]
    command += ["--input-len", str(LENGTH), "--output-len", str(job.tokens), "--hit-rate", "0.5", "--no-prefill"]
    return [
        *command,
        "--prefix-num",
        "1",
        "--concurrency",
        str(job.concurrency),
        "--output",
        str(job.folder / "result"),
    ]


_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}

CLIENTS = {
    "vllm bench serve": Client("0.32.0", _vllm, _OFFLINE),
    "evalscope": Client("1.14.1", _evalscope, _OFFLINE),
    "guidellm": Client("0.8.1", _guidellm, _OFFLINE),
    "inference-perf": Client("0.7.0", _inference_perf, _OFFLINE),
    "aiperf": Client("0.13.0", _aiperf),
    "clawperf": Client("0.6.1", _clawperf, _OFFLINE, most=100),
}
