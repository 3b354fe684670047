"""What is a time, an id or a counter, and what only looks like one."""

from __future__ import annotations

import pytest

from pytest_kvcache.divergence.texts import compare
from pytest_kvcache.divergence.volatile import clear

TIMES = [
    ("2026-01-05", "2026-01-06"),
    ("2026-01-05T10:41:07Z", "2026-01-05T10:41:09Z"),
    ("2026-01-05T10:41:07.123456+00:00", "2026-01-05T10:41:07.123999+00:00"),
    ("2026/01/05 10:41", "2026/01/05 10:42"),
    ("05.01.2026", "06.01.2026"),
    ("1/5/2026", "1/6/2026"),
    ("1/5/26, 10:41 AM", "1/5/26, 10:41 PM"),
    ("10:41:07", "9:41:07"),
    ("10:41", "10:42"),
    ("9:59 p.m.", "10:00 p.m."),
    ("20260105T104107", "20260105T104109"),
    ("20260105", "20260106"),
    ("1767609667", "1767609668"),
    ("1767609667123", "1767609669123"),
    ("1767609667.123", "1767609667.456"),
    ("Monday", "Tuesday"),
    ("Mon, 05 Jan 2026 10:41:07 GMT", "Mon, 05 Jan 2026 10:41:08 GMT"),
    ("Mon Jan 5 10:41:07 2026", "Tue Jan 6 10:41:07 2026"),
    ("Monday, 5 January 2026", "Monday, 15 January 2026"),
    ("January 5, 2026", "February 5, 2026"),
    ("January 5th, 2026", "January 6th, 2026"),
    ("January 2026", "February 2026"),
    ("5 Jan 2026", "5 Feb 2026"),
    ("26 Jul 2024", "27 Jul 2024"),
    ("2026-01-05 10:41:07 UTC", "2026-01-05 10:41:07 CET"),
    ("Mon Jan  5 10:41:07 2026", "Tue Jan  6 10:41:09 2026"),  # as ctime pads it
    ("20260105-104107", "20260105-104209"),
    ("2026-01-05_10-41-07", "2026-01-05_10-41-09"),
    ("2026-W02", "2026-W03"),
    ("Montag, 5. Januar 2026", "Dienstag, 6. Januar 2026"),
    ("Montag, 5. Januar 2026 um 10:41", "Montag, 5. Januar 2026 um 10:42"),
    ("lundi 5 janvier 2026 à 10h41", "mardi 6 janvier 2026 à 10h41"),
    ("1er mars 2026", "2 mars 2026"),
    ("lunes, 5 de enero de 2026", "martes, 6 de enero de 2026"),
    ("lunedì 5 gennaio 2026", "martedì 6 gennaio 2026"),
    ("segunda-feira, 5 de janeiro de 2026", "terça-feira, 6 de janeiro de 2026"),
    ("2026年1月5日", "2026年1月6日"),
    ("2026年1月5日(月) 10時41分", "2026年1月6日(火) 10時41分"),
    ("2026年1月5日 星期一 10:41:07", "2026年1月5日 星期一 10:41:09"),
    ("2026년 1월 5일", "2026년 1월 6일"),
]
IDS = [
    ("123e4567-e89b-42d3-a456-426614174000", "987e6543-e21b-42d3-a456-426655440000"),
    ("123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174001"),
    ("9f8e7d6c5b4a3928", "a1b2c3d4e5f60718"),
    ("req_8fk2Lq9ZtR", "req_9aa1bX77Qp"),
    ("chatcmpl-8f3a9b2c7d41", "chatcmpl-1b2c7d418f3a"),
    ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ"),
    ("V1StGXR8_Z5jdHi6B-myT", "IRFa-VaY2b9xQe7Pz01Lm"),
    ("dGhpcyBpcyBhIHRlc3Q9PQ==", "c29tZXRoaW5nIGVsc2UhIQ=="),
    ("aXbQzKpLmNcV", "qWeRtZuIoPas"),
    ("738291046512", "104958672031"),
    ("a3f9c2e1", "a3f9c2e2"),
    ("session_482913", "session_120394"),
]
COUNTERS = [
    ("request 41", "request 42"),
    ("3 of 10", "4 of 10"),
    ("9", "10"),
    ("[99/100]", "[100/100]"),
    ("step-3:", "step-4:"),
    ("turn7", "turn8"),
    ("the 41th", "the 42th"),
    ("4100 tokens used", "4180 tokens used"),
]
OTHERS = [
    ("version 1.2.3", "version 1.2.4"),
    ("costs 1200", "costs 45000"),
    ("alice", "bob"),
    ("the user likes tea", "the user likes coffee"),
    ("internationalisation", "interoperability"),
    ("getUserNameFromId", "getUserMailFromId"),
    ("On 2026-01-05, we", "On 2026-01-05 they"),
    ("10.0.0.1", "10.0.0.2"),
    ("Marching", "Mayor"),
    ("Sunshine", "Friendly"),
    ("", "more"),
    ("[1] yes", "[1] no"),
]


