"""What is in a page of ours, by a parser of its own: elements, texts, data, code, and what the page forbids."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

SESSION = Path(__file__).parent / "data/dashboard/session.json"
VOID = {"meta", "link", "input", "br"}
LOADS = {"src", "srcset", "href", "action", "data", "poster", "background", "formaction", "ping", "manifest"}


def session() -> dict[str, Any]:
    """The document of a session with one of everything."""
    found: dict[str, Any] = json.loads(SESSION.read_text(encoding="utf-8"))
    return found


class Page(html.parser.HTMLParser):
    """Elements must be closed in order, and nothing may be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[str, str]] = []  # type or id, text
        self.policy = ""
        self.words: list[str] = []
        self.cells: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def code(self) -> list[str]:
        return [text for kind, text in self.scripts if kind == "code"]

    def data(self, name: str) -> Any:
        (found,) = (text for kind, text in self.scripts if kind == f"data {name}")
        return json.loads(found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in told.items()]
        for name in LOADS & set(told):
            assert told[name].startswith("#") or (tag, told[name]) == ("link", "data:,"), (tag, told[name])
        assert not [name for name in told if name.startswith("on")]
        if tag == "meta" and told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"]
        if tag == "script":
            self.scripts.append((f"data {told['id']}" if told.get("type") == "application/json" else "code", ""))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)
        elif "style" not in self._open:
            self.words.append(data)
            if {"td", "th"} & set(self._open):
                self.cells[-1][-1] += " ".join(data.split()) and f" {' '.join(data.split())}"


def figures(sections: Any) -> list[dict[str, Any]]:
    """Every chart of sections, in order."""
    blocks = [block for section in sections for block in section["blocks"]]
    return [block["figure"] for block in blocks if "figure" in block]


def tables(sections: Any) -> list[list[list[Any]]]:
    """The rows of every table of sections, folded ones too, in order."""
    blocks = [block.get("folded", block) for section in sections for block in section["blocks"]]
    return [block["table"]["rows"] for block in blocks if "table" in block]
