"""A search: settings to try and metrics to optimise, read from a file such as tuning/vocoder.yaml."""

import json
import math
import re
import typing
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from sonorant.checked import Count, Seed
from sonorant.errors import SonorantError
from sonorant.files import parse_checked
from tasks import params

if TYPE_CHECKING:
    from optuna.trial import Trial

Direction = Literal["minimize", "maximize"]
DIGITS = 3
"""Significant digits of the floats to try; few keep params.yaml readable."""


@dataclass(frozen=True, kw_only=True)
class Values:
    """Values to try for one setting: `choices`, or the range from `low` to `high`."""

    choices: list[Any] | None = None
    """Values to choose from, of any type, including lists."""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    """Spacing of the values, starting at `low`; defaults to 1 for integers."""
    log: bool = False
    """Whether the scale is logarithmic, as for a learning rate."""

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
            raise ValueError("a logarithmic range must start above 0 and have no step")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step must be above 0, not {self.step:g}")

    def suggest(self, trial: "Trial", key: str) -> Any:
        if self.choices is not None:
            return decoded(trial.suggest_categorical(key, [coded(choice) for choice in self.choices]))
        assert self.low is not None and self.high is not None
        if is_whole(key):
            return trial.suggest_int(key, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        value = trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)
        return value if self.step else float(f"{value:.{DIGITS}g}")

    def contains(self, value: Any) -> bool:
        if self.choices is not None:
            return value in self.choices
        assert self.low is not None and self.high is not None
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / (self.step or 1)
        return self.step is None or abs(steps - round(steps)) < 1e-6

    @property
    def ends(self) -> list[Any]:
        return self.choices if self.choices is not None else [self.low, self.high]


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Rule for stopping trials early that are worse than the median of earlier trials at the same step."""

    by: str
    """Training loss to compare, such as train_vocoder/validation/loss."""
    first_step: Count = 1
    """First step at which a trial may be stopped."""
    first_trials: Count = 5
    """Number of first trials that are never stopped, for comparison with later ones."""


@dataclass(frozen=True, kw_only=True)
class Search:
    study: str
    objectives: dict[str, Direction]
    """Direction of each metric to optimise (`figures.py`); several metrics give a Pareto front."""
    also: list[str] = field(default_factory=list)
    """Metrics that are only recorded."""
    space: dict[str, Values]
    """Values to try by key, such as train_vocoder.learning_rate."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Settings of every trial, such as fewer steps."""
    trials: Count = 30
    """Total number of trials. The first uses the project's settings if the space contains them; a grid has its own
    order."""
    seed: Seed = 1
    """Seed of the sampler; a search with one worker is reproducible."""
    sampler: Literal["tpe", "nsga2", "random", "grid"] = "tpe"
    prune: Pruning | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", self.study):
            raise ValueError(f"study: '{self.study}' must consist of letters, digits, - and _")
        if not self.objectives or not self.space:
            raise ValueError("give at least one objective and one key in space")
        if self.prune and len(self.objectives) > 1:
            raise ValueError("prune supports only one objective; give one")
        if both := sorted(set(self.space) & set(self.fixed)):
            raise ValueError(f"{both[0]} is in both space and fixed; remove it from one")
        if self.sampler == "grid":
            self.grid()

    def suggest(self, trial: "Trial") -> dict[str, Any]:
        """Return the values that Optuna suggests for the trial and the fixed settings, by key."""
        return {key: values.suggest(trial, key) for key, values in self.space.items()} | self.fixed

    def grid(self) -> dict[str, list[Any]]:
        """Return all values of each key. Raises ValueError for a range without steps."""
        found: dict[str, list[Any]] = {}
        for key, values in self.space.items():
            if values.choices is not None:
                found[key] = [coded(choice) for choice in values.choices]
                continue
            step = values.step or (1.0 if is_whole(key) and not values.log else None)
            if step is None:
                raise ValueError(f"{key}: the sampler grid requires choices or a range with step")
            assert values.low is not None and values.high is not None
            count = int((values.high - values.low) / step + 1e-9) + 1
            points = [values.low + number * step for number in range(count)]
            found[key] = [int(point) for point in points] if is_whole(key) else points
        return found

    @property
    def count(self) -> int:
        """Total number of trials; for a grid, no more than its points."""
        return min(self.trials, math.prod(map(len, self.grid().values()))) if self.sampler == "grid" else self.trials


def read_search(file: Path) -> Search:
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), params.Loader)
    except OSError as error:
        raise SonorantError(f"{file}: {error.strerror}; name a file such as tuning/vocoder.yaml") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SonorantError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    if isinstance(data, dict) and not _directed(data.get("objectives")):
        raise SonorantError(f"{file}: objectives: each figure needs a direction: '<figure>: minimize' or maximize")
    return parse_checked(data, Search, file)


def _directed(objectives: Any) -> bool:
    return isinstance(objectives, dict) and all(each in typing.get_args(Direction) for each in objectives.values())


def check_types(search: Search) -> None:
    """Raise SonorantError if a value does not have its setting's type or is out of its range."""
    tried = [("space", key, value) for key, values in search.space.items() for value in values.ends]
    for part, key, value in [*tried, *(("fixed", *item) for item in search.fixed.items())]:
        section, name, *_ = key.split(".")
        whole = int(value) if isinstance(value, float) and value == int(value) and is_whole(key) else value
        one = make_dataclass("One", [(name, _type_of(key, bounds=True))])
        parse_checked({name: whole}, one, Path(part), key=section)


def _type_of(key: str, bounds: bool = False) -> Any:
    section, *names = key.split(".")
    known = section in params.sections() and len(names) == 1
    return typing.get_type_hints(params.owner(section), include_extras=bounds).get(names[0], Any) if known else Any


def is_whole(key: str) -> bool:
    kind = _type_of(key)
    return kind is int or (float not in typing.get_args(kind) and int in typing.get_args(kind))


def coded(value: Any) -> Any:
    """Convert a choice for Optuna: lists become JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value
