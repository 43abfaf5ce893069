"""Sonorant, from recordings to a text-to-speech voice. Importing it switches off the telemetry of its dependencies and
lets loopback go past proxies."""

import os

QUIET = {
    "DO_NOT_TRACK": "true",  # Prefect with amplitude-analytics, huggingface_hub, MLflow
    "DVC_NO_ANALYTICS": "true",
    "ITERATIVE_DO_NOT_TRACK": "true",  # packages that DVC brings
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",  # read when onnxruntime is imported
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Environment variables set on import, also for child processes. The user's values win."""
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)

LOOPBACK = "localhost,127.0.0.1,::1"


def spare_loopback() -> None:
    """Add the loopback addresses to NO_PROXY."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if LOOPBACK not in given:
        os.environ |= dict.fromkeys(("no_proxy", "NO_PROXY"), f"{given},{LOOPBACK}".lstrip(","))


spare_loopback()
