"""What goes wrong with a store is one line that names it: a wrong password or token, a full disk, a bucket that is
not there."""

import subprocess

import pytest

from infra.platform.programs import juicefs
from tests.support.platform import Stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line of an error; fails for anything else."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0].removeprefix("error: ")


def test_the_check_says_what_is_well(stack: Stack) -> None:
    said = stack.run("infra.platform.check").splitlines()
    assert [line.split()[0] for line in said] == ["Prefect", "MLflow", "bucket", "bucket"]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PREFECT_API_AUTH_STRING", "sonorant:wrong", "the sign-in is refused; see PREFECT_API_AUTH_STRING"),
        ("MLFLOW_TRACKING_PASSWORD", "wrong", "see MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_a_wrong_password(stack: Stack, variable: str, value: str, says: str) -> None:
    assert says in one_line(stack.module("infra.platform.check", **{variable: value}))


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_SECRET_ACCESS_KEY", "wrong-secret"), ("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SESSION_TOKEN", "old")],
)
def test_keys_and_tokens_that_the_store_refuses(stack: Stack, variable: str, value: str) -> None:
    done = stack.module("infra.platform.check", **{variable: value})
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in lines] == ["bucket 'mlflow'", "bucket 'dvc'"]
    assert all("refuses the access key, its secret or the session token" in line for line in lines)


def test_a_bucket_that_is_not_there(stack: Stack) -> None:
    stack.python("import boto3\nfrom infra.platform.buckets import objects\ns = boto3.client('s3')\n"
                 "[s.delete_object(Bucket='dvc', Key=key) for key, _ in list(objects(s, 'dvc'))]\n"
                 "found = s.delete_bucket(Bucket='dvc')['ResponseMetadata']['HTTPStatusCode']")  # fmt: skip
    said = one_line(stack.module("infra.platform.check"))
    assert said == "bucket 'dvc': there is no such bucket; make it: python -m infra.platform.buckets"
    stack.run("infra.platform.buckets")
    stack.run("infra.platform.check")


def test_a_full_store_refuses_in_one_line_and_keeps_what_it_has(stack: Stack) -> None:
    stack.place_voice()
    stack.run("tasks.register")
    before = stack.registry()
    quota = [juicefs(), "config", "--yes", f"sqlite3://{stack.folder}/s3/volume.db"]
    subprocess.run([*quota, "--inodes", "1"], check=True, capture_output=True)
    try:
        wait_until(lambda: stack.module("infra.platform.check").returncode == 1)  # the gateway reads its quota at times
        lines = stack.module("infra.platform.check").stderr.strip().splitlines()
        assert [line for line in lines if "the store's disk or quota is full" not in line] == []
        stack.place_voice("full")
        assert "MLflow" in one_line(stack.module("tasks.register"))
        assert stack.registry() == before
    finally:
        subprocess.run([*quota, "--inodes", "0"], check=True, capture_output=True)
    wait_until(lambda: stack.module("infra.platform.check").returncode == 0)
    stack.run("tasks.register")
    assert len(stack.registry()["versions"]) == len(before["versions"]) + 1


def test_register_and_promote_with_a_wrong_password(stack: Stack) -> None:
    stack.place_voice()
    for task in ("register", "promote"):
        said = one_line(stack.module(f"tasks.{task}", MLFLOW_TRACKING_PASSWORD="wrong"))
        assert "MLflow" in said and "wrong" not in said
