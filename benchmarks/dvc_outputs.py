"""What do DVC's outputs cost as one file an utterance, and as the few large files that the stages write now?

    python -m benchmarks.dvc_outputs

The same bytes, once a file for each utterance, as features were kept at first, and once grouped as shards are. Each
folder is hashed into DVC's cache (`dvc add`), looked at again (`dvc status`), pushed to a remote folder, lost, and
pulled. Times are by the clock: most of it is the disk.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.report import command, finish, options
from sonorant.features.store.place import StoreConfig
from tasks.params import load

BYTES = 3000
"""Of an utterance, as far as it does not matter: files cost by their number."""
ACTIONS = ("add", "status", "push", "pull")
AIM = 5.0
"""Times as fast as a file an utterance: adding, pushing and pulling together."""
SHORT = {"utterances": [1000]}


def write(folder: Path, utterances: int, rows_per_file: int) -> int:
    """Bytes of so many utterances, `rows_per_file` in each file; returns the number of files."""
    folder.mkdir()
    random = np.random.default_rng(0)
    starts = range(0, utterances, rows_per_file)
    for start in starts:
        rows = min(rows_per_file, utterances - start)
        (folder / f"{start:09d}.bin").write_bytes(random.bytes(rows * BYTES))
    return len(starts)


def dvc(root: Path, *words: str) -> float:
    """Seconds of a command of DVC."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "dvc", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: dvc {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - began


def measure(utterances: int, rows_per_file: int) -> dict[str, Any]:
    """Seconds of each action on a folder, beginning with a new project; links as the project has them."""
    with tempfile.TemporaryDirectory(prefix="sonorant-dvc-") as name:
        root = Path(name) / "project"
        root.mkdir()
        dvc(root, "init", "-q", "--no-scm")
        dvc(root, "config", "cache.type", "reflink,hardlink,copy")
        dvc(root, "remote", "add", "-d", "remote", str(Path(name) / "remote"))
        files = write(root / "data", utterances, rows_per_file)
        before = sum(path.stat().st_size for path in (root / "data").iterdir())
        seconds = {"add": dvc(root, "add", "-q", "data"), "status": dvc(root, "status", "-q")}
        seconds["push"] = dvc(root, "push", "-q")
        shutil.rmtree(root / "data")
        shutil.rmtree(root / ".dvc/cache")
        shutil.rmtree(root / ".dvc/tmp", ignore_errors=True)
        seconds["pull"] = dvc(root, "pull", "-q")
        assert sum(path.stat().st_size for path in (root / "data").iterdir()) == before
    return {"files": files, "seconds": {action: round(seconds[action], 2) for action in ACTIONS}}


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--utterances", type=int, nargs="+", default=[13_000, 100_000], help="sizes of the folder")
    given = options(parser, SHORT)
    grouped = load("store", StoreConfig).utterances_per_shard
    result: dict[str, Any] = {"bytes_per_utterance": BYTES, "utterances_per_shard": grouped, "sizes": {}}
    claims = {}
    for utterances in tqdm(given.utterances, desc="sizes", unit="size"):
        rows = {"a file an utterance": measure(utterances, 1), "shards": measure(utterances, grouped)}
        work = {name: sum(row["seconds"][action] for action in ("add", "push", "pull")) for name, row in rows.items()}
        times = work["a file an utterance"] / work["shards"]
        result["sizes"][str(utterances)] = rows | {"times_as_fast": round(times, 2)}
        claims[f"{utterances} utterances are added, pushed and pulled {AIM:g} times as fast in shards"] = times >= AIM
    finish("dvc_outputs", result, claims, given)


if __name__ == "__main__":
    main()
