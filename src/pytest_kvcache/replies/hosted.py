"""The providers' own forms: ``generateContent`` of Gemini and ``converse`` of Amazon Bedrock, asked for whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .piece import Piece, mapping, objects, word


def gemini(body: Mapping[str, Any]) -> Piece:
    """Read an answer of Gemini: candidates of parts. A prompt that is refused has none, and says why."""
    piece = Piece(usage=body)
    for number, candidate in enumerate(objects(body.get("candidates"))):
        said = Piece()
        for part in objects(mapping(candidate.get("content")).get("parts")):
            add = said.add_reasoning if part.get("thought") is True else said.add_text
            add(part.get("text"))
            said.content |= bool(part.get("functionCall"))
        piece.content |= said.content
        if number == 0:
            piece.text, piece.reasoning = said.text, said.reasoning
            piece.finish = word(candidate.get("finishReason"))
    blocked = word(mapping(body.get("promptFeedback")).get("blockReason"))
    if blocked and not body.get("candidates"):
        piece.error = f"the prompt was blocked ({blocked})"
    return piece


def converse(body: Mapping[str, Any]) -> Piece:
    """Read an answer of Bedrock: one message of blocks."""
    piece = Piece(usage=body, finish=word(body.get("stopReason")))
    for block in objects(mapping(mapping(body.get("output")).get("message")).get("content")):
        piece.add_text(block.get("text"))
        piece.add_reasoning(mapping(mapping(block.get("reasoningContent")).get("reasoningText")).get("text"))
        piece.content |= bool(block.get("toolUse"))
    return piece
