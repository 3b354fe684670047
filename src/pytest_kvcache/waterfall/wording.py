"""Each cause in a sentence with its numbers, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import get_args

from ..model import Cause, Loss
from .account import Account
from .evidence import Evidence

_SHOWN = 4  # engines whose numbers are written out

_Words = Callable[[int, int, Evidence], tuple[str, str]]


def losses(accounts: Sequence[Account], total: int, spread: int, evidence: Evidence) -> Iterator[Loss]:
    """Return the losses in their order; together they are ``total``.

    Args:
        accounts: of the measured requests.
        total: ceiling - measured.
        spread: tokens lost by routing of which the requests are not known.
        evidence: for the sentences.
    """
    found = {cause: _of(accounts, cause) for cause in get_args(Cause)}
    tokens = {cause: tokens for cause, (tokens, _) in found.items()}
    tokens["routing"] += spread
    rest = total - sum(tokens.values())
    tokens["unexplained" if rest > 0 else "surplus"] += rest
    short = sum(account.left > 0 for account in accounts)
    for cause, lost in tokens.items():
        if lost:
            requests = short if cause == "unexplained" else found[cause][1]
            sentence, advice = _WORDS[cause](lost, requests, evidence)
            yield Loss(cause, lost, sentence, advice, requests or None)


def _of(accounts: Sequence[Account], cause: Cause) -> tuple[int, int]:
    amounts = [account.lost.get(cause, 0) for account in accounts]
    return sum(amounts), sum(amount != 0 for amount in amounts)


def _cold(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    return (
        f"{requests:,} of {_requests(e.requests)} {_were(requests)} the first to use tokens that others share",
        "warm each prefix before the window, or leave these out: requests='warm'",
    )


def _rounding(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    return (
        f"credit is given {e.grain}: {requests:,} of {_requests(e.requests)} shared more than whole steps",
        "share whole blocks (align='block')",
    )


def _template(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    return (
        f"{requests:,} of {_requests(e.requests)} did not repeat the turn before, prompt and answer, token by token",
        "send answers back as they came; a template that drops or rewrites history moves every token after it",
    )


def _tokenizer(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    return (
        f"the server counted another prompt length than composed for {requests:,} of {_requests(e.requests)}",
        "name the model's tokenizer with --kv-tokenizer",
    )


def _duplicates(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    return (
        f"{_requests(requests)} {_were(requests)} sent while what they share was still being computed for another,"
        f" and did not find it{_by(e)}",
        "send duplicates after the first answer, or warm their prefix before",
    )


def _routing(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    rows = ", ".join(f"engine {name} hit {hit:,} of {query:,}" for name, (query, hit) in [*e.rows.items()][:_SHOWN])
    rows += ", ..." if len(e.rows) > _SHOWN else ""
    given = f"to within {e.off:,} tokens" if e.off else "exactly"
    went = (
        f"{_requests(requests)} went to one of {len(e.rows)} engines that had not computed their prefix while another"
        f" had; that gives the counters of each {given} ({rows}){_by(e)}"
        if requests
        else f"{len(e.rows)} engines computed the same prefixes, each for itself ({rows})"
    )
    return went, "route by prefix or session"


def _eviction(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    needed = f"{e.needed * e.block:,} tokens"
    if e.capacity is not None:
        has = f"each of {len(e.rows)} engines has" if len(e.rows) > 1 else "this one has"
        size = f"a cache of {needed} would have kept it, {has} {e.capacity:,}{_by(e)}"
    elif e.between is not None:
        low, high = (blocks * e.block for blocks in e.between)
        size = f"a cache of {needed} would have kept it; one of {low:,} to {high - 1:,} explains every hit and miss"
    else:
        size = f"a cache of {needed} would have kept it; the size of this one is not known"
    counted = f"; the engine counted {e.evictions:,} evictions" if e.evictions else ""
    counted += "; requests waited for room meanwhile" if e.waited else ""
    return (
        f"{_requests(requests)} found less than had been cached before: {size}{counted}",
        f"give {'each' if len(e.rows) > 1 else 'the'} cache {needed}, or send what shares a prefix closer together",
    )


def _reset(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    found = e.forgotten
    if found is None:
        return "the cache was emptied", ""
    fell = "; the counters fell too" if e.fell else ""
    prefixes = "1 prefix" if found.prefixes == 1 else f"{found.prefixes:,} prefixes"
    return (
        f"from {found.first.sent - e.started:.1f} s on, {_requests(requests)} missed {prefixes} cached before, and what"
        f" was computed after that was found{fell}",
        "leave the engine and its cache alone while a window is open",
    )


def _surplus(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    who = f"{_requests(requests)} hit" if requests else "the engines hit"
    return (
        f"{who} more than these requests explain{_doubts(e)}",
        "something had cached it before: reset the cache, leave the seed out, or look for another client",
    )


def _unexplained(_: int, requests: int, e: Evidence) -> tuple[str, str]:
    who = f"{requests:,} of {_requests(e.requests)} hit" if requests else "the engines hit"
    return f"{who} less than predicted, and nothing that was measured tells why{_doubts(e)}", _would_tell(e)


def _doubts(e: Evidence) -> str:
    said = []
    if e.untold:
        said.append("the replies do not report cached tokens, and no replay gives the engines' totals")
    if e.ungrained:
        said.append("in which steps this cache gives credit is not known, so all of it may be rounding")
    if e.unplaced:
        said.append(f"no distribution over the {len(e.rows)} engines gives the counters of each")
    if e.ambiguous:
        said.append("a small cache explains it as well as a reset does")
    if e.counted is not None and e.told is not None and e.counted != e.told:
        said.append(f"the counters say {e.counted:,} hit tokens, the replies {e.told:,}")
    if e.failed:
        said.append(f"{_requests(e.failed)} failed and may have cached something")
    if e.kv_usage is not None and e.kv_usage >= 0.9:
        said.append(f"running requests held up to {e.kv_usage:.0%} of the cache")
    return "".join(f"; {reason}" for reason in said)


def _would_tell(e: Evidence) -> str:
    if e.ungrained:
        return "kv.probe.granularity() finds out, and later runs use it"
    if e.untold:
        return "cached tokens in the replies would tell"
    if not e.rows:
        return "the engines' counters would tell whether several of them served this"
    if e.capacity is None and not e.ambiguous:
        return "an engine that tells its capacity, or counts evictions, would tell whether its cache was too small"
    return ""


def _by(e: Evidence) -> str:
    return f"; by {e.assumed}, which gives what was counted exactly" if e.assumed else ""


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


_WORDS: Mapping[Cause, _Words] = {
    "cold": _cold,
    "rounding": _rounding,
    "template": _template,
    "tokenizer": _tokenizer,
    "duplicates": _duplicates,
    "routing": _routing,
    "eviction": _eviction,
    "reset": _reset,
    "surplus": _surplus,
    "unexplained": _unexplained,
}
