"""Every error of this package, one small tree.

::

    KVCacheError
    ├── ConfigurationError   a wrong option, marker argument or profile; raised before anything is sent
    ├── WorkloadError        a workload that cannot be built as asked (lengths, rates, tokenizer)
    ├── TraceError           a trace that cannot be read, or does not tell what is asked of it (names the line)
    ├── EndpointError        the server cannot be reached, refuses, or is not what was named
    │   ├── NoModelList      it has no list of models
    │   └── Redirected       the answer is elsewhere, and the request is not sent there
    ├── ProtocolError        a reply or a metrics page that cannot be understood (names the offending line)
    └── MeasurementError     there is no valid number
        ├── CounterMissing   the profile names a sample that the page lacks
        ├── CounterReset     a counter fell: the engine restarted or its metrics were reset
        ├── NotSettled       the counters were still moving at the deadline
        └── SenderError      a process that sends did not start, or none is left
    ExpectationFailed        (an AssertionError) ``Verdict.check()`` outside of pytest
    ProbeFailed              (an AssertionError) a probe found the cache at fault

A message says what was seen, what was expected, where it came from and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Verdict


class KVCacheError(Exception):
    """Base of all errors raised by this package; ``code`` is that of the finding it becomes in a report."""

    code = "KV100"


class ConfigurationError(KVCacheError):
    """A wrong option, marker argument, environment value or engine profile."""

    code = "KV118"


class WorkloadError(KVCacheError):
    """A workload cannot be built exactly as asked."""

    code = "KV119"


class TraceError(KVCacheError):
    """A trace cannot be read as it was declared, or does not tell what is asked of it."""

    code = "KV125"


class EndpointError(KVCacheError):
    """The endpoint cannot be reached, refuses the request, or does not serve what was named."""

    code = "KV120"


class NoModelList(EndpointError):
    """The endpoint has no list of models, as some providers: it can be used when the model is named."""


class Redirected(EndpointError):
    """The answer is elsewhere, and the request is not sent there.

    Attributes:
        status: of the answer that points there.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ProtocolError(KVCacheError):
    """A reply or a metrics page cannot be understood."""

    code = "KV121"


class MeasurementError(KVCacheError):
    """The measurement has no valid number."""

    code = "KV101"


class CounterMissing(MeasurementError):
    """The profile names a sample that the page does not carry."""

    code = "KV101"


class CounterReset(MeasurementError):
    """A counter fell between two snapshots."""

    code = "KV102"


class NotSettled(MeasurementError):
    """The counters were still moving when the settle deadline passed."""

    code = "KV105"


class SenderError(MeasurementError):
    """A process that sends the load did not start, or all of them have died."""

    code = "KV130"


class ExpectationFailed(AssertionError):
    """A verdict that is not a pass, for users outside of pytest.

    Attributes:
        verdict: the :class:`~pytest_kvcache.model.Verdict` with its findings.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class ProbeFailed(AssertionError):
    """A probe found the cache at fault: something leaked, or a warm answer is wrong.

    Attributes:
        code: of the finding.
        result: what the probe found.
    """

    def __init__(self, message: str, code: str, result: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result
