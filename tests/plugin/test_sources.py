"""Where the counters are read: pages with names, the two sides of a disaggregated pair, profiles of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest

from .conftest import PASSING, Run

Start = Callable[..., str]

NAMED = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_named(kv, kv_workload):
    result = kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))
    print("ROWS", {name: (t.query, t.hit) for name, t in result.engines.items()})
    print("ASIDE", {name: (t.query, t.hit) for name, t in result.measurement.aside.items()})
"""


@contextmanager
def rewritten(url: str, change: Callable[[str], str]) -> Iterator[str]:
    """A page that shows another one with changes, as a proxy or an exporter with its own naming does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = change(urlopen(url).read().decode()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def test_named_pages_are_rows(pytester: pytest.Pytester, run: Run, sim: str, start_sim: Start) -> None:
    pytester.makepyfile(NAMED)
    pages = [f"--kv-metrics=left={sim}/metrics", f"--kv-metrics=right={start_sim()}/metrics"]
    result = run("-s", f"--kv-endpoint={sim}", *pages, "--kv-report=kv.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*ROWS {'left 0': (1024, 512), 'right 0': (0, 0)}"])
    rows = json.loads((pytester.path / "kv.json").read_text())["checks"][0]["engines"]
    assert (rows["left 0"]["hit_rate"], rows["right 0"]["hit_rate"]) == (0.5, None)  # nothing asked: no rate, not 0


def test_several_engines_on_one_page_sum(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    # one prefix of 128 tokens for four prompts, two engines in turn: prefill warms one of them, so the other engine's
    # first request misses: 3 * 128 of 1024
    pytester.makepyfile(NAMED.replace("target=0.5", "target=0.375"))
    result = run("-s", f"--kv-endpoint={start_sim('--engines', '2')}", "--kv-concurrency=1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*ROWS {'0': (512, *), '1': (512, *)}"])


def test_spreading_over_engines_is_the_explanation(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    pytester.makepyfile(NAMED)
    result = run(f"--kv-endpoint={start_sim('--engines', '2')}", "--kv-concurrency=1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "hit rate 0.375, wanted 0.500 ± 0.000 (0.125 below): 384 of 1,024 tokens hit [[]KV201[]]. 2 engines *",
            "*2 engines served the same prefixes, each with a cache of its own: misses: engine 0 *, engine 1 *KV308*",
        ]
    )


def test_a_page_that_is_missing_makes_the_whole_scrape_incomplete(
    pytester: pytest.Pytester, run: Run, sim: str
) -> None:
    pytester.makepyfile(NAMED)
    result = run(f"--kv-endpoint={sim}", f"--kv-metrics=a={sim}/metrics", "--kv-metrics=b=http://127.0.0.1:1/metrics")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: nobody answers at http://127.0.0.1:1/metrics (*)*"])


@pytest.mark.parametrize("way", ["named", "json"])
def test_the_decode_side_is_shown_and_never_summed(
    pytester: pytest.Pytester, run: Run, sim: str, start_sim: Start, way: str
) -> None:
    decode = start_sim()
    pytester.makepyfile(NAMED)
    pages = [f"--kv-metrics=decode={decode}/metrics", f"--kv-metrics=prefill={sim}/metrics"]
    with urlopen(f"{decode}/v1/models"):
        pass
    result = run("-s", f"--kv-endpoint={sim}", *pages, "--kv-report=kv.json")
    result.assert_outcomes(passed=1)
    if way == "named":
        result.stdout.fnmatch_lines(["*ROWS {'prefill 0': (1024, 512)}", "*ASIDE {'decode 0': (0, 0)}"])
    else:
        check = json.loads((pytester.path / "kv.json").read_text())["checks"][0]
        assert list(check["engines"]) == ["prefill 0"]
        assert list(check["aside"]) == ["decode 0"]


def test_replies_of_a_decode_engine_are_not_used(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    # its usage says that whole prompts were cached; the prefill side's counters say half
    url = start_sim("--fault", "usage_all_cached")
    pytester.makepyfile(NAMED)
    alone = run(f"--kv-endpoint={url}")
    alone.stdout.fnmatch_lines(["inconclusive: a reply reports all of its * prompt tokens as cached; *KV122*"])
    pages = [f"--kv-metrics=prefill={url}/metrics", f"--kv-metrics=decode={start_sim()}/metrics"]
    result = run(f"--kv-endpoint={url}", *pages, "--kv-report=kv.json")
    result.assert_outcomes(passed=1)
    found = json.loads((pytester.path / "kv.json").read_text())["checks"][0]["findings"]
    assert [finding["code"] for finding in found] == ["KV309"]


def test_a_cache_server_is_shown_and_never_summed(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    # LMCache counts what it looks up, tokens that the engine holds too among them
    page = "lmcache:num_lookup_tokens_total 5000\nlmcache:num_lookup_hits_total 4000\n"
    pytester.makepyfile(NAMED)
    with rewritten(f"{sim}/metrics", lambda _: page) as url:
        result = run("-s", f"--kv-endpoint={sim}", f"--kv-metrics=e={sim}/metrics", f"--kv-metrics=lmcache={url}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*ROWS {'e 0': (1024, 512)}", "*ASIDE {'lmcache': (0, 0)}"])


def test_a_page_of_a_router_is_never_taken_for_an_engines(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    page = (
        'vllm:current_qps{server="a"} 1\nvllm:healthy_pods_total{server="a"} 1\n'
        '# TYPE vllm:gpu_prefix_cache_hits_total gauge\nvllm:gpu_prefix_cache_hits_total{server="a"} 5\n'
        'vllm:gpu_prefix_cache_queries_total{server="a"} 9\nvllm:num_requests_running{server="a"} 0\n'
    )
    pytester.makepyfile(NAMED)
    with rewritten(f"{sim}/metrics", lambda _: page) as url:
        result = run(f"--kv-endpoint={sim}", f"--kv-metrics={url}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: *is the page of * router*, which has no hit counters: *"])


def test_only_a_decode_page_is_refused(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(NAMED)
    result = run(f"--kv-endpoint={sim}", f"--kv-metrics=decode={sim}/metrics")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: decode: every page is of a decode engine or a cache server*prefill=URL*"]
    )


# --- profiles of one's own -------------------------------------------------------------------------------------------

OWN = """
id = "mine"
title = "my engine"
prompt_ids = true
tokenizer = "builtin"
request = { ignore_eos = true }
block_fixed = 16
engine_labels = ["engine"]

