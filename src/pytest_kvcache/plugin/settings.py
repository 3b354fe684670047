"""Options, environment and ini to one frozen value, each error naming the value and where it came from.

Precedence: marker (where one exists) > option > environment > ini > default. Nothing heavy is imported, nothing is
contacted; this runs in every pytest of every project that has the plugin installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ..endpoint import Endpoint, MetricsSource, is_header, parse_base_url, parse_metrics_source
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..model import ResetMode

SIM = "sim"
_DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the command line, the environment and the ini file say, resolved once.

    Attributes:
        endpoint: base URL, ``sim`` for the built-in engine, None when none was named; never shown with its user-info.
        model: model to ask for; None: the served one.
        metrics: where the counters are read; empty: derived from the endpoint.
        tokenizer: file, folder, hub id or ``builtin``; None: the server's, or the engine's own.
        engine: engine profile; None: detected.
        engine_file: the user's own engine profiles, as files; a hook adds tables.
        usage_prompt / usage_absent: what the user says of the replies' usage: the prompt number leaves the cached part
            out (``uncached``); a cached number that is left out is 0 (``zero``). None: as the engine profile says.
        api_key: bearer token, None without; never shown.
        headers: further request headers as (name, value); values are never shown.
        timeout: seconds for one request.
        sample_interval: seconds between two looks at the gauges during the load; 0: none.
        concurrency: requests in flight unless a run says otherwise.
        processes: that send the load; with 1 it is pytest's own.
        seed: makes prompts the same in every run; None: a fresh nonce.
        reset: whether the cache is emptied before a run.
        report: JSON document to write; None for none.
        results: folder to which the result of each test is added as it ends; None for none.
        resume: ``results`` holds what earlier sessions measured, and that is not measured again.
        show_text: a failing test may show the prompt text around a first divergence in its own output.
        require: a missing endpoint is an error instead of a skip.
    """

    endpoint: str | None = field(default=None, repr=False)
    model: str | None = None
    metrics: tuple[MetricsSource, ...] = field(default=(), repr=False)
    tokenizer: str | None = None
    engine: str | None = None
    engine_file: tuple[Path | Mapping[str, Any], ...] = field(default=(), repr=False)
    usage_prompt: Literal["total", "uncached"] | None = None
    usage_absent: Literal["unknown", "zero"] | None = None
    sample_interval: float = 1.0
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 300.0
    concurrency: int = 8
    processes: int = 1
    seed: int | None = None
    reset: ResetMode = "never"
    report: Path | None = None
    results: Path | None = None
    resume: bool = False
    show_text: bool = False
    require: bool = False

    def connect(self, base: str) -> Endpoint:
        """Return the endpoint at ``base`` with everything else as set."""
        return Endpoint(
            base=base,
            model=self.model,
            metrics=self.metrics,
            engine=self.engine,
            profiles=self.engine_file,
            api_key=self.api_key,
            headers=self.headers,
            timeout=self.timeout,
        )


Parse = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class _Option:
    """One setting with its option ``--kv-x``, ini ``kv_x`` and environment ``PYTEST_KV_X``."""

    name: str
    parse: Parse
    help: str
    metavar: str | None = None
    repeatable: bool = False

    @property
    def is_switch(self) -> bool:
        return self.metavar is None

    @property
    def flag(self) -> str:
        return f"--kv-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        return f"kv_{self.name}"

    @property
    def variable(self) -> str:
        return f"PYTEST_KV_{self.name.upper()}"


def _text(value: str, origin: str) -> str:
    if not value.strip():
        raise ConfigurationError(f"{origin} is empty; give a value or leave it out")
    return value.strip()


def _endpoint(value: str, origin: str) -> str:
    return SIM if value.strip() == SIM else parse_base_url(value, origin)


def _engine_file(value: str, origin: str) -> Path:
    path = Path(_text(value, origin))
    if not path.is_file():
        raise ConfigurationError(f"{origin}: there is no file {value!r}; expected an engine profile such as my.toml")
    return path


def _one_of(*allowed: str) -> Parse:
    def parse(value: str, origin: str) -> str:
        if value not in allowed:
            raise ConfigurationError(f"{origin}: {value!r} is none of {', '.join(allowed)}")
        return value

    return parse


def _prefix(value: str, origin: str) -> tuple[str, str]:
    ours, separator, theirs = value.partition("=")
    if not separator or not ours or not theirs:
        raise ConfigurationError(f"{origin}: expected OLD=NEW, such as vllm:=aibrix:, got {value!r}")
    return ours, theirs


