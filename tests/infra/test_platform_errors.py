"""A wrong password, key or token is one line that names it."""

import subprocess

import pytest

from tests.support.platform import Stack

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


def test_register_and_promote_with_a_wrong_password(stack: Stack) -> None:
    stack.place_voice()
    for task in ("register", "promote"):
        said = one_line(stack.module(f"tasks.{task}", MLFLOW_TRACKING_PASSWORD="wrong"))
        assert "MLflow" in said and "wrong" not in said
