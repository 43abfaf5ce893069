"""Settings of the temporary Prefect server that a flow uses without `make serve`."""

import os
from pathlib import Path

_ENVIRONMENT = {
    "PREFECT_HOME": str(Path("runs/prefect").resolve()),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "DO_NOT_TRACK": "1",
}


def use_own_prefect() -> None:
    """Set the variables that prefect reads on import, unless they are set, and create the server's folder."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)  # Prefect's server does not create it
