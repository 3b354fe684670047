"""The user's own requests, sent as they are; their reuse is predicted where the server tells their tokens."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..apis import PATHS
from ..checks import is_whole
from ..encoded import check
from ..errors import EndpointError, ProtocolError, WorkloadError
from ..model import Phase, Prompt, Request, Session
from ..protocols import Site

_AT_ONCE = 8  # bodies that are being rendered at the same time
_UNKNOWN = Prompt(())
_CHANGES_PROMPT = ("truncate_prompt_tokens", "prompt_embeds", "mm_processor_kwargs", "suffix")


@dataclass(frozen=True, slots=True)
class Bodies:
    """Requests given by their JSON bodies.

    Attributes:
        bodies: in the order in which they are sent; ``model`` is filled in where it is missing.
        api: form of all of them, or of each, a key of :data:`pytest_kvcache.apis.PATHS`.
        warm: how many of the first ones are sent before the measured window.
        sessions: of each, what its session is called; those of one session follow one another. None, or nothing
            at all: it stands alone.
        source: the file they come from.
    """

    bodies: tuple[Mapping[str, Any], ...] = field(repr=False)
    api: str | tuple[str, ...] = "chat"
    warm: int = 0
    sessions: tuple[Hashable, ...] = field(default=(), repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        name = self.source or "requests"
        for api in dict.fromkeys([self.api] if isinstance(self.api, str) else self.api):
            if api not in PATHS:
                raise WorkloadError(f"{name}: api={api!r} is none of {', '.join(PATHS)}")
        for of, given in (("forms", len(self.apis)), ("sessions", len(self.sessions) or len(self.bodies))):
            if given != len(self.bodies):
                raise WorkloadError(f"{name}: {given} {of} for {len(self.bodies)} bodies")
        if not is_whole(self.warm, 0) or self.warm >= max(1, len(self.bodies)):
            raise WorkloadError(f"{name}: warm={self.warm!r} leaves nothing to measure of {len(self.bodies)} bodies")
        for number, body in enumerate(self.bodies):
            if not isinstance(body, Mapping):
                raise WorkloadError(f"{name}: body {number} is {type(body).__name__}; expected a JSON object")
            try:
                check(body)
            except (TypeError, ValueError, RecursionError) as error:
                raise WorkloadError(f"{name}: body {number} is no JSON object: {error}") from None

    @property
    def apis(self) -> Sequence[str]:
        """The form of each."""
        return (self.api,) * len(self.bodies) if isinstance(self.api, str) else self.api

    async def bind(self, site: Site) -> ComposedBodies:
        """Ask the server for the tokens of every body; see :class:`~pytest_kvcache.protocols.Workload`."""
        found = await tokens_of(site, self.bodies, self.apis)
        if isinstance(found, str):
            return ComposedBodies(self, (), found)
        return ComposedBodies(self, found)

    def seats(self) -> list[tuple[int | None, int | None]]:
        """Return the number of each request's session and its turn in it; None for those that stand alone."""
        numbers: dict[Hashable, int] = {}
        turns: Counter[Hashable] = Counter()
        found: list[tuple[int | None, int | None]] = []
        for name in self.sessions or (None,) * len(self.bodies):
            if name is None:
                found.append((None, None))
                continue
            found.append((numbers.setdefault(name, len(numbers)), turns[name]))
            turns[name] += 1
        return found


