"""The builder that tests use: one method for each shape of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bodies import Bodies
from .shapes import Align, SharedPrefix, Tree
from .shares import Mix, Weights
from .wording import Send

if TYPE_CHECKING:
    from .conversation import Conversation, Think, User
    from .lint import Lint
    from .recorded import Format
    from .trace_replay import Rows, TraceReplay
    from .working_set import Reinit, Selection, WorkingSet


class WorkloadBuilder:
    """Builds workloads whose reuse is known to the token."""

    def shared_prefix(
        self,
        requests: int,
        input_len: Mix[int],
        hit_rate: Mix[float] | None = None,
        *,
        prefix_len: int | None = None,
        prefixes: int = 1,
        weights: Weights = "uniform",
        tree: Tree | None = None,
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
            input_len: tokens of each prompt, as the server counts them; a list gives several lengths to equally many
                requests, ``{2_000: 0.75, 30_000: 0.25}`` to so large shares of them.
            hit_rate: wanted share of reusable tokens, 0..1; or several, as for ``input_len``. Give this,
                ``prefix_len`` or ``tree``.
            prefix_len: shared tokens.
            prefixes: how many distinct prefixes.
            weights: how requests are divided among the prefixes, the number for each being exact: ``"uniform"``, in
                turn; ``"zipf"`` or ``("zipf", 1.2)``, by the inverse of their rank, or a power of it; or a weight for
                each. All but the first mix them in an order that is the same in every run with the same ``seed``.
            tree: prefixes that have parts in common, from the root down: nodes of each level in all, and tokens of
                each node's own part. ``[(1, 4096), (10, 1024), (100, 256)]``: one system prompt, ten tenants, a
                hundred sessions of them; requests take the sessions.
            output_len: generated tokens of each request.
            align: ``"block"``: share whole blocks, so that the rate is reached as asked; None: share exactly
                ``hit_rate * input_len`` tokens.
            prefill: warm every prefix that is used before the measured window.
            seed: makes these prompts the same in every run of every test; ``--kv-seed`` does so for each test apart.
            send: ``"ids"``, ``"text"``, ``"chat"`` (one user message; ``input_len`` counts the template too), or
                ``"auto"``: ids where the endpoint takes them, else text, and chats where nobody can tell its tokens.
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
            weights=weights,
            tree=tree,
            output_len=output_len,
            align=align,
            prefill=prefill,
            seed=seed,
            send=send,
            tol=tol,
        )

    def working_set(
        self,
        tokens: int,
        context: int,
        hit_rate: float,
        *,
        requests: int | None = None,
        chunk: int | None = None,
        selection: Selection = "round_robin",
        reinit: Reinit = "per_test",
        output_len: int = 128,
        seed: int | None = None,
        send: Send = "auto",
    ) -> WorkingSet:
        """Describe requests over a set of warmed contexts, larger or smaller than the cache.

        Each request is the first part of one context of the set, and a unique rest.

        Args:
            tokens: size of the set; ``tokens // context`` contexts.
            context: tokens of each context and of each prompt.
            hit_rate: share of each prompt that is in the set, 0..1, rounded down to whole ``chunk`` tokens.
            requests: how many are measured; None: one for each context.
            chunk: None: the server's block.
            selection: ``round_robin``: contexts in turn, the worst order for a set larger than the cache; ``random``:
                independent draws, the same in every run with the same ``seed``.
            reinit: when the set is warmed anew: ``once`` in a session of pytest, for each hit rate (``per_rate``), or
                for each test (``per_test``).
            output_len: generated tokens of each request.
            seed: makes the set and the order of its use the same in every run; what follows a context's part is always
                new, so that no run finds what an earlier one sent.
            send: as for :meth:`shared_prefix`.

        Raises:
            WorkloadError: an argument is out of range.
        """
        from .working_set import WorkingSet

        return WorkingSet(
            tokens=tokens,
            context=context,
            hit_rate=hit_rate,
            requests=requests,
            chunk=chunk,
            selection=selection,
            reinit=reinit,
            output_len=output_len,
            seed=seed,
            send=send,
        )

    def conversation(
        self,
        system: str | Path | None = None,
        tools: Sequence[Mapping[str, Any]] | Path | None = None,
        *,
        turns: int = 10,
        user: User | None = None,
        sessions: int = 1,
        max_tokens: int = 64,
        temperature: float = 0.0,
        tool_result: str = "ok",
        think_time: Think = 0.0,
        fresh: bool = True,
        body: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Conversation:
        """Describe real conversations: every answer, tool calls included, becomes part of the next prompt.

        Args:
            system: system prompt, or the file that holds it.
            tools: in OpenAI's form, or the JSON file that holds them.
            turns: requests of each conversation.
            user: what the user says: one text for each turn (repeated when there are fewer), a file with one a line,
                or a function of session and turn; None: words that no other turn says.
            sessions: conversations; ``kv.run(concurrency=1)`` has them one after the other.
            max_tokens: of each answer.
            temperature: 0 makes answers as repeatable as the server can.
            tool_result: what every called tool returns.
            think_time: seconds between an answer and the next turn, or the (least, most) of a seeded draw.
            fresh: keep these conversations from hitting what an earlier run cached: by a salt where the engine has
                one, else by a line at the head of the system prompt.
            body: further fields of every request, such as ``{"chat_template_kwargs": {"enable_thinking": False}}``.
            seed: makes them the same in every run.

        Raises:
            WorkloadError: an argument is out of range, or a file cannot be read.
        """
        from .conversation import Conversation

        return Conversation(
            system=system,
            tools=tools,
            turns=turns,
            user=user,
            sessions=sessions,
            max_tokens=max_tokens,
            temperature=temperature,
            tool_result=tool_result,
            think_time=think_time,
            fresh=fresh,
            body=body or {},
            seed=seed,
        )

    def prompts(
        self,
        path: str | Path,
        *,
        format: Format = "auto",
        limit: int | None = None,
        warm: int = 0,
        max_tokens: int | None = None,
    ) -> Bodies:
        """Describe the prompts or recorded requests of a file, sent as they are, in its order.

        Their reuse is predicted from their tokens where the server tells them, as of :meth:`requests`. Requests of one
        session follow one another, and a session begins when one in flight has ended: with ``concurrency=1`` one is
        over before the next.

        Args:
            path: JSONL of OpenAI bodies or of batch rows, ShareGPT JSON, or one prompt a line; plain or gzip, UTF-8.
                ``session``, ``session_id`` or ``conversation_id`` beside a body, or around it as in
                ``{"body": {...}, "session": "a"}``, names its session and is not sent. In a ShareGPT conversation,
                every turn of the human becomes a request with the turns before it.
            format: ``bodies``, ``sharegpt``, ``lines``, or ``auto``: what the file looks like.
            limit: only the first so many requests; what stands behind them is not read.
            warm: how many of the first ones are sent before the measured window.
            max_tokens: for requests that say none; None: the server's default.

        Raises:
            WorkloadError: an argument is out of range, or the file cannot be read; names the line and shows none of it.
        """
        from .recorded import read

        return read(Path(path), format=format, limit=limit, warm=warm, max_tokens=max_tokens)

    def trace(
        self,
        trace: Rows,
        *,
        speed: float = 1.0,
        clock: bool = True,
        users: int | None = None,
        think: bool = False,
        output_len: int | None = None,
        seed: int | None = None,
        send: Send = "auto",
    ) -> TraceReplay:
        """Describe the requests of a trace: as long as they were, and sharing the blocks that they shared.

        Their text is made of words, and the first ones are new in every run. Two requests have exactly the tokens in
        common that the trace's blocks say; tokens without a block id are like no others. What the server does not take
        is left out and counted in the notes of the result.

        Args:
            trace: an opened trace, or a part of one, such as ``trace.first(200)``.
            speed: so many times faster than it was recorded.
            clock: send each request when the trace says, whether or not others have been answered; only a later turn
                of a session waits for the answer before it. Give ``kv.run`` no ``rate`` then, and so much
                ``concurrency`` that no session waits for a place. False: requests follow answers, as many sessions at
                once as ``concurrency`` says.
            users: without the clock, how many sessions are meant to go at once. 1, with ``concurrency=1``: the requests
                follow one another as in the trace, whichever session they belong to.
            think: without the clock, wait before a later turn as long as the trace says, divided by ``speed``.
            output_len: generated tokens of each request; None: as the trace says, and 1 where it says 0 or nothing.
            seed: makes these prompts the same in every run of every test.
            send: as for :meth:`shared_prefix`.

        Raises:
            WorkloadError: an argument is out of range. What the trace must tell (block size, times) and what depends
                on the server is checked when the workload is run.
        """
        from .trace_replay import TraceReplay

        return TraceReplay(trace, speed, clock, users, think, output_len, seed, send)

    def lint(
        self,
        *requests: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        tokenizer: str | Path | None = None,
        block_size: int | None = None,
        show_text: bool = True,
    ) -> Lint:
        """Tell, without any endpoint, why requests will not share a prefix and what to do about it.

        Args:
            requests: bodies, or lists of messages. One: is there anything in it that will change from request to
                request? Several: where does each part from the one before it?
            tokenizer: the model's folder, with its chat template in it (extra ``template``), so that positions are
                tokens of the rendered prompt and what the template does to earlier turns is seen; ``builtin``: as
                the simulated engine has it. None: positions in characters only.
            block_size: tokens per cache block, for the block of a position.
            show_text: False leaves the text of the prompts out.

        Returns:
            What was found; empty, and false in an ``if``, when all is well. ``str()`` of it is for people.

        Raises:
            WorkloadError: something else than requests was given, or they cannot be rendered.
        """
        from .lint import lint

        return lint(requests, tokenizer=tokenizer, block_size=block_size, show_text=show_text)

    def requests(self, bodies: Iterable[Mapping[str, Any]], *, api: str = "chat", warm: int = 0) -> Bodies:
        """Describe requests of your own, sent as they are.

        What is added: a ``model`` where a body has none, and streams are asked for and asked to tell their usage.

        Their reuse is predicted where the server tells the tokens of all of them, and counts as many when they are
        sent. It does not for images, for other forms than ``chat`` and ``completions``, for lists of prompts, several
        answers (``n``) or prompts' logprobs; then the marker needs a target, ``min`` or ``max``. What each adds to the
        query tokens is known all the same, and checked.

        Args:
            bodies: JSON objects.
            api: ``chat``, ``completions``, ``responses`` (OpenAI), ``messages`` (Anthropic), ``gemini``, ``converse``
                (Bedrock), ``generate`` (SGLang), ``completion`` (llama.cpp) or ``ollama``.
            warm: how many of the first ones are sent before the measured window.

        Raises:
            WorkloadError: an argument is out of range, or a body is no JSON object.
        """
        return Bodies(tuple(bodies), api, warm)
