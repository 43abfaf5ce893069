"""Format a study as text: trials, best trials, importance of settings."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from flows.results import NOT_MEASURED, plain_table
from flows.tuning.compare import Difference, verdict
from flows.tuning.study import ALSO, ARM, ERROR, INTERVALS, SECONDS, SETTINGS, TuningStudy
from sonorant.errors import SonorantError

ENOUGH = 10
"""Minimum number of complete trials for computing importance."""
STATES = {
    TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.RUNNING: "running",
    TrialState.FAIL: "failed",
}  # fmt: skip


def best_trials(study: TuningStudy) -> list[FrozenTrial]:
    """Return the best trial or, for several objectives, the Pareto front sorted by the first objective."""
    complete = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    if not complete:
        return []
    if len(study.search.objectives) == 1:
        return [study.study.best_trial]
    signs = [1 if direction == "minimize" else -1 for direction in study.search.objectives.values()]
    return sorted(study.study.best_trials, key=lambda trial: signs[0] * trial.values[0])


def chosen(study: TuningStudy, number: int | None) -> FrozenTrial:
    """Return trial `number`; None means the best. Raises SonorantError if it is not complete, or if several are
    best."""
    best = best_trials(study)
    if number is not None:
        complete = {trial.number: trial for trial in study.trials if trial.state == TrialState.COMPLETE}
        if number not in complete:
            raise SonorantError(
                f"study '{study.name}': trial {number} is not complete; see: sonorant tune status {study.name}"
            )
        return complete[number]
    if not best:
        raise SonorantError(f"study '{study.name}': no trial is complete yet; wait for one")
    if len(best) > 1:
        numbers = ", ".join(str(trial.number) for trial in best)
        raise SonorantError(
            f"study '{study.name}': trials {numbers} are all on the Pareto front; choose one with --trial"
        )
    return best[0]


def summary(study: TuningStudy) -> str:
    if study.compares:
        return f"study '{study.name}': {counts(study)}\n{plain_table(comparison_rows(study))}"
    best = best_trials(study)
    parts = [f"study '{study.name}': {counts(study)}", plain_table(trial_rows(study, study.trials))]
    if best:
        title = "Best" if len(study.search.objectives) == 1 else "Pareto front"
        parts.append(f"{title}\n{plain_table(trial_rows(study, best))}")
        parts.append(f"Importance of the settings (0 to 1)\n{importance(study)}")
        changes = " ".join(
            f"-S {shlex.quote(f'{key}={_text(value)}')}" for key, value in changed(study, best[0]).items()
        )
        trial = f" --trial {best[0].number}" if len(best) > 1 else ""
        parts.append(
            f"Next\n  sonorant tune apply {study.name}{trial}\n  sonorant tune compare {study.name}{trial}\n"
            f"  dvc exp run {changes}"
        )
    return "\n\n".join(parts)


def counts(study: TuningStudy) -> str:
    again = study.again
    begun = [trial.state for trial in study.trials if trial.number not in again]
    words = [f"{begun.count(state)} {word}" for state, word in STATES.items() if state in begun]
    return ", ".join([*words, f"{study.left()} left"])


def trial_rows(study: TuningStudy, trials: Sequence[FrozenTrial]) -> list[dict[str, str]]:
    again, rows = study.again, []
    for trial in trials:
        if trial.state == TrialState.WAITING:
            continue
        settings = trial.user_attrs.get(SETTINGS, {})
        row = {"trial": str(trial.number)} | {key: _text(settings.get(key)) for key in study.search.space}
        for number, figure in enumerate(study.search.objectives):
            row[figure] = _value(trial, number)
        row |= {figure: _number(trial.user_attrs.get(ALSO, {}).get(figure)) for figure in study.search.also}
        row["seconds"] = _number(trial.user_attrs.get(SECONDS))
        rows.append(row | {"ended": _ended(study, trial, again)})
    return rows


def comparison_rows(study: TuningStudy) -> list[dict[str, str]]:
    again = study.again
    trials = [trial for trial in study.trials if trial.state != TrialState.WAITING and trial.number not in again]
    return [
        {"arm and seed": trial.user_attrs[ARM]}
        | {figure: _value(trial, number) for number, figure in enumerate(study.search.objectives)}
        | {figure: _number(trial.user_attrs.get(ALSO, {}).get(figure)) for figure in study.search.also}
        | {"ended": _ended(study, trial, again)}
        for trial in sorted(trials, key=lambda trial: str(trial.user_attrs[ARM]))
    ]


def difference_rows(found: Sequence[Difference], directions: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {
            "figure": each.figure,
            "defaults": f"{each.defaults:.5g}",
            "trial": f"{each.trial:.5g}",
            "difference (95 % interval)": f"{each.trial - each.defaults:+.4g} ({each.low:+.4g} to {each.high:+.4g})",
            "seeds": str(each.seeds),
            "the trial is": verdict(each, directions),
        }
        for each in found
    ]


def importance(study: TuningStudy) -> str:
    """Return the importance of each setting for each metric (PED-ANOVA, Watanabe et al. 2023)."""
    complete = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    if len(complete) < ENOUGH or len(study.search.space) < 2:
        return f"  {NOT_MEASURED} (requires {ENOUGH} complete trials and two settings; {len(complete)} are complete)"
    rows: dict[str, dict[str, str]] = {key: {"setting": key} for key in study.search.space}
    for number, figure in enumerate(study.search.objectives):
        target = None if len(study.search.objectives) == 1 else (lambda trial, number=number: trial.values[number])
        try:
            found = optuna.importance.get_param_importances(study.study, target=target)
        except (RuntimeError, ValueError):  # all values are the same
            found = {}
        for key, row in rows.items():
            row[figure] = _number(found.get(key))
    return plain_table(list(rows.values()))


def changed(study: TuningStudy, trial: FrozenTrial) -> dict[str, Any]:
    """Return the trial's settings that are in the search space, by key."""
    return {key: trial.user_attrs[SETTINGS][key] for key in study.search.space}


def _ended(study: TuningStudy, trial: FrozenTrial, again: Mapping[int, int]) -> str:
    if trial.number in again:
        return f"interrupted, repeated as {again[trial.number]}"
    if trial.state == TrialState.FAIL:
        return f"failed: {trial.user_attrs.get(ERROR, 'its worker died too often')}"
    own = " (the defaults)" if changed_nothing(study, trial) else ""
    return f"{STATES[trial.state]}{own}"


def changed_nothing(study: TuningStudy, trial: FrozenTrial) -> bool:
    settings = trial.user_attrs.get(SETTINGS, {})
    return bool(study.defaults) and all(settings.get(key) == value for key, value in study.defaults.items())


def _value(trial: FrozenTrial, number: int) -> str:
    if not trial.values:
        return NOT_MEASURED
    intervals = trial.user_attrs.get(INTERVALS)
    interval = intervals[number] if intervals else None
    return _number(trial.values[number]) + (f" ({interval[0]:.4g} to {interval[1]:.4g})" if interval else "")


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, int | float) else NOT_MEASURED


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value).replace(" ", "")
