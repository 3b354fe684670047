"""Which request is a row of a file? A body of an API, what wraps one, or a row of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .apis import PATHS

SESSION = ("session", "session_id", "conversation_id")
PROMPTS = {"messages": "chat", "prompt": "completions", "input": "responses"}  # what tells a body's form


class NoRequest(ValueError):
    """A row that is no request; says why, and shows none of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded request.

    Attributes:
        body: as it was recorded.
        api: a key of :data:`pytest_kvcache.apis.PATHS`.
        session: what its session is called; None: it stands alone.
    """

    body: Mapping[str, Any]
    api: str
    session: str | None = None


def row_of(value: Mapping[str, Any]) -> Row:
    """Return a recorded body, or what wraps one.

    Raises:
        NoRequest: it is neither.
    """
    wrapped = "body" in value and not any(value.get(name) is not None for name in PROMPTS)
    body = value["body"] if wrapped else {name: part for name, part in value.items() if name not in SESSION}
    if not isinstance(body, dict):
        raise NoRequest(f"'body' is {named(body)}; expected a JSON object")
    return Row(body, _api_of(value if wrapped else {}, body), _session_of(value))


def _api_of(wrapper: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    if "api" in wrapper:
        api = wrapper["api"]
        if not isinstance(api, str) or api not in PATHS:
            raise NoRequest(f"its 'api' is none of {', '.join(PATHS)}")
        return api
    if "url" in wrapper:
        found = [api for api, route in PATHS.items() if str(wrapper["url"]).endswith(route)]
        if not found:
            raise NoRequest(f"its 'url' is none of {', '.join(PATHS.values())}")
        return max(found, key=lambda api: len(PATHS[api]))
    named_by = [api for name, api in PROMPTS.items() if body.get(name) is not None]
    if len(named_by) != 1:
        has = "none" if not named_by else "several"
        raise NoRequest(f"a body needs one of {', '.join(PROMPTS)}, and has {has} of them")
    return named_by[0]


def _session_of(value: Mapping[str, Any]) -> str | None:
    given = {name: value[name] for name in SESSION if value.get(name) is not None}
    if not given:
        return None
    name, session = next(iter(given.items()))
    if not isinstance(session, (str, int)) or isinstance(session, bool):
        raise NoRequest(f"{name!r} is {named(session)}; expected a text or a whole number")
    return str(session)


def named(value: object) -> str:
    """Return the kind of a value of JSON; the value itself is the user's and stays out of messages."""
    kinds = {type(None): "nothing", bool: "true or false", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")
