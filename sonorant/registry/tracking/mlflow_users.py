"""Users of an MLflow server with basic-auth."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sonorant.errors import SonorantError
from sonorant.registry.tracking.mlflow_store import EXPERIMENT, answering


def let_in(name: str, models: Sequence[str], password: Callable[[], str]) -> list[str]:
    """Create the user and grant missing permissions: EDIT on the experiment, MANAGE on the models, because stages and
    tasks move aliases and remove tags. Return one line per permission.

    Raises SonorantError if MLflow does not answer, refuses the name or password, or the sign-in is not an admin's.
    """
    from mlflow.exceptions import MlflowException

    with answering(f"user {name}") as store:
        with warnings.catch_warnings(action="ignore"):  # warnings of Starlette
            from mlflow.server.auth.client import AuthServiceClient
        auth = AuthServiceClient(store.uri)
        try:
            auth.get_user(name)
        except MlflowException as error:
            if error.error_code in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
                names = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
                raise SonorantError(f"user {name}: MLflow requires the admin's sign-in; set {names}") from None
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            auth.create_user(name, password())
        edit = f"{name}: experiment {EXPERIMENT}: {_granted(auth, name, 'experiment', store.experiment, 'EDIT')}"
        kind = "registered_model"
        return [edit, *(f"{name}: {kind} {model}: {_granted(auth, name, kind, model, 'MANAGE')}" for model in models)]


def _granted(auth: Any, name: str, kind: str, key: str, level: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        auth.grant_user_permission(name, kind, key, level)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(auth.get_user_permission(name, kind, key).permission)
