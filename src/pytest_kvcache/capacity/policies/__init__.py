"""Who is evicted? One file for each answer."""

from __future__ import annotations

from .cache import Cache, Evicted, Unlimited
from .fifo import FIFO
from .lfu import LFU
from .lru import LRU, HeadFirstLRU
from .optimum import Foresight, Optimum, bound
from .s3fifo import S3FIFO

ONLINE: dict[str, type[Cache]] = {"lru": LRU, "fifo": FIFO, "lfu": LFU, "s3fifo": S3FIFO}
"""Policies that know the past only, by name."""

__all__ = [
    "FIFO",
    "LFU",
    "LRU",
    "ONLINE",
    "S3FIFO",
    "Cache",
    "Evicted",
    "Foresight",
    "HeadFirstLRU",
    "Optimum",
    "Unlimited",
    "bound",
]
