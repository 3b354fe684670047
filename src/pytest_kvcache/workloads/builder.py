"""The builder that tests use: one method for each shape of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .bodies import Bodies
from .shapes import Align, Send, SharedPrefix


class WorkloadBuilder:
    """Builds workloads whose reuse is known to the token."""

    def shared_prefix(
        self,
        requests: int,
        input_len: int,
        hit_rate: float | None = None,
        *,
        prefix_len: int | None = None,
        prefixes: int = 1,
        output_len: int = 128,
        align: Align | None = "block",
        prefill: bool = True,
        seed: int | None = None,
        send: Send = "auto",
        tol: float = 0.01,
    ) -> SharedPrefix:
        """Describe requests that share a prefix of exactly known length and nothing else.

        Args:
            requests: how many are measured.
            input_len: tokens of each prompt, as the server counts them.
            hit_rate: wanted share of reusable tokens, 0..1; give this or ``prefix_len``.
            prefix_len: shared tokens.
            prefixes: how many distinct prefixes; requests take them in turn.
            output_len: generated tokens of each request.
            align: ``"block"``: share whole blocks, so that the rate is reached as asked; None: share exactly
                ``hit_rate * input_len`` tokens.
            prefill: warm every prefix before the measured window.
            seed: makes these prompts the same in every run of every test; ``--kv-seed`` does so for each test apart.
            send: ``"ids"``, ``"text"``, or ``"auto"``: ids where the endpoint takes them.
            tol: how far the nearest rate that whole blocks reach may be from ``hit_rate``.

        Raises:
            WorkloadError: an argument is out of range. What depends on the server (blocks, context length) is checked
                when the workload is run.
        """
        return SharedPrefix(
            requests=requests,
            input_len=input_len,
            hit_rate=hit_rate,
            prefix_len=prefix_len,
            prefixes=prefixes,
            output_len=output_len,
            align=align,
            prefill=prefill,
            seed=seed,
            send=send,
            tol=tol,
        )

    def requests(self, bodies: Iterable[Mapping[str, Any]], *, api: str = "chat", warm: int = 0) -> Bodies:
        """Describe requests of your own, sent as they are; ``model`` is filled in where a body has none.

        Nothing is predicted for them, so the marker needs a target, ``min`` or ``max``. What each adds to the query
        tokens is known all the same (``n`` samples, lists of prompts, ``prompt_logprobs``), and checked.

        Args:
            bodies: JSON objects.
            api: ``chat``, ``completions``, ``responses`` (OpenAI), ``messages`` (Anthropic), ``gemini``, ``converse``
                (Bedrock), ``generate`` (SGLang), ``completion`` (llama.cpp) or ``ollama``.
            warm: how many of the first ones are sent before the measured window.

        Raises:
            WorkloadError: an argument is out of range, or a body is no JSON object.
        """
        return Bodies(tuple(bodies), api, warm)
