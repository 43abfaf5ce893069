"""Compare a trial with the project's settings by training both again, at full length and with new seeds."""

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
"""First seed of a comparison; searches do not use it, because their trials have the seed of params.yaml."""
OURS, DEFAULTS = "trial", "defaults"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Mean of a metric for the trial and for the defaults, over the seeds for which both are complete."""

    figure: str
    trial: float
    defaults: float
    low: float
    high: float
    """Upper limit of the 95 % interval of the mean difference (trial - defaults), paired by seed."""
    seeds: int


def begin_comparison(study: TuningStudy, trial: FrozenTrial, seeds: int) -> TuningStudy:
    """Create or resume a comparison that trains the trial and the defaults with `seeds` seeds each. Raises
    SonorantError for fewer than 2."""
    from flows.graph import read_graph
    from flows.tuning.begin import base_of  # imports torch, not needed by `sonorant tune status`

    if seeds < 2:
        raise SonorantError(f"--seeds {seeds}: an interval requires at least 2; 5 are better")
    name = f"{study.name}-trial-{trial.number}"
    tried = {key: trial.user_attrs[SETTINGS][key] for key in study.search.space}
    arms = {
        f"{arm} {seed}": {**settings, **seed_settings(seed, study.search.objectives)}
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)
        for arm, settings in ((DEFAULTS, study.defaults), (OURS, tried))
    }
    # At full length, without `fixed`.
    root = Path.cwd()
    base = base_of(study.search, read_graph(root), root)
    return make_comparison(study.search, name, arms, base)


def seed_settings(seed: int, figures: Iterable[str] = ()) -> dict[str, Any]:
    """Return settings that give this seed to all models of the voice's family. If all of `figures` are metrics of
    training, only their models get it."""
    asked = {Figure(name).kind for name in figures}
    if asked and None not in asked:
        return {f"train_{kind}.seed": seed for kind in sorted(filter(None, asked))}
    kinds = load_family(params.load("voice", VoiceConfig).family).kinds
    return {f"train_{kind.name}.seed": seed for kind in kinds}


def differences(comparison: TuningStudy) -> list[Difference]:
    """Return the difference in each objective. Raises SonorantError if fewer than two seeds are complete."""
    done = {trial.user_attrs[ARM]: trial for trial in comparison.trials if trial.state == TrialState.COMPLETE}
    both = [arm.split()[1] for arm in done if arm.startswith(OURS) and f"{DEFAULTS} {arm.split()[1]}" in done]
    if len(both) < 2:
        raise SonorantError(
            f"study '{comparison.name}': only {len(both)} seeds are complete; run sonorant tune compare again"
        )
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
    if found.low <= 0.0 <= found.high:
        return "not significantly different"
    lower = found.high < 0.0
    return "better" if lower == (directions[found.figure] == "minimize") else "worse"
