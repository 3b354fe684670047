"""Nothing to configure: the endpoint comes from ``--kv-endpoint``, the limits stand at the tests."""
