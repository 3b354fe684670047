"""How much of a prompt was cached, as an answer tells it: rules of where to look, one normal form of what was found.

Forms and providers disagree twice: under which names the numbers stand, and whether the prompt number holds the cached
tokens. Both are data (:class:`~pytest_kvcache.engines.profile.UsageRule`). In the normal form the prompt is always the
whole prompt, and None is always "not told": never 0, and never the part of a sum that is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from reprlib import Repr
from typing import Any, Final, Literal, NamedTuple, TypeGuard

from ..engines.counting import in_range
from ..engines.rules import UsageRule

Convention = Literal["total", "uncached"]
Absent = Literal["zero", "unknown"]

_DETAILS = "usage.prompt_tokens_details"
_OPENAI = {
    "prompt": "usage.prompt_tokens",
    "cached": (f"{_DETAILS}.cached_tokens", "timings.cache_n"),  # the latter: llama.cpp, before it told the former
    "written": (
        f"{_DETAILS}.cache_write_tokens",  # OpenAI
        f"{_DETAILS}.created_cache_tokens",  # vLLM
        f"{_DETAILS}.cache_creation_tokens",
    ),
}
# llama.cpp times what it computed, so its prompt number is without the cached tokens; there in every kind of answer.
_TIMINGS = {"prompt": "timings.prompt_n", "cached": "timings.cache_n", "prompt_is": "computed"}

_DEFAULTS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "completions": (_OPENAI, _TIMINGS),
    "chat": (_OPENAI, _TIMINGS),
    "responses": (
        {
            "prompt": "usage.input_tokens",
            "cached": "usage.input_tokens_details.cached_tokens",
            "written": "usage.input_tokens_details.cache_write_tokens",
        },
    ),
    "messages": (
        {
            "prompt": "usage.input_tokens",
            "cached": "usage.cache_read_input_tokens",
            "written": "usage.cache_creation_input_tokens",
            "prompt_is": "uncached",
        },
    ),
    "generate": ({"prompt": "meta_info.prompt_tokens", "cached": "meta_info.cached_tokens"},),
    # tokens_cached is no rule: it is what the slot holds afterwards, the generated tokens included
    "completion": (_TIMINGS, {"prompt": "tokens_evaluated"}),
    "gemini": ({"prompt": "usageMetadata.promptTokenCount", "cached": "usageMetadata.cachedContentTokenCount"},),
    "converse": (
        {
            "prompt": "usage.inputTokens",
            "cached": "usage.cacheReadInputTokens",
            "written": "usage.cacheWriteInputTokens",
            "prompt_is": "uncached",
        },
    ),
    "ollama": ({"prompt": "prompt_eval_count"},),  # no form of its answers has a cached number
}

_ALWAYS = ">=0"  # every version, also one that is not known: providers have none

_COMPLETION: Final[dict[str, tuple[str, ...]]] = {
    "completions": ("usage.completion_tokens", "timings.predicted_n"),
    "chat": ("usage.completion_tokens", "timings.predicted_n"),
    "responses": ("usage.output_tokens",),
    "messages": ("usage.output_tokens",),
    "generate": ("meta_info.completion_tokens",),
    "completion": ("timings.predicted_n", "tokens_predicted"),
    "gemini": ("usageMetadata.candidatesTokenCount",),
    "converse": ("usage.outputTokens",),
    "ollama": ("eval_count",),
}


class Paths(NamedTuple):
    """Where numbers stand: each in what a body has under ``root``, after further steps."""

    root: str
    numbers: tuple[tuple[str, tuple[str, ...]], ...]


def _paths(names: Iterable[str]) -> tuple[Paths, ...]:
    grouped: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for name in names:
        root, *steps = name.split(".")
        grouped.setdefault(root, []).append((name, tuple(steps)))
    return tuple(Paths(root, tuple(numbers)) for root, numbers in grouped.items())


_COMPLETION_PATHS: Final = {api: _paths(names) for api, names in _COMPLETION.items()}


@dataclass(frozen=True, slots=True)
class UsageReading:
    """A rule as it holds for one server.

    Attributes:
        rule: where to look.
        absent_is_zero: an answer with a prompt number and without a cached number means that nothing was cached.
        names: of the prompt, cached and written numbers, as they are looked up.
        paths: to those in a body.
    """

    rule: UsageRule
    absent_is_zero: bool = False
    names: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)
    paths: tuple[Paths, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rule = self.rule
        names: tuple[tuple[str, ...], ...] = (rule.prompt, rule.cached, rule.written)
        if rule.headers:
            names = tuple(tuple(name.lower() for name in those) for those in names)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "paths", () if rule.headers else _paths(chain(*names)))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer; None: not told.

    Attributes:
        prompt: the whole prompt, cached tokens included.
        cached: of the prompt, read from the cache.
        written: of the prompt, written to the cache.
        completion: generated.
    """

    prompt: int | None = None
    cached: int | None = None
    written: int | None = None
    completion: int | None = None


class UsageError(ValueError):
    """A number of tokens that is none; the message names the field."""


def readings(api: str, rules: Iterable[UsageRule] = (), version: str | None = None) -> tuple[UsageReading, ...]:
    """Return how to read the usage of an API's answers.

    Args:
        api: a key of :data:`pytest_kvcache.apis.PATHS`.
        rules: the profile's; those for other APIs are left out. None for this API: what its own documentation says.
        version: the engine's, for rules that hold absent numbers to be zero in some versions only; unknown, they do not
            hold, except for those that do in every version (``>=0``).
    """
    own = tuple(rule for rule in rules if rule.api == api)
    return tuple(UsageReading(rule, _absent_is_zero(rule, version)) for rule in own or _defaults(api))


