"""Given requests: what is known of their tokens, when nothing is predicted and why, and what is sent."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.errors import EndpointError, ProtocolError, WorkloadError
from pytest_kvcache.model import Exchange, Request
from pytest_kvcache.workloads.bodies import Bodies, ComposedBodies

from ..tokenizers_zoo import builtin
from .fake_site import FakeSite


def chat(*contents: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content} for content in contents], **more}


def bound(given: Bodies, site: FakeSite | None = None) -> ComposedBodies:
    return asyncio.run(given.bind(site or FakeSite(builtin())))


def answer(prompt_tokens: int | None) -> Exchange:
    return Exchange("load", 0.0, 1.0, prompt_tokens=prompt_tokens)


def play(composed: ComposedBodies, told: Mapping[int, int | None] | None = None) -> list[list[Request]]:
    """What is sent by each session, when the server counts as many tokens as ``told`` says of the nth request."""
    seen: list[list[Request]] = []
    for session in composed.sessions():
        request = next(session, None)
        sent: list[Request] = []
        while request is not None:
            sent.append(request)
            at = sum(map(len, seen)) + len(sent) - 1
            try:
                request = session.send(answer((told or {}).get(at)))
            except StopIteration:
                break
        seen.append(sent)
    return seen


def test_every_body_is_known_by_its_tokens() -> None:
    bodies = (chat("hello there"), {"prompt": "a prompt"}, {"prompt": [5, 6, 7]}, chat("a", "b", tools=[{"t": 1}]))
    apis = ("chat", "completions", "completions", "chat")
    composed = bound(Bodies(bodies, apis, warm=1), site := FakeSite(builtin()))
    ids = [list(r.prompt.ids) for r in [*composed.prefill(), *composed.load()]]
    assert ids[:2] == [site.tokens(bodies[0]), builtin().encode(["a prompt"])[0]]
    assert len(composed.ids) == 4
    assert all(isinstance(some, array) and some.typecode == "I" for some in composed.ids)
    assert [(r.api, r.whole, r.phase, r.max_tokens) for r in composed.load()] == [
        (api, True, "load", 0) for api in apis[1:]
    ]
    assert [r.body for r in composed.load()] == list(bodies[1:])
    assert [r.phase for r in composed.prefill()] == ["prefill"]
    assert (len(composed), composed.notes, composed.prefix_len, composed.warms) == (3, (), 0, None)
    assert not list(composed.warmed())


def test_what_is_sent_makes_no_claim_about_its_length() -> None:
    composed = bound(Bodies((chat("a"), chat("b"))))
    assert [[list(r.prompt.ids) for r in session] for session in play(composed)] == [[[]], [[]]]
    assert all(r.prompt.ids for r in composed.load())


@pytest.mark.parametrize("off", [-1, 1])
def test_a_server_that_counts_otherwise_ends_the_prediction(off: int) -> None:
    composed = bound(Bodies((chat("a"), chat("b"))))
    right = len(composed.ids[1])
    play(composed, {0: len(composed.ids[0]), 1: right})
    assert all(r.prompt.ids for r in composed.load())
    play(composed, {1: right + off})
    assert not any(r.prompt.ids for r in composed.load())


ODD = [
    (chat("a", n=2), "chat", "request 1 asks for several answers, which may look its prompt up several times"),
    (chat("a", best_of=3), "chat", "asks for several answers"),
    ({"prompt": "a", "prompt_logprobs": 0}, "completions", "request 1 asks for its prompt's logprobs"),
    ({"prompt": "a", "echo": True, "logprobs": 0}, "completions", "asks for its prompt's logprobs"),
    ({"prompt": ["a", "b"]}, "completions", "request 1 holds several prompts"),
    ({"prompt": [[1], [2]]}, "completions", "holds several prompts"),
    ({"prompt": "a", "truncate_prompt_tokens": 5}, "completions", "has truncate_prompt_tokens, which changes its"),
    ({"prompt": "a", "add_special_tokens": False}, "completions", "has add_special_tokens, which changes its prompt"),
    ({"input": "a"}, "responses", "request 1 has the form of responses, which no server renders"),
    (chat("a"), "messages", "has the form of messages"),
    (chat([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]), "chat", "holds more than text"),
    (chat({"odd": 1}), "chat", "holds more than text"),
    ({"messages": ["odd", 7]}, "chat", "holds more than text"),
]


@pytest.mark.parametrize(("body", "api", "why"), ODD)
def test_one_body_whose_lookups_are_not_known_leaves_all_without_a_prediction(
    body: dict[str, Any], api: str, why: str
) -> None:
    site = FakeSite(builtin())
    composed = bound(Bodies((chat("a"), body), ("chat", api)), site)
    assert composed.notes[0].startswith("nothing is predicted: ")
    assert why in composed.notes[0]
    assert not any(r.prompt.ids for r in composed.load())
    assert not site.rendered  # it is known before anything is asked


@pytest.mark.parametrize(
    "body",
    [chat("a", n=1), chat("a", n=None, logprobs=True, echo=False), chat([{"type": "text", "text": "a"}]), chat(None)],
)
def test_bodies_that_look_odd_and_are_not(body: dict[str, Any]) -> None:
    class Knowing(FakeSite):
        async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
            return [1, 2]

    assert list(bound(Bodies((body,)), Knowing(builtin())).ids) == [array("I", [1, 2])]


def test_a_server_that_does_not_render_is_asked_once() -> None:
    site = FakeSite(builtin(), renders=False)
    composed = bound(Bodies((chat("a"),) * 100), site)
    assert composed.notes == ("nothing is predicted: the server does not tell its tokens",)
    assert len(site.rendered) <= 8
    assert composed.ids == ()


@pytest.mark.parametrize("error", [EndpointError("/tokenize answered 400: no"), ProtocolError("what is this?")])
def test_a_refused_body_is_no_error_of_the_run(error: Exception) -> None:
    class Refusing(FakeSite):
        async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
            if len(self.rendered) == 9:
                raise error
            return await super().render(body)

    composed = bound(Bodies((chat("a"),) * 12), Refusing(builtin()))
    assert composed.notes == (f"nothing is predicted: the server does not tell the tokens of request 9: {error}",)


def test_a_bug_is_not_hidden() -> None:
    class Buggy(FakeSite):
        async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
            raise KeyError("bug")

    with pytest.raises(KeyError):
        bound(Bodies((chat("a"),)), Buggy(builtin()))


def test_few_bodies_are_rendered_at_a_time() -> None:
    class Counting(FakeSite):
        running = most = 0

        async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            return await super().render(body)

    site = Counting(builtin())
    bound(Bodies((chat("a"),) * 30), site)
    assert (site.most, len(site.rendered)) == (8, 30)


# --- sessions --------------------------------------------------------------------------------------------------------


def test_requests_of_one_session_follow_one_another() -> None:
    bodies = tuple(chat(text) for text in "abcdef")
    composed = bound(Bodies(bodies, "chat", 1, ("x", None, "y", "x", "y", None)))
    played = play(composed)
    texts = [[r.body["messages"][0]["content"] for r in session] for session in played]
    assert texts == [["b"], ["c", "e"], ["d"], ["f"]]
    assert [(r.session, r.turn) for session in played for r in session] == [
        (None, None),
        (1, 0),
        (1, 1),
        (0, 1),  # the first of this session warmed the cache
        (None, None),
    ]
    assert [r.body for r in composed.load()] == [r.body for session in played for r in session]
    assert [(r.session, r.turn) for r in composed.prefill()] == [(0, 0)]
    assert composed.title == "5 requests of your own (chat) in 2 sessions"
    assert len(composed) == 5


def test_sessions_are_made_as_they_are_needed() -> None:
    composed = bound(Bodies((chat("a"),) * 3))
    first = composed.sessions()
    second = composed.sessions()
    assert next(next(iter(first))) == next(next(iter(second)))


def test_title_names_forms_and_file() -> None:
    given = Bodies(
        (chat("a"), {"prompt": "b"}, chat("c")), ("chat", "completions", "chat"), 0, ("s", "s", "s"), "f.jsonl"
    )
    assert bound(given).title == "3 requests of f.jsonl (chat and completions) in 1 session"
    assert bound(Bodies((chat("a"),))).title == "1 request of your own (chat)"
    assert bound(replace(given, sessions=(), source="")).title == "3 requests of your own (chat and completions)"


def test_nothing_to_send() -> None:
    composed = bound(Bodies(()))
    assert (len(composed), list(composed.sessions()), composed.notes) == (0, [], ())


# --- what cannot be sent ---------------------------------------------------------------------------------------------


def test_arguments_that_are_refused() -> None:
    with pytest.raises(WorkloadError, match="requests: api='nope' is none of completions, chat"):
        Bodies((chat("a"),), "nope")
    with pytest.raises(WorkloadError, match="f: api='nope' is none of"):
        Bodies((chat("a"), chat("b")), ("chat", "nope"), source="f")
    with pytest.raises(WorkloadError, match="warm=1 leaves nothing to measure of 1 bodies"):
        Bodies((chat("a"),), warm=1)
    for warm in (-1, 0.5, "0", False):
        with pytest.raises(WorkloadError, match=f"warm={warm!r}"):
            Bodies((chat("a"),), warm=warm)  # type: ignore[arg-type] # as a user may
    with pytest.raises(WorkloadError, match="1 forms for 2 bodies"):
        Bodies((chat("a"), chat("b")), ("chat",))
    with pytest.raises(WorkloadError, match="3 sessions for 1 bodies"):
        Bodies((chat("a"),), sessions=("a", "b", "c"))
    with pytest.raises(WorkloadError, match="body 1 is list; expected a JSON object"):
        Bodies((chat("a"), []))  # type: ignore[arg-type] # what is tested
    with pytest.raises(WorkloadError, match="body 0 is no JSON object"):
        Bodies(({"x": float("nan")},))
