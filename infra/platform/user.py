"""Let a person into MLflow: `python -m infra.platform.user ada`, signed in as its admin.

Reads the new user's password, makes the user, and grants what stages and tasks need. MLflow's default is that everybody
reads.
"""

from __future__ import annotations

import argparse
import getpass
import sys

from infra.platform.check import variable
from sonorant.registry import RegisterConfig
from sonorant.registry.tracking.mlflow_users import let_in
from tasks import params
from tasks.stage import run


def typed_password() -> str:
    """Typed without echo, or a line from a pipe."""
    return getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the user; an existing user keeps the password")
    parser.add_argument("--model", action="append", help="a registered model; may be repeated (default: params.yaml's)")
    given = parser.parse_args()
    variable("MLFLOW_TRACKING_URI")
    models = given.model or [params.load("register", RegisterConfig).model]
    print("\n".join(let_in(given.name, models, typed_password)))


if __name__ == "__main__":
    run(main)
