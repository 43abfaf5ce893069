"""The address of a Dask cluster's scheduler. Dask is imported only where a cluster is used."""

import importlib.util
import re

from sonorant.errors import SonorantError

EXAMPLE = "tcp://10.0.0.1:8786"


def checked_address(address: str, source: str) -> str:
    """The address, if valid and Dask is installed; else raises SonorantError naming `source`."""
    port = re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
    if not port or not 0 < int(port[1]) < 65536:
        raise SonorantError(f"{source}: '{address}' is no address of a scheduler; write it like {EXAMPLE}, or tls://")
    require_dask(source)
    return address


def require_dask(source: str) -> None:
    """Raises SonorantError where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        raise SonorantError(f"{source}: distributed is not installed; run: pip install 'sonorant[cluster]'")
