"""How far may what fall behind what it was? Keywords and options to limits, with errors that say what to write. Pure.

``hit_rate=-0.02``: it may fall by 0.02 (two points). ``ttft_p95="+10%"``: it may rise by a tenth of what it was;
``ttft_p95=0.05``: by 50 ms. ``output_tok_s="-5%"``: it may fall by a twentieth. 0: it may not get worse at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import ConfigurationError
from .context import NAMES
from .metrics import METRICS, Metric

ALPHA = 0.01
"""How often a comparison may tell a regression where nothing has changed, at most."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """How much worse one metric may get.

    Attributes:
        metric: which.
        amount: 0 or more, in the direction that is worse: a share of the baseline, or in the metric's unit.
        relative: it is a share of the baseline.
    """

    metric: Metric
    amount: float
    relative: bool

    @property
    def change(self) -> float:
        """The same with its sign: negative where it is worse to fall, and never a negative zero."""
        return self.amount if self.metric.rising or not self.amount else -self.amount


@dataclass(frozen=True, slots=True)
class Asked:
    """All that is asked of a comparison.

    Attributes:
        limits: of each metric that is compared.
        allowed: names of the circumstances that may have changed.
    """

    limits: tuple[Allowed, ...]
    allowed: frozenset[str] = frozenset()


def asked(limits: Mapping[str, object], allow: object = ()) -> Asked:
    """Return what is compared: what is given, and with nothing given that the hit rate must not fall at all.

    Args:
        limits: by name of the metric; None stands for one that is not given.
        allow: names of circumstances, such as ``engine_version``.

    Raises:
        ConfigurationError: an unknown name, a limit that is none, or one in the direction that is better.
    """
    given = {name: value for name, value in limits.items() if value is not None} or {"hit_rate": 0.0}
    found = {name: allowed(name, value) for name, value in given.items()}
    return Asked(tuple(found[name] for name in METRICS if name in found), circumstances(allow))


def allowed(name: str, value: object) -> Allowed:
    """Return one limit.

    Raises:
        ConfigurationError: see :func:`asked`.
    """
    if name not in METRICS:
        raise ConfigurationError(f"{name}= is nothing that is compared{_hint(name, METRICS)}; see docs/regressions.md")
    metric = METRICS[name]
    amount, relative = _number(metric, value)
    if amount and (amount > 0) != metric.rising:
        way = "rises" if metric.rising else "falls"
        turned = f"{100 * abs(amount):g}%" if relative else f"{abs(amount):g}"
        raise ConfigurationError(
            f"{name}={value!r}: it is worse when it {way}, so what may be is written {'+' if metric.rising else '-'}"
            f"{turned}"
        )
    if relative and not metric.rising and abs(amount) >= 1:
        raise ConfigurationError(f"{name}={value!r} allows everything; expected less than 100 %")
    if metric.is_share and abs(amount) >= 1:
        raise ConfigurationError(
            f"{name}={value!r} allows everything, since it is a share of 0..1; expected {_expected(metric)}"
        )
    return Allowed(metric, abs(amount), relative)


def circumstances(names: object) -> frozenset[str]:
    """Return names of circumstances that may change.

    Raises:
        ConfigurationError: there is none of that name.
    """
    given: Iterable[object] = [names] if isinstance(names, str) else names if isinstance(names, Iterable) else [names]
    found = list(given)
    for name in found:
        if name not in NAMES:
            raise ConfigurationError(
                f"allow={name!r} is none of what may change{_hint(str(name), NAMES)}: {', '.join(NAMES)}"
            )
    return frozenset(map(str, found))


def _number(metric: Metric, value: object) -> tuple[float, bool]:
    relative = isinstance(value, str) and value.strip().endswith("%")
    text = value.strip().removesuffix("%") if isinstance(value, str) else value
    try:
        number = math.nan if isinstance(text, bool) or text is None else float(text)  # type: ignore[arg-type] # tried
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{metric.name}={value!r} is no change; expected {_expected(metric)}")
    if relative and metric.is_share:
        raise ConfigurationError(
            f"{metric.name}={value!r} may mean two things; say it in points: expected {_expected(metric)}"
        )
    return (number / 100 if relative else number), relative


def _expected(metric: Metric) -> str:
    sign = "+" if metric.rising else "-"
    if metric.is_share:
        return f"a number such as {sign.strip('+')}0.02 (two points)"
    return (
        f"a part of what it was, such as '{sign}10%', or a number in {'seconds' if metric.unit == 's' else metric.unit}"
    )


def _hint(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f", did you mean {close[0]}" if close else ""
