"""Settings of the temporary Prefect server that a flow uses without `make serve`."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sonorant.features.store.proxy import check_proxy
from sonorant.processes import signals_blocked

_ENVIRONMENT = {
    "PREFECT_HOME": str(Path("runs/prefect").resolve()),
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}


def use_own_prefect() -> None:
    """Set the variables that prefect reads on import, unless they are set, and create the server's folder."""
    if url := os.environ.get("PREFECT_API_URL"):
        check_proxy(url)  # Prefect would wait for two minutes
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)  # Prefect's server does not create it


def run_flow(flow: Callable[..., Any], *arguments: Any) -> Any:
    """Run a flow and return its state. Ctrl-C does not reach the temporary server, which outlives the flow."""
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        from prefect.server.api.server import SubprocessASGIServer

        starting = threading.Thread(target=SubprocessASGIServer().start, daemon=True)
        with signals_blocked(signal.SIGINT):
            starting.start()
        starting.join()
    return flow(*arguments, return_state=True)
