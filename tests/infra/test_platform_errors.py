import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.background import Background
from infra.platform.services import MLFLOW_SIGN_IN
from sonorant.registry import promote, register
from sonorant.registry.tracking import open_store
from tests.registry.planted import CONFIG, GATES, figures, renamed, write_report
from tests.support.imports import ROOT
from tests.support.mlflow_server import mlflow_server
from tests.support.platform import Stack
from tests.support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line of an error; fails otherwise."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0].removeprefix("error: ")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PREFECT_API_AUTH_STRING", "sonorant:wrong", "the sign-in is refused; see PREFECT_API_AUTH_STRING"),
        ("MLFLOW_TRACKING_PASSWORD", "wrong", "see MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_a_wrong_password(stack: Stack, variable: str, value: str, says: str) -> None:
    assert says in one_line(stack.module("infra.platform.check", **{variable: value}))


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_keys_and_tokens_that_the_store_refuses(stack: Stack, variable: str) -> None:
    done = stack.module("infra.platform.check", **{variable: "wrong"})
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in lines] == ["bucket 'mlflow'", "bucket 'dvc'"]
    assert all("refuses the access key, its secret or the session token" in line for line in lines)


def test_register_and_promote_with_a_wrong_password(stack: Stack) -> None:
    stack.place_voice()
    for task in ("register", "promote"):
        said = one_line(stack.module(f"tasks.{task}", MLFLOW_TRACKING_PASSWORD="wrong"))
        assert "MLflow" in said and "wrong" not in said


def test_postgresql_with_a_wrong_password(stack: Stack) -> None:
    secrets = stack.folder / "secrets.env"
    right = secrets.read_text()
    port = stack.environment["SONORANT_POSTGRES_PORT"]
    refused = f'PostgreSQL at 127.0.0.1:{port}: .*password authentication failed for user "postgres"'
    Background(stack.folder / "processes").stop("worker")  # otherwise PostgreSQL is not contacted
    try:
        secrets.write_text(re.sub("(?m)^POSTGRES_PASSWORD=.*$", "POSTGRES_PASSWORD=not-this-one", right))
        said = one_line(stack.module("infra.platform.native", "start"))
        assert re.search(refused, said) and "not-this-one" not in said
    finally:
        secrets.write_text(right)
        assert stack.start().returncode == 0


PASSWORDS = {"admin": "the admin's password", "ada": "the password of ada", "bob": "the password of bob"}
Signed = Callable[[str], dict[str, str]]


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signed]:
    """MLflow with the platform's sign-in settings; signs this process in as a user of PASSWORDS."""
    pytest.importorskip("flask_wtf")
    database = f"database_uri = sqlite:///{tmp_path}/users.db"
    lines = [database if line.startswith("database_uri") else line for line in MLFLOW_SIGN_IN.splitlines()]
    (tmp_path / "sign_in.ini").write_text("\n".join(lines))
    (tmp_path / "params.yaml").write_text(f"register: {{model: {CONFIG.model}}}")
    server = {"MLFLOW_AUTH_CONFIG_PATH": str(tmp_path / "sign_in.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "secret"}
    server |= {"MLFLOW_AUTH_ADMIN_USERNAME": "admin", "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORDS["admin"]}
    port = free_port()

    def as_user(name: str) -> dict[str, str]:
        client = {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}", "MLFLOW_TRACKING_USERNAME": name}
        client["MLFLOW_TRACKING_PASSWORD"] = PASSWORDS[name]
        for variable, value in client.items():
            monkeypatch.setenv(variable, value)
        return dict(os.environ)

    monkeypatch.chdir(tmp_path)
    with mlflow_server(tmp_path, port, "--app-name", "basic-auth", **server):
        yield as_user


def let_in(name: str, environment: dict[str, str], password: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-m", "infra.platform.user", name], environment | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, input=f"{password}\n", capture_output=True, text=True)


def test_a_second_user_registers_and_promotes_what_others_made_and_the_admin_alone_lets_him_in(
    signed: Signed, tmp_path: Path, voice_bundle: Path
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.server import get_app_client

    admin = signed("admin")
    assert "12 characters" in one_line(let_in("ada", admin, "short"))
    for _ in range(2):
        done = let_in("ada", admin, PASSWORDS["ada"])
        assert done.stdout.splitlines() == [
            "ada: experiment sonorant: EDIT",
            f"ada: registered_model {CONFIG.model}: MANAGE",
        ], done.stderr
    # the model is created now, after it was granted
    register(voice_bundle, figures(), write_report(tmp_path / "of the admin"), CONFIG, {})
    get_app_client("basic-auth", admin["MLFLOW_TRACKING_URI"]).create_user("bob", PASSWORDS["bob"])
    with pytest.raises(MlflowException, match="Permission denied"):
        store, _ = open_store(), signed("bob")
        store.client.create_run(store.experiment)
    assert "the admin's sign-in" in one_line(let_in("cleo", signed("bob"), "the password of cleo"))
    signed("ada")
    other = renamed(voice_bundle, tmp_path / "other")
    found = register(other, figures(), write_report(tmp_path / "of ada"), CONFIG, {})
    assert found.version == 2 and promote(CONFIG.model, GATES).passed
