"""Chat templates rendered as servers render them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.workloads.template import load_template

HI = {"role": "user", "content": "hi"}


def render(folder: Path, template: str, body: dict[str, Any] | None = None, **config: Any) -> str:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, **config}))
    found = load_template(folder)
    assert found is not None
    return found.render({"messages": [HI]} if body is None else body)


def test_messages_and_the_beginning_of_an_answer(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}{{ '<a>' if add_generation_prompt }}"
    assert render(tmp_path, template) == "<user>hi<a>"
    assert render(tmp_path, template, {"messages": [HI], "add_generation_prompt": False}) == "<user>hi"


def test_blocks_leave_no_lines(tmp_path: Path) -> None:
    assert render(tmp_path, "{% for m in messages %}\n  {% if true %}\nx\n  {% endif %}\n{% endfor %}\ny") == "x\ny"


def test_json_is_written_as_it_is(tmp_path: Path) -> None:
    body = {"messages": [HI], "tools": [{"b": "é<'\">", "a": 1}]}
    assert render(tmp_path, "{{ tools[0] | tojson }}", body) == '{"b": "é<\'\\">", "a": 1}'
    assert render(tmp_path, "{{ {'a': 1} | tojson(indent=2) }}", body) == '{\n  "a": 1\n}'
    assert render(tmp_path, "{{ {'b': 1, 'a': [2]} | tojson(separators=(',', ':'), sort_keys=true) }}", body) == (
        '{"a":[2],"b":1}'
    )


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_are_none(tmp_path: Path, tools: Any) -> None:
    assert render(tmp_path, "{{ tools is none }}", {"messages": [HI], "tools": tools}) == "True"


def test_arguments_of_calls_are_objects(tmp_path: Path) -> None:
    def said(arguments: Any) -> dict[str, Any]:
        call = {"function": {"name": "f", "arguments": arguments}}
        return {"messages": [{"role": "assistant", "content": None, "tool_calls": [call, {"odd": 1}, "x"]}]}

    template = "{{ messages[0].tool_calls[0].function.arguments | tojson }}"
    assert render(tmp_path, template, said('{"a": 1}')) == '{"a": 1}'
    assert render(tmp_path, template, said("not JSON")) == '"not JSON"'
    assert render(tmp_path, template, said({"a": 1})) == '{"a": 1}'


def test_a_content_of_parts_is_one_text_unless_the_template_takes_it_apart(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "text", "text": "b"},
    ]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert render(tmp_path, "{{ messages[0].content }}", body) == "a\nb"
    own = "{% for part in messages[0].content %}{{ '<img>' if part.type == 'image_url' else part.text }}{% endfor %}"
    assert render(tmp_path, own, body) == "a<img>b"
    assert render(tmp_path, own.replace("part.type", "part['type']"), body) == "a<img>b"


def test_special_tokens_and_arguments_of_the_template(tmp_path: Path) -> None:
    template = "{{ bos_token }}{{ eos_token }}{{ enable_thinking }}{{ custom is defined }}"
    body = {"messages": [HI], "chat_template_kwargs": {"enable_thinking": False}}
    eos = {"content": "</s>", "lstrip": False}
    assert render(tmp_path, template, body, bos_token="<s>", eos_token=eos) == "<s></s>FalseFalse"


def test_today(tmp_path: Path) -> None:
    assert re.fullmatch(r"\d\d [A-Z][a-z]{2} \d{4}", render(tmp_path, "{{ strftime_now('%d %b %Y') }}"))


def test_marks_of_training_and_loops_that_are_left(tmp_path: Path) -> None:
    assert (
        render(tmp_path, "{% for m in messages %}a{% generation %}b{% endgeneration %}{% break %}{% endfor %}c")
        == "abc"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('secret text') }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages.append(1) }}",
        "{{ x.y.z }}",
    ],
)
def test_a_template_that_refuses(tmp_path: Path, template: str) -> None:
    with pytest.raises(WorkloadError, match=r"tokenizer_config\.json cannot render these messages") as caught:
        render(tmp_path, template)
    assert "secret" not in str(caught.value)


def test_a_file_of_its_own_wins(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("from the file")
    assert render(tmp_path, "from the config") == "from the file"


def test_one_of_several_templates(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "other"}, {"name": "default", "template": "this"}]
    assert render(tmp_path, named) == "this"  # type: ignore[arg-type] # as some models have it


@pytest.mark.parametrize("config", [None, "{}", "[]", '{"chat_template": []}', '{"chat_template": null}'])
def test_no_template(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(config)
    assert load_template(tmp_path) is None


def test_what_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="is no template"):
        render(tmp_path, "{% for %}")
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(WorkloadError, match=r"tokenizer_config\.json is not JSON"):
        load_template(tmp_path)


def test_without_jinja2_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(WorkloadError, match=r"pip install 'pytest-kvcache\[template\]'"):
        render(tmp_path, "x")
