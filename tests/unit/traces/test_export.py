"""Exports: a cache makes of them what it makes of the trace, and nothing of the trace's own can be found in them."""

from __future__ import annotations

import gzip
import json
from array import array
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity.rules import REFERENCE
from pytest_kvcache.capacity.stack import stack_pass
from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import Trace, open_trace

from .forms import DATA, Form, letters

SALT = "a long secret of ours"


def row(line: int, length: int, *ids: int, **more: Any) -> Row:
    return Row(line, length, array("q", ids), **more)


def lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


# --- what caches make of it ------------------------------------------------------------------------------------------


def told(trace: Trace, budgets: tuple[int, ...]) -> list[Any]:
    """Return what caches of these sizes make of a trace, and what it adds up to."""
    assert trace.block_size is not None
    curve = stack_pass(trace, trace.block_size, REFERENCE)
    return [
        *(len(trace), trace.block_size, trace.input_tokens, trace.output_tokens, trace.uncovered_tokens, trace.span),
        *(trace.block_events, trace.max_blocks, trace.recorded_hit_rate),
        *(curve.tokens(slots) for slots in budgets),
        *(trace.simulate("fifo", blocks=slots).hit_tokens for slots in budgets[:1]),
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mooncake_conversation_first1000.jsonl", {"block_size": 512}),
        ("agentic", {}),
        ("agentic_8_sessions_block64.jsonl.gz", {}),
        ("aiperf_production_trace.jsonl", {"block_size": 512, "strict": False}),
        ("aiperf_precise_schedule.jsonl", {"block_size": 512, "strict": False}),  # ids behind two parents
    ],
)
def test_a_real_trace(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    trace = open_trace(DATA / name, **options)
    trace.export(tmp_path / "out.jsonl.gz")
    made = open_trace(tmp_path / "out.jsonl.gz", ids="prefix")  # each id has one parent
    budgets = (64, 500, 2_000, 100_000)
    assert told(made, budgets) == told(trace, budgets)
    assert [one.ids for one in made] != [one.ids for one in trace]


def test_the_reference_s_hit_tokens_of_a_whole_trace(tmp_path: Path) -> None:
    open_trace(DATA / "mooncake_synthetic_trace.jsonl", block_size=512).export(tmp_path / "out.jsonl")
    made = open_trace(tmp_path / "out.jsonl")
    curve = stack_pass(made, 512, REFERENCE)
    # of an independent simulation of the trace itself
    assert [curve.tokens(slots) for slots in (256, 4_000, 64_000)] == [1_490_232, 14_617_729, 39_852_661]
    assert len({number for one in made for number in one.ids}) == 43_924


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(-3, 3), max_size=5), st.integers(1, 6), st.sampled_from([None, "a", ("a", 1)])),
        min_size=1,
        max_size=8,
    )
)
def test_the_same_beginnings_are_the_same_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, given_rows: list[tuple[list[int], int, Any]]
) -> None:
    rows = [row(n, max(1, len(ids) * 2), *ids, scope=scope) for n, (ids, _, scope) in enumerate(given_rows, 1)]
    path = tmp_path_factory.getbasetemp() / "export.jsonl"
    Trace.of(rows, block_size=2).export(path)
    ids = {}
    for one, made in zip(rows, lines(path), strict=True):
        for at, number in enumerate(made["hash_ids"]):
            identity = (one.scope, tuple(one.ids[: at + 1]))
            assert ids.setdefault(identity, number) == number
            assert 0 <= number < 2**63
    assert len(set(ids.values())) == len(ids)


# --- what stands in it -----------------------------------------------------------------------------------------------

FULL = row(
    *(7, 10, 111_111_111, 222_222_222, 333_333_333),
    output_length=5,
    time=1_700_000_001.5,
    session="secret-session",
    tenant="secret-tenant",
    scope="secret-scope",
    weights=array("q", [4, 4, 1]),
    delay=0.25,
    cached=8,
    block_size=4,
)


def test_all_that_a_row_tells(tmp_path: Path) -> None:
    Trace.of([row(1, 3, 5, time=1_700_000_000.0), FULL], block_size=4).export(tmp_path / "out.jsonl", salt=SALT)
    bare, full = lines(tmp_path / "out.jsonl")
    assert len(bare.pop("hash_ids")) == 1
    assert bare == {"block_size": 4, "timestamp": 0, "input_length": 3}
    assert list(full) == [
        *("block_size", "timestamp", "input_length", "output_length", "hash_ids", "block_tokens", "session_id"),
        *("tenant", "delay", "cached_tokens"),
    ]
    assert (full["timestamp"], full["input_length"], full["output_length"]) == (1500, 10, 5)
    assert (full["block_tokens"], full["delay"], full["cached_tokens"]) == ([4, 4, 1], 250, 8)


