"""Options, environment and ini: precedence, one clean usage-error line, and what is never shown."""

from __future__ import annotations

import pytest

from .conftest import PASSING, Run

SHOW = """
def test_show(kv_settings):
    s = kv_settings
    where = "" if "@" in str(s.endpoint) else s.endpoint
    metrics = tuple(m.url for m in s.metrics)
    print("SHOWN", where, s.model, metrics, s.engine, s.timeout, s.concurrency, s.seed, s.reset, s.tokenizer, s)
"""


def shown(result: pytest.RunResult) -> str:
    return next(line[line.index("SHOWN") :] for line in result.outlines if "SHOWN" in line)


def test_defaults(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(SHOW)
    assert shown(run("-s")).startswith("SHOWN None None () None 300.0 8 None never None")


def test_option_beats_environment_beats_ini(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(SHOW)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
        "kv_endpoint = http://ini\nkv_model = ini\nkv_concurrency = 3\nkv_metrics =\n    http://a/m\n    http://b/m\n"
    )
    monkeypatch.setenv("PYTEST_KV_ENDPOINT", "http://env/v1")
    monkeypatch.setenv("PYTEST_KV_MODEL", "env")
    assert shown(run("-s", "--kv-endpoint=http://option")).startswith(
        "SHOWN http://option env ('http://a/m', 'http://b/m') None 300.0 3"
    )


def test_every_option_has_its_twins_in_the_help(run: Run) -> None:
    text = run("--help").stdout.str()
    names = ("endpoint", "model", "metrics", "tokenizer", "engine", "api-key-env", "header", "timeout")
    for name in (*names, "concurrency", "seed", "reset", "report"):
        twin = name.replace("-", "_")
        assert f"--kv-{name}" in text
        assert f"PYTEST_KV_{twin.upper()}" in text
        assert f"kv_{twin}" in text


def test_marker_help_is_made_from_the_signature(run: Run) -> None:
    run("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.hit_rate(target, tol=0.02, min, max, weight='token', tier='total', source='auto', *):*"]
    )


