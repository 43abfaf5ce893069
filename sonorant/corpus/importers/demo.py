"""The demo corpus: prompts spoken by flite (http://www.festvox.org/flite), in the layout of LJSpeech. flite is
deterministic, and nothing is downloaded."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.importers.metadata_files import clean
from sonorant.corpus.importers.tables import read_lines
from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import write_text
from sonorant.processes import usable_cores


def import_corpus(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Speak the first prompts. Raises SonorantError if some are missing or invalid, or flite is missing or fails."""
    prompts = read_prompts(source / "prompts.txt", config.sentences)
    flite = shutil.which("flite")
    if flite is None:
        raise SonorantError(
            "flite: not found on PATH; install it (Debian and Ubuntu: apt install flite, macOS: brew install flite) "
            "or run infra/install_system_packages.sh"
        )
    ids = [f"demo-{number:04d}" for number in range(1, len(prompts) + 1)]
    wavs = out / "wavs"
    wavs.mkdir()

    def speak(id: str, prompt: str) -> None:
        _speak(flite, config.voice, prompt, wavs / f"{id}.wav")

    with ThreadPoolExecutor(usable_cores()) as pool:
        spoken = pool.map(speak, ids, prompts)
        list(tqdm(spoken, total=len(prompts), desc=f"speaking (flite {config.voice})", unit="prompt"))
    rows = list(zip(ids, prompts, strict=True))
    write_text(out / "metadata.csv", "".join(f"{id}|{prompt}|{prompt}\n" for id, prompt in rows))
    speaker, language = config.default_speaker, config.language
    utterances = [
        Utterance(id=id, audio=f"wavs/{id}.wav", text=prompt, speaker=speaker, language=language) for id, prompt in rows
    ]
    write_manifest(out / "manifest.jsonl", utterances)


def read_prompts(path: Path, count: int) -> list[str]:
    """Return the first `count` non-blank lines. Raises SonorantError naming an invalid line."""
    prompts = []
    for number, line in enumerate(read_lines(path), 1):
        prompt = clean(line)
        if "|" in prompt or "�" in prompt:
            raise SonorantError(
                f"{path}:{number}: contains '|', the delimiter of metadata.csv, or is not UTF-8; correct the line"
            )
        if prompt:
            prompts.append(prompt)
    if len(prompts) < count:
        raise SonorantError(f"{path}: has {len(prompts)} prompts, fewer than corpus.sentences ({count}); lower that")
    return prompts[:count]


def _speak(flite: str, voice: str, prompt: str, wav: Path) -> None:
    # A file, because flite parses text on its command line as options or file names.
    text = wav.with_suffix(".txt")
    text.write_text(prompt + "\n", encoding="utf-8")
    try:
        command = [flite, "-voice", voice, "-f", str(text), "-o", str(wav)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    finally:
        text.unlink()
    # flite exits with 0 even if it could not write.
    if done.returncode != 0 or not wav.is_file():
        words = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise SonorantError(f"flite could not speak {wav.stem} ({prompt!r}): {words}; check the prompt and flite")
