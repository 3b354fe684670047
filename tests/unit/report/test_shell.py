"""A script says every word as it was, to a real shell, and no secret in any of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.report.shell import Secrets, command, comment, userinfos, variable

SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]
WORD = st.text(st.characters(blacklist_characters="\x00", blacklist_categories=("Cs",)), max_size=12)
SECRET = st.text(st.characters(blacklist_characters="\x00", blacklist_categories=("Cs",)), min_size=1, max_size=8)


def said(shell: str, words: list[str], environ: dict[str, str]) -> list[str]:
    """What a shell makes of a line of quoted words."""
    script = "set -eu\n" + command("printf '%s\\0'", words) + "\n"
    done = subprocess.run([shell, "-c", script], env=environ, capture_output=True, check=True, timeout=60)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=15)
@given(words=st.lists(st.tuples(WORD, WORD), min_size=1, max_size=12), secret=SECRET)
def test_any_word_comes_through_and_the_secret_from_outside(
    shell: str, words: list[tuple[str, str]], secret: str
) -> None:
    secrets = Secrets()
    secrets.add(secret, "KV_S", 'value of "`$x}')
    plain = [f"{before}{secret}{after}" for before, after in words] + [before for before, _ in words]
    quoted = [secrets.quoted(word, [secret]) for word in plain]
    assert said(shell, quoted, {"KV_S": secret}) == plain
    for word, (before, after) in zip(quoted, words, strict=False):
        assert secret not in before + after or secret not in word.replace(
            '"${KV_S:?set it to the value of ____x_}"', ""
        )
        assert "${KV_S:?" in word


@pytest.mark.parametrize("shell", SHELLS)
def test_a_variable_that_is_not_set_stops_the_script(shell: str) -> None:
    secrets = Secrets()
    secrets.add("sesame", "KV_S", "API key")
    script = f"set -eu\necho {secrets.quoted('X: sesame')}\n"
    done = subprocess.run([shell, "-c", script], env={}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "KV_S" in done.stderr
    assert "set it to the API key" in done.stderr


def test_secrets_are_found_in_other_words_unless_they_are_too_short_to_be_told() -> None:
    secrets = Secrets()
    secrets.add("ab", "SHORT", "s")
    secrets.add("abcd", "LONG", "l")
    assert secrets.quoted("x=abcd") == 'x="${LONG:?set it to the l}"'
    assert secrets.quoted("cab") == "cab"
    assert secrets.quoted("ab") == '"${SHORT:?set it to the s}"'
    assert secrets.quoted("cab", ["ab"]) == 'c"${SHORT:?set it to the s}"'
    assert secrets.quoted("") == "''"


def test_the_longer_of_two_secrets_is_hidden_whole() -> None:
    secrets = Secrets()
    secrets.add("abcd", "SHORT", "s")
    secrets.add("abcdef", "LONG", "l")
    assert secrets.quoted("xabcdef") == 'x"${LONG:?set it to the l}"'


def test_equal_values_share_a_variable_and_others_do_not() -> None:
    secrets = Secrets()
    for value, name in (("one!", "A"), ("one!", "B"), ("two!", "A"), ("three", "A"), ("", "C")):
        secrets.add(value, name, name)
    assert list(secrets.variables) == ["A", "A_2", "A_3"]
    assert secrets.quoted("two!") == '"${A_2:?set it to the A}"'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--kv-endpoint=http://user:pw@host:1/v1", ["user:pw"]),
        ("name=prometheus+https://u:p'a\"s s@h", ["u:p'a\"s s"]),
        ("http://u:p@ss@host/x@y", ["u:p@ss"]),
        ("http://a:b@h http://c:d@h", ["a:b", "c:d"]),
        ("http://host/@x", []),
        ("http://host?q=a@b", []),
        ("a@b", []),
    ],
)
def test_userinfo_of_any_url(text: str, found: list[str]) -> None:
    assert userinfos(text) == found


def test_comments_are_one_line_each() -> None:
    assert comment(["a\nrm -rf /", "b\r\x1b", ""]) == ["# a\\nrm -rf /", "# b\\r\\x1b", "#"]


@pytest.mark.parametrize(("name", "shown"), [("X-Tenant", "X_TENANT"), ("a`$b", "A__B"), ("é", "_")])
def test_names_of_variables(name: str, shown: str) -> None:
    assert variable(name) == shown


def test_an_option_a_line() -> None:
    assert command("pytest", ["a.py", "-k", "x", "'--a b'", "--c=d"]) == (
        "pytest a.py \\\n    -k x \\\n    '--a b' \\\n    --c=d"
    )
