"""Traces in tests: ``kv_trace`` opens them, ``kv.replay`` sends them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..checks import is_number, is_whole
from ..errors import ConfigurationError, TraceError
from ..pace import Pace
from ..traces import Trace, open_trace
from ..traces.lines import MAX_LINE
from ..workloads import WorkloadBuilder
from .watched import WatchedTrace

if TYPE_CHECKING:
    from ..protocols import Workload
    from ..traces.opening import TimeUnit
    from ..traces.sources import Given
    from ..traces.trace import Ids, Order
    from ..workloads.wording import Send
    from .watched import Swept


class TraceOpener:
    """Opens traces for a test file.

    Args:
        folder: of the test file, where paths are looked for that are not there in the current directory.
        swept: told every curve of the traces that are opened; None: nobody is.
    """

    def __init__(self, folder: Path, swept: Swept | None = None) -> None:
        self._folder = folder
        self._swept = swept

    def __call__(
        self,
        path: Given,
        *,
        block_size: int | None = None,
        time_unit: TimeUnit | None = None,
        ids: Ids | None = None,
        order: Order | None = None,
        strict: bool = True,
        format: str = "auto",
        tokenizer: str | None = None,
        model: str | Path | None = None,
        kv_dtype: str | None = None,
        kv_bytes_per_token: float | None = None,
        max_line: int = MAX_LINE,
        subagent_time: Literal["relative", "absolute"] | None = None,
        usage_prompt: Literal["total", "uncached"] | None = None,
        usage_absent: Literal["zero", "unknown"] | None = None,
    ) -> Trace:
        """Read and check a trace; see :func:`pytest_kvcache.open_trace`.

        A relative path is taken from the current directory or, when nothing is there, from the folder of the test file.

        Raises:
            TraceError: there is no such file, it cannot be read, or a row does not fit what is known.
        """
        opened = open_trace(
            self._found(path) if isinstance(path, (str, Path)) else [self._found(part) for part in path],
            block_size=block_size,
            time_unit=time_unit,
            ids=ids,
            order=order,
            strict=strict,
            format=format,
            tokenizer=tokenizer,
            model=model,
            kv_dtype=kv_dtype,
            kv_bytes_per_token=kv_bytes_per_token,
            max_line=max_line,
            subagent_time=subagent_time,
            usage_prompt=usage_prompt,
            usage_absent=usage_absent,
        )
        return opened if self._swept is None else WatchedTrace.of_trace(opened, self._swept)

    def __repr__(self) -> str:
        return "kv_trace"  # as it stands in an assertion that failed

    def _found(self, path: str | Path) -> str | Path:
        if str(path) == "-" or Path(path).expanduser().exists():
            return path
        beside = self._folder / path
        if beside.exists():
            return beside
        here = "" if Path(path).is_absolute() else f" in {Path.cwd()}, nor beside the test file, in {self._folder}"
        raise TraceError(f"{path}: there is no such file or folder{here}")


def replayed(
    trace: Trace,
    *,
    speed: float,
    users: int | None,
    concurrency: int | None,
    max_span: float,
    output_len: int | None,
    send: Send,
    seed: int | None,
) -> tuple[Workload, Pace]:
    """Return a trace as a workload, and the pace at which its sessions begin.

    Raises:
        ConfigurationError: what is asked for contradicts itself, or takes longer than ``max_span``.
        WorkloadError: an argument is out of range.
    """
    if not isinstance(trace, Trace):
        raise ConfigurationError(f"kv.replay({type(trace).__name__}): expected a trace; open it with kv_trace(path)")
    builder = WorkloadBuilder()
    if users is not None:
        _check_users(users, speed, concurrency)
        workload = builder.trace(trace, clock=False, users=users, output_len=output_len, send=send, seed=seed)
        return workload, Pace(users)
    if concurrency is not None and not is_whole(concurrency, 1):
        raise ConfigurationError(f"kv.replay(concurrency={concurrency!r}): expected at least 1 session at a time")
    workload = builder.trace(trace, speed=speed, output_len=output_len, send=send, seed=seed)
    _check_span(trace, speed, max_span)
    return workload, Pace(concurrency)


def _check_users(users: int, speed: float, concurrency: int | None) -> None:
    for name, given in {"speed": speed != 1.0, "concurrency": concurrency is not None}.items():
        if given:
            raise ConfigurationError(
                f"kv.replay(users=..., {name}=...): users follow each other's answers and not the trace's clock; give"
                f" users= or {name}="
            )
    if not is_whole(users, 1):
        raise ConfigurationError(f"kv.replay(users={users!r}): expected at least 1")


def _check_span(trace: Trace, speed: float, max_span: float) -> None:
    if not (is_number(max_span) and max_span > 0) and max_span != float("inf"):
        raise ConfigurationError(f"kv.replay(max_span={max_span!r}): expected seconds, above 0")
    if trace.span is None:
        raise ConfigurationError(
            f"kv.replay: trace {trace.name} has no times, so nothing in it is ever due; users=8 sends it without them,"
            " 8 sessions at once"
        )
    seconds = trace.span / speed
    if seconds > max_span:
        fast = "" if speed == 1 else f", {_figure(seconds)} s at speed={speed:g}"
        raise ConfigurationError(
            f"kv.replay: trace {trace.name} spans {_figure(trace.span)} s{fast}, more than max_span={max_span:g}; if"
            " its clock is not in the unit that was assumed, say time_unit= when it is opened; else give a higher"
            " speed=, a part of it (trace.between(0, 600)), users= to leave its clock out, or max_span="
        )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
