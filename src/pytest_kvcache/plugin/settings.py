"""Options, environment and ini to one frozen value, each error naming the value and where it came from.

Precedence: marker (where one exists) > option > environment > ini > default. Nothing heavy is imported, nothing is
contacted; this runs in every pytest of every project that has the plugin installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ..endpoint import Endpoint, MetricsSource
from ..errors import ConfigurationError
from .options import OPTIONS, Option
from .parsing import SIM as SIM

if TYPE_CHECKING:
    from ..model import ResetMode
    from ..savings.prices import PriceList

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
        api_key_env: the variable that holds it.
        headers: further request headers as (name, value); values are never shown.
        timeout: seconds for one request.
        prices: of models, as a file says; None: as the endpoint tells them.
        sample_interval: seconds between two looks at the gauges during the load; 0: none.
        concurrency: requests in flight unless a run says otherwise.
        processes: that send the load; with 1 it is pytest's own.
        seed: makes prompts the same in every run; None: a fresh nonce.
        reset: whether the cache is emptied before a run.
        report: JSON document to write; None for none.
        markdown: the same for people, to write; None for none.
        html: the same as a page with charts, to write; None for none.
        csv: folder for tables of the results and of every request; None for none.
        reproduce: shell script that repeats the session, to write; None for none.
        artifacts: folder for every form of report that has no place of its own; None for none.
        results: folder to which the result of each test is added as it ends; None for none.
        resume: ``results`` holds what earlier sessions measured, and that is not measured again.
        history: file to which one line a test is added; None for none.
        baseline: file of the values that tests are compared with; None for none.
        update_baseline: measured values are put there instead.
        allow_change: names of circumstances that may be others than those of the baseline.
        show_text: a failing test may show the prompt text around a first divergence in its own output.
        parameters: of the ready-made checks: check, parameter and value, in the order in which they were set.
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
    api_key_env: str = _DEFAULT_KEY_VARIABLE
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 300.0
    prices: PriceList | None = field(default=None, repr=False)
    concurrency: int = 8
    processes: int = 1
    seed: int | None = None
    reset: ResetMode = "never"
    report: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    csv: Path | None = None
    reproduce: Path | None = None
    artifacts: Path | None = None
    results: Path | None = None
    resume: bool = False
    history: Path | None = None
    baseline: Path | None = None
    update_baseline: bool = False
    allow_change: tuple[str, ...] = ()
    show_text: bool = False
    parameters: tuple[tuple[str, str, Any], ...] = field(default=(), repr=False)
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
            prices=self.prices,
        )


_REQUIRE = "kv_require"
PARAMETERS = "--kv-params"


def add_options(parser: pytest.Parser) -> None:
    """Register every option with its ini twin; the environment twin is named in the help."""
    group = parser.getgroup("kvcache", "KV-cache regression tests (pytest-kvcache)")
    for option in OPTIONS:
        text = f"{option.help} [env: {option.variable}]"
        group.addoption(option.flag, default=None, help=text.replace("%", "%%"), **_action(option))
        parser.addini(option.ini, option.help, type=_ini_type(option), default=None)
    group.addoption(PARAMETERS, action="store_true", help="show the parameters of the ready-made checks, and end")
    parser.addini(_REQUIRE, "a missing endpoint is a usage error instead of a skip", type="bool", default=False)


def _action(option: Option) -> dict[str, Any]:
    if option.is_switch:
        return {"action": "store_const", "const": "true"}
    return {"action": "append" if option.repeatable else "store", "metavar": option.metavar}


def _ini_type(option: Option) -> Literal["linelist", "string"]:
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
    chosen = {name: value for name, (value, _) in values.items() if value is not None}
    chosen["headers"] = chosen.pop("header", ())
    _parameters(chosen, values["set"][1])
    _resume(chosen, values["resume"][1])
    _rename(chosen, values["metrics_prefix"][1])
    _baseline(chosen, values["baseline"][1], values["update_baseline"][1])
    settings = Settings(**chosen, api_key=api_key, require=bool(config.getini(_REQUIRE)))
    return _with_profiles(settings, config, values["engine"][1])


def _parameters(chosen: dict[str, Any], origin: str) -> None:
    if "set" not in chosen:
        return
    from ..suite.asked import check_all  # for who sets any

    chosen["parameters"] = chosen.pop("set")
    check_all(chosen["parameters"], origin)


def _resume(chosen: dict[str, Any], origin: str) -> None:
    folder = chosen.pop("resume", None)
    if folder is None:
        return
    if chosen.setdefault("results", folder) != folder:
        raise ConfigurationError(f"{origin}: {folder} is not the folder of --kv-results; give one of the two")
    chosen["resume"] = True


def _baseline(chosen: dict[str, Any], origin: str, update_origin: str) -> None:
    path, update = chosen.get("baseline"), chosen.get("update_baseline", False)
    if update and path is None:
        raise ConfigurationError(f"{update_origin}: which one? Name it with --kv-baseline=FILE")
    if path is not None and not update and not path.exists():
        raise ConfigurationError(f"{origin}: there is no {path}; make it with --kv-update-baseline")


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


def _resolve(option: Option, config: pytest.Config, environ: Mapping[str, str]) -> tuple[Any, str]:
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
