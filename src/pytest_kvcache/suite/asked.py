"""What can be asked of each ready-made check? One dataclass each, which ``--kv-set`` and ``--kv-params`` follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..errors import ConfigurationError
from . import kinds
from .kinds import (
    COUNT,
    FILE,
    FILES,
    NUMBER,
    POSITIVE,
    RATIO,
    SECONDS,
    SEVERAL,
    SWITCH,
    TEXT,
    WAIT,
    Parameter,
    parameters_of,
    told,
)

if TYPE_CHECKING:
    from ..limits.asked import TokensMetric, TtftMetric
    from ..model import ResetMode
    from ..traces.opening import TimeUnit
    from ..workloads.working_set import Reinit, Selection

FORMATS = ("bailian", "weka", "otel", "azure", "burstgpt", "mooncake", "bodies")
RESET = kinds.one_of("never", "auto", "require")
_DAY = 86_400.0  # seconds
_NO_RESET = "as --kv-reset says"
_NO_CONCURRENCY = "as --kv-concurrency says"


@dataclass(frozen=True, slots=True)
class Smoke:
    """Is the cache on, does an identical prompt hit, is the block size what the server says, does reset work, do salts
    separate, do counters and usage agree?
    """

    up_to: int = field(
        default=2048, metadata=told(SEVERAL, "longest shared prefix that is tried for the block size, tokens")
    )
    min_rate: float = field(default=0.5, metadata=told(RATIO, "least share of an identical prompt that hits"))
    settle: float = field(default=0.0, metadata=told(WAIT, "seconds until a hosted cache can be read"))


@dataclass(frozen=True, slots=True)
class HitRate:
    """Does the server reuse what prompts share by construction?"""

    requests: int = field(default=40, metadata=told(COUNT, "measured requests"))
    input_len: int | None = field(
        default=None, metadata=told(COUNT, "tokens of each prompt", unset="2048, or what the model takes")
    )
    output_len: int = field(default=8, metadata=told(COUNT, "generated tokens of each request"))
    hit_rate: float | None = field(
        default=None, metadata=told(RATIO, "reusable share of each prompt", unset="0.5 without prefix_len")
    )
    prefix_len: int | None = field(default=None, metadata=told(NUMBER, "instead: shared tokens of each prompt"))
    prefixes: int = field(default=4, metadata=told(COUNT, "distinct prefixes"))
    concurrency: int | None = field(default=None, metadata=told(COUNT, "requests in flight", unset=_NO_CONCURRENCY))
    rate: float | None = field(
        default=None, metadata=told(POSITIVE, "instead: requests per second, whether or not the server keeps up")
    )
    prefill: bool = field(
        default=True, metadata=told(SWITCH, "warm the prefixes first; without, the predicted rate is the target")
    )
    reset: ResetMode | None = field(default=None, metadata=told(RESET, "empty the cache first", unset=_NO_RESET))
    tol: float = field(default=0.02, metadata=told(RATIO, "largest distance from the target"))

    def __post_init__(self) -> None:
        _one_at_most("hit_rate", hit_rate=self.hit_rate, prefix_len=self.prefix_len)
        _one_at_most("hit_rate", concurrency=self.concurrency, rate=self.rate)
        if self.rate is not None and self.requests / self.rate > _DAY:
            raise ConfigurationError(f"hit_rate.rate={self.rate:g}: {self.requests:,} requests would take over a day")

    @property
    def share(self) -> float | None:
        """The rate that is built; None: the length of the prefix says it."""
        return 0.5 if self.hit_rate is None and self.prefix_len is None else self.hit_rate

    @property
    def target(self) -> float | None:
        """The rate that is wanted; None: the predicted one, as first uses are cold or only a length was given."""
        return self.share if self.prefill else None


@dataclass(frozen=True, slots=True)
class CacheRate:
    """What comes out, and how fast, at each context size and hit rate? A sweep, shown as a grid."""

    contexts: tuple[int, ...] = field(
        default=(),
        metadata=told(
            kinds.listed(COUNT), "tokens of each prompt, several sizes", unset="512,1536, those that the model takes"
        ),
    )
    rates: tuple[float, ...] = field(
        default=(0.0, 0.5, 0.9), metadata=told(kinds.listed(RATIO), "reusable shares of a prompt")
    )
    working_set: int | None = field(
        default=None, metadata=told(COUNT, "tokens of all contexts together", unset="8 contexts")
    )
    chunk: int | None = field(
        default=None, metadata=told(COUNT, "tokens that shares are rounded down to", unset="the server's block")
    )
    selection: Selection = field(
        default="round_robin", metadata=told(kinds.one_of("round_robin", "random"), "which context comes next")
    )
    reinit: Reinit = field(
        default="per_test", metadata=told(kinds.one_of("once", "per_rate", "per_test"), "when contexts are warmed anew")
    )
    output_len: int = field(default=16, metadata=told(COUNT, "generated tokens of each request"))
    mode: Literal["fixed", "sustained"] = field(
        default="fixed",
        metadata=told(kinds.one_of("fixed", "sustained"), "keep levels for a time, or look for the highest that holds"),
    )
    concurrency: tuple[int, ...] = field(
        default=(),
        metadata=told(kinds.listed(COUNT), "levels, sessions going at once", unset="4 without rate", mode="fixed"),
    )
    rate: tuple[float, ...] = field(
        default=(), metadata=told(kinds.listed(POSITIVE), "levels, sessions per second, instead", mode="fixed")
    )
    retries: int = field(default=0, metadata=told(NUMBER, "measure each level so many times more", mode="fixed"))
    strict: bool = field(
        default=False, metadata=told(SWITCH, "count only requests that began and ended in the time", mode="fixed")
    )
    stop_early: bool = field(
        default=False, metadata=told(SWITCH, "measure no level behind one that broke the thresholds", mode="fixed")
    )
    duration: float | None = field(
        default=None, metadata=told(SECONDS, "seconds of a level, or of a whole search", unset="5 fixed, 300 sustained")
    )
    max_ttft: float | None = field(
        default=2.0, metadata=told(kinds.optional(SECONDS), "threshold: time to first token")
    )
    ttft_metric: TtftMetric = field(
        default="p95", metadata=told(kinds.one_of("p95", "avg", "max"), "of the requests of a period")
    )
    min_tokens_per_req: float | None = field(
        default=None, metadata=told(kinds.optional(POSITIVE), "threshold: tokens/s of a request")
    )
    tokens_per_req_metric: TokensMetric = field(
        default="avg", metadata=told(kinds.one_of("avg", "p5", "p10"), "of the requests of a period")
    )
    assessment: float = field(default=30.0, metadata=told(SECONDS, "seconds of a period", mode="sustained"))
    start: int = field(default=2, metadata=told(COUNT, "lowest concurrency", mode="sustained"))
    step: int = field(default=2, metadata=told(COUNT, "difference of two levels", mode="sustained"))
    limit: int = field(default=1000, metadata=told(COUNT, "highest concurrency", mode="sustained"))
    reset: ResetMode | None = field(default=None, metadata=told(RESET, "empty the cache first", unset=_NO_RESET))
    tol: float = field(default=0.02, metadata=told(RATIO, "largest distance from the predicted rate"))

    def __post_init__(self) -> None:
        _one_at_most("cache_rate", concurrency=self.concurrency or None, rate=self.rate or None)

    def check_mode(self, names: Iterable[str]) -> None:
        """Refuse what only the other mode would do something with.

        Raises:
            ConfigurationError: one of the names, which were given, is of it.
        """
        known = parameters_of(self)
        for needed, name in ((known[name].mode, name) for name in names):
            if needed not in ("", self.mode):
                raise ConfigurationError(
                    f"cache_rate.{name} is of cache_rate.mode={needed}, and the mode is {self.mode}"
                )

    @property
    def levels(self) -> tuple[int, ...]:
        """Sessions going at once; none where sessions per second are the levels."""
        return () if self.rate else self.concurrency or (4,)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Does every turn of a conversation find the turns before it?"""

    system: str | None = field(default=None, metadata=told(TEXT, "system prompt", unset="a made-up one"))
    system_file: Path | None = field(default=None, metadata=told(FILE, "instead: the file that holds it"))
    tools: Path | None = field(default=None, metadata=told(FILE, "JSON file of tools, in OpenAI's form", unset="none"))
    turns: int = field(default=4, metadata=told(SEVERAL, "requests of each conversation"))
    sessions: int = field(default=2, metadata=told(COUNT, "conversations"))
    max_tokens: int = field(default=16, metadata=told(COUNT, "tokens of each answer"))
    min_rate: float = field(
        default=0.5, metadata=told(RATIO, "least cached share of every turn's prompt but the first")
    )
    concurrency: int = field(default=1, metadata=told(COUNT, "conversations going at once"))
    settle: float = field(default=0.0, metadata=told(WAIT, "seconds between turns, until a hosted cache can be read"))
    reset: ResetMode | None = field(default=None, metadata=told(RESET, "empty the cache first", unset=_NO_RESET))

    def __post_init__(self) -> None:
        _one_at_most("conversation", system=self.system, system_file=self.system_file)


