"""`sonorant plan corpus`: what is measured is what the stages do, and the rest is multiplied."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sonorant.errors import SonorantError
from sonorant.extras.planning.corpus_plan import ALIGNERS, AUDIT, Machines, Rates, forecast, table
from tasks.plan_corpus import read_hours
from tests.support.command import error_line, run_command
from tests.support.prepared_corpus import prepare_alone, write_recordings

RATES = Rates(
    recordings=100,
    utterance_seconds=8.0,
    prepare=30.0,
    features=10.0,
    recordings_gb=0.1,
    store_gb=0.24,
    id_bytes=10.0,
)
ONE = Machines(cores=1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings that `prepare` has seen."""
    folder = tmp_path_factory.mktemp("project")
    write_recordings(folder, 40)
    prepare_alone(folder)
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["audit"]["sources"] = []
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    return folder


def planned(project: Path, *words: str) -> dict:
    """The JSON of the command in a project."""
    given = ("--corpus", "corpus", "--prepared", "alone", "--json", *words)
    done = run_command("tasks.plan", "corpus", *given, cwd=project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_store_takes_what_the_stage_features_writes(project: Path) -> None:
    found = planned(project, "--hours", "2", "--recordings", "1000")
    command = ("--corpus", "corpus", "--prepared", "alone", "--out", "features", "--processes", "1")
    done = run_command("tasks.features", *command, cwd=project)
    assert done.returncode == 0, done.stderr
    objects = [path for path in (project / "runs/store/objects").rglob("*") if path.is_file()]
    written = sum(path.stat().st_size for path in objects)
    hours = found["measured"]["recordings"] * found["measured"]["utterance_seconds"] / 3600
    assert found["measured"]["store_gb"] * hours * 1e9 == pytest.approx(written, rel=0.01)
    assert found["measured"]["recordings"] == 36, "two of forty are broken, two are missing"
    [plan] = found["plans"]
    assert plan["disk_gb"]["store"] == pytest.approx(2 * found["measured"]["store_gb"])
    assert "audit" not in plan["cpu_hours"]
    assert min(found["measured"]["prepare"], found["measured"]["features"]) > 0


def test_a_plan_is_multiplied_and_says_so() -> None:
    small, large = forecast(RATES, 100, ONE), forecast(RATES, 10_000, ONE)
    assert (small["utterances"], large["utterances"]) == (45_000, 4_500_000)
    assert small["cpu_hours"]["prepare"] == pytest.approx(30 * 100 / 3600)
    assert large["cpu_hours"]["prepare"] == pytest.approx(100 * small["cpu_hours"]["prepare"])
    assert small["cpu_hours"]["audit"] == pytest.approx(AUDIT * 100 / 3600)
    assert small["cpu_hours"]["aligners"] == large["cpu_hours"]["aligners"] == ALIGNERS / 3600, "they learn once"
    assert large["memory_gib"] == pytest.approx(100 * small["memory_gib"])
    assert (small["settings"]["train_<model>.window_shards"], small["disk_gb"]["window"]) == (None, None)
    assert large["disk_gb"]["window"] == pytest.approx(64 * large["disk_gb"]["store"] / large["shards"])
    assert "Nothing of this size has run" in table(RATES, [small, large])


def test_machines_share_what_is_spread_and_nothing_else() -> None:
    alone, shared = (forecast(RATES, 1000, replace(ONE, machines=count)) for count in (1, 4))
    cpu = alone["cpu_hours"]
    assert shared["cpu_hours"] == cpu
    shares = cpu["prepare"] + cpu["features"] + cpu["audit"]
    assert alone["hours_by_the_clock"] == pytest.approx(shares + cpu["aligners"] + cpu["in one process"])
    assert shared["hours_by_the_clock"] == pytest.approx(shares / 4 + cpu["aligners"] / 2 + cpu["in one process"])
    assert cpu["in one process"] > 0


def test_what_has_no_price_costs_no_number() -> None:
    assert forecast(RATES, 1, ONE)["cost"] == {"preparation": None, "store_a_month": None}
    priced = forecast(RATES, 1000, replace(ONE, machines=2, price=3.0, gb_month=0.02))
    assert priced["cost"]["preparation"] == pytest.approx(3.0 * 2 * priced["hours_by_the_clock"])
    assert priced["cost"]["store_a_month"] == pytest.approx(0.02 * 240)


@pytest.mark.parametrize("text", ["", "0", "ten", "10,-1", "inf", "nan"])
def test_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SonorantError, match=r"--hours .*: give hours above 0, such as 1,100,10000"):
        read_hours(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--price", "-1"], "--price -1: give a price of at least 0"),
        (["--gb-month", "nan"], "--gb-month nan: give a price of at least 0"),
        (["--cores", "0"], "1 machines of 0 cores: both must be at least 1"),
        (["--recordings", "0"], "--recordings 0: give at least 1"),
        (["--prepared", "nowhere"], "nowhere/manifest.jsonl"),
    ],
)
def test_bad_input_is_one_line(project: Path, words: list[str], said: str) -> None:
    given = ["--corpus", "corpus", "--prepared", "alone", "--hours", "10"]
    assert said in error_line(run_command("tasks.plan", "corpus", *given, *words, cwd=project))