def test_it_is_read_as_it_was(tmp_path: Path) -> None:
    Trace.of([FULL, FULL._replace(session=None, time=None)], block_size=4).export(tmp_path / "out.jsonl")
    one, other = open_trace(tmp_path / "out.jsonl")
    told_first = lines(tmp_path / "out.jsonl")[0]
    session, tenant = told_first["session_id"], told_first["tenant"]
    same = FULL._replace(line=1, ids=one.ids, time=0.0, session=session, tenant=tenant, scope=None)
    assert one == same
    assert (other.session, other.tenant, other.time) == (None, one.tenant, None)


def test_times_count_from_the_earliest(tmp_path: Path) -> None:
    Trace.of([row(1, 3, 5, time=7.25), row(2, 3, 5, time=5.0), row(3, 3, 5)], block_size=4).export(tmp_path / "out")
    assert [one.get("timestamp") for one in lines(tmp_path / "out")] == [2250, 0, None]


def test_times_to_the_microsecond(tmp_path: Path) -> None:
    times = [1_700_000_000.0, 1_700_000_000.0000010, 1_700_000_000.1234567]
    Trace.of([row(1, 3, 5, time=time) for time in times], block_size=4).export(tmp_path / "out")
    assert [one["timestamp"] for one in lines(tmp_path / "out")] == [0, 0.001, 123.457]


def test_a_trace_without_blocks(tmp_path: Path) -> None:
    open_trace(DATA / "azure_llm_2023_code.csv").first(2).export(tmp_path / "out.jsonl")
    assert lines(tmp_path / "out.jsonl") == [
        {"timestamp": 0, "input_length": 4808, "output_length": 10},
        {"timestamp": 52, "input_length": 3180, "output_length": 8},
    ]
    assert open_trace(tmp_path / "out.jsonl").block_size is None


def test_a_row_without_blocks_in_a_trace_with_some(tmp_path: Path) -> None:
    Trace.of([row(1, 3, 5, time=0.0), row(2, 9, time=1.0)], block_size=4).export(tmp_path / "out.jsonl")
    assert lines(tmp_path / "out.jsonl")[1] == {"block_size": 4, "timestamp": 1000, "input_length": 9, "hash_ids": []}


# --- what does not ---------------------------------------------------------------------------------------------------


def test_nothing_of_the_trace_s_own_is_in_it(tmp_path: Path) -> None:
    Trace.of([FULL], block_size=4, name="secret-name").export(tmp_path / "out.jsonl", salt=SALT)
    text = (tmp_path / "out.jsonl").read_text()
    for own in ("secret", "111111111", "222222222", "333333333", "1700000", SALT, "line"):
        assert own not in text


