"""``python -m pytest_kvcache compare OLD.json NEW.json``: what can be done with results, without measuring anything."""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