@dataclass(frozen=True, slots=True)
class Trace:
    """How much cache does recorded traffic need, and does the server make of it what a cache of its size can?"""

    file: Path | None = field(
        default=None, metadata=told(FILES, "the trace, or a folder of parts", unset="the check is skipped")
    )
    format: str = field(
        default="auto",
        metadata=told(kinds.one_of("auto", *FORMATS), "form of the file, where its head does not show it"),
    )
    time_unit: TimeUnit | None = field(
        default=None,
        metadata=told(kinds.one_of("s", "ms", "us", "ns"), "of its clock", unset="as the form has it"),
    )
    tokenizer: str | None = field(default=None, metadata=told(TEXT, "for forms that carry text", unset="none"))
    strict: bool = field(default=True, metadata=told(SWITCH, "what is wrong with a row is an error, not left out"))
    block_size: int | None = field(default=None, metadata=told(COUNT, "tokens of a block", unset="as the trace says"))
    model: Path | None = field(
        default=None,
        metadata=told(FILES, "its config.json, or its folder: budgets in GiB too", unset="no GiB"),
    )
    policy: str = field(
        default="lru", metadata=told(kinds.one_of("lru", "fifo", "s3fifo", "lfu", "optimum"), "who is evicted")
    )
    budgets: tuple[int, ...] = field(
        default=(), metadata=told(kinds.listed(COUNT), "sizes of the cache, tokens", unset="a whole curve")
    )
    min_rate: float | None = field(
        default=None, metadata=told(RATIO, "least hit rate at every budget", unset="told and not judged")
    )
    replay: bool = field(default=True, metadata=told(SWITCH, "send it, where there is an endpoint"))
    requests: int = field(default=100, metadata=told(COUNT, "replay: only the first so many requests"))
    scale: int | None = field(
        default=None, metadata=told(COUNT, "replay: tokens that stand for a block", unset="as many as it has")
    )
    users: int | None = field(
        default=None,
        metadata=told(COUNT, "replay: sessions at once, without the trace's clock", unset="4 without speed"),
    )
    speed: float | None = field(
        default=None, metadata=told(POSITIVE, "replay: keep the clock, so many times faster, without users")
    )
    output_len: int | None = field(
        default=None, metadata=told(COUNT, "replay: tokens of each answer", unset="as the trace says")
    )
    target: Literal["simulated", "predicted"] = field(
        default="simulated",
        metadata=told(
            kinds.one_of("simulated", "predicted"), "replay: rate of a cache of the server's size, or endless"
        ),
    )
    tol: float = field(default=0.03, metadata=told(RATIO, "replay: largest distance from the target"))
    reset: ResetMode | None = field(default=None, metadata=told(RESET, "empty the cache first", unset=_NO_RESET))

    def __post_init__(self) -> None:
        _one_at_most("trace", users=self.users, speed=self.speed)
        if self.min_rate is not None and not self.budgets:
            raise ConfigurationError("trace.min_rate: at which size of the cache? Give trace.budgets as well")


