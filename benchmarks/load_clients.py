"""Which clients are compared, ours and the floor among them, and what does one run of one of them use?"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from burst_server import Burst
from load_inputs import Inputs
from paced_server import Paced
from peers_load import CLIENTS, Client, Job
from watched import Watched, watched

BENCHMARKS = Path(__file__).parent
FLOOR, SENT, KEPT = "floor", "floor, clock at the socket", "floor, each event and usage"
AS_INSTALLED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONUNBUFFERED": ""}  # empty is unset: nobody compiles every time
READ = 0.02  # seconds: to read 64 answers took none of the fast clients longer
OURS, SHARED = "pytest-kvcache", "pytest-kvcache, shared prefix, tokenizer"


class Run(NamedTuple):
    """One run of a client, as the server and the clocks saw it.

    Attributes:
        used: CPU and memory over time.
        requests: how many were asked for; what a client sends before (checks, warm-up) is not among them.
        began: monotonic seconds at which the first of them was at the server.
        answered: the same at which each of them was answered.
    """

    used: Watched
    requests: int
    began: float
    answered: list[float]

    @property
    def sending(self) -> float:
        """CPU ms a request, from the first one at the server until the last answers have been read."""
        cpu = self.used.cpu_until(self.answered[-1] + READ) - self.used.cpu_until(self.began)
        return 1000 * cpu / self.requests

    @property
    def start(self) -> float:
        """Seconds from launch to the first answer."""
        return self.answered[0] - self.used.launched


def clients(peers: Path | None, names: list[str]) -> dict[str, Client]:
    """Return the floor, ours, and each peer that is installed, or those that are named.

    Raises:
        SystemExit: one that is named is not installed.
    """
    found = {FLOOR: Client("", _floor("post")), SENT: Client("", _floor("sent"))}
    found[KEPT] = Client("", _floor("sent", "--keep"))
    found |= {OURS: Client("", _ours_file), SHARED: Client("", _ours_shared)}
    for name, peer in CLIENTS.items():
        if peers is not None and (peers / name.split()[0] / "bin").is_dir():
            found[name] = peer
    missing = set(names) - found.keys()
    if missing:
        raise SystemExit(f"not installed below --peers: {', '.join(sorted(missing))}; there are {', '.join(found)}")
    return {name: client for name, client in found.items() if not names or name in names}


def run(name: str, client: Client, peers: Path | None, server: Burst | Paced, asked: Job) -> Run:
    """Run a client against a server of its own; ``asked.url`` is filled in."""
    home = (peers or BENCHMARKS) / name.split()[0]
    more = home.with_name(f"{home.name}-extra")  # packages that its environment lacks
    own = {"PYTHONPATH": str(more) if more.is_dir() else "", **AS_INSTALLED}
    environment = {**own, **client.environment, **_sizes(asked)}
    with server:
        job = asked._replace(url=server.url)
        command = client.command(job, home / "bin")
        used = watched(command, job.folder / "log", environment=environment, folder=job.folder)
    answered = server.answered[-job.requests :]
    if len(answered) != job.requests:
        raise SystemExit(f"{name} got {len(answered)} answers, and {job.requests} were asked for")
    return Run(used, job.requests, server.began(job.requests), answered)


def warm(made: Inputs) -> None:
    """Run ours once: pytest keeps what it compiled of a plugin, which pip has not done as it has for all others."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        run(OURS, clients(None, [OURS])[OURS], None, Burst(8), Job("", 8, 8, 8, made, Path(folder)))


def _sizes(job: Job) -> Mapping[str, str]:
    sizes = {"REQUESTS": job.requests, "CONCURRENCY": job.concurrency, "TOKENS": job.tokens}
    noted = {"LOAD_OUT": "timed.json"} if job.timed else {}
    return noted | {f"LOAD_{name}": str(size) for name, size in sizes.items()}


def _floor(clock: str, *how: str) -> Callable[[Job, Path], list[str]]:
    def command(job: Job, _: Path) -> list[str]:
        script = [sys.executable, str(BENCHMARKS / "bare_client.py"), job.url, str(job.inputs.prompts)]
        sizes = ["--requests", str(job.requests), "--concurrency", str(job.concurrency)]
        out = ["--out", "stamps.jsonl"] if job.timed else []
        return [*script, *sizes, "--clock", clock, *how, *out]

    return command


def _ours_file(job: Job, _: Path) -> list[str]:
    bodies = ({"messages": [{"role": "user", "content": text}], "max_tokens": job.tokens} for text in job.prompts())
    (job.folder / "prompts.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return _ours(job, "test_prompts_of_a_file")


def _ours_shared(job: Job, _: Path) -> list[str]:
    return [*_ours(job, "test_shared_prefix"), f"--kv-tokenizer={job.inputs.tokenizer}"]


def _ours(job: Job, test: str) -> list[str]:
    file = f"{BENCHMARKS / 'one_load.py'}::{test}"
    settings = ["-q", "--rootdir", str(job.folder), "-c", os.devnull, "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *settings, f"--kv-endpoint={job.url}", "--kv-engine=usage", file]
