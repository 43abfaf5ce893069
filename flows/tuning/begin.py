"""A search held against the project before anything runs: every key and figure is there, and has the right type."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.graph import Pipeline, read_graph
from flows.tuning.figures import Figure
from flows.tuning.search import Search, check_types, read_search
from flows.tuning.study import TuningStudy, make_study, open_storage
from flows.workspace import all_settings, check_overrides
from sonorant.errors import SonorantError
from sonorant.families.family import VoiceConfig
from sonorant.plugins import all_kinds, load_family
from tasks import params

UNSEEN = ("data", "machine")
"""Sections that decide no figure and may differ between machines."""


def begin(file: Path, trials: int | None = None, root: Path = Path()) -> TuningStudy:
    """The study of the search in `file`, made or taken up again. Raises SonorantError for what cannot work."""
    search = read_search(file)
    if trials is not None:
        if trials < 1:
            raise SonorantError(f"--trials {trials}: give a number from 1")
        search = replace(search, trials=trials)
    graph = read_graph(root.resolve())
    try:
        check_search(search, graph, root)
    except SonorantError as error:
        raise SonorantError(f"{file}: {error}") from None
    defaults = {key: setting(root, key) for key in search.space}
    return make_study(open_storage(root), search, defaults, base_of(search, graph, root))


def check_search(search: Search, graph: Pipeline, root: Path) -> None:
    """Refuse keys and figures that are not there, types that do not fit, keys that change nothing."""
    file = root / "params.yaml"
    tried = {key: values.ends[0] for key, values in search.space.items()}
    for key, values in search.space.items():
        whole = isinstance(values.ends[0], float) and isinstance(setting_or_none(root, key), int)
        tried[key] = int(values.ends[0]) if whole else values.ends[0]
    for settings in (tried, search.fixed, *search.levels):
        check_overrides(file, settings)
    check_types(search)
    figures = [Figure(name) for name in (*search.objectives, *search.also)]
    stages = [figure.stage(graph) for figure in figures]
    for figure in figures:
        figure.check(root)
    if search.prune:
        check_pruning(search, graph, stages)
    read = {key for stage in stages for key in graph.settings_of(stage, tried)}
    idle = idle_sections(search, root)
    for key in tried:
        if key not in read or key.split(".")[0] in idle:
            needed = ", ".join(graph.order(stages))
            raise SonorantError(f"space: {key} changes none of the figures; they come from the stages {needed}")


def check_pruning(search: Search, graph: Pipeline, stages: Collection[str]) -> None:
    """Refuse pruning by what no training of a trial logs."""
    assert search.prune is not None
    curve = Figure(search.prune.by)
    if curve.kind is None or curve.stage(graph) not in graph.order(list(stages)):
        raise SonorantError(
            f"prune: by: '{curve.name}' is no figure of a training that the objectives need; "
            "name one such as train_vocoder/validation/loss"
        )


def idle_sections(search: Search, root: Path) -> set[str]:
    """Sections of models that change none of the figures, though their stages may be among those that run."""
    family = load_family(params.load("voice", VoiceConfig, root / "params.yaml").family)
    at_work = {kind.name for kind in family.kinds}
    if {Figure(name).kind for name in (*search.objectives, *search.also)} == {family.predictor.name}:
        at_work -= set() if family.predictor.learns_codes else {family.waveform.name}
    return {section for name in all_kinds() if name not in at_work for section in (name, f"train_{name}")}


def base_of(search: Search, graph: Pipeline, root: Path) -> dict[str, Any]:
    """All settings that decide the figures and are the same in every trial, by key."""
    stages = [Figure(name).stage(graph) for name in (*search.objectives, *search.also)]
    flat = {
        f"{section}.{name}": value
        for section, values in all_settings(root / "params.yaml").items()
        for name, value in values.items()
    }
    read = {key for stage in stages for key in graph.settings_of(stage, flat)}
    idle = idle_sections(search, root)
    varied = {key for keys in (search.space, search.fixed, *search.levels) for key in keys}
    return {key: flat[key] for key in sorted(read - varied) if key.split(".")[0] not in idle}


def setting(root: Path, key: str) -> Any:
    """The project's value of section.key."""
    section, *names = key.split(".")
    here: Any = params.effective(section, root / "params.yaml")
    for part in names:
        here = here[part]
    return here


def setting_or_none(root: Path, key: str) -> Any:
    """As `setting`; None for a key that is not there."""
    try:
        return setting(root, key)
    except (KeyError, TypeError, SonorantError):
        return None
