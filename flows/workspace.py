"""Copies of the project that have different settings but share its DVC cache and run directories."""

import configparser
import difflib
import json
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ruamel.yaml

from flows.graph import read_graph
from sonorant.errors import SonorantError
from sonorant.files import atomic_file, atomic_folder
from tasks import check_params, params
from tasks.origin import git, trust

SHARED = "runs"
VOICES = Path("voices")
"""Copies of workspaces' voices; `make clean` leaves them."""
CORPUS = "corpus.txt"
"""File of a copied voice: the path of its corpus."""
SIDE_BY_SIDE = Path("reports/families")
"""Folder of each family's metrics, which appear in the reports of other families."""


def check_overrides(file: Path, overrides: Mapping[str, Any]) -> None:
    """Raise SonorantError for an override whose key is not a setting in `file` (params.yaml)."""
    settings = all_settings(file)
    for key in overrides:
        here: Any = settings
        for part in key.split("."):
            if not isinstance(here, dict) or part not in here:
                close = difflib.get_close_matches(key, dict(leaves(settings)), n=1)
                hint = f"; did you mean '{close[0]}'?" if close else "; to list all keys, run: sonorant params"
                raise SonorantError(f"cannot override unknown key '{key}'{hint}")
            here = here[part]
        if isinstance(here, dict):
            keys = ", ".join(dict(leaves(here, f"{key}.")))
            raise SonorantError(f"cannot override the section '{key}'; override one of {keys}")


def all_settings(file: Path) -> dict[str, Any]:
    """Return every setting by section, including defaults."""
    return {section: params.effective(section, file) for section in params.sections()}


def check_settings(file: Path, overrides: Mapping[str, Any]) -> None:
    """Raise SonorantError for unknown keys, and for values that a stage would reject."""
    check_overrides(file, overrides)
    if not overrides:
        return check_params.check(file)
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / file.name
        shutil.copy2(file, changed)
        edit(changed, overrides)
        try:
            check_params.check(changed)
        except SonorantError as error:
            raise SonorantError(str(error).replace(str(changed), f"{file} with the overrides")) from None


def make_workspace(root: Path, folder: Path, overrides: Mapping[str, Any]) -> Path:
    """Empty `folder` and copy the project `root` there, with `overrides` ({"section.key": value}).

    The copy contains `SIDE_BY_SIDE` and all files that git does not ignore. `runs/`, ignored source files and ignored
    paths in settings are links to the original; paths outside the project become absolute. Returns `folder`. Raises
    SonorantError for an unknown key or if `root` is not a git repository.
    """
    check_overrides(root / "params.yaml", overrides)
    cache = read_graph(root).cache
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in _files(root):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, folder / name, follow_symlinks=False)
    (root / SHARED).mkdir(exist_ok=True)
    (folder / SHARED).symlink_to((root / SHARED).resolve())
    _configure_dvc(root, folder, cache)
    edit(folder / "params.yaml", overrides)
    if paths := _paths_out_of(root, folder / "params.yaml"):
        edit(folder / "params.yaml", paths)
    graph = read_graph(folder)
    for source in (*graph.sources, *_named_paths(folder / "params.yaml")):
        if not (folder / source).exists() and (root / source).exists():
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            (folder / source).symlink_to((root / source).resolve())
    _copy_side_by_side(root, folder, _side_by_side(root) - set(graph.outs))
    return folder


def bring_back(folder: Path, root: Path) -> None:
    """Copy outputs in `SIDE_BY_SIDE` from the workspace to `root`, unless a stage of `root` writes them."""
    _copy_side_by_side(folder, root, _side_by_side(folder) & set(read_graph(folder).outs) - set(read_graph(root).outs))


def keep_voice(voice: Path, root: Path, model: str, corpus: str) -> Path:
    """Copy a workspace's voice to `VOICES` under the name of its registered model, and return the copy. The registry
    has older ones. Raises SonorantError if that is another corpus's voice."""
    kept = place_of_voice(root, model)
    if not is_free(kept, corpus):
        raise SonorantError(f"{kept}: contains another corpus's voice; move it, or set register.model to another name")
    _copy(voice, kept, corpus)
    return kept


def place_of_voice(root: Path, model: str) -> Path:
    return root / VOICES / safe_name(model.removeprefix("sonorant-"))


