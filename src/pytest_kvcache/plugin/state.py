"""What one attempt of one test has measured so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..endpoint import Endpoint
    from ..model import Expectation, Finding, Grain, Measurement, ResetMode, ServiceLevel, Verdict
    from ..slo.asked import SpeedUpAsked
    from .comparison import Comparison
    from .resuming import Attempt


class TestState:
    """State of one attempt; a rerun begins with a new one.

    Args:
        nodeid: of the test.
        expectation: what its ``hit_rate`` marker asks, None without one.
        run: nonce of this run of pytest, or the seed that the user fixed.
        attempt: 1 for the first, so that a rerun does not hit what the attempt before it cached.
        reset: what its ``kv_reset`` marker asks, None without one.
        warm: by endpoint, what the runs of this session have warmed there.
        grains: by endpoint and model, what the probes of this session have found of its cache.
        level: what its ``kv_slo`` marker asks, None without one.
        speed_up: what its ``kv_speedup`` marker asks, None without one.
        comparison: what its ``kv_regression`` marker asks, and of which baseline; None without one.

    Attributes:
        measurements: every window of this attempt.
        sent: of each of them, the digest of what was sent and how; None: nothing tells.
        speedups: windows of the same prompts, cold and warm; the warm ones are among the measurements.
        probes: outcomes of this attempt's probes, one line each.
        resume: what is known of the attempt when results are kept; None: they are not.
    """

    __test__ = False  # not a test class, whatever its name begins with

    def __init__(
        self,
        nodeid: str,
        expectation: Expectation | None,
        run: str,
        attempt: int,
        reset: ResetMode | None = None,
        warm: dict[str, set[str]] | None = None,
        grains: dict[tuple[str, str | None], Grain] | None = None,
        *,
        level: ServiceLevel | None = None,
        speed_up: SpeedUpAsked | None = None,
        comparison: Comparison | None = None,
    ) -> None:
        self.expectation = expectation
        self.level = level
        self.speed_up = speed_up
        self.comparison = comparison
        self.reset = reset
        self.series = run
        self.measurements: list[Measurement] = []
        self.sent: list[str | None] = []
        self.speedups: list[tuple[Measurement, Measurement]] = []
        self.probes: list[str] = []
        self.faults: list[Finding] = []  # of the cache itself, found by probes
        self.resume: Attempt | None = None
        self._warm = {} if warm is None else warm
        self._grains = {} if grains is None else grains
        self._base = f"{run}/{nodeid}/{attempt}"
        self._runs = 0
        self._in_block = False

    @property
    def asks(self) -> bool:
        """True when a marker asks something of what is measured; without one only validity is judged, and told."""
        return self.asks_more or self.comparison is not None

    @property
    def asks_more(self) -> bool:
        """True when a marker asks something else than a comparison with a baseline."""
        return (self.expectation, self.level, self.speed_up) != (None, None, None)

    def keep(self, measurement: Measurement, sent: str | None = None) -> None:
        """Take a measurement into the test.

        Args:
            measurement: what was measured.
            sent: the digest of what was sent and how, without nonce and seed; None: nothing tells.
        """
        self.measurements.append(measurement)
        self.sent.append(sent)

    def verdict(self) -> Verdict:
        """Return the verdict on all that was measured so far, as far as it needs no baseline."""
        from ..slo.verdict import judge_test

        return judge_test(self.expectation, self.measurements, self.level, self.speed_up, self.speedups)

    def verdict_on(self, measurement: Measurement) -> Verdict:
        """Return the verdict on one measurement alone."""
        from ..slo.verdict import judge_test

        return judge_test(self.expectation, [measurement], self.level)

    @property
    def wants_counters(self) -> bool:
        """False when the test is judged by ``usage`` alone."""
        return self.expectation is None or self.expectation.source != "usage"

    @contextmanager
    def block(self) -> Iterator[None]:
        """Keep the test's own measured block open.

        Raises:
            ConfigurationError: another one is.
        """
        self.refuse_in_block("a measured block")
        self._in_block = True
        try:
            yield
        finally:
            self._in_block = False

    def refuse_in_block(self, what: str) -> None:
        """Make sure that no block is open: a window waits for the one before it, so this one would wait for ever.

        Raises:
            ConfigurationError: one is.
        """
        if self._in_block:
            raise ConfigurationError(
                f"{what} inside a measured block: one window at a time; leave the block out, or send its traffic"
                " yourself"
            )

    def warm_at(self, endpoint: str) -> set[str]:
        """Return what the runs of this session have warmed at an endpoint; a run adds to it."""
        return self._warm.setdefault(endpoint, set())

    def keep_grain(self, endpoint: Endpoint, grain: Grain | None) -> None:
        """Remember for this session in which steps an endpoint gives credit; None: that was not found."""
        if grain is not None:
            self._grains[endpoint.base, endpoint.model] = grain

    def grain_at(self, endpoint: Endpoint) -> Grain | None:
        """Return in which steps an endpoint gives credit, if a probe of this session has found it."""
        return self._grains.get((endpoint.base, endpoint.model))

    def next_nonce(self) -> str:
        """Return the nonce of the next run of this test."""
        self._runs += 1
        return f"{self._base}/{self._runs}"
