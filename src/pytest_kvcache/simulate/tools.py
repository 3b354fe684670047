"""Calls of tools: which one a request demands, and how generated words become its argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ChoiceError(ValueError):
    """``tool_choice`` cannot be met; the text is the server's message."""


@dataclass(frozen=True, slots=True)
class Called:
    """The call that an answer is: all generated words are the value of one argument.

    Attributes:
        name: of the tool.
        argument: name of the argument.
    """

    name: str
    argument: str

    def delta(self, words: str, identity: str, *, first: bool, last: bool) -> dict[str, Any]:
        """Return the piece of a stream that carries some words, which are letters and spaces: id and name come first.

        Args:
            words: what became due.
            identity: the call's id.
            first / last: of the pieces of this call.
        """
        arguments = (f'{{"{self.argument}": "' if first else "") + words + ('"}' if last else "")
        if not first:
            return {"index": 0, "function": {"arguments": arguments}}
        return {"id": identity, "type": "function", "index": 0, "function": {"name": self.name, "arguments": arguments}}

    def whole(self, words: str, identity: str) -> dict[str, Any]:
        """Return the call of an answer that comes at once."""
        piece = self.delta(words, identity, first=True, last=True)
        return {name: value for name, value in piece.items() if name != "index"}


def called(tools: Sequence[Mapping[str, Any]] | None, choice: Any) -> Called | None:
    """Return the call that ``tool_choice`` demands; None: an answer in words, as ``auto`` always gets here.

    Raises:
        ChoiceError: there are no tools, no tool of that name, or it is no known choice.
    """
    if choice in (None, "auto", "none"):
        return None
    functions = [function for tool in tools or () if isinstance(function := tool.get("function"), Mapping)]
    if not functions:
        raise ChoiceError("tool_choice needs tools")
    if choice == "required":
        return _call(functions[0])
    wanted = choice.get("function") if isinstance(choice, Mapping) else None
    name = wanted.get("name") if isinstance(wanted, Mapping) else None
    for function in functions:
        if name is not None and function.get("name") == name:
            return _call(function)
    raise ChoiceError(f"tool_choice: expected auto, none, required or the name of one of the tools, got {choice!r}")


def _call(function: Mapping[str, Any]) -> Called:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    names = list(properties) if isinstance(properties, Mapping) else []
    return Called(str(function.get("name")), names[0] if names else "input")
