"""A search: which settings to try, by which figures to judge, and how; read from a file such as tuning/vocoder.yaml."""

import json
import math
import re
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from optuna.trial import Trial

from sonorant.errors import SonorantError
from sonorant.files import DoubtError, built, parse_checked
from tasks import params

Direction = Literal["minimize", "maximize"]
DIGITS = 3
"""Significant digits of a float that is tried: people will read it in params.yaml."""


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values that one setting may take: `choices`, or a range from `low` to `high`."""

    choices: list[Any] | None = None
    """Values of any type, lists too."""
    low: float | None = None
    high: float | None = None
    """Included."""
    step: float | None = None
    """Of the range: only low, low + step, ...; of whole numbers 1 unless it is given."""
    log: bool = False
    """Whether factors count, not differences, as of a learning rate."""

    def __post_init__(self) -> None:
        if (self.choices is None) == (self.low is None or self.high is None):
            raise ValueError("give either choices, or low and high")
        if self.choices is not None:
            if not self.choices or self.step is not None or self.log:
                raise ValueError("choices must name at least one value, without step or log")
            return
        assert self.low is not None and self.high is not None
        if not self.low < self.high:
            raise ValueError(f"low ({self.low:g}) must be below high ({self.high:g})")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("a logarithmic range begins above 0 and has no step")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step must be above 0, not {self.step:g}")

    def suggest(self, trial: Trial, key: str) -> Any:
        """The value that Optuna chooses for the trial."""
        if self.choices is not None:
            return decoded(trial.suggest_categorical(key, [coded(choice) for choice in self.choices]))
        assert self.low is not None and self.high is not None
        if is_whole(key):
            return trial.suggest_int(key, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        value = trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)
        return value if self.step else float(f"{value:.{DIGITS}g}")

    def contains(self, value: Any) -> bool:
        """Whether a trial can try this value."""
        if self.choices is not None:
            return value in self.choices
        assert self.low is not None and self.high is not None
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / (self.step or 1)
        return self.step is None or abs(steps - round(steps)) < 1e-6

    @property
    def ends(self) -> list[Any]:
        """Values to check the type of a setting with."""
        return self.choices if self.choices is not None else [self.low, self.high]


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Trials that learn worse than others are ended early, by the points that their training logs."""

    by: str
    """A figure of a training, such as train_vocoder/validation/loss."""
    direction: Direction = "minimize"
    """Which values of `by` are better."""
    pruner: Literal["median", "successive_halving", "hyperband"] = "median"
    """median: worse than the median of the trials before at the same step."""
    first_step: int = 1
    """No trial is ended before this step."""
    first_trials: int = 5
    """Trials that are never ended, to compare with; median only."""
    keep: int = 3
    """One of so many goes on; successive_halving and hyperband only."""

    def __post_init__(self) -> None:
        if self.first_step < 1 or self.first_trials < 1 or self.keep < 2:
            raise ValueError("first_step and first_trials must be at least 1, keep at least 2")


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Trials that begin cheaply: each runs with the settings of the first level, the better ones with the next."""

    levels: list[dict[str, Any]]
    """Settings by key, the cheapest level first; {} is the project itself."""
    keep: int = 3
    """One of so many goes on to the next level."""

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or self.keep < 2:
            raise ValueError("name at least two levels; keep is at least 2")


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search as its file holds it."""

    study: str
    """Name under which trials are kept."""
    objectives: dict[str, Direction]
    """Figures to judge by, see `flows/tuning/figures.py`; of several, the Pareto front is found."""
    also: list[str] = field(default_factory=list)
    """More figures to note of each trial, which decide nothing."""
    space: dict[str, Values]
    """Keys of params.yaml, such as train_vocoder.learning_rate, with the values to try."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Settings of every trial, such as fewer steps than a voice gets that ships."""
    trials: int = 30
    """The first is the project's own settings, where the space has them."""
    seed: int = 1
    """Of the sampler: one worker tries the same again."""
    sampler: Literal["tpe", "nsga2", "random", "grid"] = "tpe"
    prune: Pruning | None = None
    fidelity: Fidelity | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", self.study):
            raise ValueError(f"study: '{self.study}' must be made of letters, digits, - and _")
        if not self.objectives or not self.space or self.trials < 1:
            raise ValueError("name at least one objective, one key to try and one trial")
        if self.prune and self.fidelity:
            raise ValueError("prune ends a training early, fidelity trains several times: give one of them")
        if (self.prune or self.fidelity) and len(self.objectives) > 1:
            raise ValueError("prune and fidelity compare by one figure: name one objective")
        if both := sorted(set(self.space) & {*self.fixed, *(key for level in self.levels for key in level)}):
            raise ValueError(f"{both[0]} is in the space, so it cannot be fixed too")
        if self.sampler == "grid":
            self.grid()

    @property
    def levels(self) -> list[dict[str, Any]]:
        """Settings of each level of fidelity; one empty level without any."""
        return self.fidelity.levels if self.fidelity else [{}]

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """The settings by key that Optuna chooses for the trial, floats rounded, and those that are fixed."""
        return {key: values.suggest(trial, key) for key, values in self.space.items()} | self.fixed

    def grid(self) -> dict[str, list[Any]]:
        """All values by key. Raises ValueError for a range without steps."""
        found: dict[str, list[Any]] = {}
        for key, values in self.space.items():
            if values.choices is not None:
                found[key] = [coded(choice) for choice in values.choices]
                continue
            step = values.step or (1.0 if is_whole(key) and not values.log else None)
            if step is None:
                raise ValueError(f"{key}: a grid needs a range with step, or choices")
            assert values.low is not None and values.high is not None
            count = int((values.high - values.low) / step + 1e-9) + 1
            points = [values.low + number * step for number in range(count)]
            found[key] = [int(point) for point in points] if is_whole(key) else points
        return found

    @property
    def count(self) -> int:
        """Trials in all: of a grid no more than it has points."""
        return min(self.trials, math.prod(map(len, self.grid().values()))) if self.sampler == "grid" else self.trials


