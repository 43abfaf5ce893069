"""What orchestration and tracking cost: the same stages bare, with MLflow, through DVC, through the flow; and a run
with nothing to do.

    python -m benchmarks overhead

Each stage imports nothing heavy and works for --work seconds, so all beyond that is overhead. MLflow is imported and
fed beside the work, as in the real stages. Every way starts from a fresh project. The fastest of several rounds counts,
because other work on the machine can only add time.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.report import command, finish, options
from testbed.processes import isolated

STAGES = ("first", "second", "third")
STAGE = """\
import contextlib, os, pathlib, sys, time
from sonorant.registry.tracking import stage_run
with stage_run(sys.argv[1], {"work": sys.argv[2]}) if os.environ.get("TRACKED") else contextlib.nullcontext():
    time.sleep(float(sys.argv[2]))
    pathlib.Path(sys.argv[1]).write_text(sys.argv[1])
"""
FLOW = """\
import json, time
start = time.perf_counter()
from flows.train_and_export import train_and_export
imported = time.perf_counter()
state = train_and_export(register=False, return_state=True)
seconds = {"stages": state.result()["seconds"], "import": imported - start, "run": time.perf_counter() - imported}
print(json.dumps(seconds))
"""
ADDING = ("mlflow", "mlflow_dvc", "mlflow_dvc_prefect")
MAX_ADDED, MAX_NOTHING = 5.0, 10.0
SHORT = {"work": 0.1, "rounds": 1}


def main() -> None:
    """Measure and print the verdict."""
    parser = command(__doc__)
    parser.add_argument("--work", type=float, default=3.0, help="seconds a stage works (default 3)")
    parser.add_argument("--rounds", type=int, default=2, help="how often everything is measured (default 2)")
    arguments = options(parser, SHORT)
    rounds = []
    with tempfile.TemporaryDirectory() as folder, tqdm(total=6 * arguments.rounds, desc="overhead", unit="way") as bar:
        for number in range(arguments.rounds):
            (Path(folder) / str(number)).mkdir()
            rounds.append(measure(Path(folder) / str(number), arguments.work, bar))
    result = summary({way: min(measured[way] for measured in rounds) for way in rounds[0]})
    most = max(result[f"added_s_per_stage_{way}"] for way in ADDING)
    nothing = f"a run with nothing to do takes at most {MAX_NOTHING:g} s"
    claims = {
        f"MLflow, DVC and Prefect together add at most {MAX_ADDED:g} s to a stage": most <= MAX_ADDED,
        f"{nothing} by dvc repro": result["nothing_to_do_s_dvc"] <= MAX_NOTHING,
        f"{nothing} in the flow": result["nothing_to_do_s_flow"] <= MAX_NOTHING,
    }
    finish("overhead", result, claims, arguments)


def measure(folder: Path, work: float, bar: Any) -> dict[str, float]:
    """Seconds of all stages together, by each way; the flow's own start is separate."""
    found = {}
    for way in ("bare", "mlflow"):
        found[way] = by_hand(project(folder / way, work), work, tracked=way == "mlflow")
        bar.update()
    repro = [sys.executable, "-m", "dvc", "repro"]
    by_dvc, by_flow = project(folder / "dvc", work), project(folder / "flow", work)
    for way in ("mlflow_dvc", "nothing_dvc"):
        found[way] = seconds(repro, by_dvc, tracked=True)
        bar.update()
    for way in ("mlflow_dvc_prefect", "nothing_flow"):
        flow = run_flow(by_flow)
        found[way] = sum(flow["stages"].values())
        found["flow_start"] = flow["import"] + flow["run"] - found[way]
        bar.update()
    return found


def summary(found: dict[str, float]) -> dict[str, float]:
    """What each way adds to a bare stage, and what a run with nothing to do takes."""
    count = len(STAGES)
    figures = {"stages": count, "bare_s_per_stage": found["bare"] / count}
    figures |= {f"added_s_per_stage_{way}": (found[way] - found["bare"]) / count for way in ADDING}
    figures |= {"flow_start_s": found["flow_start"]}
    figures |= {f"nothing_to_do_s_{way}": found[f"nothing_{way}"] for way in ("dvc", "flow")}
    return {name: round(value, 2) for name, value in figures.items()}


def project(root: Path, work: float) -> Path:
    """A new DVC project with a chain of stages."""
    root.mkdir()
    (root / "stage.py").write_text(STAGE)
    lines = ["stages:"]
    for before, name in zip((None, *STAGES), STAGES, strict=False):
        deps = f"[stage.py, {before}]" if before else "[stage.py]"
        lines.append(f"  {name}: {{cmd: python stage.py {name} {work}, deps: {deps}, outs: [{name}]}}")
    (root / "dvc.yaml").write_text("\n".join(lines) + "\n")
    (root / ".dvcignore").write_text("runs\n")
    seconds([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], root, tracked=False)
    return root


def by_hand(root: Path, work: float, tracked: bool) -> float:
    """Seconds of all stages, one after the other, as a person would type them."""
    return sum(seconds([sys.executable, "stage.py", name, str(work)], root, tracked) for name in STAGES)


def run_flow(root: Path) -> dict[str, Any]:
    """The flow in a process of its own, which starts a Prefect server for itself: seconds of each stage, of import, of
    the whole run."""
    (root / "runs" / "prefect").mkdir(parents=True, exist_ok=True)
    return json.loads(run([sys.executable, "-c", FLOW], root, tracked=True).splitlines()[-1])


def seconds(command: list[str], root: Path, tracked: bool) -> float:
    """Wall time of a command."""
    start = time.perf_counter()
    run(command, root, tracked)
    return time.perf_counter() - start


def run(command: list[str], root: Path, tracked: bool) -> str:
    """Run a command in a project that has stores of its own; what it printed."""
    env = isolated() | {
        "PREFECT_HOME": str(root / "runs" / "prefect"),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        **({"TRACKED": "1"} if tracked else {}),
    }
    return subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
