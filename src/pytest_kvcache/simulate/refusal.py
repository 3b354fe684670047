"""An error in the form that vLLM sends it."""

from __future__ import annotations

from aiohttp import web


def refusal(
    status: int, message: str, kind: str, param: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an error answer.

    Args:
        status: of HTTP.
        message: for people.
        kind: the error's type.
        param: the field at fault.
        headers: further ones.
    """
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return web.json_response(body, status=status, headers=headers)
