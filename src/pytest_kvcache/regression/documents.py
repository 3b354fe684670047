"""Files of others to what can be compared: baselines, and documents of whole sessions. What is not ours is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from ..errors import ConfigurationError
from ..report.document import SCHEMA
from . import baseline
from .values import Entry, Group, Session


def _as_written(value: Any, checked: ValidatorFunctionWrapHandler) -> float:
    """Keep a whole number whole, so that a baseline is written as it was read."""
    number: float = checked(value)
    return value if isinstance(value, int) else number


Number = Annotated[float, Field(allow_inf_nan=False, ge=0), WrapValidator(_as_written)]
Scalar = str | int | bool | None
Kind = TypeVar("Kind", bound=BaseModel)


class _Group(BaseModel):
    model_config = ConfigDict(strict=True)

    where: str = ""
    runs: Annotated[int, Field(ge=1)]
    values: dict[str, list[Number | None]]

    @model_validator(mode="after")
    def _one_each(self) -> _Group:
        for name, values in self.values.items():
            if len(values) != self.runs:
                raise ValueError(f"{name} has {len(values)} values of {self.runs} runs")
        return self


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)

    context: dict[str, Scalar] | None
    groups: list[_Group]


class _Baseline(BaseModel):
    model_config = ConfigDict(strict=True)

    checks: dict[str, _Entry]


class _Check(BaseModel):
    model_config = ConfigDict(strict=True)

    nodeid: str
    verdict: str
    context: dict[str, Scalar] | None
    values: list[_Group]


class _Document(BaseModel):
    model_config = ConfigDict(strict=True)

    endpoint: str | None = None
    interrupted: bool = False
    checks: list[_Check]


def read_baseline(path: Path) -> dict[str, Entry]:
    """Return the entries of a baseline.

    Raises:
        ConfigurationError: it cannot be read, is no baseline, of another version, or damaged.
    """
    content = _json(path, baseline.SCHEMA, "a baseline", "--kv-baseline=FILE --kv-update-baseline")
    return {nodeid: _entry(found) for nodeid, found in _validated(_Baseline, content, path).checks.items()}


def read_document(path: Path) -> Session:
    """Return the tests of a session's document.

    Raises:
        ConfigurationError: it cannot be read, is no document, of another version, or damaged.
    """
    content = _json(path, SCHEMA, "a document of a session", "--kv-report=FILE")
    found = _validated(_Document, content, path)
    checks = {check.nodeid: (check.verdict, _entry(check)) for check in found.checks}
    return Session(path.name, found.interrupted, checks)


def _json(path: Path, schema: str, what: str, made_by: str) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no JSON ({str(error)[:80]}); expected {what}, made by {made_by}") from None
    told = content.get("schema") if isinstance(content, dict) else None
    if told != schema:
        seen = f"says {told!r}"[:80] if isinstance(told, str) else "has no schema"
        raise ConfigurationError(f"{path} {seen}; expected {what} ({schema!r}), made by {made_by}")
    return content


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _validated(kind: type[Kind], content: Any, path: Path) -> Kind:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:200]
        raise ConfigurationError(f"{path} is damaged at {where or 'its head'}: {first['msg']}") from None


def _entry(found: _Entry | _Check) -> Entry:
    groups = found.groups if isinstance(found, _Entry) else found.values
    return Entry(found.context, [Group(group.where, group.runs, group.values) for group in groups])