def test_no_text_of_recorded_requests_is_in_it(tmp_path: Path) -> None:
    form = Form(tmp_path, "bodies")
    body = {"messages": [{"role": "user", "content": "swordfish"}], "model": "secret-model", "user": "me@home"}
    path = form.write({**body, "session_id": "swordfish", "timestamp": 1_700_000_000})
    trace = open_trace(path, tokenizer=str(letters(tmp_path / "model")), block_size=4)
    trace.export(tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text()
    (one,) = trace
    for own in ("swordfish", "secret", "me@home", "1700000000", *map(str, one.ids)):
        assert own not in text


def test_digests_are_none_that_can_be_made_without_the_salt(tmp_path: Path) -> None:
    Trace.of([FULL], block_size=4).export(tmp_path / "out.jsonl", salt=SALT)
    (made,) = lines(tmp_path / "out.jsonl")
    for size in (8, 16, 32):
        plain = blake2b(b"secret-session", digest_size=size).hexdigest()
        assert plain not in made["session_id"]
    assert made["session_id"] != made["tenant"]
    assert len(made["session_id"]) == 32


def test_nor_can_the_next_block_be_guessed_from_the_one_before(tmp_path: Path) -> None:
    Trace.of([row(1, 8, 1, 2)], block_size=4).export(tmp_path / "out.jsonl", salt=SALT)
    first, second = lines(tmp_path / "out.jsonl")[0]["hash_ids"]
    for lowest in (0, 1):  # the bit of a digest that is not shown
        guessed = blake2b((first * 2 + lowest).to_bytes(8, "big") + (2).to_bytes(8, "little"), digest_size=8).digest()
        assert int.from_bytes(guessed, "big") >> 1 != second


def test_a_name_means_nothing_across_kinds(tmp_path: Path) -> None:
    Trace.of([FULL._replace(session="x", tenant="x")], block_size=4).export(tmp_path / "out.jsonl", salt=SALT)
    (made,) = lines(tmp_path / "out.jsonl")
    assert made["session_id"] != made["tenant"]


# --- salts -----------------------------------------------------------------------------------------------------------


def exported(path: Path, salt: str | None, *rows: Row) -> list[dict[str, Any]]:
    Trace.of(rows, block_size=4).export(path, salt=salt)
    return lines(path)


def test_exports_of_one_salt_can_be_joined(tmp_path: Path) -> None:
    one = exported(tmp_path / "a", SALT, row(1, 8, 1, 2, session="s"))
    two = exported(tmp_path / "b", SALT, row(1, 12, 1, 2, 3, session="s"), row(2, 8, 2, 1, session="u"))
    assert two[0]["hash_ids"][:2] == one[0]["hash_ids"]
    assert two[0]["session_id"] == one[0]["session_id"] != two[1]["session_id"]
    assert not set(two[1]["hash_ids"]) & set(one[0]["hash_ids"])


@pytest.mark.parametrize("salts", [(SALT, SALT + "x"), (None, None), (SALT, None), ("x" * 64, "x" * 65)])
def test_exports_of_other_salts_share_nothing(tmp_path: Path, salts: tuple[str | None, str | None]) -> None:
    one, two = (exported(tmp_path / "out", salt, row(1, 8, 1, 2, session="s", tenant="t")) for salt in salts)
    assert not set(one[0]["hash_ids"]) & set(two[0]["hash_ids"])
    assert one[0]["session_id"] != two[0]["session_id"]
    assert one[0]["tenant"] != two[0]["tenant"]


@pytest.mark.parametrize("salt", ["", b"secret bytes", 7])
def test_a_salt_that_is_none(tmp_path: Path, salt: Any) -> None:
    with pytest.raises(TraceError) as caught:
        Trace.of([FULL], block_size=4).export(tmp_path / "out", salt=salt)
    assert str(caught.value) == (
        "export: salt= is no text, or an empty one; expected a long secret, or None for a random one"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_same_trace_and_salt_are_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "one.jsonl.gz", tmp_path / "another.jsonl.gz"]
    for path in paths:
        exported(path, SALT, FULL)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes()[3:8] == bytes(5)  # no flags (a name), no date
    exported(tmp_path / "plain.jsonl", SALT, FULL)
    assert gzip.decompress(paths[0].read_bytes()) == (tmp_path / "plain.jsonl").read_bytes()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("as_link", [False, True])
def test_the_input_is_never_overwritten(tmp_path: Path, part: bool, as_link: bool) -> None:
    source = tmp_path / "trace.jsonl"
    source.write_text('{"block_size": 4, "timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}\n')
    before = source.read_bytes()
    trace = open_trace(source)
    target = source
    if as_link:
        target = tmp_path / "link.jsonl"
        target.symlink_to(source)
    with pytest.raises(TraceError, match=r"the trace is read from this file; export it to another one$"):
        (trace.first(1) if part else trace).export(target)
    assert source.read_bytes() == before


def test_the_input_may_be_gone(tmp_path: Path) -> None:
    source = tmp_path / "trace.jsonl"
    source.write_text('{"block_size": 4, "timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}\n')
    trace = open_trace(source)
    source.unlink()
    target = tmp_path / "out.jsonl"
    target.write_text("an older one\n")
    trace.export(target)
    assert len(lines(target)) == 1


def test_one_of_several_inputs_is_not_either(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"block_size": 4, "timestamp": 0, "input_length": 4, "hash_ids": [1]}\n')
    trace = open_trace(tmp_path)
    with pytest.raises(TraceError, match="read from this file"):
        trace.export(tmp_path / "b.jsonl")


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("an older, longer one\n" * 100)
    with path.open() as older:
        assert len(exported(path, None, FULL)) == 1
        assert len(older.readlines()) == 100  # who reads the older one reads on


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    calls = 0

    def rows() -> list[Row]:
        nonlocal calls
        calls += 1
        return [FULL] if calls <= 2 else [FULL, FULL._replace(input_length=0)]

    class Anew(Trace):
        def __iter__(self) -> Any:
            return self._again()

    trace = Anew.of(rows, block_size=4)
    path = tmp_path / "out.jsonl"
    path.write_text("as it was")
    with pytest.raises(TraceError):
        trace.export(path)
    assert [one.name for one in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.read_text() == "as it was"


@pytest.mark.parametrize("there", ["a folder", "nowhere"])
def test_a_place_that_cannot_be_written(tmp_path: Path, there: str) -> None:
    path = tmp_path if there == "a folder" else tmp_path / "nowhere" / "out.jsonl"
    with pytest.raises(TraceError) as caught:
        exported(path, SALT, FULL)
    assert str(caught.value).startswith(f"{path}: cannot be written: ")
    assert SALT not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert list(tmp_path.rglob("*")) == []


def test_others_may_read_it_as_any_file_of_theirs(tmp_path: Path) -> None:
    exported(tmp_path / "out.jsonl", SALT, FULL)
    (tmp_path / "usual").touch()
    assert (tmp_path / "out.jsonl").stat().st_mode == (tmp_path / "usual").stat().st_mode
