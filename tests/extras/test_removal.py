import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.imports import ROOT

EXTRAS = sorted(path.parent.name for path in (ROOT / "sonorant/extras").glob("*/__init__.py"))
SECTIONS = {
    "codec_lm": ("codec", "train_codec", "language_model", "train_language_model"),
    "tensorrt": ("engine",),
}
"""Sections of params.yaml by extra."""
IMPORT_THE_CORE = """
import importlib, sys
from pathlib import Path
from sonorant.cli.main import main
from sonorant.plugins import all_families, plugins
root = Path(sys.argv[1])
for file in sorted((root / "sonorant").rglob("*.py")):
    name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    if ".extras" not in name:
        importlib.import_module(name)
assert plugins() is not None and all_families()
main(["--help"])
"""


def without(folder: Path, *extras: str) -> Path:
    """A tree of links to the project without some extras."""
    library, here = folder / "sonorant", ROOT / "sonorant"
    (library / "extras").mkdir(parents=True)
    for path in here.iterdir():
        if path.name not in ("extras", "__pycache__"):
            (library / path.name).symlink_to(path)
    for path in (here / "extras").iterdir():
        if path.name not in (*extras, "__pycache__"):
            (library / "extras" / path.name).symlink_to(path)
    for name in ("tasks", "flows", "testbed", "tests", "benchmarks", "corpora", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    settings = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    gone = [name for extra in extras for name in SECTIONS.get(extra, ())]
    kept = {name: values for name, values in settings.items() if name not in gone}
    (folder / "params.yaml").write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
    return folder


@pytest.mark.parametrize("extra", [*EXTRAS, "all of them"])
def test_the_core_is_imported_and_the_command_helps_without(extra: str, tmp_path: Path) -> None:
    removed = EXTRAS if extra == "all of them" else [extra]
    root = without(tmp_path, *removed)
    environment = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-c", IMPORT_THE_CORE, str(root)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("doctor" in done.stdout) == ("doctor" not in removed)


@pytest.mark.long
def test_tests_of_the_core_pass_without_any_extra(tmp_path: Path) -> None:
    root = without(tmp_path, *EXTRAS)
    tests = ["tests/layers", "tests/text", "tests/families/parallel/test_acoustic.py", "tests/speech/test_voice.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not long",
        "-k",
        "not codec_lm",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
