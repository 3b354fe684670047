"""Sending from several processes: one load, one order, one ledger, and more than one event loop."""
