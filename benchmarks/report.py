"""Shared by all benchmarks: the command line, the machine's description, and the verdict."""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.comparison import compare
from sonorant.files import read_json, write_json
from sonorant.processes import usable_cores
from tasks.origin import origin_tags

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "torch", "onnxruntime", "prefect", "dvc", "mlflow")


def machine() -> dict[str, Any]:
    """Processor, usable cores, GPUs, memory in GiB, system and versions, but nothing that identifies the machine."""
    return {
        "cpu": _processor(),
        "cores": usable_cores(),
        "gpu": _gpu(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: found for package in _PACKAGES if (found := _version(package))},
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def command(doc: str | None) -> argparse.ArgumentParser:
    """A benchmark's command line, described by its module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def options(parser: argparse.ArgumentParser, short: dict[str, Any]) -> argparse.Namespace:
    """Parse a benchmark's command line with --save and --short; `short` holds the short form's defaults."""
    parser.add_argument("--save", action="store_true", help="also write benchmarks/results/<name>.json")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="an earlier result: print which times moved beyond noise"
    )
    parser.add_argument("--short", action="store_true", help="only see that it runs, in minutes; nothing is saved")
    if parser.parse_known_args()[0].short:
        parser.set_defaults(**short)
    return parser.parse_args()


def finish(
    name: str, result: dict[str, Any], claims: dict[str, bool], given: argparse.Namespace, *, measures: bool = True
) -> None:
    """Print the verdict as the last line, in JSON, and exit with status 1 if a claim does not hold.

    `claims` maps each claim, in words, to whether it held. --save also writes the verdict to
    benchmarks/results/<name>.json, with the commit. In the short form, claims about measurements (times, memory,
    words) may fail; claims about bits (`measures` is false) may not.
    """
    holds = all(claims.values())
    verdict = {"benchmark": name, "holds": holds, "claims": claims, "result": result, "machine": machine()}
    if given.against:
        moved = compare(read_json(given.against), verdict)
        print(json.dumps(moved, indent=1), file=sys.stderr)
    if given.save and not given.short:
        write_json(RESULTS / f"{name}.json", verdict | {"origin": origin_tags()})
    sys.stderr.flush()
    print(json.dumps(verdict, ensure_ascii=False, allow_nan=False), flush=True)
    if not (holds or (given.short and measures)):
        raise SystemExit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else []
    return names[0].strip() if names else platform.processor() or "unknown"


def _gpu() -> str | None:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ", ".join(done.stdout.split("\n")).strip(", ") or None if done.returncode == 0 else None
