"""Messages, as Anthropic documents them and servers imitate them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .piece import Piece, mapping, objects, word


def messages(body: Mapping[str, Any]) -> Piece:
    """Read a message or one of the typed events of its stream.

    ``message_start`` tells the usage of the prompt, ``message_delta`` tells totals again: some of them, all of them, or
    better ones, as vLLM 0.32, which tells the whole prompt as uncached at the start and the split at the end.
    """
    piece = Piece(usage=body)
    match body.get("type"):
        case "message_start":
            piece.usage = mapping(body.get("message"))
        case "content_block_start":
            _block(piece, mapping(body.get("content_block")))
        case "content_block_delta":
            delta = mapping(body.get("delta"))
            piece.add_text(delta.get("text"))
            piece.add_reasoning(delta.get("thinking"))
            piece.content |= bool(delta.get("partial_json"))
        case "message_delta":
            piece.finish = word(mapping(body.get("delta")).get("stop_reason"))
        case "message_stop":
            piece.done = True
        case "message" | None:
            piece.finish = word(body.get("stop_reason"))
            for block in objects(body.get("content")):
                _block(piece, block)
    return piece


def _block(piece: Piece, block: Mapping[str, Any]) -> None:
    piece.add_text(block.get("text"))
    piece.add_reasoning(block.get("thinking"))
    piece.content |= (word(block.get("type")) or "").endswith("tool_use")
