"""``--kv-reproduce``: a script that repeats the session anywhere, and can be given away."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FAILING, PASSING, Run

SUITE = PASSING + FAILING.replace("import pytest", "").replace("test_shared", "test_low")
SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]


def ran(
    script: Path, shell: str = "sh", *, cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a script as a person would, elsewhere and with settings of their own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KV_", "OPENAI"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), clean.get("PATH", "")])
    return subprocess.run(
        [shell, os.path.relpath(script, cwd or script.parent)],
        cwd=cwd or script.parent,
        env={**clean, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def told(path: Path) -> list[tuple[str, str, int, int]]:
    checks = json.loads(path.read_text())["checks"]
    return [(c["nodeid"], c["verdict"], c["hit_tokens"], c["query_tokens"]) for c in checks]


def words(script: Path) -> list[str]:
    """The words of the command."""
    return shlex.split(script.read_text().partition("\nexec ")[2].replace("\\\n", " "))


@pytest.mark.parametrize("shell", SHELLS)
def test_it_repeats_the_session(pytester: pytest.Pytester, run: Run, sim: str, shell: str) -> None:
    pytester.makepyfile(test_a=SUITE, test_b="def test_other(): pass")
    run(f"--kv-endpoint={sim}", "test_a.py", "--kv-report=o.json", "-k", "low or shared", "--kv-reproduce=out/again.sh")
    script, report = pytester.path / "out/again.sh", pytester.path / "o.json"
    before = told(report)
    assert [verdict for _, verdict, _, _ in before] == ["fail", "pass"]
    assert subprocess.run([shell, "-n", str(script)], check=True, timeout=60).returncode == 0
    report.unlink()
    done = ran(script, shell, cwd=pytester.path.parent, PYTEST_ADDOPTS="--collect-only", PYTEST_KV_ENDPOINT="http://[")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert told(report) == before
    assert os.access(script, os.X_OK)


def test_it_goes_where_the_tests_go(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    (pytester.path / "deep dir's").mkdir()
    pytester.makepyfile(**{"deep dir's/test_a": PASSING})
    run(f"--kv-endpoint={sim}", "deep dir's", "--kv-reproduce=deep dir's/again.sh", "--kv-report=o.json")
    moved = pytester.path.parent / "mo ved"
    shutil.copytree(pytester.path, moved)
    (moved / "o.json").unlink()
    done = ran(moved / "deep dir's/again.sh", CDPATH="/")
    assert done.returncode == 0, done.stdout + done.stderr
    assert told(moved / "o.json") == told(pytester.path / "o.json")
    assert str(pytester.path) not in (moved / "deep dir's/again.sh").read_text()


def test_elsewhere_it_names_the_folder(
    pytester: pytest.Pytester, run: Run, sim: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytester.makepyfile(test_a=PASSING)
    script = tmp_path_factory.mktemp("out") / "again.sh"
    run(f"--kv-endpoint={sim}", "--kv-report=o.json", f"--kv-reproduce={script}")
    (pytester.path / "o.json").unlink()
    assert ran(script).returncode == 0
    assert (pytester.path / "o.json").exists()
    (script.parent / "deeper").mkdir()
    script = script.rename(script.parent / "deeper/again.sh")
    assert ran(script).returncode == 0
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(pytester.path, copy / "tests")
    (copy / "tests/o.json").unlink()
    assert ran(script, KV_FOLDER=str(copy / "tests")).returncode == 0
    assert (copy / "tests/o.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="links to programs")
def test_an_environment_that_was_not_activated_is_found(
    pytester: pytest.Pytester, run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is called as in the README, by its path from there; the PATH has another ``python`` that knows nothing."""
    pytester.makepyfile("def test_it(): pass")
    programs, other = pytester.mkdir("env"), tmp_path_factory.mktemp("other")
    (programs / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (other / "python").write_text("#!/bin/sh\necho the other one; exit 7\n")
    for program in (programs / "python", other / "python"):
        program.chmod(0o755)
    call = (
        f"import sys; sys.orig_argv[0] = 'env/python'; import pytest; sys.exit(pytest.main({['--kv-artifacts=art']!r}))"
    )
    subprocess.run([sys.executable, "-c", call], check=True, timeout=300, capture_output=True)
    script = pytester.path / "art/reproduce.sh"
    assert words(script)[:3] == ["$program", "-m", "pytest"]
    path = f"{other}{os.pathsep}{os.environ['PATH']}"
    clean = {"PATH": path, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    here = {"cwd": other, "env": clean, "capture_output": True, "text": True, "timeout": 300, "check": False}
    done = subprocess.run(["sh", str(script)], **here)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True)
    (programs / "python").unlink()
    done = subprocess.run(["sh", str(script)], **here)
    assert (done.returncode, done.stdout) == (7, "the other one\n")


def test_what_is_in_it(pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_a=PASSING)
    monkeypatch.setenv("PYTEST_KV_TIMEOUT", "77")
    monkeypatch.setenv("PYTEST_KV_MODEL", "never")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'shared and not (x)' --kv-concurrency=2")
    run(f"--kv-endpoint={sim}", "--kv-model=sim", "--kv-reproduce=again.sh").assert_outcomes(passed=1)
    text = (pytester.path / "again.sh").read_text()
    assert text.startswith("#!/bin/sh\n")
    assert "\nset -eu\n" in text
    assert words(pytester.path / "again.sh") == [
        "python", "-m", "pytest", "-k", "shared and not (x)", "--kv-concurrency=2", "-p", "no:cacheprovider",
        "-p", "no:hypothesispytest", "-p", "no:rerunfailures", f"--kv-endpoint={sim}", "--kv-model=sim",
        "--kv-reproduce=again.sh",
    ]  # fmt: skip
    assert re.findall(r"^export .*$", text, re.MULTILINE) == ["export PYTEST_KV_TIMEOUT=77"]
    assert f"# python {sys.version.split()[0]}, pytest {pytest.__version__}, pytest-kvcache " in text
    assert re.search(r"^# plugins: .*pytest-asyncio \d", text, re.MULTILINE)
    assert "There was no seed: prompts carried a fresh nonce" in text
    assert "git commit" not in text
    for line in ("set -eu", "unset CDPATH", "unset PYTEST_ADDOPTS"):
        assert text.count(f"\n{line}") == 1


def test_a_seed_is_told(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    run(f"--kv-endpoint={sim}", "--kv-seed=7", "--kv-reproduce=again.sh")
    text = (pytester.path / "again.sh").read_text()
    assert "# With seed 7 a rerun sends the same prompts" in text
    assert "fresh nonce" not in text


def test_with_workers_it_is_the_command_of_the_whole(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    run(f"--kv-endpoint={sim}", "-n", "1", "--kv-reproduce=again.sh").assert_outcomes(passed=1)
    assert words(pytester.path / "again.sh")[-4:] == [f"--kv-endpoint={sim}", "-n", "1", "--kv-reproduce=again.sh"]


SECRETS = ("tenantsecret", "passw0rd", "someone", "sk-verysecret", "k3", "inisecret", "envsecret", "addsecret")


@pytest.mark.usefixtures("run")
def test_no_secret_is_in_it_and_it_runs_with_them(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=PASSING)
    host = sim.removeprefix("http://")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--kv-header 'X-Add: addsecret'")
    monkeypatch.setenv("PYTEST_KV_METRICS", f"http://someone:passw0rd@{host}/metrics")
    given = [
        f"--kv-endpoint={sim}", "--kv-header=X-Tenant: tenantsecret", "--kv-header", "X-Short: k3",
        "-o", "kv_header=X-Ini: inisecret", "--kv-reproduce=again.sh", "-k", "not tenantsecret",
    ]  # fmt: skip
    run(*given, "--kv-report=o.json").assert_outcomes(passed=1)
    script = pytester.path / "again.sh"
    text = script.read_text()
    assert not [secret for secret in SECRETS if secret in text]
    variables = {
        "KV_HEADER_X_TENANT": "tenantsecret",
        "KV_HEADER_X_SHORT": "k3",
        "KV_HEADER_X_INI": "inisecret",
        "KV_HEADER_X_ADD": "addsecret",
        "KV_USERINFO": "someone:passw0rd",
        "OPENAI_API_KEY": "sk-verysecret",
    }
    for name in variables:
        missing = ran(script, **{other: value for other, value in variables.items() if other != name})
        assert missing.returncode not in (0, 1), name
        assert f"{name}: set it to the " in missing.stderr.replace("parameter not set or null: ", "")
        assert "test session starts" not in missing.stdout
    (pytester.path / "o.json").unlink()
    done = ran(script, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert told(pytester.path / "o.json")[0][1:] == ("pass", 1024, 2048)


def test_short_secrets_and_those_of_the_environment(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=PASSING)
    monkeypatch.setenv("PYTEST_KV_HEADER", "X-One: envsecret\nX-Two: k3")
    monkeypatch.setenv("PYTEST_KV_METRICS", f"{sim.replace('//', '//u:p@')}/metrics")
    run(f"--kv-endpoint={sim}", "--kv-reproduce=again.sh", "--kv-report=o.json").assert_outcomes(passed=1)
    text = (pytester.path / "again.sh").read_text()
    assert not [secret for secret in (*SECRETS, "u:p@") if secret in text]
    variables = {"KV_HEADER_X_ONE": "envsecret", "KV_HEADER_X_TWO": "k3", "KV_USERINFO": "u:p"}
    done = ran(pytester.path / "again.sh", **variables)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_built_in_engine_needs_no_key(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_a=PASSING)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret")
    run("--kv-endpoint=sim", "--kv-reproduce=again.sh", "--kv-report=o.json").assert_outcomes(passed=1)
    before = told(pytester.path / "o.json")
    (pytester.path / "o.json").unlink()
    assert ran(pytester.path / "again.sh").returncode == 0
    assert told(pytester.path / "o.json") == before


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *who, *words], cwd=folder, env=clean, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_commit_of_the_tests(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    git(pytester.path, "init", "-q")
    run("--kv-reproduce=again.sh")
    assert "git commit" not in (pytester.path / "again.sh").read_text()  # there is none yet
    git(pytester.path, "add", "test_a.py")
    git(pytester.path, "commit", "-q", "-m", "tests")
    commit = git(pytester.path, "rev-parse", "HEAD")
    run("--kv-reproduce=again.sh")
    assert f"\n# tests: git commit {commit}\n" in (pytester.path / "again.sh").read_text()
    pytester.makepyfile(test_a=FAILING)
    run("--kv-reproduce=again.sh")
    assert (
        f"\n# tests: git commit {commit}, with changes that were not committed\n"
        in (pytester.path / "again.sh").read_text()
    )


def test_without_git_there_is_no_commit(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(pytester.path))
    run("--kv-reproduce=again.sh")
    assert "git commit" not in (pytester.path / "again.sh").read_text()


def test_a_script_that_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run) -> None:
    (pytester.path / "file").write_text("")
    pytester.makepyfile("def test_other(): pass")
    result = run("--kv-reproduce=file/again.sh", "--kv-report=o.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--kv-reproduce: file/again.sh cannot be written" in result.stdout.str() + result.stderr.str()
    assert (pytester.path / "o.json").exists()  # what can be written is


def test_hostile_words_are_words(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    hostile = ["-k", "not '`touch x`' and not \"$(touch y)\"", "--kv-model=a\n$(touch z)'\"", f"--kv-endpoint={sim}"]
    run(*hostile, "--kv-reproduce=again.sh")
    assert words(pytester.path / "again.sh")[-5:-1] == hostile
    ran(pytester.path / "again.sh")
    assert not [name for name in "xyz" if (pytester.path / name).exists()]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_names_that_are_no_utf_8_are_the_bytes_that_they_were(pytester: pytest.Pytester, sim: str) -> None:
    folder = pytester.path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "test_a.py").write_text(PASSING)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KV_"))}
    given = [f"--kv-endpoint={sim}", "--kv-csv=csv", f"--kv-reproduce={pytester.path / 'again.sh'}", "--rootdir=."]
    subprocess.run([sys.executable, "-m", "pytest", "-q", *given], cwd=folder, env=clean, check=True, timeout=300)
    (folder / "csv" / "summary.csv").unlink()
    assert b"caf\xe9" in (pytester.path / "again.sh").read_bytes()
    done = ran(pytester.path / "again.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "csv" / "summary.csv").exists()
