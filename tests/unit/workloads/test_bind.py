"""How a description finds out what to write on a server: its tokenizer, its chat template, or words it has counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.model import Request
from pytest_kvcache.tokenizer import NoTokenizer
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.composed import ComposedPrefix

from ..tokenizers_zoo import ZOO, builtin
from .fake_site import TEMPLATES, FakeSite

BUILD = WorkloadBuilder()


def site_of(name: str = "builtin", template: str = "chatml", block: int | None = 16, **more: bool) -> FakeSite:
    site = FakeSite(ZOO[name](), TEMPLATES[template], **more)
    site.facts = replace(site.facts, block_size=block)
    return site


def bound(shape: Any, site: FakeSite) -> ComposedPrefix:
    composed: ComposedPrefix = asyncio.run(shape.bind(site))
    return composed


def counted(site: FakeSite, request: Request) -> list[int]:
    return site.tokens({"messages": [{"role": "user", "content": request.prompt.text}]})


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", ZOO)
def test_chats_have_the_tokens_that_the_server_counts(name: str, template: str) -> None:
    site = site_of(name, template)
    shapes = [
        BUILD.shared_prefix(6, 400, 0.5, prefixes=2, send="chat", tol=0.05),
        BUILD.shared_prefix(6, 400, tree=[(1, 250), (3, 60)], send="chat"),
        BUILD.working_set(1200, 400, 0.75, send="chat"),
    ]
    for shape in shapes:
        composed = bound(shape, site)
        for request in [*composed.load(), *composed.prefill()]:
            assert counted(site, request) == list(request.prompt.ids)
            assert request.prompt.open == 0
        assert {len(request.prompt.ids) for request in composed.load()} == {400}


def test_auto_is_ids_or_text_where_there_is_a_tokenizer() -> None:
    site = site_of()
    assert bound(BUILD.shared_prefix(2, 100, 0.5, tol=0.1), site).wording.way == "text"
    site.as_ids = True
    assert bound(BUILD.shared_prefix(2, 100, 0.5, tol=0.1), site).wording.way == "ids"
    assert bound(BUILD.working_set(200, 100, 0.5), site).wording.way == "ids"
    assert not site.rendered
    assert not site.asked


def test_without_a_tokenizer_chats_of_counted_words_are_sent() -> None:
    site = site_of(renders=False, named=False, block=None)
    composed = bound(BUILD.shared_prefix(6, 500, 0.5, prefixes=2, output_len=1), site)
    assert composed.wording.way == "chat"
    assert "no tokenizer" in " ".join(composed.notes)
    for request in [*composed.load(), *composed.prefill()]:
        assert len(counted(site, request)) == len(request.prompt.ids)
    assert {len(request.prompt.ids) for request in composed.load()} == {500}
    around = len(site.tokens({"messages": [{"role": "user", "content": ""}]}))
    assert {request.prompt.open for request in composed.load()} == {around + len(builtin().encode(["the"])[0])}
    with pytest.raises(NoTokenizer):
        bound(BUILD.shared_prefix(6, 500, 0.5, send="text"), site)
    with pytest.raises(NoTokenizer):
        bound(BUILD.working_set(1000, 500, 0.5, send="ids"), site)


class Split:
    """The built-in tokenizer, but every third word is two tokens."""

    name = "split"

    def words(self) -> list[str]:
        return []

    def pieces(self) -> list[str]:
        return []

    def encode(self, texts: Any) -> list[list[int]]:
        return [
            [part for token in ids for part in ((token, 1) if token % 3 == 0 else (token,))]
            for ids in builtin().encode(texts)
        ]


def test_words_of_several_tokens_make_prompts_of_about_the_length_and_no_prediction() -> None:
    site = FakeSite(Split(), renders=False, named=False)
    composed = bound(BUILD.shared_prefix(20, 2000, 0.5, prefixes=2, output_len=1), site)
    assert not composed.wording.exact
    load = list(composed.load())
    lengths = [len(counted(site, request)) for request in load]
    assert all(1850 < length < 2150 for length in lengths)
    assert {len(request.prompt.ids) for request in load} == {0}
    assert any(note.startswith("input_len 2,000 is ") for note in composed.notes)
    one, other = (counted(site, load[at]) for at in (0, 2))
    shared = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    assert 900 < shared < 1100


def test_a_set_is_warm_when_the_site_says_so() -> None:
    site = site_of()
    shape = BUILD.working_set(1000, 100, 0.5, reinit="once")
    first = bound(shape, site)
    assert first.warms is not None
    assert len(list(first.prefill())) == 10
    site.warm.add(first.warms)
    site.nonce = "m"
    second = bound(shape, site)
    assert list(second.prefill()) == []
    assert [r.prompt for r in second.warmed()] == [r.prompt for r in first.prefill()]
    assert len(list(bound(BUILD.working_set(1000, 100, 0.5, reinit="per_rate"), site).prefill())) == 10
    assert len(list(bound(BUILD.working_set(1000, 100, 0.5), site).prefill())) == 10
