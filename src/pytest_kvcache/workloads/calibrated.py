"""How many tokens are common words on a server that tells nothing but ``usage``? Asked of a few short chats.

:func:`chat_words` is where a workload that sends chats begins: it returns the vocabulary and the frame, by the server's
tokenizer where there is one, and calibrated where there is none. With them::

    words = await chat_words(site)
    words.frame.prompt(words.vocabulary.encode(numbers), words.vocabulary.text(numbers))

is a prompt of ``len(numbers) + len(words.frame)`` tokens, exactly when ``words.exact``. The ids of calibrated words are
numbers of ours, one a word: enough to tell what prompts share, and never to be sent. Where words are not one token
each, these ids count too few, :meth:`Calibration.span` tells between which numbers of tokens a prompt lies, and its ids
must not be taken for its length: leave them out (``Prompt((), text)``), so that nothing is predicted from them and no
reply is held against them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import WorkloadError
from ..protocols import Site
from . import builtin
from .frame import Frame, counted_frame, frame_of, prompt_tokens
from .vocabulary import Vocabulary

_HALF = 96  # words in each of the first two samples
_PARTS = 6  # smaller samples of the same words, where both halves hold words of several tokens
_ANCHOR = "the"  # in front of the first word, so that it keeps its space
_WIDTH = 6.0  # standard deviations; Student's t with 5 degrees of freedom is beyond 5.9 once in 1,000


@dataclass(frozen=True, slots=True)
class Calibration:
    """Words and a frame for chats on one server.

    Attributes:
        vocabulary: pieces; of calibrated ones the ids are placeholders.
        frame: around them.
        rate: tokens of a word on average; 1 when every word is one token.
        variance: of the tokens of one word; 0 when lengths are exact.
        note: for readers of the result.
    """

    vocabulary: Vocabulary
    frame: Frame
    rate: float = 1.0
    variance: float = 0.0
    note: str = ""

    @property
    def exact(self) -> bool:
        """True when every piece is one token."""
        return self.rate == 1.0 and not self.variance

    def words_for(self, tokens: int) -> int:
        """Return how many pieces make a prompt of about so many tokens, frame included."""
        return max(0, round((tokens - len(self.frame)) / self.rate))

    def span(self, words: int) -> tuple[int, int]:
        """Return the fewest and the most tokens that a prompt of so many drawn pieces has, frame included.

        An estimate from samples: six standard deviations to either side of the mean.
        """
        mean, room = words * self.rate, _WIDTH * math.sqrt(words * self.variance)
        return len(self.frame) + max(0, math.floor(mean - room)), len(self.frame) + math.ceil(mean + room)

    def length_note(self, input_len: int) -> str:
        """Return what a reader must know of prompts that were asked to have so many tokens; empty when they have."""
        if self.exact:
            return ""
        low, high = self.span(self.words_for(input_len))
        return f"input_len {input_len:,} is {low:,} to {high:,} tokens by this server's count"


async def chat_words(site: Site) -> Calibration:
    """Return what chats of known length are made of on a server.

    Raises:
        WorkloadError: the named tokenizer cannot be loaded or is not the server's, or the server tells no tokens.
        EndpointError, ProtocolError: the server refuses, or its answer is not understood.
    """
    from ..tokenizer import NoTokenizer  # it brings the HTTP client along

    try:
        tokenizer = await site.tokenizer()
    except NoTokenizer:
        return await calibrate(site)
    vocabulary = Vocabulary.of(tokenizer)
    frame = await frame_of(site, vocabulary, tokenizer)
    return Calibration(vocabulary, frame, note=frame.note)


async def calibrate(site: Site) -> Calibration:
    """Count common words by the usage of three short chats, or of nine where some words are several tokens.

    Two samples A and B of 96 different words and both together: the template adds ``A + B - AB`` tokens. A sample that
    has as many tokens as words is of words that are one token each, and these alone are used. Where neither is, six
    samples of 32 show which words are, or how much the words differ.

    Raises:
        WorkloadError: a chat failed, its usage tells no prompt tokens, or the numbers do not add up.
    """
    words = _sample(2 * _HALF)
    halves = [words[:_HALF], words[_HALF:]]
    (first, second), both = [await _tokens(site, half) for half in halves], await _tokens(site, words)
    added = first + second - both
    counts = [first - added, second - added]
    if added < 0 or min(counts) <= 0:
        raise WorkloadError(
            f"the server counted {first} and {second} tokens for two samples of {_HALF} words and {both} for both"
            " together, which does not add up; name the model's tokenizer with --kv-tokenizer"
        )
    frame = counted_frame(added, _ANCHOR)
    if _HALF in counts:
        return _of_tokens(_good(halves, counts), frame)
    size = len(words) // _PARTS
    parts = [words[start : start + size] for start in range(0, len(words), size)]
    counts = [await _tokens(site, part) - added for part in parts]
    if sum(counts) != both - added:
        raise WorkloadError(
            f"the server counted {both - added} tokens for {len(words)} words and {sum(counts)} for their parts, so its"
            " words cannot be counted one by one; name the model's tokenizer with --kv-tokenizer"
        )
    good = _good(parts, counts)
    return _of_tokens(good, frame) if good else _of_words(words, counts, frame)


def _sample(count: int) -> list[str]:
    """Return common words, the shortest ones, since these are the likeliest to be one token; in no order."""
    words = sorted(builtin.common_words(), key=len)[:count]
    random.Random("calibrate").shuffle(words)
    return words


async def _tokens(site: Site, words: Sequence[str]) -> int:
    return await prompt_tokens(site, _ANCHOR + "".join(f" {word}" for word in words))


def _good(samples: Sequence[Sequence[str]], counts: Sequence[int]) -> list[str]:
    return [word for sample, count in zip(samples, counts, strict=True) if len(sample) == count for word in sample]


def _vocabulary(words: Sequence[str]) -> Vocabulary:
    return Vocabulary(tuple(f" {word}" for word in words), tuple(range(len(words))))


def _of_tokens(words: Sequence[str], frame: Frame) -> Calibration:
    note = f"no tokenizer: {len(words)} common words are one token each by this server's count"
    return Calibration(_vocabulary(words), frame, note="; ".join(filter(None, (note, frame.note))))


def _of_words(words: Sequence[str], counts: Sequence[int], frame: Frame) -> Calibration:
    """Return the calibration of words that differ in their tokens, by the spread of equal samples."""
    size, rate = len(words) // len(counts), sum(counts) / len(words)
    spread = sum((count - size * rate) ** 2 for count in counts) / (len(counts) - 1) / size
    variance = max(spread, abs(rate - 1))  # equal samples may be chance: at least that of independent splits
    found = Calibration(_vocabulary(words), frame, rate, variance)
    note = (
        f"no tokenizer: a common word is {rate:.2f} tokens on average by this server's count, so lengths are estimates"
    )
    return replace(found, note=note)
