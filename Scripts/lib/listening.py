"""Ports of servers on loopback that a test starts."""

import socket
import time


def free_port():
    """A port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_until_listening(port, process, explain):
    """Returns when `process` accepts connections; else a RuntimeError that says what `explain()` returns."""
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(explain()) from None
            time.sleep(0.05)
