"""Secrets are hidden whole, in the forms in which they come back, and cut off; what is no secret stays."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.hidden import hide

KEY = "sk-aB3/dE5+gH7"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        (f"got {KEY}, {KEY}", "got ***, ***"),
        (f"x{KEY}x", "x***x"),
        (quote(KEY, safe=""), "***"),
        (f"Basic {b64encode(KEY.encode()).decode()}", "Basic ***="),
        ("key: sk-aB3/d...", "key: ***..."),
        ("key: ...E5+gH7", "key: ...E5+gH7"),
        ("key: .../dE5+gH7", "key: ...***"),
        ("sk-aB3/ is too short to tell", "sk-aB3/ is too short to tell"),
        (f"{KEY[:10]}{KEY[-10:]}", "******"),
        (f"sk-aB3/d {KEY} /dE5+gH7", "*** *** ***"),
    ],
)
def test_a_long_secret(text: str, shown: str) -> None:
    assert hide(text, {KEY}) == shown


def test_a_short_one_is_a_word() -> None:
    assert hide("pass: fast, fast_test, faster (fast)", {"fast"}) == "pass: ***, fast_test, faster (***)"
    assert hide("abc is shown", {"abc", ""}) == "abc is shown"


def test_a_secret_inside_another() -> None:
    assert hide("secret-one-and-two secret-one", {"secret-one", "secret-one-and-two"}) == "*** ***"


def test_escaped_as_in_json_and_python() -> None:
    assert hide(r'{"a": "qu\"ote\\back"}', {'qu"ote\\back'}) == '{"a": "***"}'


@given(st.text(), st.text(min_size=8), st.text(), st.integers(0))
def test_nothing_of_eight_characters_is_left(before: str, secret: str, after: str, cut: int) -> None:
    hidden = hide(before + secret + after, {secret})
    assert secret not in hidden
    assert secret[:8] not in hide(before + secret[: 8 + cut % len(secret)] + after, {secret})


def test_parts_of_a_long_text() -> None:
    """In one pass: a server's answer may be long, and say the beginning of a secret again and again."""
    assert hide("abcdefgh efghijkl " * 20_000, {"abcdefghijkl"}) == "*** *** " * 20_000
    assert hide("xefghijklxabcdefgh", {"abcdefghijkl"}) == "x***x***"
    assert hide("abcdefghefghijkl", {"abcdefghijkl"}) == "******"  # nothing is counted twice


def test_all_secrets_of_an_endpoint() -> None:
    endpoint = Endpoint(
        "http://us%2Fer:p%40ssw0rd@h",
        metrics=(MetricsSource("http://metrics-user:metrics-pass@m/metrics"),),
        api_key="sk-123456",
        headers=(("X-A", "value-1"),),
    )
    pair = b64encode(b"us/er:p@ssw0rd").decode()
    assert endpoint.secrets() == {
        "us%2Fer", "us/er", "p%40ssw0rd", "p@ssw0rd", pair, "metrics-user", "metrics-pass",
        b64encode(b"metrics-user:metrics-pass").decode(), "sk-123456", "value-1",
    }  # fmt: skip
    assert Endpoint("http://h").secrets() == set()
