"""How soon does a fresh process speak, and in how much memory? `python -m benchmarks first_audio`

CPU seconds from the start of the interpreter to the first audio of a short text, alternating with a process that only
imports NumPy and ONNX Runtime, the minimum for any such process.
"""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import shipped, voice_of
from sonorant.speech.bundle import read_bundle
from tasks.stage import run

TIMES = 4.0
"""Maximum ratio of the CPU time to the first audio to that of the imports."""
CPU_SECONDS, MEBIBYTES = 0.5, 120
"""The project's aims for an int8 voice of the family parallel."""
SHORT = {"rounds": 2}


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    parser.add_argument("--rounds", type=int, default=10, help="processes of each kind (default 10)")
    given = options(parser, SHORT)
    with voice_of(given.voice or shipped("parallel"), "parallel") as (voice, weights):
        bundle = voice["bundle"]
        variants = read_bundle(Path(bundle)).description.graphs["encoder"].variants
        variant = "int8" if "int8" in variants else "fp32"
        work = {"imports": ("import",), "first_audio": ("speak", bundle, variant)}
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in work}
        for _ in range(given.rounds + 1):  # the first process of each kind also loads the files into memory
            for name, words in work.items():
                found[name].append(ask("benchmarks.speaking.fresh_process", *words))
    result: dict[str, Any] = {"weights": weights, "variant": variant, "rounds": given.rounds}
    for name, rounds in found.items():
        seconds = [one["cpu_s"] for one in rounds[1:]]
        result[name] = {"cpu_s": round(median(seconds), 3), "least_cpu_s": min(seconds)}
    ratios = [ours["cpu_s"] / floor["cpu_s"] for ours, floor in zip(*reversed(found.values()), strict=True)]
    result["times_the_imports"] = round(median(ratios[1:]), 2)
    result["peak_mib"] = max(one["peak_mib"] or 0 for one in found["first_audio"])
    claims = {
        f"a fresh process is heard within {TIMES:g} times the CPU time of importing NumPy and ONNX Runtime": (
            result["times_the_imports"] <= TIMES
        ),
        f"it is heard within {CPU_SECONDS} seconds of CPU time, at best": (
            result["first_audio"]["least_cpu_s"] <= CPU_SECONDS
        ),
        f"it speaks in at most {MEBIBYTES} MiB": result["peak_mib"] <= MEBIBYTES,
    }
    finish("first_audio", result, claims, given)


if __name__ == "__main__":
    run(main)
