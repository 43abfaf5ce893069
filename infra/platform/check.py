"""Check Prefect, MLflow and every bucket as a client: `python -m infra.platform.check`.

It uses the variables that `make serve STACK=full` prints, and writes and deletes an object.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable

from infra.platform import buckets
from infra.platform.services import BUCKETS
from sonorant.errors import SonorantError
from sonorant.registry.tracking.mlflow_store import shown


def check_prefect() -> str:
    url = variable("PREFECT_API_URL")
    version = get(f"{url}/admin/version", os.environ.get("PREFECT_API_AUTH_STRING", ""), "PREFECT_API_AUTH_STRING")
    return f"Prefect {version} answers at {url}"


def check_mlflow() -> str:
    url = variable("MLFLOW_TRACKING_URI")
    names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    sign_in = ":".join(os.environ.get(name, "") for name in names)
    get(f"{url}/api/2.0/mlflow/experiments/search?max_results=1", sign_in, " and ".join(names))
    return f"MLflow answers at {url}"


def check_bucket(name: str) -> str:
    """Write and delete an object, because listing succeeds on a full disk."""
    store, key = buckets.client(), f".check-{uuid.uuid4().hex}"
    with buckets.answering(f"bucket '{name}'"):
        store.head_bucket(Bucket=name)
        store.put_object(Bucket=name, Key=key, Body=bytes(4096))
        store.delete_object(Bucket=name, Key=key)
    return f"bucket '{name}' can be written at {variable('AWS_ENDPOINT_URL_S3')}"


def get(url: str, sign_in: str, variables: str) -> object:
    """Return the JSON at `url`. `sign_in`: user:password. Raises SonorantError if the request fails."""
    header = {"Authorization": f"Basic {base64.b64encode(sign_in.encode()).decode()}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=header), timeout=10) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        reason = f"the sign-in is refused; see {variables}" if error.code in (401, 403) else f"status {error.code}"
        raise SonorantError(f"{shown(url)}: {reason}") from None
    except (OSError, ValueError) as error:
        raise SonorantError(f"{shown(url)}: does not respond ({shown(error)}); check that the platform runs") from None


def variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SonorantError(f"{name} is not set; source the file that make serve STACK=full prints")
    return value


CHECKS: list[Callable[[], str]] = [
    check_prefect,
    check_mlflow,
    *(lambda name=name: check_bucket(name) for name in BUCKETS),
]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    failed = False
    for check in CHECKS:
        try:
            print(check())
        except SonorantError as error:
            failed = True
            print(f"error: {error}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
