"""A secret that goes in by any way comes out by none: no file and no terminal shows it, whatever the server echoes."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

from .talking import served, talking

# Each in a way of its own, with characters that are written otherwise in URLs and JSON.
SECRETS = {
    "option": 'oPt1on/"Hdr+qX7',
    "ini": "iN1-Hdr=zK4/wW",
    "variable": "eNv-Hdr+tY9/pP",
    "openai": "sk-0pEnAi-Mm5Nn6Bb7",
    "named": "sk-NaMeD-Vv3Cc2Xx1",
    "user": "uSer-Qq8Rr7Ss6",
    "password": "pAss-Dd5Ff4/Gg3",
    "page": "pAge-Hh2Jj1+Kk0",
}
TESTS = """
import dataclasses, json, logging, os, urllib.request, warnings
import pytest

def shared(kv_workload, **others):
    return kv_workload.shared_prefix(**{"requests": 4, "input_len": 64, "hit_rate": 0.5, "output_len": 1, **others})

def said(kv_endpoint):
    request = urllib.request.Request(kv_endpoint.api("completions"), b'{"max_tokens": 3}', method="POST")
    for name, value in kv_endpoint.headers_for(kv_endpoint.base).items():
        request.add_header(name, value)
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        with error:
            return json.loads(error.read())["error"]["message"]

@pytest.mark.hit_rate(target=0.9)
def test_low(kv, kv_workload):
    kv.run(shared(kv_workload))

@pytest.mark.hit_rate(min=0.1)
def test_passes(kv, kv_workload):
    kv.run(shared(kv_workload))

@pytest.mark.hit_rate(target=0.5)
def test_refused(kv, kv_workload):
    kv.run(shared(kv_workload, output_len=3))

class TestOfAnotherModel:
    @pytest.fixture
    def kv_endpoint(self, kv_endpoint):
        return dataclasses.replace(kv_endpoint, model="nope")

    @pytest.mark.hit_rate(target=0.5)
    def test_not_served(self, kv, kv_workload):
        kv.run(shared(kv_workload))

@pytest.mark.hit_rate(min=0.5)
def test_error_is_asserted(kv, kv_workload):
    result = kv.run(shared(kv_workload, output_len=3))
    assert [exchange.failure for exchange in result.exchanges] == []

def test_echo(kv_endpoint):
    echo = said(kv_endpoint)
    print(echo)
    logging.getLogger("echo").debug("server said %s", echo)
    headers = kv_endpoint.headers_for(kv_endpoint.base)
    assert echo == "nothing"

@pytest.fixture
def broken(kv_endpoint, record_property):
    record_property("echo", said(kv_endpoint))
    whole = kv_endpoint
    raise RuntimeError(said(kv_endpoint))

def test_fixture(broken):
    pass

def test_own_key(kv, kv_settings):
    assert kv_settings.api_key is None
    assert dict(kv_settings.headers) == {}
"""
CRASH = """
def test_crash(kv, kv_workload, kv_endpoint):
    kv.run(shared(kv_workload))
    print(said(kv_endpoint))
    os._exit(1)
