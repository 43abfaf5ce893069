"""The journeys in docs/DESIGN.md name every file in which a function runs."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from sonorant.speech import Voice
from testbed.tiny_training import tiny_recipe
from tests.support.imports import ROOT
from tests.training.trainings import trainer_of

DESIGN = (ROOT / "docs/DESIGN.md").read_text(encoding="utf-8")


def traced(work: Callable[[], Any]) -> set[str]:
    """Files of sonorant/, tasks/ and flows/ in which a function runs during `work`, in any thread."""
    seen: set[str] = set()

    def hook(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            seen.add(str(Path(file).relative_to(ROOT)))

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {file for file in seen if file.startswith(("sonorant/", "tasks/", "flows/"))}


def told(title: str) -> set[str]:
    """Files that a journey of the page names."""
    section = DESIGN.split(f"### {title}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    return set(re.findall(r"`((?:sonorant|tasks|flows)/\S+\.py)`", section))


def test_a_sentence_passes_these_files(voice_bundle: Path) -> None:
    voice = Voice.load(voice_bundle)
    voice.say("Warm up.")
    assert traced(lambda: voice.say("Good morning, Dr. Smith, it is 9 o'clock.")) == told("A sentence")


def test_a_batch_passes_these_files(features: Path, tmp_path: Path, alone: None) -> None:
    trainer = trainer_of(tiny_recipe("acoustic", features, precision="fp32"), tmp_path / "run")
    trainer.trained.set_precision("fp32")
    steps = trainer.steps()
    trainer.take_step(*next(steps))
    assert traced(lambda: trainer.take_step(*next(steps))) == told("A batch")
