"""Nothing to set up: the endpoint comes from ``--kv-endpoint``."""
