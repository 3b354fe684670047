"""The simulated engine's tokenizer: common words are one token after a space, anything else falls back to bytes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_NEVER = -100.0  # worse than spelling the longest piece letter by letter


@cache
def common_words() -> tuple[str, ...]:
    """Return common short English words; most tokenizers hold each of them as one token after a space."""
    return tuple(files(__package__).joinpath("words.txt").read_text(encoding="utf-8").split())


@cache
def load() -> Tokenizer:
    """Return the tokenizer, made in memory. Any text encodes, decodes to itself, and has no special tokens.

    A unigram model: a piece that covers more of the text in one step always scores better than its parts. Only the
    names of bytes score worse than theirs: a text that spells ``<0x41>`` must not become the byte it names.
    """
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import Unigram

    pieces: list[tuple[str, float]] = [("<unk>", _NEVER)]
    pieces += [(f"<0x{byte:02X}>", _NEVER) for byte in range(256)]
    pieces += [(character, -8.0) for character in map(chr, range(32, 127))]
    pieces += [(" " + word, -6.0) for word in common_words()]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer
