"""Of many requests, the pair whose parting cost the most."""

from __future__ import annotations

import pytest

from pytest_kvcache.divergence import Sent, advice, between, first, sentence

from .prompts import RULES, Body, chat, ids, rendered, said

HEAD = RULES * 3


def sent(
    *bodies: Body, sessions: tuple[int | None, ...] | None = None, hits: tuple[int, ...] | None = None
) -> list[Sent]:
    return [
        Sent(
            body,
            ids(body, body)[0],
            None if sessions is None else sessions[number],
            None if hits is None else hits[number],
        )
        for number, body in enumerate(bodies)
    ]


def clocked(second: int, question: str = "hi") -> Body:
    return chat(f"At 10:41:0{second}. {HEAD}", said("user", question))


def test_every_pair_parts_at_its_date() -> None:
    found = between(sent(*(clocked(number) for number in range(10))), block=16)
    assert found is not None
    assert (found.cause, found.requests, found.pairs, found.of_pairs) == ("timestamp", (0, 1), 9, 9)
    total = len(rendered(clocked(0)))
    assert found.tokens == total
    assert sentence(found, show_text=False) == (
        "requests 0 and 1 part at token 29 (block 1) in the system message, character 10: timestamp or date, as in 9 of"
        " 9 pairs"
    )
    assert advice(found) == (f"move the date to the end of the prompt: {total - 8} of {total} tokens would be reusable")


def test_what_two_system_prompts_share_by_chance_is_no_loss() -> None:
    markup = "<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    bodies = [chat(RULES), chat(RULES[::-1])]
    found = first(*bodies, ids=ids(*bodies))
    assert found is not None
    assert (found.recoverable or 0) - (found.token or 0) in range(len(markup) - 2, len(markup) + 2)
    assert between(sent(*bodies), block=16) is None


def test_the_pair_that_lost_the_most() -> None:
    first_words = ("At 10:41:00. ", "At 10:41:01. ", "Request 41. ", "Request 42. ")
    bodies = [chat(f"{word}{text}") for word, text in zip(first_words, (RULES, RULES, HEAD, HEAD), strict=True)]
    found = between(sent(*bodies))
    assert found is not None
    assert (found.cause, found.requests, found.pairs, found.of_pairs) == ("counter", (2, 3), 1, 3)


def test_neighbours_are_those_of_a_session_and_the_first_of_sessions() -> None:
    later = [said("user", "hi"), said("assistant", "x"), said("user", "y")]
    one = [clocked(1), chat(f"At 10:41:01. {HEAD}", *later)]
    other = [chat(f"Request 41. {HEAD[::-1]}"), chat(f"Request 42. {HEAD[::-1]}", *later)]
    assert between(sent(*one)) is None
    found = between(sent(one[0], other[0], one[1], other[1], sessions=(0, 1, 0, 1)))
    assert found is not None
    assert (found.cause, found.requests, found.pairs, found.of_pairs) == ("counter", (1, 3), 1, 3)
    found = between(sent(one[0], clocked(2), one[1], sessions=(0, 1, 0)))
    assert found is not None
    assert (found.cause, found.requests, found.of_pairs) == ("timestamp", (0, 1), 2)


def test_conversations_that_have_nothing_to_do_with_each_other() -> None:
    talks = [
        chat(RULES, *(said(role, f"{word} {role}") for role in ("user", "assistant", "user"))) for word in ("Xy", "Zo")
    ]
    assert between(sent(*talks), block=16) is None
    assert between([Sent(talk) for talk in talks]) is None
    sevens, eights = ([said("user", word + HEAD), said("assistant", "x"), said("user", "y")] for word in ("7a", "8b"))
    found = between(sent(chat(None, *sevens), chat(None, *eights)), block=16)
    assert found is not None
    assert (found.cause, found.message) == ("text", 0)


@pytest.mark.parametrize(("own", "told"), [(100, True), (2000, False)])
def test_little_of_long_conversations_is_the_same_by_chance(own: int, told: bool) -> None:
    bodies = [
        chat(None, said("user", f"{word}{RULES}{word * own}"), said("assistant", "x"), said("user", "y"))
        for word in "7b"
    ]
    assert (between(sent(*bodies), block=16) is not None) == told


def test_requests_have_their_own_numbers() -> None:
    found = between([Sent(clocked(1), number=4), Sent(clocked(2), number=7)])
    assert found is not None
    assert found.requests == (4, 7)


def test_other_questions_are_no_defect() -> None:
    assert between(sent(*(clocked(1, question) for question in ("who?", "why?", "what for?")))) is None


@pytest.mark.parametrize("bodies", [(), (clocked(1),), (clocked(1), clocked(1))])
def test_nothing_to_tell(bodies: tuple[Body, ...]) -> None:
    assert between(sent(*bodies)) is None


def test_a_server_that_found_it_all_the_same_lost_nothing() -> None:
    bodies = clocked(1), clocked(2)
    total = len(rendered(bodies[0]))
    kept = total - 8
    assert between(sent(*bodies, hits=(0, kept // 16 * 16)), block=16) is None
    assert between(sent(*bodies, hits=(0, kept // 16 * 16 - 16)), block=16) is not None
    assert between(sent(*bodies, hits=(0, 16)), block=16) is not None


def test_without_tokens_only_the_place_is_told() -> None:
    found = between([Sent(clocked(1)), Sent(clocked(2))])
    assert found is not None
    assert (found.cause, found.token, found.recoverable) == ("timestamp", None, None)
    assert advice(found) == "move the date to the end of the prompt"


def test_a_miss_of_another_image_is_right() -> None:
    bodies = [chat(None, said("user", [{"type": "image_url", "image_url": {"url": url}}])) for url in ("a", "b")]
    assert between([Sent(body) for body in bodies]) is None


def test_another_salt() -> None:
    found = between(sent(*(chat(cache_salt=salt) for salt in "abc")), block=16)
    assert found is not None
    assert (found.cause, found.token, found.pairs, found.of_pairs) == ("salt", 0, 2, 2)
    assert between(sent(*(chat(cache_salt=salt) for salt in "abc")), isolation=()) is None


def test_of_many_pairs_some_are_looked_at() -> None:
    found = between(sent(*(chat(f"Request {number}. {RULES}") for number in range(1000, 1100))))
    assert found is not None
    assert found.of_pairs is not None
    assert 16 <= found.of_pairs <= 32
    assert found.pairs == found.of_pairs


def test_tokens_without_bodies_are_compared_within_sessions() -> None:
    asked, think, answer = list(range(100)), [200, 201], [300, 301, 302]
    rewritten = [Sent({}, [*asked, *think], 0), Sent({}, [*asked, *answer, *asked, *think], 0)]
    found = between([rewritten[0], Sent({}, [7, *asked], 1), rewritten[1]], block=16)
    assert found is not None
    assert (found.cause, found.detail, found.token, found.block) == ("template_history", "start of the answer", 100, 6)
    assert (found.where, found.requests, found.of_pairs) == ("rendered prompt", (0, 2), 1)
    assert between([Sent({}, asked, 0), Sent({}, [*asked, 7], 0), Sent({}, [7, *asked], 1)]) is None
