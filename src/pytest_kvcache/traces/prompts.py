"""Which tokens, and which blocks, does the prompt of a recorded request have?"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import TraceError, WorkloadError
from .check import RowError
from .digests import chained, key_of
from .formats import Options
from .notes import Notes
from .rendering import Conversation, Given, NoPrompt, plain, prompts_of
from .usage import Recorded

if TYPE_CHECKING:
    from ..workloads.template import ChatTemplate
    from ..workloads.tokens import LocalTokenizer

_APART = ("model", "cache_salt", "extra_key")  # prompts that differ in these share no block, whatever their text


class Blocks(NamedTuple):
    """A prompt, cut into blocks.

    Attributes:
        tokens: how many there are.
        ids: of every block, the last, partial one too.
    """

    tokens: int
    ids: array[int]


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Tokenizes prompts and cuts them into blocks.

    Attributes:
        tokenizer: the model's.
        template: its chat template; None: there is none beside the tokenizer.
        block_size: tokens of a block.
        key: of the digests.
        notes: what to tell.
        models: that were asked for so far.
    """

    tokenizer: LocalTokenizer
    template: ChatTemplate | None
    block_size: int
    key: bytes
    notes: Notes
    models: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, options: Options) -> PromptReader:
        """Load the tokenizer that was named, and the chat template beside it.

        Raises:
            TraceError: the tokenizer or the block size is not named, or one of the files cannot be read.
        """
        if options.tokenizer is None or options.block_size is None:
            missing = "tokenizer=" if options.tokenizer is None else "block_size="
            raise TraceError(
                f"{options.name}: it holds prompts as text; to cut them into blocks, give tokenizer= (a tokenizer.json,"
                f" a folder with one, a hub id, or 'builtin') and block_size= (tokens of a block); {missing} is missing"
            )
        from ..workloads.template import load_template
        from ..workloads.tokens import LocalTokenizer, load_tokenizer

        path = Path(options.tokenizer).expanduser()
        try:
            tokenizer = load_tokenizer(options.tokenizer)
            template = load_template(path.parent if path.is_file() else path)
        except WorkloadError as error:
            raise TraceError(f"{options.name}: {error}") from None
        if not isinstance(tokenizer, LocalTokenizer):
            raise TraceError(f"{options.name}: tokenizer={options.tokenizer!r} reads no text")
        return cls(tokenizer, template, options.block_size, key_of(options.salt), options.notes)

    def read(self, line: int, api: str, body: Mapping[str, Any]) -> Iterator[Blocks]:
        """Return the prompts of a body.

        Args:
            line: where it stands.
            api: a key of :data:`pytest_kvcache.apis.PATHS`.
            body: as recorded.

        Raises:
            RowError: its prompt is not understood.
        """
        try:
            prompts = prompts_of(api, body)
        except NoPrompt as error:
            raise RowError(line, "no_prompt", str(error)) from None
        start = self._start(line, body)
        for prompt in prompts:
            tokens = self._tokens(line, prompt)
            yield Blocks(len(tokens), self._ids(tokens, start))

    def agreed(self, line: int, blocks: Blocks, found: Recorded) -> int | None:
        """Return the cached tokens that were recorded, where the server counted what the text has; else say so."""
        if found.prompt in (None, blocks.tokens):
            return found.cached
        told = (
            "{rows} whose text has other tokens here than the server counted (first: {line}): their lengths are those"
            " of the text, and the cached tokens that were recorded are left out"
        )
        self.notes.add("other_length", line, told)
        return None

    def _start(self, line: int, body: Mapping[str, Any]) -> bytes:
        """Return what sets the blocks of a body apart."""
        apart = {name: body[name] for name in _APART if body.get(name) is not None}
        model = apart.get("model")
        if isinstance(model, str) and model not in self.models:
            if self.models:
                told = "more than one model is asked for, whose blocks are kept apart (second one: {line})"
                self.notes.add("models", line, told)
            self.models.add(model)
        return json.dumps(apart, sort_keys=True).encode() if apart else b""

    def _tokens(self, line: int, prompt: Given | Conversation) -> Sequence[int]:
        if not isinstance(prompt, (str, Conversation)):
            return prompt
        bare = isinstance(prompt, Conversation)  # templates write special tokens themselves
        text = self._rendered(line, prompt) if isinstance(prompt, Conversation) else prompt
        try:
            return self.tokenizer.inner.encode(text, add_special_tokens=not bare).ids
        except (TypeError, UnicodeEncodeError):  # what tokenizers, which are written in Rust, say of it
            raise RowError(line, "no_prompt", "its text is no Unicode: half of a surrogate pair") from None

    def _rendered(self, line: int, prompt: Conversation) -> str:
        from ..simulate.body import render_chat
        from ..workloads.tokens import BUILTIN

        if prompt.unread:
            told = "{rows} with {amount} parts that are no text, such as images (first: {line}): tokens of text count"
            self.notes.add("not_text", line, told, prompt.unread)
        if self.template is not None:
            try:
                return self.template.render(prompt.body)
            except WorkloadError as error:
                raise RowError(line, "template", str(error)) from None
        if self.tokenizer.name == BUILTIN:
            return render_chat(prompt.body["messages"], prompt.body.get("tools"))  # the simulated engine's own
        told = (
            "{rows} with messages, and no chat template beside the tokenizer (first: {line}): their lengths are those"
            " of the text, a line with the role before each message, and not those of the server's prompts"
        )
        self.notes.add("no_template", line, told)
        return plain(prompt)

    def _ids(self, tokens: Sequence[int], start: bytes) -> array[int]:
        size = self.block_size
        packed = array("I", tokens)
        parts = (packed[at : at + size].tobytes() for at in range(0, len(packed), size))
        return chained(parts, key=self.key, start=start)