@pytest.mark.parametrize("around", ["{}", "Before it. {} And behind it.", '{{"now": "{}", "x": 1}}', "<t>{}</t>\n"])
@pytest.mark.parametrize(
    ("pair", "cause"),
    [
        *((pair, "timestamp") for pair in TIMES),
        *((pair, "random_id") for pair in IDS),
        *((pair, "counter") for pair in COUNTERS),
        *((pair, None) for pair in OTHERS),
    ],
)
def test_what_it_is(pair: tuple[str, str], cause: str | None, around: str) -> None:
    left, right = map(around.format, pair)
    for one, other in ((left, right), (right, left)):
        found = compare(one, other)
        assert found is not None
        assert found.cause == cause
        if found.start is not None and cause == "timestamp":
            assert one[found.start : found.left_end] in (pair[0], pair[1])


@pytest.mark.parametrize(
    ("before", "left", "right", "cause"),
    [
        ("id: ", "1767609667", "1909609668", "random_id"),  # as many digits as a time, but said to be an id
        ("at ", "1767609667", "1909609668", "timestamp"),
        ("Session ID: ", "abc12x", "zzz99q", "random_id"),
        ("nonce=", "k3j9d0", "p2q8r1", "random_id"),
        ("colour ", "abc12x", "zzz99q", None),
    ],
)
def test_what_is_said_before_it(before: str, left: str, right: str, cause: str | None) -> None:
    found = compare(before + left, before + right)
    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Now: 2026-01-05 10:41:07. Go", [("timestamp", "2026-01-05 10:41:07")]),
        ("at 2026-01-05T10:41Z", [("timestamp", "2026-01-05T10:41Z")]),
        ("at 10:41:07 or 1767609667", [("timestamp", "10:41:07"), ("timestamp", "1767609667")]),
        ("Monday, January 5, 2026 at 10:41 AM", [("timestamp", "January 5, 2026 at 10:41 AM")]),
        ("5 Jan 2026, 10:41 UTC", [("timestamp", "5 Jan 2026, 10:41 UTC")]),
        ("ISO format, e.g. 2024-01-01T00:00:00Z", []),
        ('{"example": "2024-01-01T12:30:00Z"}', []),
        ("for example:\n2026-01-05 10:41:07", [("timestamp", "2026-01-05 10:41:07")]),
        ("id 123e4567-e89b-42d3-a456-426614174000", [("random_id", "123e4567-e89b-42d3-a456-426614174000")]),
        ("x 9f8e7d6c5b4a3928.", [("random_id", "9f8e7d6c5b4a3928")]),
        ("Open 09:00 to 17:00, since 2024-06-01, call 4915112345678", []),
        ("request 42, step 3 of 10, aaaaaaaaaaaaaaaaaaaa, 12345678901234567890", []),
    ],
)
def test_what_is_clear_from_one_text_alone(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(span.cause, text[span.start : span.end]) for span in clear(text)] == expected
