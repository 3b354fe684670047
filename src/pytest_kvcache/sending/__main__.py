"""Started by :class:`pytest_kvcache.sending.sender.Sender`, with one end of a socket as its standard input."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

from .child import serve


def main() -> None:
    """Send until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the parent, and with it this process ends
    asyncio.run(serve(socket.socket(fileno=os.dup(0))))
    os._exit(0)  # all is closed; to take apart what was imported would keep the parent waiting


if __name__ == "__main__":
    main()
