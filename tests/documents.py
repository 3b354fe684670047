"""What every document of a session must be: as the published schema says, to the last key, and fit for Markdown."""

from __future__ import annotations

import html.parser
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from pytest_kvcache.report import schema
from pytest_kvcache.report.markdown import joined, markdown

ALLOWED = {
    *("h3", "h4", "p", "strong", "code", "pre", "ul", "li", "br", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
LINKED = re.compile(r"[@#]\S|\bgh-\d|\bwww\.|://|:[^\s:]+:", re.IGNORECASE)  # what GitHub makes a link or picture of
VOID = {"br"}


def strict(part: Any) -> Any:
    """The schema without room for further keys: here a key that it does not tell is a gap in it."""
    if isinstance(part, list):
        return [strict(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    closed = {"additionalProperties": False} if part.get("type") == "object" and "properties" in part else {}
    return {name: strict(inner) for name, inner in part.items()} | closed


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(strict(schema()))


def errors(document: Any) -> list[str]:
    plain = json.loads(json.dumps(document, allow_nan=False))
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(plain)]


def validate(path: Path) -> None:
    """Raise AssertionError unless a document is as the schema says, and can be shown."""
    document = json.loads(path.read_text(encoding="utf-8"))
    assert errors(document) == []
    Seen.of(joined(markdown(document)))


class Seen(html.parser.HTMLParser):
    """What a reader of Markdown sees, after a parser of its own: tags, texts, the cells of tables."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self.names: list[str] = []

    @classmethod
    def of(cls, markdown: str) -> Seen:
        """Parse Markdown.

        Raises:
            AssertionError: a tag or link that a report has not, or one that is not closed.
        """
        seen = cls()
        seen.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))
        seen.close()
        assert set(seen.tags) <= ALLOWED, set(seen.tags) - ALLOWED
        assert seen.open == []
        return seen

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style", "class"}  # of the parser's own: alignment, language of a block
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "code" and "pre" not in self.open:
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        assert data == " "

    def handle_data(self, data: str) -> None:
        if "pre" not in self.open:
            assert not LINKED.search(data), data
            self.words.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        if "code" in self.open and "pre" not in self.open:
            self.names[-1] += data