def test_fixtures_are_listed_with_their_help(run: Run) -> None:
    result = run("--fixtures")
    for name in ("kv", "kv_endpoint", "kv_metrics", "kv_settings", "kv_workload"):
        result.stdout.fnmatch_lines([f"{name}*"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kv-endpoint="], "--kv-endpoint is empty; expected a URL such as http://127.0.0.1:8000, or leave it out"),
        (["--kv-endpoint=localhost:8000"], "--kv-endpoint: 'localhost:8000' is not an http(s) URL; expected*"),
        (["--kv-endpoint=simulated"], "--kv-endpoint: 'simulated' is not an http(s) URL; *, or sim for the built-in*"),
        (["--kv-metrics=x"], "--kv-metrics: 'x' is not an http(s) URL*"),
        (["--kv-engine=vlm"], "--kv-engine: unknown engine 'vlm'; known are aibrix, * xai"),
        (["--kv-timeout=soon"], "--kv-timeout: 'soon' is no duration; expected seconds above 0, such as 60"),
        (["--kv-timeout=nan"], "--kv-timeout: 'nan' is no duration*"),
        (["--kv-concurrency=0"], "--kv-concurrency: '0' is no count; expected a whole number of at least 1"),
        (["--kv-seed=-1"], "--kv-seed: '-1' is no seed; expected a whole number such as 7"),
        (["--kv-reset=maybe"], "--kv-reset: 'maybe' is none of never, auto, require"),
        (["--kv-header=nocolon"], "--kv-header: expected 'Name: value' on one line (the value is not shown here)"),
        (["--kv-header=X Y: z"], "--kv-header: expected 'Name: value' on one line (the value is not shown here)"),
        (["--kv-header=X: a\x01b"], "--kv-header: expected 'Name: value' on one line (the value is not shown here)"),
        (["--kv-api-key-env=NOT_SET"], "--kv-api-key-env: the variable 'NOT_SET' is not set; export the API key in it"),
        (["--kv-report=."], "--kv-report: '.' is a folder; expected a file such as kv.json"),
        (["--kv-model="], "--kv-model is empty; give a value or leave it out"),
    ],
)
def test_a_wrong_value_is_one_usage_error_line(
    pytester: pytest.Pytester, run: Run, arguments: list[str], complaint: str
) -> None:
    pytester.makepyfile(PASSING)
    result = run("-q", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvcache: {complaint}".replace("[", "[[]")])
    assert "Traceback" not in result.stderr.str()


def test_the_origin_of_a_wrong_value_is_named(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(PASSING)
    monkeypatch.setenv("PYTEST_KV_ENDPOINT", "")
    run().stderr.fnmatch_lines(["ERROR: kvcache: environment variable PYTEST_KV_ENDPOINT is empty*"])
    monkeypatch.delenv("PYTEST_KV_ENDPOINT")
    pytester.makeini("[pytest]\nkv_seed = x\n")
    run("-W", "ignore").stderr.fnmatch_lines(["ERROR: kvcache: ini option kv_seed: 'x' is no seed*"])


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("target=70", "target=70 is no rate; expected a ratio between 0 and 1, such as 0.7"),
        ("min='high'", "min='high' is no rate*"),
        ("target=0.5, tol=None", "tol=None is no rate*"),
        ("min=0.8, max=0.7", "min=0.8 is above max=0.7"),
        ("goal=0.7", "got an unexpected keyword argument 'goal'*"),
        ("tier='gpu'", "tier='gpu' is none of total, local, external"),
        ("weight='request', source='counters'", "weight='request' comes from each reply's usage*"),
    ],
)
def test_a_wrong_marker_is_found_at_collection(
    pytester: pytest.Pytester, run: Run, marker: str, complaint: str
) -> None:
    pytester.makepyfile(PASSING.replace("target=0.5, tol=0.0", marker))
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = f"ERROR: kvcache: *::test_shared: @pytest.mark.hit_rate: {complaint}*"
    result.stderr.fnmatch_lines([text.replace("[", "[[]")])


def test_a_wrong_marker_on_a_worker_fails_the_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PASSING.replace("target=0.5", "target=70"))
    result = run("-n", "2")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*target=70 is no rate*"])


def test_no_endpoint_skips_with_a_reason_and_a_summary_line(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PASSING + "\n@pytest.mark.hit_rate(min=0)\ndef test_whole(): pass\n")
    result = run("-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*no endpoint to measure: give --kv-endpoint=URL*"])
    result.stdout.fnmatch_lines(["2 skipped: no endpoint to measure: give --kv-endpoint=URL*"])


def test_required_endpoint_is_an_error(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PASSING)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nkv_require = true\n")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: kvcache: kv_require is set, and there is no endpoint to measure*"])


def test_plugin_can_be_switched_off(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_a(): pass")
    result = run("-p", "no:kvcache")
    result.assert_outcomes(passed=1)
    assert "kv" not in run("-p", "no:kvcache", "--markers").stdout.str().replace("pytest_kv", "")


@pytest.mark.parametrize("by", ["key", "userinfo"])
def test_secrets_are_shown_nowhere(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, sim: str, by: str
) -> None:
    pytester.makepyfile(SHOW + PASSING)
    monkeypatch.setenv("MY_KEY", "sk-verysecret")
    endpoint = sim.replace("http://", "http://someone:passw0rd@") if by == "userinfo" else sim
    words = [f"--kv-endpoint={endpoint}", "--kv-header=X-Tenant: tenantsecret"]
    words += ["--kv-api-key-env=MY_KEY"] if by == "key" else []
    result = run("-s", "-vv", "--kv-report=out.json", "--junitxml=j.xml", "--showlocals", *words)
    result.assert_outcomes(passed=2)
    files = [(pytester.path / name).read_text() for name in ("out.json", "j.xml")]
    for secret in ("sk-verysecret", "tenantsecret", "passw0rd"):
        assert secret not in "".join([result.stdout.str(), *files])


def test_key_and_userinfo_together_are_ambiguous(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-verysecret")
    result = run("--kv-endpoint=http://a:b@h", "--kv-api-key-env=MY_KEY")
    result.stderr.fnmatch_lines(["ERROR: kvcache: --kv-api-key-env: the endpoint's URL has user-info already*"])
