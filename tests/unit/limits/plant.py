"""A server with known capacity, and the traffic that a search for its limit sends: event by event, in virtual time.

As the simulated engine: prompts are prefilled one after the other, in the order in which they came, and decoded beside
each other. With N users, a prefill of S and a decode of D seconds, every user comes back when its answer has ended; so
the cycle of all is ``max(S + D, N S)``, and of it all but D is time to first token.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_kvcache.distribution import Latency
from pytest_kvcache.limits.breach import NOBODY, Stalled
from pytest_kvcache.limits.controller import Controller
from pytest_kvcache.model import Level, Limit, PerRequest, Stretch

Seconds = Callable[[int, float], float]  # of requests in flight and the moment
TOKENS = 100


@dataclass(slots=True)
class Answer:
    sent: float
    first: float
    end: float
    ok: bool = True


def closed_ttft(users: int, prefill: float, decode: float) -> float:
    return max(prefill, users * prefill - decode)


def closed_capacity(limit: float, prefill: float, decode: float) -> int:
    return math.floor((limit + decode) / prefill * (1 + 1e-12))


def wait_at_most(t: float, rate: float, service: float) -> float:
    """P(wait <= t) in an M/D/1 queue (Erlang 1909; see Kleinrock, Queueing Systems I)."""
    load = rate * service
    terms = (
        (rate * (k * service - t)) ** k / math.factorial(k) * math.exp(-rate * (k * service - t))
        for k in range(math.floor(t / service) + 1)
    )
    return (1 - load) * math.fsum(terms)


@dataclass
class Plant:
    """One server and its clients.

    Attributes:
        prefill / decode: seconds, given the number in flight and the moment.
        fails: after how many seconds a request fails, given the same; None: it does not.
    """

    prefill: Seconds
    decode: Seconds
    fails: Callable[[int, float], float | None] = lambda _flying, _now: None
    seed: int = 0
    now: float = 1000.0
    users: int | None = 0
    rate: float | None = None
    answers: list[Answer] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._flying: list[tuple[float, int, Answer]] = []
        self._free = self.now
        self._due = math.inf

    @property
    def flying(self) -> int:
        return len(self._flying)

    def turn(self, level: Level) -> None:
        self.users, self.rate = level.concurrency, level.rate
        if self.rate is not None:
            self._due = self.now + self._random.expovariate(self.rate)
        self._fill()

    def pause(self) -> None:
        self._due = math.inf
        self.users = None if self.users is None else 0

    def advance(self, to: float) -> None:
        while (moment := min(self._due, self._flying[0][0] if self._flying else math.inf)) <= to:
            self.now = moment
            if moment == self._due:
                self._send()
                self._due = moment + self._random.expovariate(self.rate or 1.0)
            else:
                self.answers.append(heapq.heappop(self._flying)[2])
                self._fill()
        self.now = to

    def landed(self) -> float:
        """Return when all that are in flight will have ended."""
        return max((end for end, _, _ in self._flying), default=self.now)

    def stalled(self, patience: float) -> Stalled:
        waiting = [self.now - a.sent for _, _, a in self._flying if self.now - a.sent > patience]
        return Stalled(len(waiting), max(waiting)) if waiting else NOBODY

    def _fill(self) -> None:
        while self.rate is None and self.users is not None and self.flying < self.users:
            self._send()

    def _send(self) -> None:
        self.sent += 1
        if (seconds := self.fails(self.flying + 1, self.now)) is not None:
            answer = Answer(self.now, self.now, self.now + seconds, ok=False)
        else:
            first = max(self.now, self._free) + self.prefill(self.flying + 1, self.now)
            self._free = first
            answer = Answer(self.now, first, first + self.decode(self.flying + 1, self.now))
        heapq.heappush(self._flying, (answer.end, self.sent, answer))


@dataclass
class Search:
    """Does what the traffic around a controller does."""

    plant: Plant
    controller: Controller
    assessment: float
    duration: float
    each: PerRequest = field(default_factory=PerRequest)
    looks: int = 10
    patience: float = 60.0
    changes: int = 0
    ended: float = 0.0

    def run(self) -> Limit:
        plant, began = self.plant, self.plant.now
        over = began + self.duration
        self._change(self.controller.level, drain=False, over=over)
        start, mark = plant.now, len(plant.answers)
        while plant.now < over - 1e-9:
            plant.advance(min(over, plant.now + self.assessment / self.looks))
            move = self.controller.next(self.stretch(start, mark), plant.stalled(self.patience))
            if move.action == "done":
                break
            if move.action == "on":
                continue
            if move.action == "change":
                self.changes += 1
                self._change(move.level, drain=move.drain, over=over)
            start, mark = plant.now, len(plant.answers)
        self.ended = plant.now - began
        return self.controller.finish()

    def _change(self, level: Level, *, drain: bool, over: float) -> None:
        plant = self.plant
        start, mark = plant.now, len(plant.answers)
        if drain:
            plant.pause()
        else:
            plant.turn(level)
        plant.advance(min(over, plant.landed(), math.inf if drain else start + self.patience))
        if drain:
            plant.turn(level)
        self.controller.passed(self.stretch(start, mark))

    def stretch(self, start: float, mark: int) -> Stretch:
        plant = self.plant
        ended = plant.answers[mark:]
        return stretch_of_answers(ended, Level(plant.users, plant.rate), start, plant.now, self.each)


def stretch_of_answers(ended: list[Answer], level: Level, start: float, end: float, each: PerRequest) -> Stretch:
    whole = [a for a in ended if a.ok]
    return Stretch(
        level=level,
        start=start,
        end=end,
        requests=len(whole),
        failed=len(ended) - len(whole),
        output_tokens=float(TOKENS * len(whole)),
        input_tokens=None,
        hit_tokens=None,
        ttft=Latency.of(a.first - a.sent for a in whole if a.first >= start),
        tpot=Latency.of((a.end - a.first) / (TOKENS - 1) for a in whole),
        e2e=Latency.of(a.end - a.sent for a in whole),
        tokens_per_s=Latency.of(TOKENS / (a.end - a.sent) for a in whole),
        good=sum(is_good(a, each) for a in whole) if each.asked else None,
    )


def is_good(answer: Answer, each: PerRequest) -> bool:
    limits = (
        (answer.first - answer.sent, each.ttft),
        ((answer.end - answer.first) / (TOKENS - 1), each.tpot),
        (answer.end - answer.sent, each.e2e),
    )
    return all(limit is None or seconds <= limit for seconds, limit in limits)


def constant(seconds: float) -> Seconds:
    return lambda _flying, _now: seconds


def drawn(mean: float, spread: float, seed: int) -> Seconds:
    """Uniform between ``mean (1 - spread)`` and ``mean (1 + spread)``."""
    draw = random.Random(seed)
    return lambda _flying, _now: mean * (1 + spread * (2 * draw.random() - 1))
