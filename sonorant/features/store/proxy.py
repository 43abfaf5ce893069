"""A proxy of the environment that does not answer."""

import socket

from sonorant.errors import SonorantError


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
