"""The forms in which a generation can be asked for, and where each is posted."""

from __future__ import annotations

from typing import Final

PATHS: Final = {
    "completions": "/v1/completions",  # OpenAI, legacy
    "chat": "/v1/chat/completions",  # OpenAI
    "responses": "/v1/responses",  # OpenAI
    "messages": "/v1/messages",  # Anthropic
    "generate": "/generate",  # SGLang's own
    "completion": "/completion",  # llama.cpp's own
}
