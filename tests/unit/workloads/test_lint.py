"""``kv_workload.lint``: advice about requests, without an endpoint."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.workloads import builtin
from pytest_kvcache.workloads.builder import WorkloadBuilder
from pytest_kvcache.workloads.lint import Lint

RULES = "Xyzzy: plugh, qwert; asdfg. Zxcvb-mnbvc, poiuyt! Lkjhg fdsaq."
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = CHATML.replace("assistant\n", "assistant\n<think>\n\n</think>\n\n")
HEAD = len("<|im_start|>system\n")
TAIL = len("<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")

lint = WorkloadBuilder().lint


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def asked(system: str, question: str = "hi") -> list[dict[str, Any]]:
    return [said("system", system), said("user", question)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder whose tokenizer has a piece for each letter of the texts here."""
    builtin.load().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
    return tmp_path


NOW, LATER = f"Now 2026-01-05 10:41:07. {RULES}", f"Now 2026-01-05 10:41:09. {RULES}"
TOKENS = HEAD + len(NOW) + TAIL


class TestTwoRequests:
    def test_what_an_assertion_shows(self) -> None:
        assert repr(lint(asked(NOW), asked(LATER))) == (
            "<requests 0 and 1 part in the system message, character 22: timestamp or date; move the date to the end of"
            " the prompt>"
        )

    def test_is_as_short_as_pytest_shows(self, model: Path) -> None:
        body = {"messages": asked(NOW * 99), "tools": [{"name": "a"}]}
        other = {"messages": asked(LATER * 99), "tools": [{"name": "a"}]}
        assert len(repr(lint(body, other, tokenizer=model, block_size=16))) <= 240  # it cuts the middle out of more

    def test_with_text_and_without(self) -> None:
        line = "requests 0 and 1 part in the system message, character 22: timestamp or date"
        advice = "move the date to the end of the prompt"
        assert str(lint(asked(NOW), asked(LATER))) == f'{line}; "…Now 2026-01-05 10:41:0" then "7" / "9"; {advice}'
        assert str(lint(asked(NOW), asked(LATER), show_text=False)) == f"{line}; {advice}"

    def test_tokens_of_a_model(self, model: Path) -> None:
        (found,) = lint(asked(NOW), asked(LATER), tokenizer=model, block_size=16)
        assert (found.token, found.block, found.tokens) == (HEAD + 22, (HEAD + 22) // 16, TOKENS)
        assert found.recoverable == TOKENS - 19
        assert str(lint(asked(NOW), asked(LATER), tokenizer=model / "tokenizer.json")).endswith(
            f": {TOKENS - 19} of {TOKENS} tokens would be reusable"
        )

    def test_tokens_of_the_simulated_engine(self) -> None:
        (found,) = lint(asked(NOW), asked(LATER), tokenizer="builtin")
        assert (found.token, found.block, found.tokens) == (HEAD + 22, None, TOKENS)

    def test_prompts_of_completions(self, model: Path) -> None:
        (found,) = lint({"prompt": NOW}, {"prompt": LATER}, tokenizer=model, block_size=4)
        assert (found.where, found.token, found.block, found.tokens) == ("prompt", 22, 5, len(NOW))

    def test_a_template_that_rewrites_the_last_turn(self, model: Path) -> None:
        (model / "chat_template.jinja").write_text(THINKING)
        grown = [*asked(RULES), said("assistant", "Plugh!"), said("user", "go")]
        found = lint(asked(RULES), grown, tokenizer=model, block_size=16)
        (parted,) = found
        assert (parted.cause, parted.detail, parted.message) == ("template_history", "think block", 2)
        assert parted.token == HEAD + len(RULES) + TAIL
        assert parted.shared.endswith("<|im_start|>assistant\n")
        assert not lint(asked(RULES), grown, tokenizer="builtin")

    def test_a_switch_of_the_template_is_heeded(self, model: Path) -> None:
        switched = "{% if enable_thinking %}on{% else %}off{% endif %}" + CHATML
        (model / "chat_template.jinja").write_text(switched)
        bodies = [{"messages": asked(RULES), "chat_template_kwargs": {"enable_thinking": on}} for on in (True, False)]
        (parted,) = lint(*bodies, tokenizer=model)
        assert (parted.cause, parted.token) == ("template_history", 1)

    def test_special_tokens_are_those_of_the_template(self, model: Path) -> None:
        from tokenizers import Tokenizer, processors

        inner = Tokenizer.from_file(str(model / "tokenizer.json"))
        inner.add_special_tokens(["<s>"])
        number = inner.token_to_id("<s>")
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", number)])
        inner.save(str(model / "tokenizer.json"))
        (found,) = lint(asked(NOW), asked(LATER), tokenizer=model)
        assert found.tokens == TOKENS
        (found,) = lint({"prompt": NOW}, {"prompt": LATER}, tokenizer=model)
        assert found.tokens == 1 + len(NOW)  # bare prompts get it from the tokenizer


class TestSeveralRequests:
    def test_each_from_the_one_before_it(self) -> None:
        found = lint(asked(NOW), asked(LATER), asked(LATER, "who?"), asked(RULES))
        assert [(parted.requests, parted.cause) for parted in found] == [
            ((0, 1), "timestamp"),
            ((2, 3), "system_prompt"),
        ]
        assert [(parted.requests, parted.cause) for parted in found.expected] == [((1, 2), "text")]
        assert len(str(found).splitlines()) == 3
        assert repr(found).endswith("(and 1 more)>")

    def test_the_costliest_is_shown(self, model: Path) -> None:
        found = lint(asked("1. " + RULES), asked("2. " + RULES), asked("2. " + RULES[:-9] + "pppp"), tokenizer=model)
        assert [parted.requests for parted in found] == [(0, 1), (1, 2)]
        assert repr(found).startswith("<requests 0 and 1 part at token 19 in the system message, character 0: counter;")

    def test_other_questions_are_all_right(self) -> None:
        found = lint(asked(RULES, "who?"), asked(RULES, "what?"))
        assert not found
        assert len(found) == 0
        assert str(found).endswith('different text, as is usual where questions differ; "…wh" then "o?" / "at?"')
        assert repr(found) == "<nothing keeps these requests from sharing a prefix>"

    def test_a_conversation_that_grows(self) -> None:
        found = lint(asked(NOW), [*asked(NOW), said("assistant", "x"), said("user", "y")])
        assert (bool(found), str(found)) == (False, "nothing keeps these requests from sharing a prefix")


class TestOneRequest:
    def test_a_clock_in_the_system_prompt(self) -> None:
        (found,) = lint({"messages": asked(NOW), "tools": [{"name": "a"}]})
        behind = len(f". {RULES}") + len('[{"name": "a"}]') + len("hi")
        assert (found.cause, found.requests, found.character, found.left) == ("timestamp", (0,), 4, NOW[4:23])
        assert found.detail == f"{behind} characters stand behind it"
        assert found.advice == "move the date after the tools block"

    def test_its_tokens(self, model: Path) -> None:
        (found,) = lint(asked(NOW), tokenizer=model, block_size=16)
        assert (found.token, found.block, found.tokens) == (HEAD + 4, (HEAD + 4) // 16, TOKENS)
        assert found.recoverable == TOKENS - 19
        pair = lint(asked(NOW), asked(LATER), tokenizer=model)
        assert found.recoverable == pair.divergences[0].recoverable

    def test_tokens_of_what_the_template_writes_otherwise(self, model: Path) -> None:
        (model / "chat_template.jinja").write_text(
            CHATML.replace("m.content", "m.content | upper | replace('NOW', '')")
        )
        (found,) = lint(asked(f"{NOW} a"), tokenizer=model)
        assert (found.character, found.token) == (4, None)

    def test_several_things(self) -> None:
        system = f"id 123e4567-e89b-42d3-a456-426614174000 at 1767609667. {RULES}"
        tools = [{"name": "a", "description": "at 10:41:07"}]
        found = lint({"messages": asked(system), "tools": tools})
        assert [(parted.cause, parted.where) for parted in found] == [
            ("random_id", "system message"),
            ("timestamp", "system message"),
            ("timestamp", "tools"),
        ]
        assert "123e" not in str(lint({"messages": asked(system), "tools": tools}, show_text=False))

    @pytest.mark.parametrize(
        "messages",
        [
            asked(f"Request 42 of 2026-01-05, open 09:00. {RULES}"),
            asked(RULES, "What happened at 2026-01-05 10:41:07?"),
            [*asked(RULES), said("assistant", "At 10:41:07."), said("user", f"10:41:09 {RULES * 9}")],
        ],
    )
    def test_what_is_not_clear_or_does_no_harm(self, messages: list[dict[str, Any]]) -> None:
        assert not lint(messages)

    def test_a_clock_before_a_document_in_the_only_message(self) -> None:
        (found,) = lint([said("user", f"At 10:41:07 {RULES * 9}")])
        assert (found.where, found.character) == ("message 0 (user)", 3)

    def test_no_more_than_ten(self) -> None:
        assert len(lint(asked("10:41:07 and " * 50))) == 10


class TestRefusals:
    def test_nothing(self) -> None:
        with pytest.raises(WorkloadError, match="nothing to look at"):
            lint()

    @pytest.mark.parametrize("given", ["text", 7, None, b"x"])
    def test_no_request(self, given: Any) -> None:
        with pytest.raises(WorkloadError, match=r"request 1 is \w+; expected a body or a list of messages"):
            lint(asked(RULES), given)

    def test_a_block_of_nothing(self) -> None:
        with pytest.raises(WorkloadError, match="block_size=0"):
            lint(asked(RULES), block_size=0)

    def test_messages_without_a_template(self, model: Path) -> None:
        (model / "tokenizer_config.json").unlink()
        with pytest.raises(WorkloadError, match=r"no chat template with .*chat_template\.jinja"):
            lint(asked(RULES), asked(NOW), tokenizer=model)
        assert lint({"prompt": NOW}, {"prompt": LATER}, tokenizer=model)

    def test_without_jinja2(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "jinja2", None)
        with pytest.raises(WorkloadError, match=r"pytest-kvcache\[template\]"):
            lint(asked(RULES), asked(NOW), tokenizer=model)

    def test_bodies_that_no_template_renders_have_no_tokens(self, model: Path) -> None:
        (found,) = lint({"input": NOW * 9}, {"input": LATER * 9}, tokenizer=model)
        assert (found.cause, found.token) == ("timestamp", None)


def test_an_empty_one_is_false() -> None:
    assert not Lint()
    assert list(Lint()) == []
