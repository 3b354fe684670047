"""The engines' own forms: ``/generate`` of SGLang, ``/completion`` of llama.cpp and ``/api/generate`` of Ollama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import error_message
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


def together(entries: list[Any], samples: int) -> Mapping[str, Any] | None:
    """Return the list in which SGLang answers several prompts, or several samples, as one answer; None: no such list.

    The samples of a prompt stand side by side (0.5.23), so every ``samples``-th answer begins another prompt. With
    several samples the cached number is left out: they find what their own prompt has just put there. A number that
    does not fit is left out too, and one broken answer breaks the whole.
    """
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    for entry in entries:
        first = {**entry, "index": 0}
        if error_message(first) is not None or generate(first).finish == "abort":
            return first
    told = [mapping(entry.get("meta_info")) for entry in entries]
    firsts = told[::samples]
    repeated = [first.get("prompt_tokens") for first in firsts for _ in range(samples)]
    meta = {"completion_tokens": _sum(told, "completion_tokens")}
    if repeated == [each.get("prompt_tokens") for each in told]:
        meta["prompt_tokens"] = _sum(firsts, "prompt_tokens")
    if samples == 1:
        meta["cached_tokens"] = _sum(told, "cached_tokens")
    if all(each.get("finish_reason") for each in told):
        meta["finish_reason"] = told[0]["finish_reason"]
    return {"text": entries[0].get("text"), "meta_info": meta}


def _sum(told: list[Mapping[str, Any]], name: str) -> object:
    """Return the sum of a number in all answers; None when one leaves it out, or what is no number as it is."""
    values: list[Any] = [each.get(name) for each in told]
    odd = [value for value in values if type(value) is not int or value < 0]
    return odd[0] if odd else sum(values)


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


def ollama(body: Mapping[str, Any]) -> Piece:
    """Read an answer of Ollama."""
    piece = Piece(usage=body, done=body.get("done") is True, finish=word(body.get("done_reason")))
    piece.add_text(body.get("response"))
    piece.add_reasoning(body.get("thinking"))
    return piece
