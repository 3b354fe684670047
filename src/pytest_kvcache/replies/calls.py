"""Calls of tools, put together from the pieces of a stream into the form in which an agent sends them back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .piece import mapping, word


@dataclass(slots=True)
class _Call:
    index: object
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ToolCalls:
    """The calls of one answer, in the order in which they began.

    OpenAI's streams name the call of a piece by ``index``, give ``id`` and name in its first piece, and spell the
    arguments over the others. Servers leave any of that out, or give every call the index 0: another id is another
    call. A piece with neither index nor id begins a call if it has a name, else it continues the last one.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def take(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Take what one chunk says of calls; a whole answer is one chunk."""
        for piece in pieces:
            function = mapping(piece.get("function"))
            identity, name = word(piece.get("id")) or None, word(function.get("name")) or ""
            call = self._of(piece.get("index"), identity, name)
            call.id = call.id or identity
            call.name = call.name or name
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                call.arguments.append(arguments)
            elif isinstance(arguments, Mapping):  # not OpenAI's form, and seen all the same
                call.arguments.append(json.dumps(arguments))

    def _of(self, index: object, identity: str | None, name: str) -> _Call:
        latest = reversed(self._calls)
        if isinstance(index, int):
            known = next((call for call in latest if call.index == index), None)
        elif identity is not None:
            known = next((call for call in latest if call.id == identity), None)
        else:
            known = None if name else next(latest, None)
        if known is None or (identity is not None and known.id not in (None, identity)):
            known = _Call(index)
            self._calls.append(known)
        return known

    def told(self) -> tuple[dict[str, Any], ...]:
        """Return the calls as OpenAI has them in a history; one without an id gets ``call_<n>``, n its place."""
        return tuple(
            {
                "id": call.id or f"call_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
            }
            for number, call in enumerate(self._calls)
        )
