import subprocess
from pathlib import Path

import yaml

from tests.support.command import run_command
from tests.support.settings import project_settings

RECOGNIZE = ("--corpus", ".", "--prepared", "prepared", "--out", "recordings.json")
EVALUATE = (
    "--corpus", ".", "--prepared", "prepared", "--recordings", "recordings.json", "--voice", "voice",
    "--predictor", "acoustic", "--waveform", "vocoder", "--codes", "codes", "--parity", "parity.json",
    "--family", "family", "--metrics", "metrics.json", "--out", "evaluation",
)  # fmt: skip


def run_stage(place: Path, stage: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a stage in a folder with its own params.yaml."""
    return run_command(f"tasks.{stage}", *arguments, cwd=place)


def lay_out(folder: Path, trained: tuple[Path, Path]) -> None:
    """Write params.yaml for few sentences, and trained folders."""
    for name, target in zip(("acoustic", "vocoder"), trained, strict=True):
        (folder / name).symlink_to(target)
    params = project_settings()
    params["recognizer"] = {"name": "pocketsphinx", "sentences": 160}
    params["evaluate"] = {
        "latency_repeats": 3,
        "mos_sentences": 2,
        "rare_sentences": 2,
        "hear": "all",
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
