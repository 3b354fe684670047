"""What reuse saved, as a user gets to see it: of an engine, of a provider that lists its prices, from a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..cases.conftest import Measure, measure  # noqa: F401 - a fixture
from ..cases.stage import Reply, Stage, playing
from .conftest import Run, properties

ONE_AFTER_ANOTHER = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_shared(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=8, input_len=256, hit_rate=0.5, prefixes=2, output_len=2), concurrency=1)
"""
OWN = """
import pytest

@pytest.mark.hit_rate(min=0.0, source="usage")
def test_case(kv, kv_workload):
    kv.run(kv_workload.requests([{"messages": []}] * 2, api="chat"), concurrency=1)
"""
PRICES = """
[models."*"]
input = 2.50
cached_input = 1.25
output = 10
"""
LISTED = {"prompt": "0.0000025", "completion": "0.00001", "input_cache_read": "0.00000125"}
COLD, WARM = ({"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": d} for d in (
    {"cached_tokens": 0, "cache_write_tokens": 900}, {"cached_tokens": 800}
))  # fmt: skip


def hosted(pricing: Any = None, **more: Any) -> Stage:
    entry = {"id": "m", "pricing": pricing, **more}
    models = Reply(200, json.dumps({"data": [entry]}), {"Content-Type": "application/json"})
    return Stage(usages=(COLD, WARM), routes={"/v1/models": models})


def test_seconds_are_those_that_the_engine_would_have_taken(
    pytester: pytest.Pytester, run: Run, start_sim: Any
) -> None:
    pytester.makepyfile(ONE_AFTER_ANOTHER)
    result = run(f"--kv-endpoint={start_sim('--prefill-rate', '50000')}", "--kv-report=o.json", "-rP")
    document = json.loads((pytester.path / "o.json").read_text())
    (check,) = document["checks"]
    # 8 x 128 tokens hit, at 50,000 tokens per second
    assert check["saved"] == {
        "prefill_tokens": 1024,
        "prefill_s": pytest.approx(1024 / 50_000, rel=1e-6),
        "prefill_s_from": "the server's prefill seconds per computed prompt token, for each hit token",
        "money": None,
        "cost": None,
        "currency": None,
        "price_from": "",
    }
    assert check["runs"][0]["saved"] == check["saved"]
    assert document["saved"] == check["saved"] | {"tests": 1}
    told = "saved 1,024 tokens of prefill (about 20.5 ms of prefill work)"
    result.stdout.fnmatch_lines([f"  {told}", "*= kvcache =*", told])


def test_prices_of_another_model_are_told_to_be_that(pytester: pytest.Pytester, run: Run, start_sim: Any) -> None:
    pytester.makepyfile(ONE_AFTER_ANOTHER)
    (pytester.path / "p.toml").write_text(PRICES.replace('"*"', '"other*"'))
    result = run(f"--kv-endpoint={start_sim()}", "--kv-prices=p.toml")
    result.stdout.fnmatch_lines(["saved 1,024 tokens *(no money: --kv-prices; no pattern of it fits 'sim')"])


def test_own_prices_make_it_money_in_every_form(pytester: pytest.Pytester, run: Run, start_sim: Any) -> None:
    pytester.makepyfile(ONE_AFTER_ANOTHER)
    (pytester.path / "p.toml").write_text(PRICES)
    words = ("--kv-prices=p.toml", "--kv-report=o.json", "--kv-markdown=o.md", "--kv-html=o.html", "--junitxml=j.xml")
    result = run(f"--kv-endpoint={start_sim('--prefill-rate', '50000')}", *words)
    assert "of prefill work), $0.0013; what was sent cost" in (pytester.path / "o.html").read_text()
    saved = json.loads((pytester.path / "o.json").read_text())["saved"]
    assert (saved["money"], saved["currency"], saved["price_from"]) == ("0.00128", "USD", "p.toml (*)")  # 1024 x 1.25
    result.stdout.fnmatch_lines(["saved 1,024 tokens of prefill (about 20.5 ms of prefill work), $0.0013; what *"])
    assert "saved 1,024 tokens of prefill" in (pytester.path / "o.md").read_text()
    told = properties(pytester.path / "j.xml")["test_shared"]
    assert (told["kv_saved_tokens"], told["kv_saved_money"]) == ("1024", "0.00128 USD")