def declared(
    given: Iterable[UsageReading], *, prompt_is: Convention | None = None, absent: Absent | None = None
) -> tuple[UsageReading, ...]:
    """Return the readings with what the user declares of the server, which wins over every profile.

    Args:
        given: for one API, as of :func:`readings`.
        prompt_is: whether the prompt number holds all tokens or only those neither read nor written. A number that the
            engine itself calls computed is left alone.
        absent: what a missing cached number means.
    """
    changed = []
    for reading in given:
        rule = reading.rule
        if prompt_is is not None and rule.prompt_is != "computed":
            rule = rule.model_copy(update={"prompt_is": prompt_is})
        zero = reading.absent_is_zero if absent is None else absent == "zero"
        changed.append(replace(reading, rule=rule, absent_is_zero=zero))
    return tuple(changed)


def _absent_is_zero(rule: UsageRule, version: str | None) -> bool:
    if not rule.absent_is_zero:
        return False
    return rule.absent_is_zero == _ALWAYS or (version is not None and in_range(version, rule.absent_is_zero))


@cache
def _defaults(api: str) -> tuple[UsageRule, ...]:
    return tuple(UsageRule.model_validate({"api": api, **rule}) for rule in _DEFAULTS[api])


@cache
def _default_readings(api: str) -> tuple[UsageReading, ...]:
    return readings(api)


class _Odd(NamedTuple):
    """Something on the way to a number that is no object."""

    field: str
    value: object


class UsageMeter:
    """Reads the usage of one answer, streamed or whole.

    Usage is a value, never an increment: of each field the last number that was told holds. So a stream may tell it in
    every chunk, twice, or in parts.

    Args:
        api: a key of :data:`pytest_kvcache.apis.PATHS`.
        given: how to read it, the first whose prompt number is there wins; empty: the defaults of the API.
    """

    __slots__ = ("_completion", "_paths", "_readings", "_seen")

    def __init__(self, api: str, given: tuple[UsageReading, ...] = ()) -> None:
        self._readings = given or _default_readings(api)
        self._completion = _COMPLETION[api]
        self._paths = _COMPLETION_PATHS[api]
        for reading in self._readings:
            self._paths += reading.paths
        self._seen: dict[str, object] = {}

    def reads(self, fields: Collection[str]) -> bool:
        """Tell whether one of these fields of a body may be looked at."""
        return any(root in fields for root, _ in self._paths)

    def finds(self, body: Mapping[str, Any]) -> bool:
        """Tell whether a chunk may tell anything."""
        return any(body.get(root) is not None for root, _ in self._paths)

    def take(self, body: Mapping[str, Any]) -> None:
        """Remember what a chunk or a whole answer tells."""
        for root, numbers in self._paths:
            value = body.get(root)
            if value is not None:  # most chunks tell nothing
                for name, steps in numbers:
                    found = _look_up(value, root, steps)
                    if found is not None:
                        self._seen[name] = found

    def read(self, headers: Mapping[str, str] | None = None) -> Usage:
        """Return what the answer told.

        Args:
            headers: of the response, for rules that look there.

        Raises:
            UsageError: a number that is read is not a whole number from 0.
        """
        completion = _tokens(self._seen, self._completion)
        for reading in self._readings:
            rule = reading.rule
            source: Mapping[str, object] = _numbers(headers or {}) if rule.headers else self._seen
            prompt_names, cached_names, written_names = reading.names
            prompt = _tokens(source, prompt_names)
            if prompt is None:
                continue
            cached, written = _tokens(source, cached_names), _tokens(source, written_names)
            if cached is None and reading.absent_is_zero:
                cached = 0
            return Usage(_whole(rule, prompt, cached, written), cached, written, completion)
        return Usage(completion=completion)


def _whole(rule: UsageRule, prompt: int, cached: int | None, written: int | None) -> int | None:
    if rule.prompt_is == "total":
        return prompt
    if cached is None:
        return None  # a part of the prompt is not told, so neither is the whole
    return prompt + cached + (written or 0 if rule.prompt_is == "uncached" else 0)


def _numbers(headers: Mapping[str, str]) -> dict[str, object]:
    digits = {name.lower(): text.strip() for name, text in headers.items()}
    return {n: int(t) if t.isascii() and t.isdigit() and len(t) < 19 else t for n, t in digits.items()}


def _look_up(value: object, root: str, steps: tuple[str, ...]) -> object:
    for depth, step in enumerate(steps):
        if value is None:
            return None
        if not isinstance(value, dict):
            return _Odd(".".join((root, *steps[:depth])), value)
        value = value.get(step)
    return value


def _tokens(source: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = source.get(name)
        if value is None:
            continue
        if isinstance(value, _Odd):
            raise UsageError(f"{value.field}: expected an object, got {SHORT.repr(value.value)}")
        if not _is_count(value):
            raise UsageError(f"{name}: expected a whole number of tokens, got {SHORT.repr(value)}")
        return value
    return None


def _is_count(value: object) -> TypeGuard[int]:
    # not isinstance: True is an int, too
    return type(value) is int and 0 <= value < 1 << 53


SHORT = Repr()  # bounded in depth and length, whatever a server sends
SHORT.maxstring = SHORT.maxother = 160
SHORT.maxlong = 40