"""
REPORTS = ["--kv-artifacts=art", "--junitxml=junit.xml", "--kv-results=results", "--kv-history=history.jsonl"]
REPORTS += ["--kv-baseline=base.json", "--kv-update-baseline"]
LOUD = ["-l", "--tb=long", "-vv", "-rA", "--log-level=DEBUG", "--log-file=debug.log", "--kv-show-text"]
OTHERS = {
    "pytest_html": ["--html=out.html", "--self-contained-html"],
    "pytest_reportlog": ["--report-log=log.jsonl"],
    "allure_pytest": ["--alluredir=allure"],
}
LOUD += [word for module, words in OTHERS.items() if find_spec(module) for word in words]


def forms(secret: str) -> Iterator[str]:
    """A secret as it could be found, and what a message that was cut would leave of it."""
    for form in (secret, quote(secret), quote(secret, safe=""), b64encode(secret.encode()).decode().rstrip("=")):
        yield form
        yield form[:8]
        yield form[-8:]
    pair = f"{SECRETS['user']}:{SECRETS['password']}"
    yield b64encode(pair.encode()).decode()[:16]


def found(folder: Path, output: str) -> list[str]:
    """Every secret that is anywhere but in the files that a user wrote."""
    texts = {"output": output}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("test_it.py", "pytest.ini") and "__pycache__" not in path.parts:
            texts[path.name] = path.read_bytes().decode("utf-8", "replace").replace("\\/", "/")
    assert len(texts) > 4
    # what a test itself logs is in the log file before anybody can look at it
    texts["debug.log"] = "\n".join(line for line in texts["debug.log"].splitlines() if "echo:test_it" not in line)
    return [
        f"{name} in {where}: {text[max(0, text.index(form) - 60) :][:100]!r}"
        for name, secret in SECRETS.items()
        for form in forms(secret)
        for where, text in texts.items()
        if form in text
    ]


def pytest_(folder: Path, words: list[str], variables: dict[str, str]) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OPENAI"))}
    command = [sys.executable, "-m", "pytest", *words, *REPORTS, *LOUD]
    ended = subprocess.run(
        command, cwd=folder, env={**environment, "GITHUB_STEP_SUMMARY": str(folder / "summary.md"), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Says everything that it could know, in every form, and whatever a request brings."""
    echo = " ".join(form for secret in SECRETS.values() for form in (secret, quote(secret, safe="")))
    with served(talking(echo, refusal="refused:")) as url:
        yield url


def started(way: str, url: str) -> tuple[list[str], dict[str, str], str]:
    """Words of the command line, environment and ini of one way to hand secrets in."""
    ini = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    user = f"{quote(SECRETS['user'], safe='')}:{quote(SECRETS['password'], safe='')}"
    if way == "option":
        return (
            [f"--kv-endpoint={url}", f"--kv-header=X-Key: {SECRETS['option']}"],
            {"OPENAI_API_KEY": SECRETS["openai"]},
            ini,
        )
    if way == "ini":
        words = [f"--kv-endpoint={url}", "--kv-api-key-env=MY_KEY"]
        return words, {"MY_KEY": SECRETS["named"]}, f"{ini}kv_header = X-Key: {SECRETS['ini']}\n"
    page = url.replace("://", f"://page:{quote(SECRETS['page'], safe='')}@")
    words = [f"--kv-endpoint={url.replace('://', f'://{user}@')}", f"--kv-metrics={page}/metrics"]
    return words, {"PYTEST_KV_HEADER": f"X-Key: {SECRETS['variable']}"}, ini


def known(way: str) -> tuple[str, ...]:
    ways = {"option": ("option", "openai"), "ini": ("ini", "named"), "url": ("user", "password", "page", "variable")}
    return ways[way]


def leaks(folder: Path, way: str, output: str) -> list[str]:
    return [leak for leak in found(folder, output) if leak.split()[0] in known(way)]


@pytest.mark.parametrize(("way", "more"), [("option", ()), ("ini", ("-q",)), ("url", ("-n", "2"))])
def test_no_secret_comes_out(tmp_path: Path, server: str, way: str, more: tuple[str, ...]) -> None:
    words, variables, ini = started(way, server)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(ini)
    status, output = pytest_(tmp_path, [*words, *more], variables)
    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert leaks(tmp_path, way, output) == []
    for word in ("test_low", "test_refused", "server said refused: ", "RuntimeError: refused: ", "headers  ", "***"):
        assert word in output
    if way == "option":
        status, output = pytest_(tmp_path, [*words, "--kv-resume=results"], variables)
        assert "measured before (results)" in output
        assert leaks(tmp_path, way, output) == []


def test_no_secret_comes_out_of_a_worker_that_dies(tmp_path: Path, server: str) -> None:
    words, variables, ini = started("url", server)
    (tmp_path / "test_it.py").write_text(TESTS + CRASH)
    (tmp_path / "pytest.ini").write_text(ini)
    _, output = pytest_(tmp_path, [*words, "-n", "2", "-k", "crash or low"], variables)
    assert "crashed while running 'test_it.py::test_crash'" in output
    assert leaks(tmp_path, "url", output) == []
