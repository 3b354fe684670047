"""Who is a block? Digests of 63 bits, chained: each stands for its block and for all before it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b


def key_of(salt: str | bytes | None) -> bytes:
    """Return what keys the digests, of a salt of any length; nothing for none."""
    if salt is None:
        return b""
    return blake2b(salt.encode("utf-8", "surrogatepass") if isinstance(salt, str) else salt, digest_size=32).digest()


def chained(parts: Iterable[bytes], *, key: bytes = b"", start: bytes = b"") -> array[int]:
    """Return a digest of each part and all before it.

    Equal beginnings have equal digests. Among a million different ones two are mixed up with a chance below 1e-7.

    Args:
        parts: what the blocks are.
        key: as of :func:`key_of`; other keys, other digests.
        start: what sets apart blocks that are otherwise equal, such as a model's.
    """
    state = blake2b(start, digest_size=8, key=key, person=b"start").digest()
    made = array("q")
    for part in parts:
        state = blake2b(state + part, digest_size=8, key=key).digest()
        made.append(int.from_bytes(state, "big") >> 1)
    return made


def name_of(kind: str, name: str, key: bytes) -> str:
    """Return what stands for a name: equal for equal ones of a kind."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=key, person=kind.encode()).hexdigest()
