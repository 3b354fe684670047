"""The engines' own forms: ``/generate`` of SGLang and ``/completion`` of llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .piece import Piece, mapping, word


def generate(body: Mapping[str, Any]) -> Piece:
    """Read an answer or a chunk of SGLang: each has all the text so far, and the reason to finish is an object."""
    piece = Piece(usage=body, cumulative=True)
    reason = mapping(body.get("meta_info")).get("finish_reason")
    told = mapping(reason)
    if body.get("index") in (0, None):
        piece.add_text(body.get("text"))
        piece.finish = word(reason) or word(told.get("type"))
    else:
        piece.content = bool(body.get("text"))
    if told.get("type") == "abort":
        piece.error = word(told.get("message"))
    return piece


def completion(body: Mapping[str, Any]) -> Piece:
    """Read an answer or a chunk of llama.cpp: pieces of content, and ``stop`` in the last one."""
    piece = Piece(usage=body)
    if body.get("index") in (0, None):
        piece.add_text(body.get("content"))
        piece.done = body.get("stop") is True
        stop = word(body.get("stop_type"))
        piece.finish = stop if stop != "none" else None
    else:
        piece.content = bool(body.get("content"))
    return piece
