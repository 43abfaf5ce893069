"""Proxies of the environment: loopback goes past them, and one that does not answer is named."""

import os
import socket

from sonorant.errors import SonorantError

LOOPBACK = "localhost,127.0.0.1,::1"


def spare_loopback() -> None:
    """Add the loopback addresses to NO_PROXY."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if LOOPBACK not in given:
        os.environ |= dict.fromkeys(("no_proxy", "NO_PROXY"), f"{given},{LOOPBACK}".lstrip(","))


def check_proxy(url: str = "https://") -> None:
    """Raise SonorantError if requests to `url` go to a proxy that does not answer within 5 seconds."""
    import urllib.request  # takes 30 ms
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(parts.hostname or ""):
        return
    where = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        socket.create_connection((where.hostname or "", where.port or 80), 5.0).close()
    except OSError as error:
        why = f"no proxy answers at {where.hostname} ({error.strerror or error})"
        raise SonorantError(f"{parts.scheme.upper()}_PROXY: {why}; correct or unset it") from None
