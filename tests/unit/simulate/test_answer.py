"""The events of a stream: every token once, whatever the engine has done by the time they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from pytest_kvcache.simulate.answer import Answerer
from pytest_kvcache.simulate.body import parse_generate
from pytest_kvcache.simulate.engine import Generation
from pytest_kvcache.simulate.faults import Faults
from pytest_kvcache.simulate.fleet import Fleet
from pytest_kvcache.workloads import builtin


class AheadOfItsReader:
    """An engine that has generated everything before the first of it is read."""

    async def generate(self, sequence: Generation) -> AsyncGenerator[list[int], None]:
        for token in range(300, 300 + sequence.max_tokens):
            sequence.output.append(token)
            yield [token]


class OneEngine:
    """As much of a fleet as an answer asks for."""

    engines = (AheadOfItsReader(),)

    def route(self, _ids: list[int], _salt: str | None) -> AheadOfItsReader:
        return self.engines[0]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("chat", [True, False])
def test_no_token_is_lost_when_the_engine_runs_ahead(chat: bool, n: int) -> None:
    asked = {"max_tokens": 4, "stream": True, "return_token_ids": True, "n": n}
    body = parse_generate({"prompt": "x", "messages": [{"role": "user", "content": "x"}], **asked}, chat=chat)
    answerer = Answerer(cast(Fleet, OneEngine()), builtin.load(), "sim", body, [[1, 2]], True, Faults())

    async def events() -> list[dict[str, Any]]:
        told = b"".join([piece async for piece in answerer.events() if piece is not None])
        return [json.loads(line[6:]) for line in told.decode().split("\n\n") if line and line != "data: [DONE]"]

    choices = [choice for event in asyncio.run(events()) for choice in event["choices"] if choice.get("token_ids")]
    for index in range(n):
        own = [choice for choice in choices if choice["index"] == index]
        assert [choice["token_ids"] for choice in own] == [[300], [301], [302], [303]]
        assert [choice["finish_reason"] for choice in own] == [None, None, None, "length"]
