"""Why will these requests not share a prefix? Asked of the requests alone, without any endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from ..divergence import advice, first, sentence, volatile
from ..errors import WorkloadError
from ..model import Divergence
from ..simulate.tree import common_prefix
from .template import ChatTemplate, load_template
from .tokens import BUILTIN, LocalTokenizer, load_tokenizer

Given = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_ISOLATION = ("cache_salt", "extra_key", "prompt_cache_key")  # of vLLM, SGLang, OpenAI
_MOST_ALONE = 10  # volatile things that are told of one request


@dataclass(frozen=True, repr=False)
class Lint:
    """What keeps requests from sharing a prefix; false when nothing does.

    ``str()`` has a line for each, with the prompts' text where that was asked for; ``repr()``, which pytest shows of an
    assertion that failed, has the one that costs the most, without any text.

    Attributes:
        divergences: in the order of the requests.
        expected: where requests part as they should: their last messages say different things.
        show_text: the prompts' own text is shown.
    """

    divergences: tuple[Divergence, ...] = ()
    expected: tuple[Divergence, ...] = ()
    show_text: bool = True

    def __len__(self) -> int:
        return len(self.divergences)

    def __iter__(self) -> Iterator[Divergence]:
        return iter(self.divergences)

    def __str__(self) -> str:
        lines = [_line(found, self.show_text) for found in (*self.divergences, *self.expected)]
        return "\n".join(lines) or _NOTHING

    def __repr__(self) -> str:
        if not self.divergences:
            return f"<{_NOTHING}>"
        worst = max(self.divergences, key=lambda found: (found.recoverable or 0) - (found.token or 0))
        more = f" (and {len(self) - 1} more)" if len(self) > 1 else ""
        return f"<{_line(worst, show_text=False)}{more}>"


_NOTHING = "nothing keeps these requests from sharing a prefix"


def lint(requests: Sequence[Given], *, tokenizer: str | Path | None, block_size: int | None, show_text: bool) -> Lint:
    """Return why requests will not share a prefix; see :meth:`~pytest_kvcache.workloads.builder.WorkloadBuilder.lint`.

    Raises:
        WorkloadError: no request, something else than a body or messages, no chat template for messages although a
            tokenizer is named, or one that cannot be rendered.
    """
    bodies = [_body(number, given) for number, given in enumerate(requests)]
    if not bodies:
        raise WorkloadError("lint: there is nothing to look at; give one request or several")
    if block_size is not None and block_size < 1:
        raise WorkloadError(f"lint: block_size={block_size} is no number of tokens")
    reader = None if tokenizer is None else _Reader.of(str(tokenizer))
    prompts = [_Prompt() if reader is None else reader.read(body) for body in bodies]
    if len(bodies) == 1:
        alone = tuple(islice(_volatile(bodies[0], prompts[0], reader, block_size), _MOST_ALONE))
        return Lint(alone, show_text=show_text)
    found = [
        replace(parted, requests=(number, number + 1))
        for number, pair in enumerate(pairwise(zip(bodies, prompts, strict=True)))
        if (parted := _parted(*pair, block_size)) is not None
    ]
    wrong = tuple(parted for parted in found if not parted.expected)
    return Lint(wrong, tuple(parted for parted in found if parted.expected), show_text)


def _line(found: Divergence, show_text: bool) -> str:
    told, what_to_do = sentence(found, show_text), advice(found)
    return f"{told}; {what_to_do}" if what_to_do else told


def _body(number: int, given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return {"messages": list(given)}
    raise WorkloadError(f"lint: request {number} is {type(given).__name__}; expected a body or a list of messages")


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt as the model sees it, as far as that is known here."""

    text: str | None = None
    ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Reader:
    """A tokenizer, and the chat template beside it."""

    tokenizer: LocalTokenizer
    template: ChatTemplate | None

    @classmethod
    def of(cls, spec: str) -> _Reader:
        tokenizer = load_tokenizer(spec)
        if not isinstance(tokenizer, LocalTokenizer):
            raise WorkloadError(f"lint: {spec!r} is no tokenizer that reads any text")
        path = Path(spec).expanduser()
        return cls(tokenizer, load_template(path.parent if path.is_file() else path))

    def read(self, body: Mapping[str, Any]) -> _Prompt:
        prompt = body.get("prompt")
        if isinstance(prompt, str):
            return _Prompt(prompt, self.tokenizer.encode([prompt])[0])
        if not isinstance(body.get("messages"), list):
            return _Prompt()
        text = self._rendered(body)
        return _Prompt(text, self.bare(text))

    def bare(self, text: str) -> list[int]:
        """Return the tokens of a rendered prompt: the template has written the special ones already."""
        return self.tokenizer.inner.encode(text, add_special_tokens=False).ids

    def _rendered(self, body: Mapping[str, Any]) -> str:
        if self.template is not None:
            return self.template.render(body)
        if self.tokenizer.name == BUILTIN:
            from ..simulate.body import render_chat

            return render_chat(body["messages"], body.get("tools"))
        raise WorkloadError(
            f"lint: there is no chat template with {self.tokenizer.name!r}; name the model's folder, with"
            " chat_template.jinja or tokenizer_config.json in it, or leave tokenizer out"
        )


def _parted(
    one: tuple[Mapping[str, Any], _Prompt], other: tuple[Mapping[str, Any], _Prompt], block: int | None
) -> Divergence | None:
    (a, left), (b, right) = one, other
    texts = (left.text, right.text) if left.text is not None and right.text is not None else None
    ids = (left.ids, right.ids) if left.ids and right.ids else None
    return first(a, b, ids=ids, block=block, isolation=_ISOLATION, texts=texts)


def _volatile(
    body: Mapping[str, Any], prompt: _Prompt, reader: _Reader | None, block: int | None
) -> Iterator[Divergence]:
    """Return what in one request will be another in the next, and stands before something that will not."""
    for found, (start, end) in volatile(body):
        if reader is None or prompt.text is None or not prompt.ids:
            yield replace(found, requests=(0,))
            continue
        at = prompt.text.find(f"{found.shared}{found.left}")
        if at < 0:
            yield replace(found, requests=(0,))  # the template writes it in another way
            continue
        at += len(found.shared)
        token, behind = (
            common_prefix(reader.bare(prompt.text[:place]), prompt.ids) for place in (at, at + end - start)
        )
        yield replace(
            found,
            requests=(0,),
            token=token,
            block=None if block is None else token // block,
            tokens=len(prompt.ids),
            recoverable=min(len(prompt.ids) - (behind - token), len(prompt.ids) - 1),
        )
