"""Add a user to MLflow: `python -m infra.platform.user ada`, signed in as admin.

Reads the new user's password, creates the user, and grants the permissions that stages and tasks require. By default,
every MLflow user has read access.
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
    """Read a password without echo, or a line from a pipe."""
    return getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the user; an existing user keeps the password")
    parser.add_argument(
        "--model",
        action="append",
        help="registered model to grant access to; may be repeated (default: of params.yaml)",
    )
    given = parser.parse_args()
    variable("MLFLOW_TRACKING_URI")
    models = given.model or [params.load("register", RegisterConfig).model]
    print("\n".join(let_in(given.name, models, typed_password)))


if __name__ == "__main__":
    run(main)
