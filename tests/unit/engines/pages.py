"""Metrics pages as snapshots: recorded ones by name, and hand-written ones."""

from __future__ import annotations

from pathlib import Path

from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines import Catalogue, Profile, Reader, shipped
from pytest_kvcache.scrape import Snapshot
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import spellings

DATA = Path(__file__).parents[2] / "data"


def snapshot(text: str, origin: str = "a page") -> Snapshot:
    """A page read with every name that any shipped profile knows, as at detection."""
    samples, kinds = parse(text, spellings(shipped().samples()), origin)
    return Snapshot(0.0, samples, origin, kinds=kinds)


def recorded(name: str) -> Snapshot:
    return snapshot((DATA / f"{name}.prom").read_text(encoding="utf-8"), name)


def written(*lines: str) -> Snapshot:
    return snapshot("".join(f"{line}\n" for line in lines))


def recognised(page: Snapshot) -> str | None:
    """The id of the profile that reads a page, which must not hang on the order of the files."""
    turned = Catalogue()
    turned._profiles = dict(reversed(turned._profiles.items()))
    first, last = (known.detect(page.names()) for known in (shipped(), turned))
    assert first is last or (first is not None and last is not None and first.id == last.id), (first, last)
    return first.id if first else None


def reader(profile: str | Profile, variant: str) -> Reader:
    known = shipped().get(profile) if isinstance(profile, str) else profile
    chosen = next(v for v in known.variants if v.id == variant)
    return Reader(MetricsSource("http://engine/metrics"), known, chosen, block_size=128)
