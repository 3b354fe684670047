"""What one attempt of one test has measured so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model import Expectation, Measurement, ResetMode


class TestState:
    """State of one attempt; a rerun begins with a new one.

    Args:
        nodeid: of the test.
        expectation: what its ``hit_rate`` marker asks, None without one.
        run: nonce of this run of pytest, or the seed that the user fixed.
        attempt: 1 for the first, so that a rerun does not hit what the attempt before it cached.
        reset: what its ``kv_reset`` marker asks, None without one.
    """

    __test__ = False  # not a test class, whatever its name begins with

    def __init__(
        self, nodeid: str, expectation: Expectation | None, run: str, attempt: int, reset: ResetMode | None = None
    ) -> None:
        self.expectation = expectation
        self.reset = reset
        self.measurements: list[Measurement] = []
        self._base = f"{run}/{nodeid}/{attempt}"
        self._runs = 0

    @property
    def wants_counters(self) -> bool:
        """False when the test is judged by ``usage`` alone."""
        return self.expectation is None or self.expectation.source != "usage"

    def next_nonce(self) -> str:
        """Return the nonce of the next run of this test."""
        self._runs += 1
        return f"{self._base}/{self._runs}"