def is_free(kept: Path, corpus: str) -> bool:
    """Return whether `kept` is absent, or a voice of `corpus`."""
    return not kept.exists() or ((record := kept / CORPUS).exists() and record.read_text(encoding="utf-8") == corpus)


def safe_name(text: str) -> str:
    """Return a name for folders and models: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "recordings"


def parse_overrides(given: Sequence[str], option: str) -> dict[str, Any]:
    """Parse command-line overrides, each KEY=VALUE with a YAML value. Raises SonorantError naming `option` if one is
    invalid."""
    overrides = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise SonorantError(f"{option} {one}: give a setting and its value, such as train_acoustic.steps=600")
        try:
            overrides[key] = ruamel.yaml.YAML(typ="safe").load(value)
        except ruamel.yaml.error.YAMLError:
            raise SonorantError(f"{option} {one}: '{value}' is not valid YAML; correct the value") from None
    return overrides


def _side_by_side(root: Path) -> set[Path]:
    return {SIDE_BY_SIDE / path.name for path in (root / SIDE_BY_SIDE).glob("[!.]*/")}


def _copy_side_by_side(source: Path, target: Path, names: Collection[Path]) -> None:
    for name in sorted(names):
        _copy(source / name, target / name)


def _copy(source: Path, target: Path, corpus: str = "") -> None:
    with atomic_folder(target) as copied:
        # Without modes: DVC's links are read-only.
        shutil.copytree(source, copied, dirs_exist_ok=True, copy_function=shutil.copyfile)
        if corpus:
            (copied / CORPUS).write_text(corpus, encoding="utf-8")


def _files(root: Path) -> list[Path]:
    done = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if done.returncode != 0:
        why = " ".join(done.stderr.split())
        remedy = trust(root) if "dubious ownership" in why else "git init"
        raise SonorantError(f"{root}: overrides require a git repository; run: {remedy} ({why})")
    names = [Path(name) for name in done.stdout.split("\0") if name]
    return [name for name in names if (root / name).is_symlink() or (root / name).is_file()]


def _paths_out_of(root: Path, file: Path) -> dict[str, str]:
    """Return the settings in `file` that are paths outside the project, made absolute."""
    return {key: str((root / value).resolve()) for key, value in _texts(file) if Path(value).parts[:1] == ("..",)}


def _texts(file: Path) -> list[tuple[str, str]]:
    return [(key, value) for key, value in leaves(params.read(file)) if isinstance(value, str)]


def _named_paths(file: Path) -> list[Path]:
    named = [Path(value) for _, value in _texts(file) if "/" in value and "://" not in value]
    return [path for path in named if not path.is_absolute() and ".." not in path.parts]


def _configure_dvc(root: Path, folder: Path, cache: Path) -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(root / ".dvc" / "config.local")
    # DVC refuses files that git ignores, such as the workspace.
    config.read_dict({"core": {"no_scm": "true"}, "cache": {"dir": str(cache), "type": "reflink,hardlink,copy"}})
    (folder / ".dvc").mkdir(exist_ok=True)
    local = folder / ".dvc" / "config.local"
    local.touch(mode=0o600)  # may contain credentials of a remote
    with local.open("w") as file:
        config.write(file)


def edit(file: Path, overrides: Mapping[str, Any]) -> None:
    """Write `overrides` to params.yaml, keeping all other lines and comments."""
    yaml = ruamel.yaml.YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.representer.add_representer(type(None), lambda to, _: to.represent_scalar("tag:yaml.org,2002:null", "null"))
    settings = yaml.load(file.read_text(encoding="utf-8"))
    for key, value in overrides.items():
        *sections, last = key.split(".")
        here = settings
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = _as_yaml(yaml, value)
    with atomic_file(file) as temporary, temporary.open("w", encoding="utf-8") as output:
        yaml.dump(settings, output)


def _as_yaml(yaml: ruamel.yaml.YAML, value: Any) -> Any:
    """Convert a value for ruamel: lists are on one line, and the text 1e-5, from a YAML file of flow parameters, is a
    number."""
    if isinstance(value, str) and params.EXPONENT.match(value):
        return float(value)
    return yaml.load(json.dumps(value)) if isinstance(value, list | dict) else value


def leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and value of each leaf of nested mappings."""
    for name, value in settings.items():
        yield from leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
