"""Find the weights that `init_from` names: files, the run of a voice bundle, or a registered voice."""

import dataclasses
import tempfile
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.registry.download import download_trained
from sonorant.training.initial import Initial, read_initial


def find_initial(named: str, kind: str, runs: Path, out: Path) -> Initial:
    """Read the trained model of `kind` at `named`. `runs`: folder of run directories; `out`: output of the stage.

    Raises SonorantError if `named` does not exist, is another kind of model, or is the stage's own output.
    """
    if named.startswith("models:/"):
        with tempfile.TemporaryDirectory() as folder:
            return dataclasses.replace(read_initial(download_trained(named, kind, Path(folder)), kind), source=named)
    path = Path(named)
    if path.resolve().is_relative_to(out.resolve()):
        raise SonorantError(
            f"init_from: {named} is the output of this stage, which DVC removes before the stage runs; "
            f"name the run directory that it came from, below {runs / f'train_{kind}'}, or a copy"
        )
    if (path / "voice.json").is_file():
        path = _run_of(path, kind, runs)
    return read_initial(path, kind)


def _run_of(bundle: Path, kind: str, runs: Path) -> Path:
    """Return the run directory in which a voice bundle's model was trained."""
    provenance = read_json(bundle / "voice.json").get("provenance", {}).get(kind, {})
    fingerprint = provenance.get("fingerprint", "unknown")
    run = runs / f"train_{kind}" / fingerprint
    if run.is_dir():
        return run
    raise SonorantError(
        f"init_from: {bundle} contains graphs, not weights, and its run directory ({run}) is not on this machine; "
        "name a registered version, models:/<name>@<alias>, or a copy of the run directory"
    )
