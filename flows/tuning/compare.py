"""A trial against the project's own settings, each trained anew under fresh seeds, as the project would train it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from flows.tuning.figures import Figure
from flows.tuning.study import ARM, SETTINGS, TuningStudy, make_comparison
from sonorant.errors import SonorantError
from sonorant.families.family import VoiceConfig
from sonorant.plugins import load_family
from sonorant.training.intervals import student_interval
from tasks import params

FIRST_SEED = 1001
"""No trial of a search was trained under it: a search keeps params.yaml's."""
OURS, DEFAULTS = "trial", "defaults"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of the trial beside that of the defaults."""

    figure: str
    trial: float
    defaults: float
    """Means over the seeds that both have."""
    low: float
    high: float
    """95 % interval of the mean difference, the trial's less the defaults' under the same seed."""
    seeds: int


def begin_comparison(study: TuningStudy, trial: FrozenTrial, seeds: int) -> TuningStudy:
    """The study of a comparison, with `seeds` trials an arm; what it has already is kept. Raises SonorantError."""
    from flows.graph import read_graph
    from flows.tuning.begin import base_of  # imports torch, which `sonorant tune status` can do without

    if seeds < 2:
        raise SonorantError(f"--seeds {seeds}: an interval needs at least 2, and 5 are a good number")
    name = f"{study.name}-trial-{trial.number}"
    tried = {key: trial.user_attrs[SETTINGS][key] for key in study.search.space}
    arms = {
        f"{arm} {seed}": {**settings, **seed_settings(seed, study.search.objectives)}
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
        for arm, settings in ((DEFAULTS, study.defaults), (OURS, tried))
    }
    # At full length: what is fixed for trials, and low fidelity, are left out.
    root = Path.cwd()
    base = base_of(study.search, read_graph(root), root)
    return make_comparison(study.search, name, arms, base)


def seed_settings(seed: int, figures: Iterable[str] = ()) -> dict[str, Any]:
    """Settings that give all trainings of the voice's family this seed; where all `figures` are of trainings, those
    alone, so that the others, as a vocoder before an acoustic model, stay what they are and are not repeated."""
    asked = {Figure(name).kind for name in figures}
    if asked and None not in asked:
        return {f"train_{kind}.seed": seed for kind in sorted(filter(None, asked))}
    kinds = load_family(params.load("voice", VoiceConfig).family).kinds
    return {f"train_{kind.name}.seed": seed for kind in kinds}


def differences(comparison: TuningStudy) -> list[Difference]:
    """Of each objective, over the seeds that both arms have. Raises SonorantError if these are fewer than two."""
    done = {trial.user_attrs[ARM]: trial for trial in comparison.trials if trial.state == TrialState.COMPLETE}
    both = [arm.split()[1] for arm in done if arm.startswith(OURS) and f"{DEFAULTS} {arm.split()[1]}" in done]
    if len(both) < 2:
        raise SonorantError(f"study '{comparison.name}': only {len(both)} seeds are done for both; run it again")
    found = []
    for number, figure in enumerate(comparison.search.objectives):
        found.append(
            _difference(
                figure,
                [done[f"{OURS} {seed}"].values[number] for seed in both],
                [done[f"{DEFAULTS} {seed}"].values[number] for seed in both],
            )
        )
    return found


def _difference(figure: str, ours: list[float], defaults: list[float]) -> Difference:
    low, high = student_interval([one - other for one, other in zip(ours, defaults, strict=True)])
    return Difference(figure=figure, trial=fmean(ours), defaults=fmean(defaults), low=low, high=high, seeds=len(ours))


def verdict(found: Difference, directions: Mapping[str, str]) -> str:
    """What the interval says."""
    if found.low <= 0.0 <= found.high:
        return "not told apart"
    lower = found.high < 0.0
    return "better" if lower == (directions[found.figure] == "minimize") else "worse"
