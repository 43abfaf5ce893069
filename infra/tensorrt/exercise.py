"""The whole TensorRT path of a voice where TensorRT and a GPU are: build, keep, ladder, latency, tests; one JSON line
at the end.

Each step is the command that a person would run. Knows nothing of engines. Where TensorRT is absent it says so and ends
with status 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import command, finish, options
from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.key import this_machine
from sonorant.files import read_json
from sonorant.speech.bundle import read_bundle
from tasks.build_engine import all_variants
from tasks.stage import run

TESTS = "tests/extras/tensorrt/test_gpu.py"
"""The others run anywhere, and one of them only where TensorRT is absent."""

FOLDERS = {"predictor": "predictor", "waveform": "waveform", "quantized": "quantized"}
"""Options of the commands run here, and the folders below --models that they are given."""


def main() -> None:
    """Run all steps, say what each found."""
    parser = command(__doc__)
    parser.add_argument("--voice", type=Path, required=True, help="voice bundle with all its variants")
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("models"),
        help="folder of predictor, waveform and quantized (default: models)",
    )
    parser.add_argument(
        "--features", type=Path, default=Path("data/features"), help="feature store, for real phoneme sequences"
    )
    arguments = options(parser, {})
    machine = this_machine()
    bundle = read_bundle(arguments.voice)
    candidates = [f"tensorrt/{variant}" for variant in all_variants(bundle)]
    built, kept = _build(arguments.voice), _build(arguments.voice)
    ladder = _verify(arguments.voice, arguments.models, arguments.features)
    latency = _latency(arguments.voice, arguments.models)
    tests = last_line(_run("-m", "pytest", "-rs", TESTS, accept=(0, 1)), "passed|failed|skipped|error")
    claims = {
        "every graph of every variant becomes an engine": len(built) == len(bundle.graphs) * len(candidates),
        "an engine that fits is kept": all(line.endswith("up to date") for line in kept),
        "every variant passes the ladder": all(passed(ladder.get(candidate)) for candidate in candidates),
        "every variant is timed": not set(latency["not_run"]) & set(candidates),
        "the tests that need TensorRT ran": all_ran(tests),
    }
    found = {
        "tensorrt": machine.tensorrt,
        "gpu": machine.gpu,
        "built": built,
        "ladder": ladder,
        "latency": latency,
        "tests": tests,
    }
    finish("tensorrt", found, claims, arguments)


def _build(voice: Path) -> list[str]:
    return _run("-m", "tasks.build_engine", "--voice", str(voice)).splitlines()


def _verify(voice: Path, models: Path, features: Path) -> dict[str, Any]:
    """The ladder's report, of TensorRT alone."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "parity.json"
        named = [(f"--{name}", str(models / folder)) for name, folder in FOLDERS.items() if (models / folder).is_dir()]
        given = [word for pair in named for word in pair]
        _run("-m", "tasks.verify", "--voice", str(voice), *given, "--features", str(features), "--out", str(report))
        return _of_tensorrt(read_json(report))


def _latency(voice: Path, models: Path) -> dict[str, Any]:
    """The latency table's verdict and what of TensorRT was not timed."""
    given = [word for name, folder in FOLDERS.items() for word in (f"--{name}", str(models / folder))]
    said = _run(
        "-m", "benchmarks.speaking.latency", "--voice", str(voice), *given, accept=(0, 1)
    )  # 1: one of its own claims does not hold
    verdict = json.loads(last_line(said, r'^\{"benchmark"'))
    return {
        "not_run": _of_tensorrt(verdict["result"]["not_run"]),
        "claims": verdict["claims"],
        "table": verdict["result"],
    }


def _of_tensorrt(by_candidate: dict[str, Any]) -> dict[str, Any]:
    return {name: found for name, found in by_candidate.items() if name.startswith("tensorrt/")}


def passed(found: object) -> bool:
    """Whether the ladder's report of a candidate says so."""
    return isinstance(found, dict) and found["passed"] is True


def all_ran(summary: str) -> bool:
    """Whether a last line of pytest counts tests that passed and none that did anything else."""
    return re.search(r"\d+ passed", summary) is not None and re.search("skipped|failed|error", summary) is None


def last_line(output: str, wanted: str) -> str:
    """The last line that the regular expression `wanted` is found in. Raises SonorantError if there is none."""
    found = [line for line in output.splitlines() if re.search(wanted, line)]
    if not found:
        raise SonorantError("a step ended without its verdict; see above")
    return found[-1]


def _run(*arguments: str, accept: tuple[int, ...] = (0,)) -> str:
    """What a command of this Python prints; its progress goes on to the terminal. Raises SonorantError if it fails."""
    print(f"$ python {' '.join(arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode not in accept:
        raise SonorantError(f"python {' '.join(arguments)}: ended with status {done.returncode}; see above")
    return done.stdout.strip()


if __name__ == "__main__":
    run(main)