@dataclass(frozen=True, slots=True)
class ComposedBodies:
    """Given requests with what is known of their tokens.

    What the server will count for a given body is believed, not made: requests are sent without their ids, and where an
    answer shows another number of tokens, nothing is predicted from any of them.

    Attributes:
        given: the requests.
        ids: token ids of each; empty when those of any are not known, because one gap leaves open what others hit.
        why: nothing is predicted; empty when it is.
    """

    given: Bodies
    ids: tuple[Sequence[int], ...] = field(repr=False)
    why: str = ""
    _seats: list[tuple[int | None, int | None]] = field(default_factory=list, repr=False, compare=False)
    _denied: list[int] = field(default_factory=list, repr=False, compare=False)  # places that were counted otherwise

    def __post_init__(self) -> None:
        self._seats.extend(self.given.seats())

    @property
    def title(self) -> str:
        """One line for reports."""
        apis = " and ".join(dict.fromkeys(self.given.apis))
        sessions = len({number for number, _ in self._seats} - {None})
        inside = f" in {sessions:,} session{'s' if sessions > 1 else ''}" if sessions else ""
        many = f"{len(self):,} request{'' if len(self) == 1 else 's'}"
        return f"{many} of {self.given.source or 'your own'} ({apis}){inside}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Why nothing is predicted, also where that showed only once they were sent."""
        denied = "the server counted other tokens than it had told of them" if self._denied else ""
        return tuple(f"nothing is predicted: {why}" for why in (self.why or denied,) if why)

    @property
    def prefix_len(self) -> int:
        """What these requests share is not by construction."""
        return 0

    @property
    def warms(self) -> None:
        """Nothing that other runs use."""
        return None

    @property
    def fresh(self) -> bool:
        """False: they are the user's, and anybody may have sent them before."""
        return False

    @property
    def append_only(self) -> bool:
        """False: what these requests share is known by their tokens."""
        return False

    def warmed(self) -> Iterator[Request]:
        """Return nothing: no earlier run has sent any of it."""
        return iter(())

    def prefill(self) -> Iterator[Request]:
        """Return the requests before the window."""
        return (self._request(place, "prefill", self._prompt(place)) for place in range(self.given.warm))

    def load(self) -> Iterator[Request]:
        """Return the measured requests, session after session, with the tokens that the server is believed to see."""
        return (self._request(place, "load", self._prompt(place)) for places in self._played() for place in places)

    def sessions(self) -> Iterator[Session]:
        """Return the measured requests of each session in their order, and those without one by themselves."""
        return map(self._session, self._played())

    def again(self, lap: str) -> None:
        """Return None: sent once more they would find all of themselves."""

    def __len__(self) -> int:
        return len(self.given.bodies) - self.given.warm

    def _session(self, places: list[int]) -> Session:
        for place in places:
            exchange = yield self._request(place, "load", _UNKNOWN)
            if self.ids and exchange.prompt_tokens not in (None, len(self.ids[place])):
                self._denied.append(place)

    def _played(self) -> list[list[int]]:
        """Return the places of the measured requests, by session, in the order in which sessions begin."""
        found: dict[Hashable, list[int]] = {}
        for place in range(self.given.warm, len(self.given.bodies)):
            number, _ = self._seats[place]
            found.setdefault(("alone", place) if number is None else number, []).append(place)
        return list(found.values())

    def _prompt(self, place: int) -> Prompt:
        return Prompt(self.ids[place]) if self.ids and not self._denied else _UNKNOWN

    def _request(self, place: int, phase: Phase, prompt: Prompt) -> Request:
        given, (session, turn) = self.given, self._seats[place]
        api = given.api if isinstance(given.api, str) else given.api[place]
        return Request(prompt, 0, phase, api=api, body=given.bodies[place], whole=True, session=session, turn=turn)


async def tokens_of(
    site: Site, bodies: Sequence[Mapping[str, Any]], apis: Sequence[str]
) -> tuple[array[int], ...] | str:
    """Return the token ids of each body as the server makes them, or why those of one are not known."""
    for number, (body, api) in enumerate(zip(bodies, apis, strict=True)):
        why = _why_unknown(body, api)
        if why:
            return f"request {number} {why}"
    found: list[array[int]] = []
    for start in range(0, len(bodies), _AT_ONCE):
        some = bodies[start : start + _AT_ONCE]
        answers = await asyncio.gather(*(site.render(body) for body in some), return_exceptions=True)
        for number, ids in enumerate(answers, start):
            if isinstance(ids, (EndpointError, ProtocolError)):
                return f"the server does not tell the tokens of request {number}: {ids}"
            if isinstance(ids, BaseException):
                raise ids
            if not ids:
                return "the server does not tell its tokens"
            found.append(array("I", ids))
    return tuple(found)


def _why_unknown(body: Mapping[str, Any], api: str) -> str:
    """Return why nobody can tell what a body looks up, as what follows "request 3"; empty when it can be asked."""
    if api not in ("chat", "completions"):
        return f"has the form of {api}, which no server renders"
    if any(body.get(name) not in (None, 1) for name in ("n", "best_of")):
        return "asks for several answers, which may look its prompt up several times"
    if body.get("prompt_logprobs") is not None or (body.get("echo") and body.get("logprobs") is not None):
        return "asks for its prompt's logprobs, so it may not be looked up"
    changed = [name for name in _CHANGES_PROMPT if body.get(name) is not None]
    if changed:
        return f"has {changed[0]}, which changes its prompt"
    if api == "chat":
        return "" if all(map(_is_text, _contents(body))) else "holds more than text"
    prompt = body.get("prompt")
    if isinstance(prompt, list) and not all(isinstance(token, int) for token in prompt):
        return "holds several prompts"
    return "" if "add_special_tokens" not in body else "has add_special_tokens, which changes its prompt"


def _contents(body: Mapping[str, Any]) -> Iterator[Any]:
    messages = body.get("messages")
    return (m.get("content") if isinstance(m, Mapping) else m for m in (messages if isinstance(messages, list) else ()))


def _is_text(content: Any) -> bool:
    """Tell whether the content of a message is nothing but text, whole or in parts."""
    if not isinstance(content, list):
        return content is None or isinstance(content, str)
    return all(isinstance(part, str) or (isinstance(part, Mapping) and part.get("type") == "text") for part in content)
