"""How each engine and provider reports reuse: one data file each, read into a strict model, detected from the page."""

from __future__ import annotations

from .catalogue import Catalogue, shipped
from .counting import Variant
from .profile import Profile
from .reader import Reader

__all__ = ["Catalogue", "Profile", "Reader", "Variant", "shipped"]
