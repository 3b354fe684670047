"""Every option ``--kv-x`` with its twins in the ini file and in the environment."""

from __future__ import annotations

from dataclasses import dataclass

from ..endpoint import parse_metrics_source
from . import parsing
from .parsing import Parse


@dataclass(frozen=True, slots=True)
class Option:
    """One setting with its option ``--kv-x``, ini ``kv_x`` and environment ``PYTEST_KV_X``."""

    name: str
    parse: Parse
    help: str
    metavar: str | None = None
    repeatable: bool = False

    @property
    def is_switch(self) -> bool:
        """It takes no value."""
        return self.metavar is None

    @property
    def flag(self) -> str:
        """On the command line."""
        return f"--kv-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """In the ini file."""
        return f"kv_{self.name}"

    @property
    def variable(self) -> str:
        """In the environment."""
        return f"PYTEST_KV_{self.name.upper()}"


OPTIONS = (
    Option(
        "endpoint",
        parsing.endpoint,
        "OpenAI-compatible server to measure, or 'sim' for the built-in simulated engine",
        "URL",
    ),
    Option("model", parsing.text, "model to ask for (default: the served one, when there is exactly one)", "NAME"),
    Option(
        "metrics",
        parse_metrics_source,
        "metrics page of an engine behind the endpoint; repeatable; a name in front tells pages apart, and 'prefill' or"
        " 'decode' says what the engine does; prometheus+http://HOST:9090?match=job=\"x\" reads a Prometheus server"
        " (default: URL/metrics)",
        "[NAME=]URL",
        repeatable=True,
    ),
    Option(
        "metrics_prefix",
        parsing.prefix,
        "the prefix of the engine's sample names and what its page writes instead, such as vllm:=aibrix:",
        "OLD=NEW",
    ),
    Option(
        "tokenizer",
        parsing.text,
        "the model's tokenizer: tokenizer.json, a folder with one, a hub id, or 'builtin' (default: ask the server)",
        "NAME",
    ),
    Option("engine", parsing.text, "engine profile instead of detecting it; 'usage' judges by usage alone", "ID"),
    Option(
        "engine_file", parsing.engine_file, "an engine profile of your own (TOML); repeatable", "FILE", repeatable=True
    ),
    Option(
        "usage_prompt",
        parsing.one_of("total", "uncached"),
        "whether the replies' prompt tokens hold the cached part or leave it out (default: as the engine profile says)",
        "WORD",
    ),
    Option(
        "usage_absent",
        parsing.one_of("unknown", "zero"),
        "what a reply without cached_tokens means (default: as the engine profile says, else unknown)",
        "WORD",
    ),
    Option(
        "sample_interval",
        parsing.interval,
        "seconds between two looks at the server's gauges during the load, 0 for none (default: 1)",
        "SECONDS",
    ),
    Option("api_key_env", parsing.text, "variable that holds the API key (default: OPENAI_API_KEY)", "VARIABLE"),
    Option("header", parsing.header, "further request header; repeatable", "'NAME: VALUE'", repeatable=True),
    Option("timeout", parsing.seconds, "seconds that one request may take (default: 300)", "SECONDS"),
    Option(
        "prices",
        parsing.prices,
        "what a million tokens of each model cost (TOML), to tell what reuse saved (default: as the endpoint's list of"
        " models tells)",
        "FILE",
    ),
    Option("concurrency", parsing.count, "requests in flight, unless a test says otherwise (default: 8)", "N"),
    Option(
        "processes",
        parsing.count,
        "processes that send the load, for a server that one of them cannot keep busy (default: 1, pytest itself)",
        "N",
    ),
    Option(
        "seed",
        parsing.seed,
        "send the same prompts in every run (default: a fresh nonce, so that a rerun is cold)",
        "N",
    ),
    Option(
        "reset",
        parsing.one_of("never", "auto", "require"),
        "empty the server's cache before a run: never, auto or require (default: never)",
        "MODE",
    ),
    Option("report", parsing.document, "write the results as a JSON document", "FILE"),
    Option("markdown", parsing.document, "write the results as Markdown, for a pull request", "FILE"),
    Option(
        "html",
        parsing.page,
        "write the results as a page with charts that opens offline (needs: pip install 'pytest-kvcache[report]')",
        "FILE",
    ),
    Option("csv", parsing.folder, "write tables of the results and of every request (CSV) into this folder", "DIR"),
    Option("reproduce", parsing.document, "write a shell script that repeats the session", "FILE"),
    Option("artifacts", parsing.folder, "write every form of report into this folder, under fixed names", "DIR"),
    Option("results", parsing.folder, "add the result of each test to files in this folder as it ends", "DIR"),
    Option(
        "resume",
        parsing.folder,
        "do not measure again what the results in this folder hold, and add the rest to it (see --kv-results)",
        "DIR",
    ),
    Option("history", parsing.history, "add one line a test to this file, for what comes of them over time", "FILE"),
    Option(
        "baseline",
        parsing.document,
        "values of before, which tests with the marker kv_regression are compared with",
        "FILE",
    ),
    Option(
        "update_baseline",
        parsing.switch,
        "do not compare: put what is measured into the baseline; tests that do not run keep what is there",
    ),
    Option(
        "allow_change",
        parsing.circumstance,
        "compare with the baseline although this is not what it was, such as engine_version; repeatable",
        "NAME",
        repeatable=True,
    ),
    Option(
        "set",
        parsing.parameter,
        "a parameter of the ready-made checks, such as hit_rate.requests=100; repeatable; --kv-params lists them",
        "CHECK.PARAM=VALUE",
        repeatable=True,
    ),
    Option(
        "show_text",
        parsing.switch,
        "show the prompt text around a first divergence in the output of the test that failed (default: only its class"
        " and position; it never goes into a report)",
    ),
)
