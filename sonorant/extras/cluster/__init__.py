"""Work spread over many machines by a Dask cluster. Dask is imported where a cluster is used, and nowhere else."""

import importlib.util
import os
import re

from sonorant.errors import SonorantError

SCHEDULER = "SONORANT_SCHEDULER"
"""The variable that names a cluster's scheduler; without it, this machine's processes do the work."""
EXAMPLE = "tcp://10.0.0.1:8786"


def scheduler_address() -> str | None:
    """The address in `SCHEDULER`; None if there is none. Raises SonorantError if it cannot be one."""
    address = os.environ.get(SCHEDULER, "").strip()
    return checked_address(address, SCHEDULER) if address else None


def checked_address(address: str, source: str) -> str:
    """The address, if it is one and Dask is installed. Raises SonorantError, which names its `source`, if not."""
    port = re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", address)
    if not port or not 0 < int(port[1]) < 65536:
        raise SonorantError(f"{source}: '{address}' is no address of a scheduler; write it like {EXAMPLE}, or tls://")
    require_dask(source)
    return address


def require_dask(source: str) -> None:
    """Raises SonorantError where Dask is not installed."""
    if importlib.util.find_spec("distributed") is None:
        raise SonorantError(f"{source}: distributed is not installed; run: pip install 'sonorant[cluster]'")
