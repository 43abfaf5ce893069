import shutil
import subprocess
from pathlib import Path

import pytest

from sonorant.audio.recognizers import Clip
from sonorant.audio.wav import read_audio
from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.text import load_frontend

SENTENCES = (
    "The harbor lights flickered as the ferry came in late.",
    "Nobody knew why the old clock stopped at noon.",
    "A thin layer of frost covered every window on the street.",
    "The train to the coast leaves from platform 2.",
)


def speak_with_flite(text: str, out: Path, voice: str = "rms") -> None:
    """Write a sentence as a wav file; skips the test without flite."""
    if shutil.which("flite") is None:
        pytest.skip("flite is not installed")
    subprocess.run(["flite", "-voice", voice, "-t", text, "-o", str(out)], check=True, timeout=60)


@pytest.fixture(scope="session")
def spoken_corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Utterance]]:
    """Corpus folder and utterances: four sentences by flite, three for the test split."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "audio").mkdir()
    frontend = load_frontend("gruut", "en-us")
    utterances = []
    for number, text in enumerate(SENTENCES):
        audio = f"audio/{number}.wav"
        speak_with_flite(text, folder / audio)
        utterances.append(Utterance(
            id=f"set/{number}", audio=audio, text=text, speaker="anna", language="en-us",
            spoken=frontend.speak(text).text, split="test" if text != SENTENCES[-1] else "train",
        ))  # fmt: skip
    write_manifest(folder / "prepared" / "manifest.jsonl", utterances)
    return folder, utterances


@pytest.fixture(scope="session")
def clips(spoken_corpus: tuple[Path, list[Utterance]]) -> list[Clip]:
    folder, utterances = spoken_corpus
    return [Clip(*read_audio(folder / str(utterance.audio))) for utterance in utterances]


@pytest.fixture(scope="session")
def references(spoken_corpus: tuple[Path, list[Utterance]]) -> list[str]:
    return [str(utterance.spoken) for utterance in spoken_corpus[1]]
