"""Check, before any trial, that the keys and metrics of a search exist and have the right type."""

from dataclasses import replace
from functools import reduce
from operator import getitem
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


def begin(file: Path, trials: int | None = None, root: Path = Path()) -> TuningStudy:
    """Create or resume the study of the search in `file`. Raises SonorantError if it does not fit the project."""
    search = read_search(file)
    if trials is not None:
        if trials < 1:
            raise SonorantError(f"--trials {trials}: give a positive number")
        search = replace(search, trials=trials)
    graph = read_graph(root.resolve())
    try:
        check_search(search, graph, root)
    except SonorantError as error:
        raise SonorantError(f"{file}: {error}") from None
    settings = all_settings(root / "params.yaml")
    defaults = {key: reduce(getitem, key.split("."), settings) for key in search.space}
    return make_study(open_storage(root), search, defaults, base_of(search, graph, root))


def check_search(search: Search, graph: Pipeline, root: Path) -> None:
    """Raise SonorantError for unknown keys and metrics, wrong types, and keys that affect none of the metrics."""
    file = root / "params.yaml"
    for settings in (search.space, search.fixed):
        check_overrides(file, settings)
    check_types(search)
    figures = [Figure(name) for name in (*search.objectives, *search.also)]
    stages = [figure.stage(graph) for figure in figures]
    for figure in figures:
        figure.check(root)
    curve = Figure(search.prune.by) if search.prune else None
    if curve and (curve.kind is None or curve.stage(graph) not in graph.order(stages)):
        raise SonorantError(
            f"prune: by: '{curve.name}' is not a figure of a training that the objectives need; "
            "give one such as train_vocoder/validation/loss"
        )
    read = {key for stage in stages for key in graph.settings_of(stage, search.space)}
    idle = idle_sections(search, root)
    for key in search.space:
        if key not in read or key.split(".")[0] in idle:
            needed = ", ".join(graph.order(stages))
            raise SonorantError(f"space: {key} affects none of the figures; give keys that these stages read: {needed}")


def idle_sections(search: Search, root: Path) -> set[str]:
    """Return the sections of models that affect none of the metrics, even if their stages run."""
    family = load_family(params.load("voice", VoiceConfig, root / "params.yaml").family)
    at_work = {kind.name for kind in family.kinds}
    if {Figure(name).kind for name in (*search.objectives, *search.also)} == {family.predictor.name}:
        at_work -= set() if family.predictor.learns_codes else {family.waveform.name}
    return {section for name in all_kinds() if name not in at_work for section in (name, f"train_{name}")}


def base_of(search: Search, graph: Pipeline, root: Path) -> dict[str, Any]:
    """Return the settings, by key, that affect the metrics and are the same in all trials."""
    stages = [Figure(name).stage(graph) for name in (*search.objectives, *search.also)]
    sections = all_settings(root / "params.yaml").items()
    flat = {f"{section}.{name}": value for section, values in sections for name, value in values.items()}
    read = {key for stage in stages for key in graph.settings_of(stage, flat)}
    idle = idle_sections(search, root)
    varied = {*search.space, *search.fixed}
    return {key: flat[key] for key in sorted(read - varied) if key.split(".")[0] not in idle}
