"""The study of a search in Optuna's storage: create or resume it, count its trials, run the next one."""

import json
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, TrialPruned, UpdateFinishedTrialError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, Trial, TrialState

from flows.tuning.search import Search, coded
from sonorant.errors import SonorantError, install
from sonorant.files import locked, parse_checked
from sonorant.registry.tracking.mlflow_store import shown

STORAGE = "SONORANT_TUNING_STORAGE"
"""Environment variable with the URL of the storage, which may contain a password."""
LOCKS = Path("runs/tuning")
START = "start one with: sonorant tune run tuning/vocoder.yaml, or: sonorant curve run"
HEARTBEAT = int(os.environ.get("SONORANT_TUNING_HEARTBEAT", "30"))
"""Seconds between a worker's heartbeats; a worker without one for three times as long counts as dead."""
RETRIES = 5
"""Maximum number of repetitions of a trial whose worker died."""
WORTH = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
"""States of trials that make a study worth continuing."""
HOPELESS = 3
"""Number of failed trials after which a study without success is aborted."""
SEARCH, BASE, DEFAULTS, COMPARES = "search", "base", "defaults", "compares"
"""Names of a study's attributes."""
AGAIN = "retry_history"
"""Name of Optuna's attribute of a trial that lists the trials it repeats."""
SETTINGS, ERROR, SECONDS = "settings", "error", "seconds"
"""Names of a trial's attributes: settings by key, reason for failure, duration in seconds."""
INTERVALS, ALSO, ARM, DETAILS = "intervals", "also", "arm", "details"
"""Names of a trial's attributes: interval of each value (or null), additional metrics by name; in a comparison also its
arm and all metrics per sentence (`parts.details_of`)."""

warnings.filterwarnings("ignore", category=ExperimentalWarning)  # heartbeats and constant_liar; the lock pins Optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)


class TrialFailed(SonorantError):
    """Only this trial failed, because its settings contradict each other or training diverged."""


