"""Requests of the past: which forms are read, and what tests hold of them."""
