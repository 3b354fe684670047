"""Real conversations: every answer, tool calls included, becomes part of the next prompt, as an agent has it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from ..checks import is_number, is_whole
from ..errors import WorkloadError
from ..model import Exchange, Prompt, Request, Session
from ..protocols import Site
from .builtin import common_words
from .given import User as User
from .given import system_of, tools_of, user_of

Think: TypeAlias = float | tuple[float, float]
Message: TypeAlias = dict[str, Any]

SALT = "cache_salt"
_UNKNOWN = Prompt(())
_MADE = {"messages": "system= and user=", "tools": "tools="}
_WORDS = 12  # of a user message


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversations of several turns over the chat route. Sessions and turns count from 0.

    Files are read at once, so that a mistake is found where it was made; what they hold never reaches a report.

    Attributes:
        system: system prompt, or the file that holds it; None: there is none.
        tools: in OpenAI's form, or the JSON file that holds them: a list, or an object with ``tools``.
        turns: requests of each conversation.
        user: what the user says: one text for each turn (repeated when there are fewer), a file with one a line, or a
            function of session and turn; None: words that no other turn says.
        sessions: conversations.
        max_tokens: of each answer.
        temperature: 0 makes answers as repeatable as the server can.
        tool_result: what every called tool returns.
        think_time: seconds between an answer and the next turn, or the (least, most) of a seeded draw.
        fresh: keep these conversations from hitting what an earlier run cached.
        body: further fields of every request; they win, and None leaves a field out.
        seed: makes the conversations the same in every run, so that a second one finds them cached.
    """

    system: str | Path | None = field(default=None, repr=False)
    tools: Sequence[Mapping[str, Any]] | Path | None = field(default=None, repr=False)
    turns: int = 10
    user: User | None = field(default=None, repr=False)
    sessions: int = 1
    max_tokens: int = 64
    temperature: float = 0.0
    tool_result: str = field(default="ok", repr=False)
    think_time: Think = 0.0
    fresh: bool = True
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("turns", "sessions", "max_tokens"):
            self._require(name, is_whole(getattr(self, name), 1), "a whole number of at least 1")
        self._require("temperature", is_number(self.temperature), "a number of at least 0")
        self._require("think_time", _is_pause(self.think_time), "seconds, or the (least, most) of them")
        self._require("fresh", isinstance(self.fresh, bool), "True or False")
        self._require("seed", self.seed is None or is_whole(self.seed), "a whole number or None")
        self._set("system", system_of(self.system))
        self._set("tools", tools_of(self.tools))
        self._set("user", user_of(self.user))
        self._require("body", isinstance(self.body, Mapping), "an object: further fields of every request")
        for name, instead in _MADE.items():
            if name in self.body:
                raise WorkloadError(f"conversation: body has {name}, which are made here; give {instead}")
        try:
            json.dumps([self.tools, dict(self.body), self.tool_result], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise WorkloadError(f"conversation: tools, tool_result or body are no JSON: {error}") from None

    async def bind(self, site: Site) -> Conversations:
        """Bind the description to a server; see :class:`~pytest_kvcache.protocols.Workload`."""
        nonce = site.nonce if self.seed is None else f"seed {self.seed}"
        salted = SALT in site.facts.isolation and SALT not in self.body  # one of the user's own is no new one
        return Conversations(self, nonce, salted=salted, token_ids=site.token_ids if self.fresh else {})

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _require(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            raise WorkloadError(f"conversation: {name}={getattr(self, name)!r} must be {allowed}")


@dataclass(frozen=True, slots=True)
class Conversations:
    """The conversations of a :class:`Conversation` with one server.

    Attributes:
        shape: what was asked for.
        nonce: sets them apart from every other run.
        salted: the engine separates caches by ``cache_salt``; else a line at the head of the system prompt and of the
            first tool's description does, because many templates put the tools first.
        token_ids: fields that make the server tell the tokens of prompts and answers. Empty as well when an earlier
            run's cache may be hit: then nothing can be predicted.
    """

    shape: Conversation
    nonce: str
    salted: bool
    token_ids: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.shape.sessions * self.shape.turns

    def again(self, lap: str) -> Conversations | None:
        """Return as many new conversations; None where they would begin with what an earlier one has cached."""
        return replace(self, nonce=f"{self.nonce}/{lap}") if self.shape.fresh else None

    @property
    def title(self) -> str:
        """One line for reports."""
        shape = self.shape
        with_ = ["system prompt"] if shape.system is not None else []
        with_ += [f"{len(self._tools):,} tool{'s' * (len(self._tools) != 1)}"] if self._tools else []
        told = f" with {' and '.join(with_)}" if with_ else ""
        return f"conversation: {shape.sessions:,} x {shape.turns:,} turns, {shape.max_tokens} out{told}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know."""
        if self.shape.fresh:
            return ()
        return ("fresh=False: an earlier run's cache may be hit, so nothing is predicted",)

    @property
    def prefix_len(self) -> int:
        """What a turn shares grows with every turn."""
        return 0

    @property
    def warms(self) -> None:
        """Nothing that other runs use."""
        return None

    @property
    def append_only(self) -> bool:
        """False where sessions say the same, or an earlier run's cache may be hit."""
        return self.shape.fresh and (self.shape.sessions == 1 or self.shape.user is None)

    @property
    def fresh(self) -> bool:
        """True when a salt or a line of their own keeps these conversations apart from earlier runs.

        False with a salt of the user's own, or none of it: what the template puts in front of the line may be cached.
        """
        return self.shape.fresh and SALT not in self.shape.body

    def warmed(self) -> Iterator[Request]:
        """Return nothing: no earlier run has sent any of it."""
        return iter(())

    def prefill(self) -> Iterator[Request]:
        """Return nothing: first turns are cold."""
        return iter(())

    def load(self) -> Iterator[Request] | None:
        """Return nothing: the requests depend on the answers."""
        return None

    def sessions(self) -> Iterator[Session]:
        """Return the conversations."""
        return map(self._session, range(self.shape.sessions))

    @property
    def _tools(self) -> tuple[Mapping[str, Any], ...]:
        tools = self.shape.tools if isinstance(self.shape.tools, tuple) else ()
        return (_marked(tools[0], self._line), *tools[1:]) if tools and self._line else tools

    def _session(self, session: int) -> Session:
        history = self._head()
        called = False
        for turn in range(self.shape.turns):
            if not called:  # the results of tools are what the model goes on from
                history.append({"role": "user", "content": self._said(session, turn)})
            exchange = yield self._request(session, turn, history)
            if not exchange.ok:
                return  # an agent without an answer has no next prompt
            history += _answered(exchange, self.shape.tool_result)
            called = bool(exchange.tool_calls)

    def _request(self, session: int, turn: int, history: Sequence[Message]) -> Request:
        shape = self.shape
        limit = "max_completion_tokens" if "max_completion_tokens" in shape.body else "max_tokens"
        body = {
            "messages": list(history),  # as it is now: it grows
            **({"tools": list(self._tools)} if self._tools else {}),
            limit: shape.max_tokens,
            "temperature": shape.temperature,
            **({SALT: f"kv-{self._digest[:16]}"} if shape.fresh and self.salted else {}),
            **self.token_ids,
            **shape.body,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        pause = self._pause(session, turn) if turn else 0.0
        return Request(_UNKNOWN, 0, "load", api="chat", body=sent, whole=True, session=session, turn=turn, pause=pause)

    def _head(self) -> list[Message]:
        system = self.shape.system
        lines = [self._line] if self._line else []
        lines += [str(system)] if system is not None else []
        return [{"role": "system", "content": "\n".join(lines)}] if lines else []

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.nonce.encode()).hexdigest()

    @property
    def _line(self) -> str:
        """A line that no other run has: words, because the digits of a number make more tokens or fewer."""
        if not self.shape.fresh or self.salted:
            return ""
        words, number = common_words(), int(self._digest[:16], 16)
        drawn = [words[number // len(words) ** place % len(words)] for place in range(4)]
        return " ".join(("run", *drawn))

    def _said(self, session: int, turn: int) -> str:
        user = self.shape.user
        if callable(user):
            text = user(session, turn)
            if not isinstance(text, str):
                raise WorkloadError(f"conversation: user({session}, {turn}) is {type(text).__name__}; expected a text")
            return text
        if isinstance(user, tuple):
            return str(user[turn % len(user)])
        return _own_words(session * self.shape.turns + turn, self.shape.seed)

    def _pause(self, session: int, turn: int) -> float:
        think = self.shape.think_time
        if not isinstance(think, tuple):
            return think
        return random.Random(f"{self.nonce}/pause/{session}/{turn}").uniform(*think)


def _answered(exchange: Exchange, tool_result: str) -> Iterator[Message]:
    """Return what an agent appends of an answer: content and calls, no reasoning, and a result for each call."""
    said: Message = {"role": "assistant", "content": exchange.text or (None if exchange.tool_calls else "")}
    if exchange.tool_calls:
        said["tool_calls"] = list(exchange.tool_calls)
    yield said
    for call in exchange.tool_calls:
        yield {"role": "tool", "tool_call_id": call["id"], "content": tool_result}


def _marked(tool: Mapping[str, Any], line: str) -> Mapping[str, Any]:
    """Return a tool with a line at the head of its description, which comes first; one of another form as it is."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return tool
    described = function.get("description")
    text = f"{line}\n{described}" if isinstance(described, str) and described else line
    return {**tool, "function": {"description": text, **{k: v for k, v in function.items() if k != "description"}}}


def _own_words(number: int, seed: int | None) -> str:
    """Return words of a message that differ from any other's from the first one on, as far as there are words.

    They are the same in every run, so that runs can be compared to the token; what keeps runs apart is in their head.
    """
    words = common_words()
    base = len(words)
    first = [words[number // base**place % base] for place in range(3)]
    return " ".join([*first, *random.Random(f"{seed}/{number}").choices(words, k=_WORDS - len(first))])


def _is_pause(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) == 2 and all(map(is_number, value)) and value[0] <= value[1]
    return is_number(value)
