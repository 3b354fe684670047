"""Completions, chat completions and responses, as OpenAI documents them and servers imitate them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import error_message
from .piece import Piece, ids, mapping, objects, word


def choices(body: Mapping[str, Any]) -> Piece:
    """Read a completion or a chat completion. ``choices`` may be empty anywhere in a stream.

    Token ids are told by vLLM (0.32: those of a chat's prompt beside the choices, those of a completion's in each).
    """
    piece = Piece(usage=body, prompt_ids=ids(body.get("prompt_token_ids")))
    for choice in objects(body.get("choices")):
        first = choice.get("index") in (0, None)
        said = piece if first else Piece()
        part = mapping(choice.get("delta") or choice.get("message") or choice)
        content = part.get("content") or part.get("text")
        said.add_text(content)
        if isinstance(content, list):  # some servers write the content as typed blocks
            for block in objects(content):
                said.add_text(block.get("text"))
                said.content |= bool(block.get("thinking"))
        said.add_text(part.get("refusal"))
        said.add_reasoning(part.get("reasoning_content") or part.get("reasoning"))
        piece.content |= said.content or bool(part.get("tool_calls") or part.get("function_call"))
        if first:
            piece.finish = word(choice.get("finish_reason")) or piece.finish
            piece.calls = objects(part.get("tool_calls"))
            piece.output_ids = ids(choice.get("token_ids"))
            if piece.prompt_ids is None:
                piece.prompt_ids = ids(choice.get("prompt_token_ids"))
    return piece


def responses(body: Mapping[str, Any]) -> Piece:
    """Read a response or one of the typed events of its stream."""
    kind = word(body.get("type"))
    if kind is None:
        return _response(body, content=True)
    if isinstance(body.get("response"), Mapping):
        return _response(body["response"], content=False)  # its output was streamed before
    piece = Piece()
    if kind.endswith(".delta"):
        if "reasoning" in kind:
            piece.add_reasoning(body.get("delta"))
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            piece.add_text(body.get("delta"))
        else:  # arguments of a call, code
            piece.content = bool(body.get("delta"))
    elif kind == "response.output_item.added":
        piece.content = _is_call(mapping(body.get("item")))
    return piece


def _response(response: Mapping[str, Any], *, content: bool) -> Piece:
    piece = Piece(usage=response)
    status = response.get("status")
    if status == "failed":
        piece.error = error_message(response) or "the response failed"
    elif status in ("completed", "incomplete", "cancelled"):
        # a response that reached its token limit is incomplete by name, and as whole as it was asked to be
        piece.finish = word(mapping(response.get("incomplete_details")).get("reason")) or status
        piece.done = True
    for item in objects(response.get("output")) if content else ():
        reasoning = item.get("type") == "reasoning"
        for part in (*objects(item.get("content")), *objects(item.get("summary"))):
            text = part.get("text") or part.get("refusal")
            if reasoning:
                piece.add_reasoning(text)
            else:
                piece.add_text(text)
        piece.content |= _is_call(item)
    return piece


def _is_call(item: Mapping[str, Any]) -> bool:
    return (word(item.get("type")) or "").endswith("_call")
