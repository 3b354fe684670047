"""Start the simulated engine by hand: ``python -m pytest_kvcache.simulate``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import signal
import sys
import threading
from collections.abc import Sequence

from ..errors import ConfigurationError
from .engine import EngineConfig
from .faults import Faults, parse_faults
from .fleet import ROUTINGS
from .server import SimServer, serve

_FAULTS = "plant a fault, repeatable: " + ", ".join(Faults.model_fields)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(
        prog="python -m pytest_kvcache.simulate",
        description="An OpenAI-compatible server over a simulated paged prefix cache. It generates nonsense at the"
        " speed you ask for and counts cache hits as vLLM does: a stand-in for development and CI, not a benchmark.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument("--host", default="127.0.0.1", help="address to listen on")
    made.add_argument("--port", type=int, default=0, help="port; 0 picks a free one")
    made.add_argument("--model", default="sim", help="served model name")
    made.add_argument("--block-size", type=_positive, default=16, help="tokens per cache block")
    made.add_argument("--capacity-blocks", type=_positive, default=1_000_000, help="blocks that the cache holds")
    made.add_argument("--engines", type=_positive, default=1, help="engines behind the port, each with its own cache")
    made.add_argument(
        "--routing",
        choices=ROUTINGS,
        default="round-robin",
        help="who gets a request: the engines in turn, or the one that was sent the longest part of the prompt before",
    )
    made.add_argument(
        "--external-blocks", type=_count, default=0, help="blocks in a store behind each device cache; 0: no store"
    )
    made.add_argument("--external-shared", action="store_true", help="one external store for all engines")
    made.add_argument("--minimum-tokens", type=_count, default=0, help="a shorter cached prefix is not credited")
    made.add_argument(
        "--lifetime",
        type=_seconds,
        default=0.0,
        help="seconds until an unused block is not found any more; 0: it stays",
    )
    made.add_argument("--max-model-len", type=_positive, default=131_072, help="prompt plus output tokens")
    made.add_argument("--batch-slots", type=_positive, default=16, help="requests that run at once")
    made.add_argument(
        "--prefill-rate", type=_positive_number, default=200_000.0, help="uncached prompt tokens per second"
    )
    made.add_argument("--decode-time", type=_seconds, default=0.001, help="seconds per output token")
    made.add_argument("--no-prefix-caching", action="store_true", help="switch the cache off")
    made.add_argument("--no-prompt-tokens-details", action="store_true", help="do not report cached_tokens in usage")
    made.add_argument("--no-dev-mode", action="store_true", help="no reset route, as on a production server")
    made.add_argument("--api-key-env", metavar="VARIABLE", help="demand the key in this variable, on every route")
    made.add_argument("--metric-prefix", default="sim:", help="in front of every sample name")
    made.add_argument("--fault", action="append", default=[], metavar="NAME[=VALUE]", help=_FAULTS)
    made.add_argument("--exit-with-parent", action="store_true", help="end when standard input is closed")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal, or until the parent is gone; return the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    try:
        faults = parse_faults(options.fault)
    except ConfigurationError as error:
        made.error(str(error))
    key = os.environ.get(options.api_key_env) if options.api_key_env else None
    if options.api_key_env and not key:
        made.error(f"--api-key-env: the variable {options.api_key_env} is not set or empty")
    config = EngineConfig(
        block_size=options.block_size,
        capacity=options.capacity_blocks,
        slots=options.batch_slots,
        prefill_rate=options.prefill_rate,
        decode_time=options.decode_time,
        caching=not options.no_prefix_caching,
        max_model_len=options.max_model_len,
        external_blocks=options.external_blocks,
        minimum=options.minimum_tokens,
        lifetime=options.lifetime,
    )
    server = SimServer(
        config,
        model=options.model,
        metric_prefix=options.metric_prefix,
        details=not options.no_prompt_tokens_details,
        dev_mode=not options.no_dev_mode,
        api_key=key,
        faults=faults,
        engines=options.engines,
        routing=options.routing,
        shared_external=options.external_shared,
    )
    try:
        asyncio.run(_run(server, options.host, options.port, with_parent=options.exit_with_parent))
    except OSError as error:
        print(f"cannot listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


async def _run(server: SimServer, host: str, port: int, *, with_parent: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows: the default handlers end the process
        loop.add_signal_handler(signal.SIGINT, stop.set)
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    if with_parent:
        threading.Thread(target=_watch_parent, args=(loop, stop), daemon=True).start()
    await serve(server, host, port, lambda url: print(f"listening on {url}", flush=True), stop)


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # Not sys.stdin: a daemon thread inside its lock aborts the interpreter's own end after a signal.
    with contextlib.suppress(OSError):
        while os.read(0, 4096):  # ends when the other end of the pipe is gone, however the parent died
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
        loop.call_soon_threadsafe(stop.set)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0")
    return value


def _positive_number(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds")
    return value


if __name__ == "__main__":
    sys.exit(main())