[detect]
any = ["mine:queries_total"]

[[variants]]
id = "mine"
hits = { local = "mine:hits_total" }
query = "mine:queries_total"
counted = "admission"
grade = "T"
source = "its page"
"""


def as_mine(page: str) -> str:
    return re.sub(r"sim:prefix_cache_", "mine:", re.sub(r"(?m)^sim:(?!prefix_cache).*\n", "", page))


@pytest.mark.parametrize("way", ["option", "ini", "hook", "table", "forced"])
def test_a_profile_of_ones_own(pytester: pytest.Pytester, run: Run, sim: str, way: str) -> None:
    pytester.makepyfile(PASSING)
    path = pytester.path / "mine.toml"
    path.write_text(OWN)
    words = []
    if way in ("option", "forced"):
        words = [f"--kv-engine-file={path}"] + (["--kv-engine=mine"] if way == "forced" else [])
    elif way == "ini":
        ini = Path("tox.ini")
        ini.write_text(f"{ini.read_text()}\nkv_engine_file =\n    {path}\n")
    elif way == "hook":
        pytester.makeconftest(
            f"import pathlib\ndef pytest_kvcache_engine(config):\n    return pathlib.Path({str(path)!r})\n"
        )
    else:
        pytester.makeconftest(
            "import tomllib_or_tomli as toml\n".replace("tomllib_or_tomli", "tomllib" if _has_tomllib() else "tomli")
            + f"def pytest_kvcache_engine(config):\n    return [toml.loads({OWN!r})]\n"
        )
    with rewritten(f"{sim}/metrics", as_mine) as page:
        result = run("-v", f"--kv-endpoint={sim}", f"--kv-metrics={page}", *words)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["pass*0.500*1,024/2,048*mine*(unconfirmed)*"])  # grade T: not read in its source


def _has_tomllib() -> bool:
    import sys

    return sys.version_info >= (3, 11)


def test_a_profile_that_is_wrong_is_one_usage_error(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    path = pytester.path / "mine.toml"
    path.write_text(OWN.replace("counted", "conted"))
    result = run(f"--kv-endpoint={sim}", f"--kv-engine-file={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvcache: *engine profile {path}: variants.0.*co*ted*"])


def test_a_page_whose_names_have_another_prefix(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    with rewritten(f"{sim}/metrics", lambda page: page.replace("sim:", "corp:")) as page:
        words = [f"--kv-endpoint={sim}", f"--kv-metrics={page}"]
        run(*words).stdout.fnmatch_lines(["inconclusive: *carries none of the samples of a known engine*"])
        run(*words, "--kv-metrics-prefix=sim:=corp:", "--kv-engine=sim").assert_outcomes(passed=1)
        result = run(*words, "--kv-metrics-prefix=sim:=corp:")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: kvcache: --kv-metrics-prefix: needs --kv-metrics and --kv-engine*"])
