"""From a request of a workload to a call of the client, with what is known of its arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .apis import IN_PATH, UNSTREAMED
from .client import Call
from .engines import Profile
from .engines.counting import in_range
from .model import Exchange, Request, ServerFacts
from .replies.usage import Absent, Convention, UsageReading, declared, readings

_STREAMED = {"stream": True}
_USAGE = {"include_usage": True}  # OpenAI's streams tell no usage otherwise


@dataclass(frozen=True, slots=True)
class Calls:
    """How requests are put to one server.

    Attributes:
        profile: of its engine.
        facts: model and version.
        stream: ask for event streams.
        usage_prompt / usage_absent: what the user declares of its usage; None: as the profile says.
    """

    profile: Profile
    facts: ServerFacts
    stream: bool = True
    usage_prompt: Convention | None = None
    usage_absent: Absent | None = None
    _usages: dict[tuple[str, tuple[str, ...]], tuple[UsageReading, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # by API and what is not read, because to make them takes longer than to send a request

    def __call__(self, request: Request) -> Call:
        """Return a request as it is sent."""
        ids = request.prompt.ids
        if not request.whole:
            body = self._composed(request)
        else:
            body = {"model": self.facts.model, **request.body} if request.api != "completion" else dict(request.body)
        model = str(body.get("model") or self.facts.model)
        if request.api in UNSTREAMED:
            body = _unstreamed(request.api, body)
        else:
            body |= self._streamed(request.api, body)
        return Call(
            api=request.api,
            body=body,
            model=model,
            phase=request.phase,
            prompt_len=len(ids) if ids and not request.whole else _tokens_of(body),
            lookups=self.lookups(body),
            partial=self._is_partial(body),
            samples=_samples(body),
            usage=self.usage(request.api, body),
            session=request.session,
            turn=request.turn,
        )

    def _composed(self, request: Request) -> dict[str, Any]:
        prompt = request.prompt
        given: dict[str, Any] = {"prompt": list(prompt.ids) if prompt.text is None else prompt.text}
        if request.api == "chat":
            given = {"messages": [{"role": "user", "content": prompt.text}]}
        return {
            "model": self.facts.model,
            **given,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            **self.profile.request,
            **request.body,
        }

    def _streamed(self, api: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that make the answer a stream and a stream tell its usage, as far as the body is silent."""
        asked = body.get("stream", self.stream and not (api == "generate" and _several(body)))
        if asked is not True:
            return {}
        options = body.get("stream_options") or {}
        if api not in ("completions", "chat") or not isinstance(options, Mapping):
            return dict(_STREAMED)
        return {**_STREAMED, "stream_options": {**_USAGE, **options}}

    def space(self, request: Request) -> tuple[Any, ...]:
        """Return what separates the caches of requests: their model and what the engine isolates by, such as a salt."""
        given = {"model": self.facts.model} | {k: v for k, v in request.body.items() if v is not None}
        fields = ("model", *self.profile.isolation)
        return tuple(json.dumps(given[name], sort_keys=True) if name in given else None for name in fields)

    def lookups(self, body: Mapping[str, Any]) -> int:
        """Return how often the engine looks up the prompt of a body: once, once a sample, or not at all."""
        rules = self.profile.lookups
        echoed = body.get("echo") is True and body.get("logprobs") is not None
        if not rules.prompt_logprobs and (body.get("prompt_logprobs") is not None or echoed):
            return 0
        return _samples(body) if rules.samples == "each" else 1

    def usage(self, api: str, body: Mapping[str, Any]) -> tuple[UsageReading, ...]:
        """Return how to read the usage of the answer; the cached number is not read where it covers only a part."""
        hidden: tuple[str, ...] = ()
        if api == "generate" and body.get("stream") and _several(body):
            # every chunk tells of one of the answers, and which is the last one says nothing of the others
            hidden = ("prompt", "cached", "written")
        elif self._is_partial(body):
            hidden = ("cached",) if self.profile.lookups.list_prompt or not _is_list(body) else ("prompt", "cached")
        if (api, hidden) not in self._usages:
            found = readings(api, self.profile.usage)
            found = declared(found, prompt_is=self.usage_prompt, absent=self.usage_absent)
            if hidden:
                found = tuple(_reading_without(reading, *hidden) for reading in found)
            self._usages[api, hidden] = found
        return self._usages[api, hidden]

    def _is_partial(self, body: Mapping[str, Any]) -> bool:
        rules = self.profile.lookups
        return (_samples(body) > 1 and not rules.samples_usage) or (_is_list(body) and not rules.list_usage)

    def with_zeros(self, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return exchanges with the zeros that this version leaves out of its usage.

        "Left out because it is zero" and "never reported" look alike, so one answer of the run that reports a number
        has to show that the server does report them (vLLM up to 0.23).
        """
        version = self.facts.version
        omits = version is not None and any(
            rule.absent_is_zero and in_range(version, rule.absent_is_zero) for rule in self.profile.usage
        )
        if self.usage_absent is not None or not omits or all(e.cached_tokens is None for e in exchanges):
            return exchanges
        return tuple(replace(e, cached_tokens=0) if _leaves_out_zero(e) else e for e in exchanges)


def _leaves_out_zero(exchange: Exchange) -> bool:
    told = exchange.ok and exchange.prompt_tokens is not None and not exchange.partial
    return told and exchange.cached_tokens is None


def _reading_without(reading: UsageReading, *numbers: str) -> UsageReading:
    return UsageReading(reading.rule.model_copy(update=dict.fromkeys(numbers, ())))


def _unstreamed(api: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a form that is asked for its whole answer, whatever the user's says."""
    left_out = {"model", "stream"} if api in IN_PATH else {"stream"}
    whole = {name: value for name, value in body.items() if name not in left_out}
    return whole | {"stream": False} if api == "ollama" else whole  # Ollama streams when it is not told


def _samples(body: Mapping[str, Any]) -> int:
    parameters = body.get("sampling_params")
    if isinstance(parameters, list) and parameters:
        parameters = parameters[0]  # one for each prompt, with the same number of samples
    wanted = body.get("n") or (parameters.get("n") if isinstance(parameters, Mapping) else None)
    return wanted if isinstance(wanted, int) and wanted > 0 else 1


def _several(body: Mapping[str, Any]) -> bool:
    return _samples(body) > 1 or _is_list(body)


def _tokens_of(body: Mapping[str, Any]) -> int | None:
    """Count the tokens of a body that gives them as ids, for servers that tell only a part of them."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list) or not prompt:
        return None
    lists = [prompt] if isinstance(prompt[0], int) else prompt
    return sum(map(len, lists)) if all(isinstance(ids, list) for ids in lists) else None


def _is_list(body: Mapping[str, Any]) -> bool:
    prompt = body.get("prompt", body.get("text", body.get("input_ids")))
    return isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)
