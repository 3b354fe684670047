"""The pytest plugin. Loading it imports pytest and little else; what is heavy comes in when a test first uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from ..errors import ConfigurationError
from . import hookspecs
from . import settings as _settings
from .keys import BASELINE, CURVES, GRAINS, KEEPER, ROWS, RUN, SETTINGS, WARM

if TYPE_CHECKING:
    from ..regression.values import Entry


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks that others may implement."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register ``--kv-*`` and their ini twins."""
    _settings.add_options(parser)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answer ``--kv-params`` instead of running tests."""
    if not config.getoption(_settings.PARAMETERS):
        return None
    from .checks import show_parameters

    show_parameters()
    return int(pytest.ExitCode.OK)


def pytest_configure(config: pytest.Config) -> None:
    """Resolve every setting once, and register the rest of the plugin under names of its own."""
    from . import checks, fixtures, markers
    from .curves import Curves
    from .leaving import place
    from .redacting import Redacting
    from .runtime import Runtime
    from .session import SessionReport

    try:
        config.stash[SETTINGS] = _settings.resolve(config)
    except ConfigurationError as error:
        raise pytest.UsageError(f"kvcache: {error}") from None
    seed = config.stash[SETTINGS].seed
    config.stash[RUN] = os.urandom(8).hex() if seed is None else f"seed {seed}"  # no two runs send the same prompt
    config.stash[WARM] = {}
    config.stash[GRAINS] = {}
    config.stash[BASELINE] = _baseline(config.stash[SETTINGS])
    for line in markers.help_lines():
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(fixtures, "kvcache-fixtures")
    config.pluginmanager.register(checks, "kvcache-checks")
    config.pluginmanager.register(Runtime(), "kvcache-runtime")
    config.pluginmanager.register(Redacting(), Redacting.NAME)
    config.stash[CURVES] = Curves()
    config.pluginmanager.register(config.stash[CURVES], Curves.NAME)
    tables = place("csv", config.stash[SETTINGS])
    if tables is not None:
        from .rows import Rows

        config.stash[ROWS] = Rows(config, tables)
        config.pluginmanager.register(config.stash[ROWS], Rows.NAME)
    if config.stash[SETTINGS].results is not None:
        from .keeping import Keeper

        try:
            config.stash[KEEPER] = keeper = Keeper(config)
        except ConfigurationError as error:
            raise pytest.UsageError(f"kvcache: {error}") from None
        config.pluginmanager.register(keeper, Keeper.NAME)
    if config.pluginmanager.hasplugin("allure_pytest"):
        from .attaching import Attaching

        config.pluginmanager.register(Attaching(), Attaching.NAME)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SessionReport(config), SessionReport.NAME)


def _baseline(settings: _settings.Settings) -> Mapping[str, Entry] | None:
    """Return the entries of the baseline; None: none is named."""
    if settings.baseline is None:
        return None
    if settings.update_baseline:
        from ..regression.files import why_not

        why = why_not(settings.baseline)
        if why is not None:
            raise pytest.UsageError(f"kvcache: --kv-update-baseline: {settings.baseline} cannot be written: {why}")
    if not settings.baseline.exists():
        return {}  # to be made
    from ..regression.documents import read_baseline  # imports pydantic: only for who compares

    try:
        return read_baseline(settings.baseline)
    except ConfigurationError as error:
        raise pytest.UsageError(f"kvcache: --kv-baseline: {error}") from None
