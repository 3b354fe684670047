"""One request's tokens, from the most that any cache reuses of it down to what was reused.

For a prompt of L tokens, all token-exact and at most L - 1 unless the cache credits whole prompts:

- S: shared with any other request, earlier or later; E: with earlier ones only, their answers included;
- H: in a conversation, what the previous turn and its answer would give had they been repeated as they were;
- ceiling = max(S, H); template = H - E, cold = the rest of ceiling - E;
- predicted = E in whole blocks, as :class:`~pytest_kvcache.model.Grain` credits them; rounding = E - predicted;
- what is then ``left`` to explain is predicted - measured. More than predicted is surplus.

So ceiling - (all losses) = measured for each request, and therefore for all of them, whatever the numbers are: a later
step only ever moves tokens from ``left`` to a cause.

Where the server tells that something was generated and not what, E is not known beyond the previous prompt. Then a hit
within the previous answer is taken as its proof; a miss proves nothing, and nothing is claimed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..model import Cause, Grain
from .sharing import with_earlier, with_others
from .visits import Visit


@dataclass(slots=True)
class Account:
    """What became of one measured request's reusable tokens.

    Attributes:
        visit: the request.
        ceiling / predicted: tokens, as above.
        measured: what was reused; None when it is not known of this request.
        lost: tokens by cause; surplus is negative.
        left: not explained so far, never negative.
    """

    visit: Visit
    ceiling: int
    predicted: int
    measured: int | None = None
    lost: dict[Cause, int] = field(default_factory=dict)
    left: int = 0

    def measure(self, tokens: int) -> None:
        """Set what was reused."""
        self.measured = tokens
        self.left = max(0, self.predicted - tokens)
        self.lost["surplus"] = min(0, self.predicted - tokens)

    def take(self, cause: Cause, tokens: int) -> int:
        """Move up to so many tokens that are left to a cause and return how many."""
        taken = max(0, min(tokens, self.left))
        self.left -= taken
        self.lost[cause] = self.lost.get(cause, 0) + taken
        return taken


def opened(visits: Sequence[Visit], grain: Grain, hits: Mapping[int, int]) -> list[Account | None]:
    """Return the account of every visit, None for those that are not measured.

    Args:
        visits: in order of sending.
        grain: how the cache gives credit.
        hits: what was reused by place among the measured requests; empty when it is not known one by one.
    """
    previous: dict[int, Visit] = {}
    accounts: list[Account | None] = []
    for visit, earlier, others in zip(visits, with_earlier(visits), with_others(visits), strict=True):
        session = visit.lookup.session
        turn_before = None if session is None else previous.get(session)
        if session is not None:
            previous[session] = visit
        if visit.at is None:
            accounts.append(None)
            continue
        hit = hits.get(visit.at)
        accounts.append(_account(visit, earlier, max(earlier, others), turn_before, grain, hit))
    return accounts


def _account(visit: Visit, earlier: int, shared: int, before: Visit | None, grain: Grain, hit: int | None) -> Account:
    most = visit.length if grain.whole else visit.length - 1
    earlier, shared = min(earlier, most), min(shared, most)
    kept = 0  # what the previous turn left, had it been repeated as it was
    if before is not None:
        answered = before.lookup.output or before.lookup.untold
        kept = min(before.content[-1].end if answered else before.length, most)
        if before.lookup.untold and earlier >= min(before.length, most):  # its prompt was; its answer, who knows
            kept = earlier = _proven(earlier, kept, visit.length, grain, hit)
    account = Account(visit, max(shared, kept, earlier), grain.credit(earlier, visit.length))
    account.lost["template"] = max(0, kept - earlier)
    account.lost["cold"] = account.ceiling - max(kept, earlier)
    account.lost["rounding"] = earlier - account.predicted
    if hit is not None:
        account.measure(hit)
    return account


def _proven(earlier: int, kept: int, length: int, grain: Grain, hit: int | None) -> int:
    """Return how much of a prompt whose middle nobody knows was there before, as its own hit shows."""
    if hit is None or hit <= grain.credit(earlier, length) or hit > grain.credit(kept, length):
        return earlier
    return kept if hit == grain.credit(kept, length) else max(earlier, hit)
