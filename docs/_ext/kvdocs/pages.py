"""Pages of the site: which the index does not name, and links that leave the folder."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2]
# Files of the repository that are pages of the site: a link that works in a checkout leads there.
OUTSIDE = {
    "../benchmarks/README.md": "project/benchmarks.md",
    "../CHANGELOG.md": "project/changelog.md",
    "../CONTRIBUTING.md": "project/contributing.md",
    "../SECURITY.md": "project/security.md",
}


def further() -> str:
    """Return the entries of the toctree for pages of ``docs/`` that the index does not name: a new page is found."""
    named = set(re.findall(r"^\w+$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    found = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in {*named, "index"})
    return "\n".join(("```{toctree}", ":caption: Results", ":hidden:", "", *found, "```"))


def inside(text: str) -> str:
    """Return the source of a page with links to those files as links to pages."""
    for path, page in OUTSIDE.items():
        text = text.replace(f"]({path}", f"]({page}")
    return text