def test_a_quiet_session_says_nothing_of_it(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(ONE_AFTER_ANOTHER)
    assert "saved" not in run(f"--kv-endpoint={sim}", "-q").stdout.str()


def test_prices_that_the_endpoint_lists(measure: Measure) -> None:  # noqa: F811 - the fixture
    stage = hosted(LISTED)
    with playing(stage) as url:
        saved = measure(url, OWN, "--kv-engine=usage").check["saved"]
    assert [path for path, _ in stage.seen].count("/v1/models") == 1
    assert (saved["prefill_tokens"], saved["prefill_s"]) == (800, None)
    # 800 x 1.25; 2000 - 800 computed x 2.50 + 800 x 1.25 + 20 x 10
    assert (saved["money"], saved["cost"], saved["currency"]) == ("0.001", "0.0042", "USD")
    assert saved["price_from"] == "the endpoint's list of models"


def test_writing_to_the_cache_may_cost_more_than_reading_saves(measure: Measure) -> None:  # noqa: F811 - the fixture
    with playing(hosted(LISTED | {"input_cache_write": "0.000005"})) as url:
        outcome = measure(url, OWN, "--kv-engine=usage", "-rP")
    # 800 x 1.25 - 900 x 2.50
    assert outcome.check["saved"]["money"] == "-0.00125"
    # 100 + 200 computed x 2.50, 900 written x 5, 800 cached x 1.25, 20 generated x 10
    assert outcome.check["saved"]["cost"] == "0.00645"
    told = "saved 800 tokens of prefill, -$0.0012 because writing to the cache cost more than reading saved; what was"
    assert told in outcome.output


def test_a_file_goes_before_what_the_endpoint_lists_for_the_models_it_names(
    measure: Measure,  # noqa: F811 - the fixture
    pytester: pytest.Pytester,
) -> None:
    for pattern, origin in (("m", "p.toml (m)"), ("other", "the endpoint's list of models")):
        (pytester.path / "p.toml").write_text(PRICES.replace("*", pattern).replace("1.25", "0"))
        with playing(hosted(LISTED)) as url:
            saved = measure(url, OWN, "--kv-engine=usage", "--kv-prices=p.toml").check["saved"]
        assert saved["price_from"] == origin
        assert saved["money"] == ("0.002" if pattern == "m" else "0.001")


KEY = "sk-secret-0123456789"


@pytest.mark.parametrize(
    "pricing", [{"prompt": "-1"}, {"prompt": KEY}, "9" * 5000, {"prompt": "0.5"}, [[[[]]]], {"overrides": {"a": KEY}}]
)
def test_prices_that_are_none_are_a_note_and_never_show_what_was_told(
    measure: Measure,  # noqa: F811 - the fixture
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    pricing: Any,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with playing(hosted(pricing)) as url:
        outcome = measure(url, OWN, "--kv-engine=usage", "--kv-markdown=o.md", "--junitxml=j.xml", "-rP")
    saved = outcome.check["saved"]
    assert (outcome.verdict, saved["prefill_tokens"], saved["money"], saved["currency"]) == ("pass", 800, None, None)
    assert saved["price_from"].startswith("the endpoint's list of models; its pricing is not understood: ")
    assert "saved 800 tokens of prefill (no money: the endpoint's list of models; its pricing" in outcome.output
    written = [(pytester.path / name).read_text() for name in ("out.json", "o.md", "j.xml")]
    assert all(KEY not in text for text in (outcome.output, *written))


def test_what_is_inconclusive_has_saved_nothing_that_can_be_told(measure: Measure) -> None:  # noqa: F811 - the fixture
    stage = hosted(LISTED)
    stage.usages = (COLD, {**WARM, "prompt_tokens": 700})  # more cached than there is
    with playing(stage) as url:
        outcome = measure(url, OWN, "--kv-engine=usage")
    assert outcome.verdict == "inconclusive"
    assert (outcome.check["saved"]["prefill_tokens"], outcome.check["saved"]["money"]) == (None, None)


def test_a_wrong_file_is_an_error_before_anything_is_sent(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(OWN)
    (pytester.path / "p.toml").write_text(PRICES + "cached = 1")
    result = run("--kv-endpoint=http://127.0.0.1:9", "--kv-prices=p.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: kvcache: --kv-prices: p.toml: models.*.cached: *"])


def test_with_workers_the_same_is_told(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_AFTER_ANOTHER, test_b=OWN)
    (pytester.path / "p.toml").write_text(PRICES)
    documents = []
    for workers in ((), ("-n", "1")):
        with playing(hosted()) as url:
            run(f"--kv-endpoint={url}", "--kv-engine=usage", "--kv-prices=p.toml", "--kv-report=o.json", *workers)
        documents.append(json.loads((pytester.path / "o.json").read_text())["saved"])
    assert documents[0] == documents[1]
    assert documents[0]["money"] is not None
