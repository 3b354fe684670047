"""The tokens around a message: templates that trim, add a header, put tools first; servers that only count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Failure, Grain
from pytest_kvcache.workloads.frame import PLACEHOLDER, Frame, frame_of
from pytest_kvcache.workloads.vocabulary import Vocabulary

from ..tokenizers_zoo import ZOO, builtin, byte_level, toy, with_bos_and_eos
from .fake_site import TEMPLATES, FakeSite, Template, chatml


def found(site: FakeSite, vocabulary: Vocabulary) -> Frame:
    return asyncio.run(frame_of(site, vocabulary))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", ZOO)
def test_any_message_of_pieces_has_the_tokens_of_its_prompt(name: str, template: str) -> None:
    vocabulary = Vocabulary.of(ZOO[name]())
    site = FakeSite(ZOO[name](), TEMPLATES[template])
    frame = found(site, vocabulary)
    assert frame.exact
    assert (frame.open, frame.note) == (0, "")
    for seed in range(30):
        numbers = vocabulary.draw(f"any {seed}", 1 + 7 * seed)
        prompt = frame.prompt(vocabulary.encode(numbers), vocabulary.text(numbers))
        assert site.tokens({"messages": [{"role": "user", "content": prompt.text}]}) == list(prompt.ids)
        assert len(prompt.ids) == len(numbers) + len(frame)
    assert len(site.rendered) == 2
    assert not site.asked


def test_lead_and_trail_by_hand() -> None:
    # ChatML in the simulated engine's tokenizer: a token for each of these characters, but for none of the words.
    frame = found(FakeSite(builtin()), Vocabulary.of(builtin()))
    anchor = len(builtin().encode([frame.before])[0])
    assert len(frame.lead) == len("<|im_start|>user\n") + anchor
    assert len(frame.trail) == len("<|im_end|>\n<|im_start|>assistant\n")
    assert len(frame) == len(frame.lead) + len(frame.trail)


def test_a_bos_token_leads() -> None:
    frame = found(FakeSite(with_bos_and_eos()), Vocabulary.of(with_bos_and_eos()))
    bos, eos = (with_bos_and_eos().inner.token_to_id(token) for token in ("<s>", "</s>"))
    assert (frame.lead[0], frame.trail[-1]) == (bos, eos)


def test_the_anchor_keeps_the_first_space() -> None:
    frame = found(FakeSite(byte_level(), TEMPLATES["trimming"]), Vocabulary.of(byte_level()))
    assert frame.before
    assert frame.before == frame.before.strip()
    assert frame.content(" a b") == f"{frame.before} a b"


def test_pieces_without_a_space_need_no_anchor() -> None:
    frame = found(FakeSite(Joined()), Vocabulary(("x", "y", "z"), (1, 2, 3)))
    assert (frame.before, frame.content("xy")) == ("", "xy")


class Joined:
    """A token for each character."""

    name = "joined"

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [["_xyz".find(c) if c in "xyz" else 1000 + ord(c) for c in text] for text in texts]

    def words(self) -> Sequence[str]:
        return []

    def pieces(self) -> Sequence[str]:
        return ["x", "y", "z"]


def test_pieces_that_templates_trim_are_refused() -> None:
    with pytest.raises(WorkloadError, match="end in white space, which chat templates trim"):
        found(FakeSite(Joined()), Vocabulary(("x", "y "), (1, 2)))


# --- renderings that are not exact -----------------------------------------------------------------------------------


def test_another_tokenizer_than_the_servers_is_found_out() -> None:
    with pytest.raises(WorkloadError, match=r"16 pieces of the tokenizer come back .* among \d+ tokens, and not once"):
        found(FakeSite(byte_level()), Vocabulary.of(builtin()))


def test_the_tokenizer_is_named() -> None:
    with pytest.raises(WorkloadError, match="16 pieces of tokenizer 'builtin'"):
        asyncio.run(frame_of(FakeSite(byte_level()), Vocabulary.of(builtin()), builtin()))


def twice(body: Mapping[str, Any]) -> str:
    return chatml(body) + chatml(body)


def upper(body: Mapping[str, Any]) -> str:
    return chatml(body).upper()


def counting(body: Mapping[str, Any]) -> str:
    """The length of the message stands before it, so no two messages have the same tokens around them."""
    return f"{len(body['messages'][0]['content'])}:{chatml(body)}"


def cutting(body: Mapping[str, Any]) -> str:
    """Only the first part of a message is used: 16 pieces fit and 32 do not."""
    return chatml({"messages": [{"role": "user", "content": body["messages"][0]["content"][:130]}]})


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (twice, "but 2 times"),
        (upper, "and not once after the other"),
        (counting, "does not put the same around two messages"),
        (cutting, r"token \d+ differs"),
    ],
)
def test_templates_that_rewrite_messages_are_refused(template: Template, told: str) -> None:
    with pytest.raises(WorkloadError, match=told):
        found(FakeSite(builtin(), template), Vocabulary.of(builtin()))


# --- servers that only count -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", ZOO)
def test_two_chats_tell_how_many_tokens_a_template_adds(name: str, template: str) -> None:
    vocabulary = Vocabulary.of(ZOO[name]())
    exact = found(FakeSite(ZOO[name](), TEMPLATES[template]), vocabulary)
    site = FakeSite(ZOO[name](), TEMPLATES[template], renders=False)
    frame = found(site, vocabulary)
    assert (frame.exact, frame.open, len(frame)) == (False, len(exact), len(exact))
    assert (frame.lead, frame.trail) == ((), (PLACEHOLDER,) * len(exact))
    assert frame.note.startswith(f"the chat template adds {len(exact)} tokens; how many stand before the text is not")
    assert len(site.asked) == 2
    sizes = [len((request.prompt.text or "").split()) - 1 for request in site.asked]
    assert sizes == [16, 32]


@pytest.mark.parametrize("shared", [0, 100, 127, 128, 240])
def test_what_is_open_holds_the_truth_wherever_the_frame_stands(shared: int) -> None:
    vocabulary = Vocabulary.of(builtin())
    exact = found(FakeSite(builtin()), vocabulary)
    counted = found(FakeSite(builtin(), renders=False), vocabulary)
    one, two = (vocabulary.draw(seed, 300) for seed in ("one", "two"))
    two[0] = (one[0] + 1) % len(vocabulary)
    two = [*one[:shared], *two[: 300 - shared]]
    truth, least = (
        common(*(frame.prompt(vocabulary.encode(n), "").ids for n in (one, two))) for frame in (exact, counted)
    )
    assert least == shared
    assert truth == shared + len(exact.lead)
    for grain in (Grain(1), Grain(16), Grain(128, 128)):
        length = 300 + len(exact)
        assert grain.credit(least, length) <= grain.credit(truth, length) <= grain.credit(least + counted.open, length)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


def test_a_template_that_adds_nothing_is_exact() -> None:
    frame = found(FakeSite(Joined(), lambda body: body["messages"][0]["content"], renders=False), XYZ)
    assert frame == Frame((), (), exact=True, note="", before="")


XYZ = Vocabulary(("x", "y", "z"), (1, 2, 3))


def test_a_count_that_is_not_one_for_each_piece_is_another_tokenizer() -> None:
    site = FakeSite(toy(), lambda body: body["messages"][0]["content"] * 2, renders=False)
    with pytest.raises(WorkloadError, match=r"counted \d+ tokens to 16 pieces and \d+ tokens to 32 pieces .*not the"):
        found(site, Vocabulary.of(toy()))


def test_a_count_below_the_pieces_is_another_tokenizer() -> None:
    site = FakeSite(Joined(), lambda body: body["messages"][0]["content"][8:], renders=False)
    with pytest.raises(WorkloadError, match="counted 8 tokens to 16 pieces and 24 tokens to 32"):
        found(site, XYZ)


def test_a_chat_that_fails_or_does_not_tell_is_an_error() -> None:
    site = FakeSite(builtin(), renders=False)
    site.failure = Failure("http", "HTTP 500: no")
    with pytest.raises(WorkloadError, match="a chat that was sent to count its tokens failed: HTTP 500: no"):
        found(site, Vocabulary.of(builtin()))
    site = FakeSite(builtin(), renders=False)
    site.tells_usage = False
    with pytest.raises(WorkloadError, match="do not tell prompt tokens in their usage"):
        found(site, Vocabulary.of(builtin()))
