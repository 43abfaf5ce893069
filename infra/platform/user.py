"""Let a person into MLflow: `python -m infra.platform.user ada`, by whoever is signed in as its admin.

Asks for the new user's password (or reads a line), makes the user if there is none of the name, and lets him do what
stages and tasks do: EDIT on the project's experiment, MANAGE on its registered model, as aliases are moved and tags
removed there. MLflow's own default is that everybody reads. A model that is not there yet can be granted, an experiment
cannot, as MLflow knows it by its number: it is made.
"""

from __future__ import annotations

import argparse
import base64
import getpass
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from infra.platform.check import variable
from sonorant.errors import SonorantError
from sonorant.registry import RegisterConfig
from sonorant.registry.tracking import open_store
from sonorant.registry.tracking.mlflow_store import EXPERIMENT, shown
from tasks import params
from tasks.stage import run

UNKNOWN, THERE = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"
"""Error codes of MLflow."""


class Refused(SonorantError):
    """MLflow has answered that it does not do what it was asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def let_in(name: str, models: Sequence[str], password: Callable[[], str]) -> list[str]:
    """Make the user unless he is there, grant what he lacks, and return a line for each thing that he may change.

    Raises SonorantError if MLflow does not answer, the sign-in is no admin's, or MLflow refuses name or password.
    """
    try:
        ask("2.0/mlflow/users/get", query={"username": name})
    except Refused as error:
        if error.code != UNKNOWN:
            raise
        ask("2.0/mlflow/users/create", {"username": name, "password": password()})
    wanted = [("experiment", EXPERIMENT, open_store().experiment, "EDIT")]
    wanted += [("registered_model", model, model, "MANAGE") for model in models]
    return [f"{name}: {kind} {shown_as}: {granted(name, kind, key, level)}" for kind, shown_as, key, level in wanted]


def granted(name: str, kind: str, key: str, level: str) -> str:
    """What the user may do with a thing from now on; what was granted before stays, be it more or less."""
    user = {"username": name, "resource_type": kind, "resource_id": key}
    try:
        ask("3.0/mlflow/users/permissions/grant", user | {"permission": level})
    except Refused as error:
        if error.code != THERE:
            raise
    return str(ask("3.0/mlflow/users/permissions/get", query=user)["permission"])


def ask(path: str, body: Any = None, query: dict[str, str] | None = None) -> Any:
    """What MLflow's API answers to a GET, or to a POST of `body`. Raises Refused, or SonorantError for no answer."""
    url = variable("MLFLOW_TRACKING_URI")
    sign_in = ":".join(os.environ.get(name, "") for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"))
    headers = {"Authorization": f"Basic {base64.b64encode(sign_in.encode()).decode()}"}
    headers["Content-Type"] = "application/json"
    address = f"{url.rstrip('/')}/api/{path}?{urllib.parse.urlencode(query or {})}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as reply:
            return json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise refusal(error, url) from None
    except (OSError, ValueError) as error:
        raise SonorantError(f"MLflow at {shown(url)} does not answer: {shown(error)}") from None


def refusal(error: urllib.error.HTTPError, url: str) -> Refused:
    """MLflow's own reason; of a sign-in that is refused, the variables to look at."""
    if error.code in (401, 403):
        why = "it wants the admin's sign-in; see MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        return Refused("", f"MLflow at {shown(url)}: {why}")
    text = error.read().decode(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    return Refused(found.get("error_code", ""), f"MLflow at {shown(url)}: {shown(found.get('message') or text)[:300]}")


def typed_password() -> str:
    """Typed unseen, or a line of what is piped in."""
    return getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the user's; if he is there already, his password stays")
    parser.add_argument("--model", action="append", help="a registered model; may be repeated (default: params.yaml's)")
    given = parser.parse_args()
    models = given.model or [params.load("register", RegisterConfig).model]
    print("\n".join(let_in(given.name, models, typed_password)))


if __name__ == "__main__":
    run(main)
