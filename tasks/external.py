"""Stage `external`: hash the files that params.yaml names but DVC does not track.

These are a table's recordings, a review's decisions, a lexicon, and the weights of `init_from` and `codec.pretrained`.
This stage always runs and writes a note with the hashes for each stage that reads such files. Each stage depends on
its note, so it runs again when they change.
"""

import argparse
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.families.family import ModelKind, VoiceConfig
from sonorant.files import read_json, sha256_file, write_json
from sonorant.plugins import load_family
from tasks import params
from tasks.code_deps import write_notes
from tasks.stage import add_inputs, run

SEEN = "seen.json"
"""File of hashes, sizes and modification times, so that an unchanged corpus is not read again."""


@dataclass(frozen=True)
class External:
    named: str
    content: Callable[[], str]
    """Function that returns the hash or version of the file, folder or model. Raises SonorantError if it cannot be
    read."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.external", description=__doc__)
    add_inputs(parser, "runs")
    parser.add_argument("--models", type=Path, required=True, help="folder of the trained models")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the notes to: <stage>.json")
    arguments = parser.parse_args()
    write_notes(arguments.out / "code")
    family = load_family(params.load("voice", VoiceConfig).family)
    stages = {"train_waveform": family.waveform, "train_predictor": family.predictor}
    write_note(arguments.out / "corpus.json", corpus_audio(arguments.out / SEEN))
    write_note(arguments.out / "prepare.json", named_file("prepare", "decisions"))
    write_note(arguments.out / "text.json", named_file("text", "lexicon"))
    for stage, kind in stages.items():
        out = arguments.models / stage.removeprefix("train_")
        write_note(arguments.out / f"{stage}.json", weights(kind, arguments.runs, out))


def write_note(note: Path, external: External | None) -> None:
    """Write the hash of `external` to `note`. If it cannot be read, an existing note for it is kept; otherwise the
    content is null and the stage that needs it fails."""
    if external is None:
        write_json(note, {})
        return
    try:
        write_json(note, {"named": external.named, "content": external.content()})
    except SonorantError as error:
        if note.exists() and read_json(note).get("named") == external.named:
            print(f"cannot be read and is treated as unchanged: {error}", flush=True)
        else:
            write_json(note, {"named": external.named, "content": None})


def corpus_audio(seen: Path) -> External | None:
    """Return the recordings of a corpus given as a table; DVC tracks other corpora, which are folders."""
    corpus = params.given("corpus")
    if corpus.get("kind") != "table":
        return None
    table = Path(str(corpus.get("path")))

    def content() -> str:
        from sonorant.corpus.importers.metadata_files import audio_of_table

        return _sha256(audio_of_table(table), table.parent, seen)

    return External(str(table), content)


def named_file(section: str, key: str) -> External | None:
    if not (named := params.given(section).get(key)):
        return None

    def content() -> str:
        try:
            return sha256_file(Path(named))
        except OSError as error:
            raise SonorantError(f"{section}.{key}: {named}: {error.strerror}") from None

    return External(str(named), content)


def weights(kind: ModelKind, runs: Path, out: Path) -> External | None:
    """Return the model that the settings of `kind` use unchanged (`pretrained`) or start from (`init_from`)."""
    if taken := params.given(kind.name).get("pretrained"):
        return External(str(taken), lambda: _pretrained(Path(taken)))
    if initial := params.given(f"train_{kind.name}").get("init_from"):
        return External(str(initial), lambda: _initial(initial, kind, runs, out))
    return None


def _pretrained(folder: Path) -> str:
    """Hash the files that transformers reads; a hub id has no hash."""
    if not folder.is_dir():
        return "a hub id"
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors")]
    return _digest({path.name: sha256_file(path) for path in files})


def _initial(named: str, kind: ModelKind, runs: Path, out: Path) -> str:
    if named.startswith("models:/"):
        from sonorant.registry.download import version_of

        return version_of(named)  # a version never changes, but an alias may move
    from tasks.initial import find_initial

    return find_initial(named, kind.name, runs, out).content()


def _sha256(files: list[Path], folder: Path, seen: Path) -> str:
    """Hash the names and bytes of `files`. Files unchanged since `seen` was written are not read again."""
    known = read_json(seen) if seen.exists() else {}
    hashes: dict[str, tuple[int, int, str]] = {}
    for file in tqdm(files, desc="checking recordings for changes", unit="file", delay=2):
        found, name = file.stat(), str(file.relative_to(folder))
        size, changed, digest = known.get(name, (None, None, ""))
        if (size, changed) != (found.st_size, found.st_mtime_ns):
            digest = sha256_file(file)
        hashes[name] = (found.st_size, found.st_mtime_ns, digest)
    write_json(seen, hashes)
    return _digest({name: digest for name, (_, _, digest) in hashes.items()})


def _digest(hashes: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name}\0{digest}\n" for name, digest in hashes.items()).encode()).hexdigest()


if __name__ == "__main__":
    run(main)