def open_storage(folder: Path = Path(), make: bool = True) -> RDBStorage:
    """Open the storage SONORANT_TUNING_STORAGE, or the project's runs/tuning.db. Raises SonorantError if it is
    unreachable, or absent and not `make`."""
    file = folder / "runs" / "tuning.db"
    address = os.environ.get(STORAGE) or f"sqlite:///{file.resolve()}"
    sqlite = address.startswith("sqlite")
    if not make and STORAGE not in os.environ and not file.exists():
        raise SonorantError(f"no study exists; {START}")
    file.parent.mkdir(exist_ok=True)
    try:
        with locked(folder / LOCKS / "storage.lock"):  # two processes must not create the tables simultaneously
            return RDBStorage(
                address,
                engine_kwargs={"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True},
                heartbeat_interval=HEARTBEAT,
                grace_period=3 * HEARTBEAT,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )
    except ImportError:
        raise SonorantError(f"{STORAGE}: {shown(address)} needs a driver; run: {install('postgres')}") from None
    except Exception as error:
        raise SonorantError(
            f"{STORAGE}: {shown(address)} cannot be reached ({shown(error)[:200]}); check the address and its server"
        ) from None


class TuningStudy:
    def __init__(self, study: optuna.Study) -> None:
        self.study = study
        self.search: Search = parse_checked(study.user_attrs[SEARCH], Search, Path(study.study_name))
        self.defaults: dict[str, Any] = study.user_attrs[DEFAULTS]
        """The project's values of the keys in the space when the study started."""

    @property
    def compares(self) -> bool:
        """Whether the trials are predefined (`compare.py`, `curve.py`), not sampled."""
        return COMPARES in self.study.user_attrs

    @property
    def name(self) -> str:
        return str(self.study.study_name)

    @property
    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    @property
    def again(self) -> dict[int, int]:
        return {number: trial.number for trial in self.trials for number in trial.system_attrs.get(AGAIN, [])}

    def left(self) -> int:
        """Return the number of trials not yet started; a trial and its repetitions count once."""
        trials = self.trials
        waiting = sum(trial.state == TrialState.WAITING for trial in trials)
        begun = len(trials) - waiting - len(self.again)
        return waiting if self.compares else max(waiting, self.search.count - begun)

    def at_work(self) -> int:
        return sum(trial.state == TrialState.RUNNING for trial in self.trials)

    def raise_if_hopeless(self) -> None:
        """Raise SonorantError if all trials failed, or the last ones failed with the same error, such as a full
        disk."""
        errors = [trial.user_attrs[ERROR] for trial in self.trials if ERROR in trial.user_attrs]
        if len(errors) >= HOPELESS and not any(trial.state in WORTH for trial in self.trials):
            raise SonorantError(f"study '{self.name}': all {len(errors)} trials failed; correct the cause: {errors[0]}")
        ended = sorted((trial.datetime_complete, trial.number) for trial in self.trials if trial.datetime_complete)
        last = [self.trials[number].user_attrs.get(ERROR) for _, number in ended[-HOPELESS:]]
        if len(last) == HOPELESS and last[0] and len(set(last)) == 1:
            raise SonorantError(
                f"study '{self.name}': the last {HOPELESS} trials failed with the same error: {last[0]}"
            )

    def next_trial(self, run: Callable[[Trial, dict[str, Any]], Sequence[float]]) -> bool:
        """Run one more trial with `run(trial, settings) -> values`; return False if none is left.

        TrialPruned and TrialFailed end only the trial. An interrupted trial, or that of a dead worker, is repeated by
        the next call in any worker. Other errors stop the search.
        """
        with ExitStack() as claim:
            # Workers on machines without a shared disk may each start one trial too many.
            claim.enter_context(locked(LOCKS / f"{self.name}.lock"))
            optuna.storages.fail_stale_trials(self.study)
            if self.left() == 0:
                return False
            self.study.sampler = sampler_of(self.search, len(self.trials))
            self.study.pruner = pruner_of(self.search)
            interrupted: list[BaseException] = []
            asked: list[int] = []

            def objective(trial: Trial) -> Sequence[float]:
                asked.append(trial.number)
                settings = self._settings_of(trial)
                claim.close()
                try:
                    return run(trial, settings)
                except TrialPruned:
                    raise
                except SonorantError as error:
                    trial.set_user_attr(ERROR, str(error))
                    raise
                except UpdateFinishedTrialError:
                    raise
                except BaseException as error:  # Ctrl-C or SIGTERM
                    RetryHeartbeatStaleTrialCallback()(self.study, self.trials[trial.number])
                    interrupted.append(error)
                    raise KeyboardInterrupt from None  # stops the trial in Optuna

            try:
                self.study.optimize(objective, n_trials=1, catch=(TrialFailed,))
            except KeyboardInterrupt:
                if interrupted:
                    raise interrupted[0] from None
                raise
            except (UpdateFinishedTrialError, ValueError):
                if asked[0] not in self.again:
                    raise  # otherwise this process was suspended and considered dead, and another repeats the trial
        self.raise_if_hopeless()
        return True

    def _settings_of(self, trial: Trial) -> dict[str, Any]:
        """Return settings by key: those of the arm, those of the repeated trial, or the sampler's choice."""
        if SETTINGS not in trial.user_attrs:
            trial.set_user_attr(SETTINGS, self.search.suggest(trial))
        return dict(trial.user_attrs[SETTINGS])


def make_study(storage: RDBStorage, search: Search, defaults: dict[str, Any], base: dict[str, Any]) -> TuningStudy:
    """Create or resume the study of a search.

    Args:
        defaults: the project's values of the space's keys; used for the first trial if the space contains them.
        base: all remaining settings that affect the metrics, by key.

    Raises SonorantError if the study exists with a different space, objectives or base.
    """
    wanted = json.loads(json.dumps({SEARCH: asdict(search), BASE: base, DEFAULTS: defaults}))
    with locked(LOCKS / f"{search.study}.lock"):
        if search.study in optuna.get_all_study_names(storage):
            study = optuna.load_study(study_name=search.study, storage=storage)
            try:
                _check_same(search.study, study.user_attrs, wanted)
                study.set_user_attr(SEARCH, wanted[SEARCH])  # the number of trials may have changed
                return TuningStudy(study)
            except SonorantError:
                if any(trial.state in WORTH for trial in study.get_trials(deepcopy=False)):
                    raise
            optuna.delete_study(study_name=search.study, storage=storage)
        study = optuna.create_study(
            storage=storage, study_name=search.study, directions=list(search.objectives.values())
        )
        for name, value in wanted.items():
            study.set_user_attr(name, value)
        # The grid sampler gives trial n point n: the defaults would take the place of the first point.
        if search.sampler != "grid" and all(search.space[key].contains(value) for key, value in defaults.items()):
            study.enqueue_trial({key: coded(value) for key, value in defaults.items()})
        return TuningStudy(study)


def make_comparison(search: Search, name: str, arms: dict[str, dict[str, Any]], base: dict[str, Any]) -> TuningStudy:
    """Create or resume a study of predefined trials. `arms`: settings of each arm by name; `search`: the metrics.
    Failed trials are added again. Raises SonorantError if the study was started with a different `base`."""
    compares, storage = search.study, open_storage()
    search = replace(search, study=name, fixed={}, prune=None)
    with locked(LOCKS / f"{name}.lock"):
        if name in optuna.get_all_study_names(storage):
            made = optuna.load_study(study_name=name, storage=storage)
            _check_base(name, made.user_attrs[BASE], base)
        else:
            made = optuna.create_study(storage=storage, study_name=name, directions=list(search.objectives.values()))
            for key, value in {SEARCH: asdict(search), BASE: base, DEFAULTS: {}, COMPARES: compares}.items():
                made.set_user_attr(key, json.loads(json.dumps(value)))
        trials = made.get_trials(deepcopy=False)
        there = {trial.user_attrs[ARM] for trial in trials if trial.state != TrialState.FAIL}
        for arm, settings in arms.items():
            if arm not in there:
                made.enqueue_trial({}, user_attrs={ARM: arm, SETTINGS: settings})
    return TuningStudy(made)


def load_study(storage: RDBStorage, name: str) -> TuningStudy:
    names = optuna.get_all_study_names(storage)
    if name not in names:
        there = f"choose one of: {', '.join(names)}" if names else START
        raise SonorantError(f"unknown study '{name}'; {there}")
    return TuningStudy(optuna.load_study(study_name=name, storage=storage))


def _check_same(name: str, kept: dict[str, Any], wanted: dict[str, Any]) -> None:
    remedy = "give the search another name (study:) or restore the setting"
    for part in ("objectives", "space", "fixed", "prune", "sampler", "seed"):
        if kept[SEARCH].get(part) != wanted[SEARCH].get(part):
            raise SonorantError(f"study '{name}' exists with another '{part}', so trials are not comparable; {remedy}")
    _check_base(name, kept[BASE], wanted[BASE])


def _check_base(name: str, kept: dict[str, Any], now: dict[str, Any]) -> None:
    for key in sorted({*kept, *now}):
        if kept.get(key) != now.get(key):
            raise SonorantError(
                f"study '{name}' was started with {key} = {kept.get(key)!r}, now it is {now.get(key)!r}; "
                "choose another name for the new study or restore the setting"
            )


def sampler_of(search: Search, number: int) -> optuna.samplers.BaseSampler:
    """Return the sampler for trial `number`. Its seed depends on `number`, so that workers draw different trials."""
    seed = 10007 * search.seed + number
    samplers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "grid": lambda: optuna.samplers.GridSampler(search.grid(), seed=search.seed),
        "nsga2": lambda: optuna.samplers.NSGAIISampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    }
    return samplers[search.sampler]()


def pruner_of(search: Search) -> optuna.pruners.BasePruner:
    if not (prune := search.prune):
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(n_startup_trials=prune.first_trials, n_warmup_steps=prune.first_step)
