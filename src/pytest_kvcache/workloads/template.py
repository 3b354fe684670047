"""A model's chat template, rendered here as a server renders it (needs the extra ``template``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import WorkloadError

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.nodes import Node
    from jinja2.parser import Parser

_FILE = "chat_template.jinja"
_CONFIG = "tokenizer_config.json"
_PARTS = re.compile(r"""\.type\b|\[['"]type['"]\]""")
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The chat template of one model.

    Attributes:
        name: the file that holds it.
        inner: compiled.
        special: texts of special tokens that templates refer to.
        parts: the template takes a content apart itself; others get one text.
    """

    name: str
    inner: Template
    special: Mapping[str, str]
    parts: bool

    def render(self, body: Mapping[str, Any]) -> str:
        """Return the prompt of a chat body, up to where the answer begins.

        Raises:
            WorkloadError: the template refuses the messages.
        """
        from jinja2 import TemplateError

        given = body.get("chat_template_kwargs")
        more = given if isinstance(given, Mapping) else {}
        messages = [self._handed(message) for message in body.get("messages") or ()]
        try:
            return self.inner.render(
                {
                    **self.special,
                    "messages": messages,
                    "tools": body.get("tools") or None,
                    "documents": body.get("documents"),
                    "add_generation_prompt": body.get("add_generation_prompt", True),
                    **more,
                }
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:  # a template's arithmetic may fail in any way
            raise WorkloadError(
                f"{self.name} cannot render these messages: {type(error).__name__}; a server with it would refuse them"
            ) from None

    def _handed(self, message: Any) -> Any:
        """Return a message as servers hand it to templates: arguments of calls as objects, content as one text."""
        if not isinstance(message, Mapping):
            return message
        handed = dict(message)
        if isinstance(message.get("tool_calls"), list):
            handed["tool_calls"] = [_parsed_call(call) for call in message["tool_calls"]]
        if isinstance(message.get("content"), list) and not self.parts:
            texts = [part.get("text") for part in message["content"] if isinstance(part, Mapping)]
            handed["content"] = "\n".join(text for text in texts if isinstance(text, str))  # as vLLM 0.32 joins them
        return handed


def load_template(folder: str | Path) -> ChatTemplate | None:
    """Return the chat template of a model's folder, None when there is none in it.

    ``chat_template.jinja`` wins over ``tokenizer_config.json``, as in transformers.

    Raises:
        WorkloadError: jinja2 is not installed, or the template cannot be read.
    """
    path = Path(folder).expanduser()
    config = _config(path / _CONFIG)
    if (path / _FILE).is_file():
        return _compiled((path / _FILE).read_text(encoding="utf-8"), str(path / _FILE), _special(config))
    source = _of_config(config.get("chat_template"))
    return None if source is None else _compiled(source, str(path / _CONFIG), _special(config))


def _config(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WorkloadError(f"{path} is not JSON: {error}") from None
    return config if isinstance(config, dict) else {}


def _of_config(given: Any) -> str | None:
    """Return a template, or of several by name the default one."""
    if isinstance(given, list):
        named = {entry.get("name"): entry.get("template") for entry in given if isinstance(entry, Mapping)}
        given = named.get("default")
    return given if isinstance(given, str) else None


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    found = {name: config.get(name) for name in _SPECIAL}
    texts = {name: t.get("content") if isinstance(t, Mapping) else t for name, t in found.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _compiled(source: str, name: str, special: Mapping[str, str]) -> ChatTemplate:
    try:
        from jinja2 import TemplateError
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise WorkloadError(
            f"{name} needs jinja2 to be rendered; install it with: pip install 'pytest-kvcache[template]'"
        ) from None

    class Generation(Extension):
        """``{% generation %}`` marks what an assistant says, for training; it renders as what is in it."""

        tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

        def parse(self, parser: Parser) -> list[Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    try:
        return ChatTemplate(name, environment.from_string(source), special, _PARTS.search(source) is not None)
    except TemplateError as error:
        raise WorkloadError(f"{name} is no template: {error}") from None


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as it is: jinja2's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)  # as servers do: the local time of the machine


def _parsed_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}
