"""What is concluded of a cache of the server's size: everything that reached it, in order, on all engines together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_kvcache.conclude import conclude
from pytest_kvcache.model import (
    Composed,
    Exchange,
    Failure,
    Measurement,
    Prediction,
    Prompt,
    Request,
    ServerFacts,
    Session,
    Tokens,
)
from pytest_kvcache.model.sent import alone

FACTS = ServerFacts("sim", "m", block_size=4, capacity=24)
A, B, C = ([letter * 100 + at for at in range(12)] for letter in (1, 2, 3))  # three blocks each, of the six that fit


@dataclass(frozen=True)
class Listed:
    """Prompts as they are listed."""

    prompts: Sequence[Sequence[int]]
    warm: Sequence[Sequence[int]] = ()
    cached: Sequence[Sequence[int]] = ()
    title: str = "listed"
    notes: Sequence[str] = ()
    prefix_len: int = 0
    warms: str | None = None
    append_only: bool = False
    fresh: bool = True

    def warmed(self) -> Iterator[Request]:
        return (Request(Prompt(ids), 1, "prefill") for ids in self.cached)

    def prefill(self) -> Iterator[Request]:
        return (Request(Prompt(ids), 1, "prefill") for ids in self.warm)

    def load(self) -> Iterator[Request]:
        return (Request(Prompt(ids), 1, "load") for ids in self.prompts)

    def sessions(self) -> Iterator[Session]:
        return alone(self.load())

    def __len__(self) -> int:
        return len(self.prompts)


def exchange(sent: float | None, generated: int = 1, **more: object) -> Exchange:
    told = {"sent": sent, "prompt_tokens": 12, "cached_tokens": 0, "completion_tokens": generated, **more}
    return Exchange("load", 0.0, (sent or 0.0) + 0.5, **told)  # type: ignore[arg-type] # a test's shorthand


def concluded(composed: Composed, exchanges: Sequence[Exchange], **more: object) -> Measurement:
    measured = Measurement("t", FACTS, {"0": Tokens(1, {"local": 0})}, exchanges=tuple(exchanges))
    return conclude(replace(measured, **more), composed, lambda _: None)  # type: ignore[arg-type] # a test's shorthand


def simulated(composed: Composed, exchanges: Sequence[Exchange], **more: object) -> Prediction:
    found = concluded(composed, exchanges, **more).simulated
    assert found is not None
    return found


def test_requests_are_replayed_as_they_were_sent_and_told_in_workload_order() -> None:
    listed = Listed([A, B, C, A])
    found = simulated(listed, [exchange(at) for at in (1, 2, 3, 4)])
    assert (found.per_request, found.hit_tokens, found.query_tokens) == ((0, 0, 0, 0), 0, 48)
    assert simulated(listed, [exchange(at) for at in (1, 3, 4, 2)]).per_request == (0, 0, 0, 8)
    assert simulated(listed, [exchange(at) for at in (2, 3, 4, 1)]).per_request == (8, 0, 0, 0)
    assert (found.block_size, found.capacity, found.exact) == (4, 24, True)


def test_it_is_beside_the_prediction_and_as_fresh() -> None:
    for fresh in (True, False):
        measured = concluded(Listed([A, B, C, A], fresh=fresh), [exchange(at) for at in (1, 2, 3, 4)])
        assert measured.prediction is not None
        assert measured.simulated is not None
        assert (measured.prediction.hit_tokens, measured.prediction.capacity) == (8, None)
        assert (measured.prediction.fresh, measured.simulated.fresh) == (fresh, fresh)


def test_what_was_generated_takes_room() -> None:
    assert simulated(Listed([A, B, A]), [exchange(at) for at in (1, 2, 3)]).per_request == (0, 0, 8)
    assert simulated(Listed([A, B, A]), [exchange(at, 9) for at in (1, 2, 3)]).per_request == (0, 0, 4)


def test_what_warmed_it_comes_first_in_its_own_order() -> None:
    load, twice = [exchange(9)], (exchange(1), exchange(2))
    assert simulated(Listed([A], warm=[A, C], cached=[B]), load, prefill=twice).per_request == (8,)
    assert simulated(Listed([B], warm=[A, C], cached=[B]), load, prefill=twice).per_request == (0,)
    assert simulated(Listed([B], warm=[A], cached=[B]), load, prefill=twice[:1]).per_request == (8,)
    assert simulated(Listed([A], warm=[A, B, C]), load, prefill=tuple(map(exchange, (3, 1, 2)))).per_request == (8,)
    assert simulated(Listed([A], warm=[A, B, C]), load, prefill=tuple(map(exchange, (1, 2, 3)))).per_request == (0,)
    long = (exchange(1), exchange(2, 9))  # C and its answer: five blocks, and one of A stays
    assert simulated(Listed([A], warm=[A, C]), load, prefill=long).per_request == (4,)


def test_refused_requests_leave_nothing_and_count_nothing() -> None:
    refused = exchange(2, failure=Failure("http", "HTTP 429"))
    never = exchange(None, failure=Failure("timeout", "no place"))
    cut = exchange(2, failure=Failure("cut", "half"))
    sent = [exchange(1), exchange(3), exchange(4)]
    for lost in (refused, never):
        found = simulated(Listed([A, C, B, A]), [sent[0], lost, *sent[1:]])
        assert (found.per_request, found.query_tokens) == ((0, 0, 0, 8), 36)
    found = simulated(Listed([A, C, B, A]), [sent[0], cut, *sent[1:]])
    assert (found.per_request, found.query_tokens) == ((0, 0, 0, 0), 48)


def test_engines_are_one_cache_of_all_their_sizes_and_that_is_said() -> None:
    both = {name: Tokens(1, {"local": 0}) for name in ("0", "1")}
    measured = concluded(Listed([A, B, C, A]), [exchange(at) for at in (1, 2, 3, 4)], engines=both, notes=("before",))
    assert measured.simulated is not None
    assert (measured.simulated.per_request, measured.simulated.capacity) == ((0, 0, 0, 8), 48)
    assert measured.notes == (
        "before",
        "the caches of 2 engines are simulated as one cache of 48 tokens: which of them serves a request is not known"
        " before",
    )
    alone = concluded(Listed([A]), [exchange(1)], notes=("before",))
    assert alone.notes == ("before",)
    usage = concluded(Listed([A, B, C, A]), [exchange(at) for at in (1, 2, 3, 4)], engines={})
    assert usage.simulated is not None
    assert usage.simulated.capacity == 24


@pytest.mark.parametrize(
    "more",
    [
        {"facts": replace(FACTS, capacity=None)},
        {"facts": replace(FACTS, block_size=None)},
    ],
)
def test_size_or_steps_that_are_not_known(more: dict[str, object]) -> None:
    measured = concluded(Listed([A]), [exchange(1)], **more)
    assert measured.simulated is None
    assert measured.prediction is not None


@pytest.mark.parametrize(
    "exchanges",
    [
        [exchange(1), exchange(2, lookups=3)],
        [exchange(1), exchange(2, lookups=0)],
        [exchange(1)],
        [],
    ],
    ids=["samples", "bypassed", "ended early", "nothing"],
)
def test_look_ups_that_are_not_known(exchanges: list[Exchange]) -> None:
    assert concluded(Listed([A, B]), [exchange(1), exchange(2)]).simulated is not None
    measured = concluded(Listed([A, B]), exchanges)
    assert measured.simulated is None
    assert measured.prediction is not None


def test_an_answer_of_a_length_that_nobody_told_is_as_long_as_was_asked_for() -> None:
    @dataclass(frozen=True)
    class Long(Listed):
        def load(self) -> Iterator[Request]:
            return (Request(Prompt(ids), 5, "load") for ids in self.prompts)

    def hits(*generated: int | None, **more: object) -> tuple[int, ...]:
        told = [exchange(at, completion_tokens=tokens, **more) for at, tokens in enumerate(generated)]
        return simulated(Long([[*A, 1], [*B, 1], [*A, 1]]), told).per_request

    assert hits(5, 5, 1) == (0, 0, 8)  # four tokens with KV fill a fourth block of each: eight do not fit into six
    assert hits(None, None, None) == (0, 0, 8)
    assert hits(1, 1, 1) == (0, 0, 12)
    assert hits(None, None, None, failure=Failure("cut", "half")) == (0, 0, 12)


def test_prompts_that_were_built_are_not_made_again_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Made(Listed):
        def load(self) -> Iterator[Request]:
            made.append(0)
            for ids in self.prompts:
                made[-1] += 1
                yield Request(Prompt(ids), 1, "load")

    monkeypatch.setattr("pytest_kvcache.conclude._MOST_TOKENS", 1)
    assert concluded(Made([A] * 9), [exchange(at) for at in range(9)]).divergence is None
    assert made == [9, 1]  # for the prediction, and a look at the first


def test_a_failed_request_with_samples_is_no_reason() -> None:
    failed = exchange(2, lookups=3, failure=Failure("cut", "half"))
    assert concluded(Listed([A, B]), [exchange(1), failed]).simulated is not None


def test_in_steps_that_a_probe_found(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(FACTS, block_size=None, step=4)
    assert simulated(Listed([A, B, C, A]), [exchange(at) for at in (1, 2, 3, 4)], facts=facts).per_request[-1] == 0
    monkeypatch.setattr("pytest_kvcache.conclude._MOST_BLOCKS", 8)
    exchanges = [exchange(1), exchange(2), exchange(3)]
    assert concluded(Listed([A, B]), exchanges[:2]).simulated is not None  # 6 blocks
    assert concluded(Listed([A, B, C]), exchanges).simulated is None