def read_search(file: Path) -> Search:
    """Read a search's file. Raises SonorantError naming file and key."""
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SonorantError(f"{file}: {error.strerror}; name a file such as tuning/vocoder.yaml") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SonorantError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    if isinstance(data, dict) and not _directed(data.get("objectives")):
        raise SonorantError(f"{file}: objectives: give each figure a direction: '<figure>: minimize' or maximize")
    return parse_checked(data, Search, file)


def _directed(objectives: Any) -> bool:
    return isinstance(objectives, dict) and all(each in typing.get_args(Direction) for each in objectives.values())


def check_types(search: Search) -> None:
    """Refuse values that the owner of a setting would not take, whatever the others are. Raises SonorantError."""
    for key, values in search.space.items():
        kind = _type_of(key)
        for value in values.ends:
            whole = int(value) if isinstance(value, float) and value == int(value) and values.choices is None else value
            try:
                built(kind, json.loads(json.dumps(whole)))
            except DoubtError:
                expected = getattr(kind, "__name__", str(kind)).replace("typing.", "")
                raise SonorantError(f"space: {key}: expected {expected}, not {value!r}") from None


def _type_of(key: str) -> Any:
    """The type that a setting is declared with; any for a key inside of one."""
    section, *names = key.split(".")
    known = section in params.sections() and len(names) == 1
    return typing.get_type_hints(params.owner(section)).get(names[0], Any) if known else Any


def is_whole(key: str) -> bool:
    """Whether the setting is declared as a whole number."""
    kind = _type_of(key)
    return kind is int or (float not in typing.get_args(kind) and int in typing.get_args(kind))


def coded(value: Any) -> Any:
    """A choice as Optuna takes it: lists as their JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def decoded(value: Any) -> Any:
    """The choice that `coded` made."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value
