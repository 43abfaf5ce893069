"""Select candidates (`<runtime>/<variant>`) to evaluate and time, and measure their disk and memory use.

When run as a program, measures its memory use, with JSON on stdin and stdout.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures
from sonorant.files import read_json
from sonorant.processes import usable_cores
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import BASELINE, REFERENCE, runtime_row

STATUS = Path("/proc/self/status")


def read_parity(path: Path) -> Figures:
    """Read the report of `verify`: `{candidate: {passed, failed, max_abs_diff: {graph}, tolerance: {graph}} | "not
    run: <why>"}`. Raises SonorantError naming the file if it is malformed or lacks `BASELINE`."""
    try:
        parity: Figures = {
            candidate: row if isinstance(row, str) else _parity(row) for candidate, row in read_json(path).items()
        }
        if not parity[BASELINE]["passed"]:
            raise SonorantError(f"{path}: {BASELINE} failed: {parity[BASELINE]['failed']}; fix its export first")
        return parity
    except (AttributeError, KeyError, TypeError) as error:
        raise SonorantError(f"{path}: not a report of the stage verify ({error}); run it again") from None


def _parity(row: Figures) -> Figures:
    graphs = {graph: found for graph, found in (row.get("graphs") or {}).items() if not isinstance(found, str)}
    figures = {key: {graph: found[key] for graph, found in graphs.items()} for key in ("max_abs_diff", "tolerance")}
    tokens = {"tokens": row["tokens"]} if "tokens" in row else {}  # autoregressive voices only
    return {"passed": row["passed"], "failed": row["failed"], **figures, **tokens}


def judged_variants(parity: Figures) -> list[str]:
    """Return the variants that passed under ONNX Runtime on the CPU, fp32 first."""
    runtime, first = BASELINE.split("/")
    passed = [candidate for candidate, row in parity.items() if isinstance(row, dict) and row["passed"]]
    variants = [candidate.split("/", 1)[1] for candidate in passed if candidate.startswith(f"{runtime}/")]
    return sorted(variants, key=lambda variant: variant != first)


def timed_candidates(parity: Figures) -> dict[str, str | None]:
    """Return why each candidate is not timed, or None if it is."""
    return {candidate: _why_not(candidate, row) for candidate, row in parity.items()}


def _why_not(candidate: str, row: Any) -> str | None:
    if isinstance(row, str):
        return row.removeprefix("not run: ")
    if not row["passed"]:
        return f"failed verify: {row['failed']}"
    if not runtime_row(candidate.split("/")[0]).standalone and candidate != REFERENCE:
        return "not part of a bundle; time it with `python -m benchmarks latency` (language models: `decoding`)"
    return None


def certainly_slower(speed: Mapping[str, Any], variant: str) -> str | None:
    """Return a reason if a variant is slower than `BASELINE` beyond the 95 % interval at every length, thread count and
    timed runtime, else None. `speed` is the result of `latency.measure`."""
    timed = {
        candidate: [figure for of_threads in found.values() for figure in of_threads.values()]
        for candidate, found in speed.items()
        if candidate.endswith(f"/{variant}") and candidate not in (BASELINE, REFERENCE) and not isinstance(found, str)
    }
    cells = [figure for figures in timed.values() for figure in figures]
    if not cells or any(figure["over_fp32_ci95"][1] >= 1.0 for figure in cells):
        return None
    fastest = max(figure["over_fp32"] for figure in cells)
    return f"slower than fp32: at best {fastest:.2f} times its speed under {', '.join(timed)}; not judged"


def size(bundle: Bundle) -> Figures:
    """Return the sizes in bytes of the bundle and each complete variant. `sha256` identifies the measured graphs."""
    graphs = bundle.description.graphs
    files = {
        variant: {graph: graphs[graph].variants[variant] for graph in bundle.graphs}
        for variant in graphs[bundle.graphs[0]].variants
        if all(variant in graphs[graph].variants for graph in bundle.graphs)
    }
    whole = {variant: sum(file.bytes for file in found.values()) for variant, found in files.items()}
    sizes: Figures = {
        variant: {
            "bytes": whole[variant],
            "graphs": {graph: file.bytes for graph, file in found.items()},
            "over_fp32": round(whole[variant] / whole["fp32"], 4),
            "sha256": {graph: file.sha256 for graph, file in found.items()},
        }
        for variant, found in files.items()
    }
    return sizes | {"bundle_bytes": sum(file.stat().st_size for file in bundle.folder.rglob("*") if file.is_file())}


def alone(tokens: Ints) -> tuple[Ints, Ints, Ints, Floats]:
    """Return the arguments of `Voice.synthesize` for one sentence (N, 3) by the first speaker."""
    return tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32)


def measure_memory(
    bundle: Path, trained: tuple[Path, Path], candidates: Mapping[str, str | None], tokens: Ints
) -> Figures:
    """Measure process memory with one thread: `{candidate: {loaded_mib, peak_mib} | "not run: <why>"}`. `tokens` are
    phoneme ids (N, 3) of the longest sentence."""
    run = {candidate for candidate, reason in candidates.items() if not reason}
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = {candidate: pool.submit(_measured, bundle, trained, candidate, tokens) for candidate in run}
    return {
        candidate: f"not run: {reason}" if reason else found[candidate].result()
        for candidate, reason in candidates.items()
    }


def _measured(bundle: Path, trained: tuple[Path, Path], candidate: str, tokens: Ints) -> dict[str, float] | str:
    if not STATUS.exists():
        return "not run: this system has no /proc"
    job = {
        "bundle": str(bundle),
        "candidate": candidate,
        "trained": [str(folder) for folder in trained],
        "tokens": tokens.tolist(),
    }
    command = [sys.executable, "-m", "sonorant.evaluation.measured_candidates"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        return f"not run: {(done.stderr.strip().splitlines() or [f'exited with status {done.returncode}'])[-1]}"
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    from sonorant.speech.voice import Voice

    job = json.load(sys.stdin)
    runtime, variant = job["candidate"].split("/")
    voice = Voice.load(job["bundle"], runtime, 1, variant=variant, trained=tuple(map(Path, job["trained"])))
    loaded = _status("VmRSS")
    tokens = np.array(job["tokens"], np.int64)
    voice.synthesize(*alone(tokens))
    # Not getrusage: its maximum survives exec from the parent process.
    print(json.dumps({"loaded_mib": loaded, "peak_mib": _status("VmHWM")}))


def _status(key: str) -> float:
    [kibibytes] = re.findall(rf"^{key}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return round(int(kibibytes) / 1024, 1)


if __name__ == "__main__":
    main()
