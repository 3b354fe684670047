"""Ready-made checks of an endpoint: ``pytest --pyargs pytest_kvcache.suite --kv-endpoint=URL``.

One module for each: ``smoke``, ``hit_rate``, ``cache_rate``, ``conversation``, ``trace``. Their parameters are set by
``--kv-set CHECK.PARAM=VALUE`` and listed by ``--kv-params``.
"""
