"""How each engine and provider reports reuse: one data file each, read into a strict model, detected from the page."""

from __future__ import annotations

from .profile import Profile, Variant, builtin_profiles, detect, load_profile

__all__ = ["Profile", "Variant", "builtin_profiles", "detect", "load_profile"]
