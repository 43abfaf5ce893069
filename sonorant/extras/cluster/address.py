"""Check the address of a Dask scheduler without importing Dask."""

import importlib.util
import re

from sonorant.errors import SonorantError, install

EXAMPLE = "tcp://10.0.0.1:8786"


def checked_address(address: str, source: str) -> str:
    """Return `address` if it is valid and Dask is installed, otherwise raise SonorantError naming `source`."""
    port = re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
    if not port or not 0 < int(port[1]) < 65536:
        raise SonorantError(f"{source}: '{address}' is not a scheduler address; use the form {EXAMPLE} (or tls://...)")
    require_dask(source)
    return address


def require_dask(source: str) -> None:

    if importlib.util.find_spec("distributed") is None:
        raise SonorantError(f"{source}: distributed is not installed; run: {install('cluster')}")
