"""The forms in which a generation can be asked for, and where each is posted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

PATHS: Final = {
    "completions": "/v1/completions",  # OpenAI, legacy
    "chat": "/v1/chat/completions",  # OpenAI
    "responses": "/v1/responses",  # OpenAI
    "messages": "/v1/messages",  # Anthropic
    "generate": "/generate",  # SGLang's own
    "completion": "/completion",  # llama.cpp's own
    "gemini": "/v1beta/models/{model}:generateContent",  # Gemini's own
    "converse": "/model/{model}/converse",  # Amazon Bedrock
    "ollama": "/api/generate",  # Ollama's own
}
MODELS: Final = "/v1/models"
IN_PATH: Final = frozenset({"gemini", "converse"})  # the model stands there, and not in the body
UNSTREAMED: Final = frozenset({"gemini", "converse", "ollama"})  # their streams are other routes, or no event streams


def filled(path: str, model: str) -> str:
    """Return a path with the model in it, which may hold slashes and colons."""
    return path.replace("{model}", quote(model, safe=""))


def path_of(api: str, model: str = "", own: Mapping[str, str] | None = None) -> str:
    """Return where a form is posted, or where the ``models`` are listed.

    Args:
        api: a key of :data:`PATHS`, or ``models``.
        model: what is asked for.
        own: the profile's own paths, which win.
    """
    usual = MODELS if api == "models" else PATHS[api]
    return filled((own or {}).get(api, usual), model)