CHECKS: dict[str, type[Any]] = {
    "smoke": Smoke,
    "hit_rate": HitRate,
    "cache_rate": CacheRate,
    "conversation": Conversation,
    "trace": Trace,
}
Setting = tuple[str, str, Any]
Asked = TypeVar("Asked")


def parse(text: str, origin: str) -> Setting:
    """Return check, parameter and value of ``CHECK.PARAM=VALUE``.

    Raises:
        ConfigurationError: there is no such check or parameter, or the value is of another kind.
    """
    name, equals, value = text.strip().partition("=")
    check, dot, wanted = name.strip().partition(".")
    if not equals or not dot:
        raise ConfigurationError(f"{origin}: expected CHECK.PARAM=VALUE, such as hit_rate.requests=100")
    if check not in CHECKS:
        raise ConfigurationError(f"{origin}: there is no check {check!r}; there are {', '.join(CHECKS)}")
    known = parameters_of(CHECKS[check])
    if wanted not in known:
        raise ConfigurationError(f"{origin}: {check} has no parameter {wanted!r}; it has {', '.join(known)}")
    kind = known[wanted].kind
    try:
        return check, wanted, kind.parse(value.strip())
    except (ValueError, LookupError):
        shown = f"{check}.{wanted}={value.strip()!r}"
        raise ConfigurationError(f"{origin}: {shown}; expected: {kind.name} (such as {kind.example})") from None


def given(settings: Iterable[Setting], check: type[Asked]) -> Asked:
    """Return what is asked of a check; of two values for one parameter the last counts.

    Raises:
        ConfigurationError: parameters contradict each other.
    """
    found = {name: value for owner, name, value in settings if CHECKS[owner] is check}
    made = check(**found)
    if isinstance(made, CacheRate):
        made.check_mode(found)
    return made


def check_all(settings: Iterable[Setting], origin: str) -> None:
    """Make sure that the parameters of every check fit together.

    Raises:
        ConfigurationError: they do not.
    """
    settings = tuple(settings)
    try:
        for check in CHECKS.values():
            given(settings, check)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {error}") from None


def help_lines() -> Iterator[str]:
    """Return what ``pytest --kv-params`` shows."""
    yield "Parameters of the ready-made checks (pytest --pyargs pytest_kvcache.suite), for --kv-set CHECK.PARAM=VALUE:"
    for name, check in CHECKS.items():
        yield ""
        yield f"{name}: {' '.join((check.__doc__ or '').split())}"
        known = parameters_of(check).values()
        widths = [max(len(row(each)[column]) for each in known) for column in range(3)]
        for each in known:
            cells = [cell.ljust(width) for cell, width in zip(row(each), [*widths, 0], strict=True)]
            yield f"  {'  '.join(cells)}"


def row(each: Parameter) -> tuple[str, str, str, str]:
    """Return name, type, default and meaning of a parameter."""
    return each.name, each.kind.name, each.shown, each.help


def _one_at_most(check: str, **values: object) -> None:
    found = [f"{check}.{name}" for name, value in values.items() if value is not None]
    if len(found) > 1:
        raise ConfigurationError(f"{' and '.join(found)} exclude each other; give one of them")
