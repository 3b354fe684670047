"""Text to the token ids that the server counts: a local tokenizer, the built-in one, or one learned from the server."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import WorkloadError
from ..protocols import Tokenizer
from . import builtin

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HFTokenizer

BUILTIN = "builtin"
_MOST_WORDS = 4096  # enough to tell prompts apart; proving more costs time and buys nothing
_WORD = re.compile(r"[Ġ▁ ]([a-z]{2,12})")  # a space in front, as byte-level BPE, SentencePiece and ours write it


@dataclass(frozen=True, eq=False)
class LocalTokenizer:
    """A Hugging Face tokenizer held in this process.

    Attributes:
        name: where it came from.
        inner: the tokenizer itself.
    """

    name: str
    inner: HFTokenizer

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, with the special tokens that the tokenizer's post-processor adds."""
        return [encoding.ids for encoding in self.inner.encode_batch_fast(list(texts), add_special_tokens=True)]

    def words(self) -> Sequence[str]:
        """Return the words that stand in the vocabulary behind a space, lowest id first."""
        found = (match[1] for token in self._tokens() if (match := _WORD.fullmatch(token)) is not None)
        return list(dict.fromkeys(islice(found, _MOST_WORDS)))

    def pieces(self) -> Sequence[str]:
        """Return what single tokens decode to, lowest id first, for a vocabulary without words."""
        numbers = range(min(self.inner.get_vocab_size(), _MOST_WORDS))
        return [text for number in numbers if (text := self.inner.decode([number])) and "\ufffd" not in text]

    def _tokens(self) -> Iterator[str]:
        # One by one: copying and sorting a vocabulary of 150,000 costs more than everything else here.
        for number in range(self.inner.get_vocab_size()):
            token = self.inner.id_to_token(number)
            if token is not None:
                yield token


@dataclass(frozen=True, eq=False)
class LearnedTokenizer:
    """What a server's ``/tokenize`` told about common words: enough to compose prompts, not to read any text.

    Attributes:
        name: where it was learned.
        ids: token id of each word behind a space.
        lead / trail: special tokens that the server puts around a text.
    """

    name: str
    ids: dict[str, int]
    lead: tuple[int, ...] = ()
    trail: tuple[int, ...] = ()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts made of learned words, each behind one space; other words are an empty list."""
        return [self._encode(text) for text in texts]

    def words(self) -> Sequence[str]:
        """Return the learned words."""
        return list(self.ids)

    def pieces(self) -> Sequence[str]:
        """Return nothing: only words were learned."""
        return []

    def _encode(self, text: str) -> list[int]:
        words = text.split()
        if text != _joined(words) or not all(word in self.ids for word in words):
            return []
        return [*self.lead, *(self.ids[word] for word in words), *self.trail]


def load_tokenizer(spec: str) -> Tokenizer:
    """Return the tokenizer that ``--kv-tokenizer`` names.

    Args:
        spec: ``builtin``, a ``tokenizer.json``, a folder that holds one, or a hub id.

    Raises:
        WorkloadError: there is no such file, it is no tokenizer, or the hub cannot be reached; says what was tried.
    """
    if spec == BUILTIN:
        return _builtin()
    path = Path(spec).expanduser()
    if path.is_dir():
        path /= "tokenizer.json"
    if path.suffix == ".json" or path.exists():
        return _from_file(path, spec)
    return _from_hub(spec)


@lru_cache(maxsize=1)
def _builtin() -> LocalTokenizer:
    return LocalTokenizer(BUILTIN, builtin.load())


def _from_file(path: Path, spec: str) -> LocalTokenizer:
    if not path.is_file():
        raise WorkloadError(f"tokenizer {spec!r}: there is no file {path}; name a tokenizer.json or a folder with one")
    state = path.stat()
    return _read(path.resolve(), spec, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)  # a suite runs many tests against one model; a file that changed is read again
def _read(path: Path, spec: str, _modified: int, _size: int) -> LocalTokenizer:
    from tokenizers import Tokenizer as HFTokenizer

    try:
        return LocalTokenizer(spec, _plain(HFTokenizer.from_file(str(path))))
    except Exception as error:  # tokenizers raises bare Exception for a file that is no tokenizer
        raise WorkloadError(f"tokenizer {spec!r}: {path} is no tokenizer.json ({_short(error)})") from None


def _from_hub(spec: str) -> LocalTokenizer:
    from tokenizers import Tokenizer as HFTokenizer

    try:
        return LocalTokenizer(spec, _plain(HFTokenizer.from_pretrained(spec)))
    except Exception as error:  # as above, and whatever the hub client raises
        raise WorkloadError(
            f"tokenizer {spec!r}: no such file or folder, and the hub did not give it ({_short(error)});"
            " name a local tokenizer.json"
        ) from None


def _plain(tokenizer: HFTokenizer) -> HFTokenizer:
    # A saved file may cut or pad to the length of its training data; a server does neither.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:160] + "…"


async def learn_server_tokenizer(tokenize: Callable[[str], Awaitable[list[int]]]) -> LearnedTokenizer:
    """Find out which common words are one token each, with five requests to the server.

    Every candidate is sent twice in a row: a word of one token shows as the same id twice. The words found are then
    sent in two other orders, and those that do not come back as themselves are dropped.

    Args:
        tokenize: the server's ``/tokenize``, special tokens included.

    Raises:
        WorkloadError: fewer than two words came back as one token each.
    """
    alone = await tokenize(" the"), await tokenize(" the the")
    lead, trail = _specials(*alone)
    body = _inner(await tokenize(_joined(w for word in builtin.common_words() for w in (word, word))), lead, trail)
    ids = _doubled(body, builtin.common_words())
    for order in (sorted(ids), sorted(ids, key=lambda word: (word[::-1], word))):
        known = [word for word in order if word in ids]
        seen = _inner(await tokenize(_joined(known)), lead, trail)
        same = len(seen) == len(known)
        pairs = zip(known, seen, strict=True) if same else ()
        ids = {word: number for word, number in pairs if ids[word] == number}
    if len(ids) < 2:
        raise WorkloadError(
            "the server's /tokenize does not keep common words as one token each, so exact prompts cannot be composed"
            " from it; name the model's tokenizer with --kv-tokenizer"
        )
    return LearnedTokenizer("the server's /tokenize", ids, tuple(lead), tuple(trail))


def _joined(words: Iterable[str]) -> str:
    return "".join(f" {word}" for word in words)


def _inner(ids: list[int], lead: list[int], trail: list[int]) -> list[int]:
    return ids[len(lead) : len(ids) - len(trail)]


def _specials(one: list[int], two: list[int]) -> tuple[list[int], list[int]]:
    """Return what stands around a text, from the encodings of ``x`` and ``x x``."""
    lead = 0
    while lead < min(len(one), len(two)) and one[lead] == two[lead] and not _repeats(two, lead, len(two) - len(one)):
        lead += 1
    width = len(two) - len(one)
    return one[:lead], one[lead + width :]


def _repeats(ids: list[int], start: int, width: int) -> bool:
    return width > 0 and ids[start : start + width] == ids[start + width : start + 2 * width]


def _doubled(ids: list[int], words: Sequence[str]) -> dict[str, int]:
    """Return the words that are one token, from the encoding of every word twice in a row."""
    found: dict[str, int] = {}
    position = 0
    for word in words:
        width = 1
        while position + 2 * width <= len(ids) and not _repeats(ids, position, width):
            width += 1
        if position + 2 * width > len(ids):
            break  # lost the thread: what was found so far is checked by the caller
        if width == 1:
            found[word] = ids[position]
        position += 2 * width
    return found
