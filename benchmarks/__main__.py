"""Run a benchmark: `python -m benchmarks NAME [options]`. Without a name, list the questions they answer. Each
benchmark prints one JSON line last and exits with status 1 if its claim does not hold. --save keeps the result
with the machine's description, --short only checks that the benchmark runs, --against FILE compares times with an
earlier result."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
GROUPS = ("corpus", "scaling", "training", "speaking", "gpu")
NEEDS_A_GPU = ("gpu_check", "gpu_trace")


def benchmarks() -> dict[str, Path]:
    """Files with a command line, by name, in the order of the groups."""
    files = [path for group in GROUPS for path in sorted((HERE / group).glob("*.py"))]
    return {path.stem: path for path in files if "options(parser, SHORT)" in path.read_text(encoding="utf-8")}


def main() -> None:
    found, name = benchmarks(), sys.argv[1] if len(sys.argv) > 1 else ""
    if name == "all":
        names = [each for each in found if each not in NEEDS_A_GPU]
        run = [sys.executable, "-m", "benchmarks"]
        failed = [each for each in names if subprocess.run([*run, each, *sys.argv[2:]]).returncode]
        sys.exit(f"claims that fail: {' '.join(failed)}" if failed else 0)
    if name not in found:
        print(__doc__)
        for each, path in found.items():
            question = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
            print(f"  {each:16} {question}")
        sys.exit(f"unknown benchmark '{name}'" if name not in ("", "-h", "--help") else 0)
    sys.argv[:2] = [f"python -m benchmarks {name}"]
    # processes that a benchmark starts find its functions in the altered `__main__`
    runpy.run_module(f"benchmarks.{found[name].parent.name}.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