def _interval(value: str, origin: str) -> float:
    return 0.0 if value.strip() == "0" else _seconds(value, origin)


def _seconds(value: str, origin: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"{origin}: {value!r} is no duration; expected seconds above 0, such as 60")
    return seconds


def _count(value: str, origin: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise ConfigurationError(f"{origin}: {value!r} is no count; expected a whole number of at least 1")
    return int(value)


def _seed(value: str, origin: str) -> int:
    if not value.strip().isdecimal():
        raise ConfigurationError(f"{origin}: {value!r} is no seed; expected a whole number such as 7")
    return int(value)


def _header(value: str, origin: str) -> tuple[str, str]:
    name, separator, text = value.partition(":")
    if not separator or not is_header(name.strip(), text.strip()):
        raise ConfigurationError(f"{origin}: expected 'Name: value' on one line (the value is not shown here)")
    return name.strip(), text.strip()


def _switch(value: str, origin: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if value.strip().lower() not in words:
        raise ConfigurationError(f"{origin}: {value!r} is neither true nor false")
    return words[value.strip().lower()]


def _report(value: str, origin: str) -> Path:
    path = Path(_text(value, origin))
    if path.is_dir():
        raise ConfigurationError(f"{origin}: {value!r} is a folder; expected a file such as kv.json")
    return path


def _folder(value: str, origin: str) -> Path:
    path = Path(_text(value, origin))
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{origin}: {value!r} is a file; expected a folder such as results")
    return path


OPTIONS = (
    _Option(
        "endpoint", _endpoint, "OpenAI-compatible server to measure, or 'sim' for the built-in simulated engine", "URL"
    ),
    _Option("model", _text, "model to ask for (default: the served one, when there is exactly one)", "NAME"),
    _Option(
        "metrics",
        parse_metrics_source,
        "metrics page of an engine behind the endpoint; repeatable; a name in front tells pages apart, and 'prefill' or"
        " 'decode' says what the engine does; prometheus+http://HOST:9090?match=job=\"x\" reads a Prometheus server"
        " (default: URL/metrics)",
        "[NAME=]URL",
        repeatable=True,
    ),
    _Option(
        "metrics_prefix",
        _prefix,
        "the prefix of the engine's sample names and what its page writes instead, such as vllm:=aibrix:",
        "OLD=NEW",
    ),
    _Option(
        "tokenizer",
        _text,
        "the model's tokenizer: tokenizer.json, a folder with one, a hub id, or 'builtin' (default: ask the server)",
        "NAME",
    ),
    _Option("engine", _text, "engine profile instead of detecting it; 'usage' judges by usage alone", "ID"),
    _Option("engine_file", _engine_file, "an engine profile of your own (TOML); repeatable", "FILE", repeatable=True),
    _Option(
        "usage_prompt",
        _one_of("total", "uncached"),
        "whether the replies' prompt tokens hold the cached part or leave it out (default: as the engine profile says)",
        "WORD",
    ),
    _Option(
        "usage_absent",
        _one_of("unknown", "zero"),
        "what a reply without cached_tokens means (default: as the engine profile says, else unknown)",
        "WORD",
    ),
    _Option(
        "sample_interval",
        _interval,
        "seconds between two looks at the server's gauges during the load, 0 for none (default: 1)",
        "SECONDS",
    ),
    _Option("api_key_env", _text, "variable that holds the API key (default: OPENAI_API_KEY)", "VARIABLE"),
    _Option("header", _header, "further request header; repeatable", "'NAME: VALUE'", repeatable=True),
    _Option("timeout", _seconds, "seconds that one request may take (default: 300)", "SECONDS"),
    _Option("concurrency", _count, "requests in flight, unless a test says otherwise (default: 8)", "N"),
    _Option(
        "processes",
        _count,
        "processes that send the load, for a server that one of them cannot keep busy (default: 1, pytest itself)",
        "N",
    ),
    _Option("seed", _seed, "send the same prompts in every run (default: a fresh nonce, so that a rerun is cold)", "N"),
    _Option(
        "reset",
        _one_of("never", "auto", "require"),
        "empty the server's cache before a run: never, auto or require (default: never)",
        "MODE",
    ),
    _Option("report", _report, "write the results as a JSON document", "FILE"),
    _Option("results", _folder, "add the result of each test to files in this folder as it ends", "DIR"),
    _Option(
        "resume",
        _folder,
        "do not measure again what the results in this folder hold, and add the rest to it (see --kv-results)",
        "DIR",
    ),
    _Option(
        "show_text",
        _switch,
        "show the prompt text around a first divergence in the output of the test that failed (default: only its class"
        " and position; it never goes into a report)",
    ),
)
_REQUIRE = "kv_require"


def add_options(parser: pytest.Parser) -> None:
    """Register every option with its ini twin; the environment twin is named in the help."""
    group = parser.getgroup("kvcache", "KV-cache regression tests (pytest-kvcache)")
    for option in OPTIONS:
        text = f"{option.help} [env: {option.variable}]"
        group.addoption(option.flag, default=None, help=text.replace("%", "%%"), **_action(option))
        parser.addini(option.ini, option.help, type=_ini_type(option), default=None)
    parser.addini(_REQUIRE, "a missing endpoint is a usage error instead of a skip", type="bool", default=False)


def _action(option: _Option) -> dict[str, Any]:
    if option.is_switch:
        return {"action": "store_const", "const": "true"}
    return {"action": "append" if option.repeatable else "store", "metavar": option.metavar}


def _ini_type(option: _Option) -> Literal["linelist", "string"]:
    return "linelist" if option.repeatable else "string"


def resolve(config: pytest.Config, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a pytest run.

    Raises:
        ConfigurationError: a value that cannot be used; one line that names it and where it came from.
    """
    values = {option.name: _resolve(option, config, environ) for option in OPTIONS}
    key_variable, key_origin = values["api_key_env"]
    # a key that was read from a file often ends with its line, which no header may hold
    api_key = environ.get(key_variable or _DEFAULT_KEY_VARIABLE, "").strip() or None
    if key_variable and api_key is None:
        raise ConfigurationError(f"{key_origin}: the variable {key_variable!r} is not set; export the API key in it")
    if key_variable and "@" in (values["endpoint"][0] or ""):
        raise ConfigurationError(f"{key_origin}: the endpoint's URL has user-info already; give one of the two")
    chosen = {name: value for name, (value, _) in values.items() if value is not None and name != "api_key_env"}
    chosen["headers"] = chosen.pop("header", ())
    _resume(chosen, values["resume"][1])
    _rename(chosen, values["metrics_prefix"][1])
    settings = Settings(**chosen, api_key=api_key, require=bool(config.getini(_REQUIRE)))
    return _with_profiles(settings, config, values["engine"][1])


def _resume(chosen: dict[str, Any], origin: str) -> None:
    folder = chosen.pop("resume", None)
    if folder is None:
        return
    if chosen.setdefault("results", folder) != folder:
        raise ConfigurationError(f"{origin}: {folder} is not the folder of --kv-results; give one of the two")
    chosen["resume"] = True


def _rename(chosen: dict[str, Any], origin: str) -> None:
    renamed = chosen.pop("metrics_prefix", None)
    if renamed is None:
        return
    if "metrics" not in chosen or "engine" not in chosen:
        raise ConfigurationError(f"{origin}: needs --kv-metrics and --kv-engine, as a renamed page shows no engine")
    chosen["metrics"] = tuple(replace(source, renamed=renamed) for source in chosen["metrics"])


def _with_profiles(settings: Settings, config: pytest.Config, origin: str) -> Settings:
    """Add the profiles that plugins bring, and check the engine's name against all of them."""
    brought = [profile for found in config.hook.pytest_kvcache_engine(config=config) for profile in _each(found)]
    settings = replace(settings, engine_file=(*settings.engine_file, *brought))
    shipped = {path.stem for path in (Path(__file__).parent.parent / "engines").glob("*.toml")}
    if settings.engine_file or (settings.engine is not None and settings.engine not in shipped):
        from ..engines import Catalogue  # imports pydantic: only for who brings or misnames a profile

        catalogue = Catalogue(settings.engine_file)
        try:
            if settings.engine is not None:
                catalogue.get(settings.engine)
        except ConfigurationError as error:
            raise ConfigurationError(f"{origin}: {error}") from None
    return settings


def _each(found: object) -> Iterable[Any]:
    return found if isinstance(found, (list, tuple)) else [found]


def _resolve(option: _Option, config: pytest.Config, environ: Mapping[str, str]) -> tuple[Any, str]:
    given = config.getoption(option.flag)
    origin = option.flag
    if given is None and option.variable in environ:
        text = environ[option.variable]
        given, origin = text.split("\n") if option.repeatable else text, f"environment variable {option.variable}"
    if given is None:
        given, origin = config.getini(option.ini), f"ini option {option.ini}"
        if given is None:
            return None, ""
    if option.repeatable:
        values: list[str] = given
        return tuple(option.parse(value, origin) for value in values), origin
    return option.parse(str(given), origin), origin
