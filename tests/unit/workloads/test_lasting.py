"""A workload for a time: lap after lap with new rests, and what of it counts afterwards; a workload that is cold."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Composed, Exchange, Request, ServerFacts, Session
from pytest_kvcache.prefix import common
from pytest_kvcache.workloads import Bodies, SharedPrefix, WorkloadBuilder
from pytest_kvcache.workloads.bodies import ComposedBodies
from pytest_kvcache.workloads.cold import cold
from pytest_kvcache.workloads.composed import ComposedPrefix
from pytest_kvcache.workloads.conversation import Conversations
from pytest_kvcache.workloads.lasting import Lasting

from ..tokenizers_zoo import builtin

FACTS = ServerFacts("vllm", "m", block_size=16, isolation=("cache_salt",))
SHAPE = SharedPrefix(requests=3, input_len=64, prefix_len=32, prefixes=2, output_len=4, align=None)
ANSWER = Exchange("load", 0.0, 1.0, text="yes")


def composed(shape: SharedPrefix = SHAPE) -> ComposedPrefix:
    return shape.compose(FACTS, builtin(), "nonce", as_ids=True)


def prompts(traffic: Composed, count: int) -> list[list[int]]:
    return [list(request.prompt.ids) for request in islice(traffic.load() or (), count)]


def sent(sessions: Session) -> list[Request]:
    made = [next(sessions)]
    try:
        while True:
            made.append(sessions.send(ANSWER))
    except StopIteration:
        return made


def test_laps_have_the_prefixes_of_the_first_and_rests_that_nobody_sent() -> None:
    lasting = Lasting(composed())
    made = prompts(lasting, 12)
    assert made[:3] == prompts(lasting.once, 3)  # it begins with the workload itself
    for at, prompt in enumerate(made):
        shared = [common(prompt, earlier) for earlier in made[:at]]
        # three requests take the two prefixes in turn; who has another prefix shares nothing
        assert [length >= 32 for length in shared] == [at % 3 % 2 == earlier % 3 % 2 for earlier in range(at)]
        assert all(length < 48 for length in shared)  # never a block of its own
    assert len({tuple(prompt[32:]) for prompt in made}) == 12
    assert [list(next(session).prompt.ids) for session in islice(lasting.sessions(), 12)] == made


def test_another_repetition_is_new_and_its_prefixes_are_warm() -> None:
    first = Lasting(composed())
    second = first.again("step 1/")
    assert {tuple(p) for p in prompts(first, 9)}.isdisjoint(map(tuple, prompts(second, 9)))
    warming = [list(request.prompt.ids) for request in first.prefill()]
    assert (len(warming), list(second.prefill())) == (2, [])
    assert [list(request.prompt.ids) for request in second.warmed()] == warming
    assert (first.warms, second.warms) == (first.once.warms, None)


def test_what_came_of_it_is_what_is_told() -> None:
    lasting = Lasting(composed())
    assert len(lasting) == 3
    whole = lasting.of(7)
    assert (len(whole), len(prompts(whole, 100))) == (7, 7)
    assert any("sent 2.3 times" in note for note in whole.notes)
    assert not any("times" in note for note in lasting.of(3).notes)


def test_conversations_go_on_with_other_numbers_and_other_words() -> None:
    shape = WorkloadBuilder().conversation(system="s", turns=2, sessions=2, max_tokens=1)
    lasting = Lasting(Conversations(shape, "nonce", salted=False))
    every = [sent(session) for session in islice(lasting.sessions(), 6)]
    assert [[(r.session, r.turn) for r in session] for session in every[:2]] == [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    numbers = [session[0].session for session in every]
    assert len(set(numbers)) == 6
    assert len({str(session[0].body) for session in every}) == 6
    assert lasting.load() is None


def test_requests_of_sessions_have_no_order_that_the_time_could_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    made = composed()
    requests = [replace(request, session=0, turn=at) for at, request in enumerate(made.load())]
    monkeypatch.setattr(ComposedPrefix, "load", lambda self: iter(requests))  # noqa: ARG005 - a method
    assert Lasting(made).load() is None


def test_what_cannot_be_repeated_is_sent_once() -> None:
    given = Bodies(({"messages": [{"role": "user", "content": "a"}]},))
    lasting = Lasting(ComposedBodies(given, ()))
    assert not lasting.repeats
    assert len(list(lasting.sessions())) == 1
    with pytest.raises(WorkloadError, match="find all of themselves"):
        lasting.again("step 1/")


def test_cold_prompts_are_the_same_with_a_salt_of_their_own() -> None:
    made = composed()
    apart = cold(made, FACTS, "a/b cold")
    requests = list(apart.load() or ())
    assert [list(r.prompt.ids) for r in requests] == prompts(made, 3)
    salts = [r.body["cache_salt"] for r in requests]
    assert len(set(salts)) == 3
    assert not any("/" in salt for salt in salts)  # vLLM 0.32 refuses a slash
    assert (list(apart.prefill()), list(apart.warmed()), len(apart)) == ([], [], 3)
    assert [next(session).body["cache_salt"] for session in apart.sessions()] == salts


def test_every_turn_of_a_cold_conversation_has_another_salt() -> None:
    shape = WorkloadBuilder().conversation(system="s", turns=3, sessions=2, max_tokens=1)
    apart = cold(Conversations(shape, "nonce", salted=True), FACTS, "n")
    assert apart.load() is None
    turns = [request for session in apart.sessions() for request in sent(session)]
    assert (len(turns), len({r.body["cache_salt"] for r in turns})) == (6, 6)


def test_without_salts_cold_prompts_have_the_lengths_and_share_nothing() -> None:
    facts = ServerFacts("trtllm", "m", block_size=16, isolation=("prompt_cache_key",))
    made = cold(composed(), facts, "n")
    asked = prompts(made, 3)
    assert [len(prompt) for prompt in asked] == [64] * 3
    others = prompts(composed(), 3)
    assert all(common(a, b) == 0 for at, a in enumerate(asked) for b in [*asked[:at], *others])
    assert any("share nothing" in note for note in made.notes)
    shape = WorkloadBuilder().conversation(turns=1)
    with pytest.raises(WorkloadError, match="no salt"):
        cold(Conversations(shape, "nonce", salted=False), facts, "n")
