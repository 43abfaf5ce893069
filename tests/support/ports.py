import secrets
import socket

PORTS = range(10_000, 20_000)
"""Below Linux's ephemeral ports (from 32768), which any connection may take before the server listens."""


def free_port() -> int:
    """An unused port of loopback."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
