"""Files of traces, written and read by one form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.rows import Note, Row
from pytest_kvcache.traces.check import RowError, Skipped
from pytest_kvcache.traces.detect import detected, named
from pytest_kvcache.traces.formats import Options
from pytest_kvcache.traces.lines import Lines
from pytest_kvcache.traces.notes import Notes

DATA = Path(__file__).parents[2] / "data" / "traces"


class Form:
    """Reads files of one form."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / "trace"
        self.format = named(name)
        self.notes = Notes()

    def write(self, *values: Any) -> Path:
        """Write objects, one a line, or texts as they are."""
        lines = (value if isinstance(value, str) else json.dumps(value) for value in values)
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.path

    def items(self, *values: Any, **options: Any) -> list[Row | Skipped]:
        """Return what is read of them."""
        return self.of(self.write(*values), **options)

    def of(self, path: Path, **options: Any) -> list[Row | Skipped]:
        """Return what is read of a file."""
        self.notes = Notes()
        assert self.format is not None
        given = Options(name=path.name, notes=self.notes, **options)
        lines = Lines(path, path.name, strict=given.strict, notes=self.notes)
        return list(self.format.read(lines, given))

    def rows(self, *values: Any, **options: Any) -> list[Row]:
        """Return the rows, of which none may be left out."""
        items = self.items(*values, **options)
        assert all(isinstance(item, Row) for item in items), items
        return [item for item in items if isinstance(item, Row)]

    def wrong(self, *values: Any, **options: Any) -> RowError:
        """Return the error for a bad row, which is left out for the same reason without ``strict``."""
        with pytest.raises(RowError) as caught:
            self.items(*values, **options)
        error = caught.value
        items = self.items(*values, strict=False, **options)
        assert error.skipped in items
        return error

    def told(self) -> dict[str, Note]:
        """Return the notes of the last reading."""
        return {note.reason: note for note in self.notes.all()}

    def found(self, *values: Any) -> str:
        """Return which form files of these are taken for."""
        return detected(Lines(self.write(*values), "trace")).name


def letters(folder: Path) -> Path:
    """Make a model's folder whose tokenizer has a token for each ASCII character, its code."""
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE

    vocabulary = {chr(code): code for code in range(128)}
    tokenizer = Tokenizer(BPE(vocabulary, [], unk_token="?"))
    tokenizer.decoder = decoders.Fuse()
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
