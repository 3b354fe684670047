"""Every pitfall of a naive delta(hits) / delta(queries) has its test."""

from __future__ import annotations

import re
from pathlib import Path


def test_all_27_are_there() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_pitfalls_*.py")]
    found = {int(number) for text in texts for number in re.findall(r"^def test_p(\d\d)_", text, re.MULTILINE)}
    assert found == set(range(1, 28))
