"""What a run hands to the test: the measurement, read conveniently and never wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import latency
from .distribution import Latency
from .errors import MeasurementError
from .judge import judge
from .model import Exchange, Expectation, Limit, Measurement, Stretch, Tokens, Verdict
from .turns import Turns


class Result:
    """One measured run.

    A number is only given when the measurement is valid: ``hit_rate``, ``hit_tokens`` and ``query_tokens`` raise
    otherwise, so that an assertion on them can never pass by accident.

    Attributes:
        measurement: all that was seen.
        verdict: judged by the test's own expectation, or for validity alone when the test has none.
    """

    def __init__(self, measurement: Measurement, expectation: Expectation | None = None) -> None:
        self.measurement = measurement
        self.verdict: Verdict = judge(expectation or Expectation(min=0.0), [measurement])

    @property
    def hit_rate(self) -> float:
        """Hit tokens / query tokens, 0..1.

        Raises:
            MeasurementError: the measurement is inconclusive; the message says why.
        """
        self._require_valid()
        return self.verdict.hit_rate or 0.0

    @property
    def hit_tokens(self) -> int:
        """Prompt tokens whose KV was reused. Raises like :attr:`hit_rate`."""
        self._require_valid()
        return self.verdict.hit_tokens or 0

    @property
    def query_tokens(self) -> int:
        """Prompt tokens looked up. Raises like :attr:`hit_rate`."""
        self._require_valid()
        return self.verdict.query_tokens or 0

    @property
    def predicted(self) -> float | None:
        """The rate that a cache of the server's block size reaches; None when that is not known."""
        return self.verdict.predicted

    @property
    def simulated(self) -> float | None:
        """The rate that a cache as large as the server's reaches, which evicts; None when that is not known."""
        return self.verdict.simulated

    @property
    def ceiling(self) -> float | None:
        """The rate that no cache can exceed on this workload; None for traffic of your own."""
        return self.verdict.ceiling

    @property
    def engines(self) -> Mapping[str, Tokens]:
        """Tokens per engine, by counters."""
        return self.measurement.engines

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """Every measured request in workload order, without the stamps of its chunks (see :attr:`itl`)."""
        return self.measurement.exchanges

    @property
    def turns(self) -> Turns:
        """The conversations turn by turn, with checks to ``assert``; empty when the run was none."""
        return Turns.of(self.measurement)

    @property
    def ttft(self) -> Latency:
        """Time to first token, seconds."""
        return latency.ttft(self.exchanges)

    @property
    def itl(self) -> Latency:
        """Inter-token latency: gaps between content chunks of all requests, seconds, exact to a microsecond."""
        return self.measurement.gaps

    @property
    def tpot(self) -> Latency:
        """Time per output token of each request, seconds."""
        return latency.tpot(self.exchanges)

    @property
    def e2e(self) -> Latency:
        """End-to-end latency, seconds."""
        return latency.e2e(self.exchanges)

    @property
    def arrival(self) -> Latency:
        """How much later than scheduled requests were sent, seconds; empty when no schedule was asked for."""
        return latency.lateness(self.exchanges)

    @property
    def stretch(self) -> Stretch | None:
        """What came out while a level was kept, or at the highest that held; None for a run of all requests."""
        return self.measurement.stretch

    @property
    def limit(self) -> Limit | None:
        """Where the limit lies; None unless it was looked for."""
        return self.measurement.limit

    def _require_valid(self) -> None:
        if self.verdict.status == "inconclusive" or self.verdict.hit_rate is None:
            raise MeasurementError(self.verdict.sentence.removeprefix("inconclusive: "))

    def __repr__(self) -> str:
        return f"<Result {self.verdict.sentence}>"
