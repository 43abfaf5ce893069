"""`make serve STACK=full`: real PostgreSQL, S3 store, MLflow, Prefect and worker, and who is let in."""

import base64
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from infra.platform.env_file import make_env, read_env
from infra.platform.services import BUCKETS, DATABASES
from sonorant.errors import SonorantError
from tests.support.platform import Stack
from tests.support.processes import TOKEN, processes_of

pytestmark = pytest.mark.long


def status(url: str, sign_in: str = "") -> int:
    """HTTP status of a GET, with `<user>:<password>` if it is given."""
    request = urllib.request.Request(url)
    if sign_in:
        request.add_header("Authorization", f"Basic {base64.b64encode(sign_in.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_without_the_password_nobody_is_let_in(stack: Stack) -> None:
    client = stack.client
    prefect, mlflow = f"{client['PREFECT_API_URL']}/admin/version", f"{client['MLFLOW_TRACKING_URI']}/version"
    runs = f"{client['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/experiments/search?max_results=1"
    assert status(prefect, client["PREFECT_API_AUTH_STRING"]) == 200
    assert status(runs, f"admin:{client['MLFLOW_TRACKING_PASSWORD']}") == 200
    for url in (prefect, runs, mlflow):
        assert status(url) == 401 or url == mlflow
        assert status(url, "admin:password1234") == 401 or url == mlflow
    database = ["infra.platform.databases"]
    own = {"PGHOST": "127.0.0.1", "PGPORT": stack.environment["SONORANT_POSTGRES_PORT"], "PGUSER": "postgres"}
    own |= {f"{role.upper()}_DB_PASSWORD": "changed" for role in DATABASES}
    done = stack.module(*database, **own, PGPASSWORD="wrong")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert 'password authentication failed for user "postgres"' in done.stderr


def test_no_secret_is_in_a_command_a_log_or_a_file_that_others_may_read(stack: Stack) -> None:
    secrets = [value for name, value in stack.secrets.items() if name != "S3_ACCESS_KEY"]
    secrets += [stack.secrets["PREFECT_AUTH"].split(":")[1]]
    commands = [" ".join(process.cmdline()) for process in processes_of(stack.root)]
    commands += [" ".join(process.cmdline()) for process in psutil.process_iter() if process.name() == "postgres"]
    assert any("mlflow" in command for command in commands)
    assert [command for command in commands for secret in secrets if secret in command] == []
    readable = [file for file in stack.folder.rglob("*") if file.is_file() and file.stat().st_mode & 0o077]
    logs = [file for file in stack.folder.rglob("*.log") if file.is_file()]
    assert {"postgres.log", "s3.log", "mlflow.log", "prefect.log", "worker.log"} <= {file.name for file in logs}
    for file in {*readable, *logs}:
        assert [secret for secret in secrets if secret.encode() in file.read_bytes()] == [], file


def test_only_loopback_listens(stack: Stack) -> None:
    pids = {process.pid for process in processes_of(stack.root)} | {stack.process("postgres").pid}
    listening = [
        each for each in psutil.net_connections("inet") if each.pid in pids and each.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 5
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}


def test_a_second_start_starts_nothing_and_a_killed_server_comes_back_alone(stack: Stack) -> None:
    before = {name: stack.process(name).pid for name in ("postgres", "s3", "mlflow", "prefect", "worker")}
    again = stack.start()
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"set -a; . {stack.folder}/client.env; set +a\n"
    stack.kill("s3")
    assert stack.start().returncode == 0
    after = {name: stack.process(name).pid for name in before}
    assert {name for name in before if before[name] != after[name]} == {"s3"}


def test_jobs_made_databases_buckets_pools_and_deployments_and_may_run_again(stack: Stack) -> None:
    for _ in range(2):
        stack.run("infra.platform.buckets")
    listed = stack.run("-c", "import boto3\nfor b in boto3.client('s3').list_buckets()['Buckets']: print(b['Name'])")
    assert set(listed.split()) == set(BUCKETS)
    assert {each["name"] for each in stack.prefect("deployments/filter", {})} == {"local", "node"}
    assert {each["name"] for each in stack.prefect("work_pools/filter", {})} >= {"sonorant", "sonorant-nodes"}


def test_a_port_in_use_is_one_line_and_starts_nothing(stack: Stack, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = stack.module("infra.platform.native", "start", **{TOKEN: str(tmp_path), "SONORANT_PLATFORM": str(tmp_path)})
    port = stack.environment["SONORANT_POSTGRES_PORT"]
    remedy = "choose another: SONORANT_POSTGRES_PORT=<port> make serve STACK=full"
    assert (done.returncode, done.stderr) == (1, f"error: port {port} is in use; {remedy}\n")
    assert processes_of(tmp_path) == []


def test_secrets_are_random_private_and_kept(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("S3_ACCESS_KEY=mine\nMLFLOW_SECRET_KEY=\n")
    file.chmod(0o644)
    with pytest.raises(SonorantError, match=r"others may read these secrets: chmod 600"):
        make_env(file)
    file.chmod(0o600)
    values, others = make_env(file), make_env(tmp_path / "other")
    assert file.stat().st_mode & 0o777 == 0o600
    assert values["S3_ACCESS_KEY"] == "mine" and read_env(file) == values == make_env(file)
    assert all(values[name] and values[name] != others[name] for name in values)
    file.write_text("A=1\nb c\n")
    with pytest.raises(SonorantError, match=r"\.env:2: no NAME=value"):
        read_env(file)
