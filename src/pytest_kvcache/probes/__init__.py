"""Questions that a cache answers from outside, by a small bounded number of requests.

Each is an async function over an :class:`~pytest_kvcache.endpoint.Endpoint`. Nobody else should use the server
meanwhile.
"""

from .capacity import Capacity, capacity
from .equivalence import Equivalence, equivalence
from .granularity import Granularity, granularity
from .isolation import Isolation, isolation
from .lifetime import Lifetime, lifetime
from .prober import Terms

__all__ = [
    "Capacity",
    "Equivalence",
    "Granularity",
    "Isolation",
    "Lifetime",
    "Terms",
    "capacity",
    "equivalence",
    "granularity",
    "isolation",
    "lifetime",
]
