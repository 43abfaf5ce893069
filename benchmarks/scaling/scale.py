"""Does a step cost as much per utterance of a large corpus as of a small one?

    python -m benchmarks scale

Synthetic corpora of 10,000, 100,000 and 1,000,000 utterances pass through every step between recordings and training,
each in a separate process. Steps on rows (`scale_rows.py`: manifest, splits, summary, index, plan, ledger, prompts)
use complete manifests and indexes. Steps on files (`scale_files.py`: import, `prepare`, `features`, reading, codes)
use recordings of half a second; longer ones add cost per audio, not per utterance. `--sizes` and `--file-sizes`
choose the sizes of either.

Measured per utterance: CPU time, peak memory above the process's initial memory, and files left. The claim: none
grows by more than 20 % from one size to the next. Fixed costs make small corpora more expensive, which is no fault;
costs below a microsecond, 200 bytes or a hundredth of a file count as nothing. CPU time is the minimum of several
measurements of a short step, because other work can only add. Files are read from disk at every size; those of a
small corpus would otherwise still be in memory. Costs of 45 million utterances (100,000 hours) are extrapolated from
the largest size and marked so.

Not measured: DVC and MLflow, recognisers, the audit, training itself, and several machines.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from benchmarks.scaling.scale_files import ON_FILES
from benchmarks.scaling.scale_rows import ON_ROWS
from benchmarks.scaling.scale_worker import Job

SIZES = (10_000, 100_000, 1_000_000)
WANTED = 45_000_000
"""Number of utterances in 100,000 hours."""
GROWTH = 1.2
"""Maximum ratio of an utterance's cost to that in the next smaller corpus."""
FLOORS = {"cpu_us": 1.0, "bytes": 200.0, "files": 0.01}
"""Costs per utterance that count as nothing."""
SHORT = {"sizes": [100, 200], "file_sizes": [20, 40]}

Costs = dict[str, float | None]


def measure(step: str, utterances: int, folder: Path) -> Costs:
    found = ask("benchmarks.scaling.scale_worker", step, job=asdict(Job(utterances=utterances, folder=str(folder))))
    return {
        "cpu_us": round(1e6 * found["cpu_seconds"] / utterances, 3),
        "bytes": None if found["bytes"] is None else round(found["bytes"] / utterances, 1),
        "files": round(found["files"] / utterances, 4),
    }


def growth(costs: dict[int, Costs]) -> dict[str, float]:
    """Maximum ratio, by kind of cost, of an utterance's cost to that in the next smaller corpus."""
    sizes, found = sorted(costs), {}
    for kind, floor in FLOORS.items():
        figures = [costs[size][kind] for size in sizes]
        known = [max(figure, floor) for figure in figures if figure is not None]
        found[kind] = round(max((after / before for before, after in pairwise(known)), default=1.0), 3)
    return found


def extrapolated(costs: dict[int, Costs]) -> dict[str, Any]:
    """Costs of `WANTED` utterances at the largest size's costs."""
    largest = max(costs)
    cpu, memory, files = (costs[largest][kind] for kind in ("cpu_us", "bytes", "files"))
    return {
        "from": largest,
        "cpu_hours": round(WANTED * (cpu or 0.0) / 3.6e9, 2),
        "gib": None if memory is None else round(WANTED * memory / 2**30, 2),
        "files": round(WANTED * (files or 0.0)),
    }


def judged(steps: dict[str, dict[int, Costs]]) -> tuple[dict[str, Any], dict[str, bool]]:
    result = {
        step: {
            "works_on": "rows" if step in ON_ROWS else "files",
            "an_utterance": {str(size): cost for size, cost in costs.items()},
            "growth": growth(costs),
            f"extrapolated_to_{WANTED}": extrapolated(costs),
        }
        for step, costs in steps.items()
    }
    claims = {
        f"{step}: an utterance costs at most {GROWTH - 1:.0%} more in a larger corpus": all(
            grown <= GROWTH for grown in growth(costs).values()
        )
        for step, costs in steps.items()
    }
    return result, claims


def measure_all(sizes: Sequence[int], file_sizes: Sequence[int], folder: Path) -> dict[str, dict[int, Costs]]:
    steps: dict[str, dict[int, Costs]] = {step: {} for step in (*ON_ROWS, *ON_FILES)}
    with tqdm(total=len(ON_ROWS) * len(sizes) + len(ON_FILES) * len(file_sizes), desc="scale", unit="step") as bar:
        for kind, chosen in ((ON_ROWS, sizes), (ON_FILES, file_sizes)):
            for size in sorted(chosen):
                for step in kind:
                    steps[step][size] = measure(step, size, folder / str(size))
                    bar.update()
                shutil.rmtree(folder / str(size))
    return steps


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=list(SIZES), help="utterances of steps on rows")
    add("--file-sizes", nargs="+", type=int, default=list(SIZES), help="utterances of steps on files")
    add("--folder", type=Path, help="where to work (default: a temporary folder); a million need some 40 GB")
    arguments = options(parser, SHORT)
    if min(*arguments.sizes, *arguments.file_sizes) < 1:
        parser.error("a size is at least 1")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        steps = measure_all(arguments.sizes, arguments.file_sizes, Path(folder))
    result, claims = judged(steps)
    finish("scale", result, claims, arguments)


if __name__ == "__main__":
    main()
