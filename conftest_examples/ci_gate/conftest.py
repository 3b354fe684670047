"""Nothing to set up: the endpoint comes from ``--kv-endpoint`` or ``PYTEST_KV_ENDPOINT``."""
