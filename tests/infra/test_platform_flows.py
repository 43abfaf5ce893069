import shutil
import sys

from infra.background import Background
from tests.flows.conftest import dvc
from tests.support.platform import ON_THE_FULL_STACK, Stack
from tests.support.platform_project import MODEL

pytestmark = ON_THE_FULL_STACK


def objects(stack: Stack, bucket: str) -> int:
    code = "import boto3\nfrom infra.platform.buckets import objects\n"
    return int(stack.python(f"{code}found = sum(1 for _ in objects(boto3.client('s3'), '{bucket}'))"))


def test_a_deployment_run_ends_in_a_champion_whose_files_came_through_the_proxy(stack: Stack) -> None:
    run = stack.begin()
    assert stack.ended(run) == {run: "COMPLETED"}, stack.logs(run)
    registry = stack.registry()
    assert registry["aliases"]["champion"] == max(registry["versions"])
    champion = registry["versions"][registry["aliases"]["champion"]]
    assert any(name.endswith("voice.json") for name, _ in champion["files"])
    where = f"import mlflow\nfound = mlflow.get_run('{champion['run']}').info.artifact_uri"
    assert stack.python(where).startswith("mlflow-artifacts:"), "clients need no key of the store"
    assert objects(stack, "mlflow") >= len(champion["files"])
    without_keys = {name: "" for name in stack.client if name.startswith("AWS_")}
    said = ["say", "Good morning.", "--voice", f"models:/{MODEL}@champion", "-o", "morning.wav"]
    assert stack.module("sonorant.cli.main", *said, **without_keys).returncode == 0
    assert (stack.root / "morning.wav").stat().st_size > 1000
    assert not (stack.root / "mlartifacts").exists() and not list((stack.root / "runs").glob("mlflow.db*"))


def test_dvc_pushes_to_the_store_and_pulls_from_it_what_is_lost(stack: Stack) -> None:
    data = stack.root / "corpora" / "recordings"
    data.mkdir(exist_ok=True)
    for number in range(20):
        (data / f"{number:02d}.wav").write_bytes(bytes([number]) * 5000)
    before = {file.name: file.read_bytes() for file in data.iterdir()}
    dvc(stack.root, "remote", "add", "-f", "-d", "platform", "s3://dvc")
    dvc(stack.root, "remote", "modify", "platform", "endpointurl", stack.client["AWS_ENDPOINT_URL_S3"])
    dvc(stack.root, "add", "corpora/recordings")
    stack.run("dvc", "push", "corpora/recordings.dvc")
    assert objects(stack, "dvc") >= 21, "the files and the list of them"
    shutil.rmtree(data)
    shutil.rmtree(stack.root / ".dvc" / "cache")
    stack.run("dvc", "pull", "corpora/recordings.dvc")
    assert {file.name: file.read_bytes() for file in data.iterdir()} == before
    refused = stack.module(
        "dvc", "push", "corpora/recordings.dvc", "--remote", "platform", AWS_SECRET_ACCESS_KEY="wrong"
    )
    assert refused.returncode != 0 and "Traceback" not in refused.stderr
    assert stack.client["AWS_SECRET_ACCESS_KEY"] not in (stack.root / ".dvc" / "config").read_text()


def test_eight_flows_at_once_from_two_workers_are_eight_trainings_one_version_and_one_champion(stack: Stack) -> None:
    stack.place_source("of eight flows")
    before = stack.registry(files=False)
    Background(stack.folder / "processes").stop("worker")
    start = ["prefect", "worker", "start", "--pool", "sonorant", "--type", "process", "--limit", "4", "--name"]
    workers, steps = Background(stack.root.parent / "workers"), range(31, 39)
    try:
        for name in ("one", "two"):
            workers.launch(name, [sys.executable, "-m", *start, name], stack.environment | stack.client)
        runs = [stack.begin(overrides={"train_acoustic.steps": each}) for each in steps]
        states = stack.ended(*runs)
        assert states == dict.fromkeys(runs, "COMPLETED"), "\n".join(map(stack.logs, runs))
    finally:
        for name in ("one", "two"):
            workers.stop(name)
        assert stack.start().returncode == 0
    took = {stack.prefect(f"flow_runs/{run}")["labels"]["prefect.worker.name"] for run in runs}
    assert took == {"one", "two"}
    curves = stack.curves()
    for run, count in zip(runs, steps, strict=True):
        assert [sorted(points) for executions, points in curves if run in executions] == [list(range(1, count + 1))]
    after = stack.registry(files=False)
    [new] = after["versions"].keys() - before["versions"].keys()  # all exported the same voice, hence one version
    assert {name: version for name, version in after["versions"].items() if name != new} == before["versions"]
    said = [line for run in runs for line in stack.logs(run).splitlines() if line.startswith(f"models:/{MODEL}/")]
    assert len([line for line in said if "registered" in line]) == len(runs)
    assert {line.split()[0].rstrip(":") for line in said} == {f"models:/{MODEL}/{new}"}
    former = {"previous": champion} if (champion := before["aliases"].get("champion")) else {}
    assert after["aliases"] == {"challenger": new, "champion": new} | former
    assert after["tags"] == {}, "a move of the aliases is not over"
