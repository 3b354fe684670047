"""What a client asks of the simulated engine, checked."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .tools import Called, ChoiceError, called


class BodyError(Exception):
    """The request is refused with status 400; the text is the server's message.

    Attributes:
        param: the field at fault, None when it is the body as a whole.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False
    continuous_usage_stats: bool = False


class Generate(BaseModel):
    """The fields of a completions or chat body that the engine heeds; the rest is ignored, as real engines do."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = None
    prompt: Any = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _StreamOptions = Field(default_factory=_StreamOptions)
    n: int = Field(default=1, ge=1)
    temperature: float = 1.0
    logprobs: int | bool | None = None
    top_logprobs: int = 0
    prompt_logprobs: int | None = None
    echo: bool = False
    cache_salt: str | None = None
    return_token_ids: bool = False
    chat: bool = False

    @property
    def output_len(self) -> int:
        """Tokens to generate; 16 unless asked otherwise, as the OpenAI completions route has it."""
        asked = self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens
        return 16 if asked is None else asked

    @property
    def called(self) -> Called | None:
        """The call of a tool that the answer must be."""
        return called(self.tools, self.tool_choice) if self.chat else None

    @property
    def wants_logprobs(self) -> bool:
        """Log probabilities of the generated tokens; a completion that asks for 0 best ones gets the chosen one's."""
        return self.logprobs is True if self.chat else self.logprobs is not None and not self.echo

    @property
    def bypasses_cache(self) -> bool:
        """Prompt logprobs need every prompt token computed (vLLM: neither looked up nor counted)."""
        return self.prompt_logprobs is not None or (self.echo and self.logprobs is not None and not self.chat)

    def prompts(self) -> list[str | list[int]]:
        """Return the prompts: one text, one list of ids, or a list of either."""
        if self.chat:
            return [render_chat(self.messages or [], self.tools)]
        given = self.prompt
        if isinstance(given, str):
            return [given]
        if isinstance(given, list) and given and all(_is_id(item) for item in given):
            return [given]
        if isinstance(given, list) and given:
            return [self._one(item) for item in given]
        raise BodyError("prompt must be provided and must not be empty", "prompt")

    @staticmethod
    def _one(item: Any) -> str | list[int]:
        if isinstance(item, str) or (isinstance(item, list) and all(_is_id(number) for number in item)):
            return item
        raise BodyError(f"prompt: expected text or token ids, got {type(item).__name__}", "prompt")


def parse_generate(content: dict[str, Any], *, chat: bool) -> Generate:
    """Return a checked body. A field that is null counts as left out, as with real engines.

    Raises:
        BodyError: a field with a wrong value.
    """
    given = {name: value for name, value in content.items() if value is not None}
    try:
        body = Generate.model_validate({**given, "chat": chat})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BodyError(f"{where}: {first['msg']}", where) from None
    if chat and not body.messages:
        raise BodyError("messages must not be empty", "messages")
    if body.output_len < 1:
        raise BodyError(f"max_tokens must be at least 1, got {body.output_len}", "max_tokens")
    try:
        _ = body.called
    except ChoiceError as error:
        raise BodyError(str(error), "tool_choice") from None
    if given.get("stream_options") and not body.stream:
        raise BodyError("stream_options need stream=true", "stream_options")
    return body


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in ``text``; nothing at all is an empty one.

    Raises:
        BodyError: it is not a JSON object.
    """
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise BodyError(f"the body is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise BodyError(f"expected a JSON object, got {type(content).__name__}")
    return content


def render_chat(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str:
    """Return the text of a conversation: ChatML, with the tools as JSON lines in a system turn of their own."""
    turns = [_turn("system", "\n".join(json.dumps(tool) for tool in tools))] if tools else []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else "" if content is None else json.dumps(content)
        calls = message.get("tool_calls")
        turns.append(_turn(str(message.get("role")), text + (json.dumps(calls) if calls else "")))
    return "".join(turns) + "<|im_start|>assistant\n"


def _turn(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32
