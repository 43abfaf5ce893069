"""Run one trial as a Prefect run: copy the project with the trial's settings, run the required stages, and measure."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from optuna.exceptions import TrialPruned
from optuna.trial import Trial
from prefect import flow, get_run_logger, tags, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, Failed, State

from flows.command import failed, run_logged
from flows.graph import Pipeline, read_graph
from flows.train_and_export import TRAINING, stage_command
from flows.tuning.figures import Figure, NoFigure, Point, live_points, points_of
from flows.tuning.parts import details_of
from flows.tuning.search import Search
from flows.tuning.study import ALSO, COMPARES, DETAILS, INTERVALS, LOCKS, SECONDS, TrialFailed
from flows.workspace import make_workspace
from sonorant.errors import SonorantError
from sonorant.files import locked
from sonorant.registry.tracking.study import close_trial, open_trial
from tasks import check_params, params

Values = tuple[float, ...]


class TrialWork:
    def __init__(self, search: Search, study: str, trial: Trial, settings: Mapping[str, Any], root: Path) -> None:
        self.search, self.study, self.trial, self.settings, self.root = search, study, trial, settings, root
        self.figures = [Figure(name) for name in search.objectives]
        self.where = root / "runs" / "workspaces" / f"{study}-{trial.number}"
        self.also: dict[str, float] = {}
        self._reported: set[int] = set()
        self._last_step: int | None = None
        """Last training step, at which pruning would save nothing."""

    def run(self) -> Values:
        """Run the trial as a Prefect run. Raises TrialPruned, TrialFailed, or SonorantError if every trial would
        fail."""
        ended: list[Values | Exception] = []

        def work() -> State[Any]:
            try:
                ended.append(self._tracked(str(flow_run.id)))
                return Completed(message=", ".join(f"{value:.6g}" for value in ended[0]))  # type: ignore[union-attr]
            except TrialPruned as error:
                ended.append(error)
                return Completed(name="Pruned", message=str(error))
            except SonorantError as error:
                ended.append(error)
                return failed(error)

        try:
            with tags(self.study):
                state: Any = tune_trial(self.study, self.trial.number, dict(self.settings), work, return_state=True)
        finally:
            if not ended or not isinstance(ended[0], TrialFailed):  # keep the copy of a failed trial
                shutil.rmtree(self.where, ignore_errors=True)  # DVC's cache has the outputs
        if not ended:
            state.result()  # raises an unexpected error
        if isinstance(ended[0], Exception):
            raise ended[0]
        return ended[0]

    def _tracked(self, execution: str) -> Values:
        """Run the trial in an MLflow run: a child of the study's run and the parent of the stages' runs."""
        started, status, why = time.monotonic(), "KILLED", ""
        values: Values = ()
        open_trial(self.study, self.trial.number, execution, self.settings)
        try:
            values = self._measured(execution)
            status = "FINISHED"
            return values
        except TrialPruned as error:
            status, why = "FINISHED", str(error)
            raise
        except SonorantError as error:
            status, why = "FAILED", str(error)
            raise
        finally:
            self.trial.set_user_attr(SECONDS, round(time.monotonic() - started, 1))
            figures = self.also | dict(zip(self.search.objectives, values, strict=False))  # none, or all
            close_trial(self.study, self.trial.number, status, figures, why)

    def _measured(self, execution: str) -> Values:
        try:
            make_workspace(self.root, self.where, self.settings)
            check_params.check(self.where / "params.yaml")
        except SonorantError as error:
            raise TrialFailed(str(error)) from None
        graph = read_graph(self.where)
        also = [Figure(name) for name in self.search.also]
        order = graph.order([figure.stage(graph) for figure in (*self.figures, *also)])
        if order[-1:] == [self._pruned_stage(graph)]:  # pruning cannot save a later stage
            assert self.search.prune is not None
            section = f"train_{Figure(self.search.prune.by).kind}"
            self._last_step = int(params.effective(section, self.where / "params.yaml")["steps"])
        for stage in order:
            with once(graph, stage, self.settings):
                trial_stage(stage, self.where, execution, self._watch(stage, graph, execution))
            self._report_whole_curve(stage, graph)
        try:
            measured = [figure.measure(self.where) for figure in self.figures]
        except NoFigure as error:
            raise TrialFailed(str(error)) from None
        for figure in also:
            with suppress(NoFigure):
                self.also[figure.name] = figure.measure(self.where)[0]
        self.trial.set_user_attr(ALSO, self.also)
        self.trial.set_user_attr(INTERVALS, [interval for _, interval in measured])
        if COMPARES in self.trial.study.user_attrs:
            self.trial.set_user_attr(DETAILS, details_of(self.where, [*self.search.objectives, *self.search.also]))
        return tuple(value for value, _ in measured)

    def _watch(self, stage: str, graph: Pipeline, execution: str) -> Callable[[], None]:
        """Return a function to call every second while the stage runs; it may raise TrialPruned."""
        if self.search.prune is None or self._pruned_stage(graph) != stage:
            return lambda: None
        figure, runs = Figure(self.search.prune.by), self.where / "runs"
        return lambda: self._report(live_points(figure, runs, execution))

    def _report_whole_curve(self, stage: str, graph: Pipeline) -> None:
        """Report the remaining points: the last ones, or all if the model came from the cache."""
        if self.search.prune is not None and self._pruned_stage(graph) == stage:
            curves = self.where / "models" / stage.removeprefix(TRAINING) / "curves.csv"
            self._report(points_of(curves, Figure(self.search.prune.by).curve))

    def _pruned_stage(self, graph: Pipeline) -> str | None:
        return Figure(self.search.prune.by).stage(graph) if self.search.prune else None

    def _report(self, points: Iterable[Point]) -> None:
        assert self.search.prune is not None
        # The curve is a loss; Optuna compares points in the direction of the objective.
        sign = 1.0 if next(iter(self.search.objectives.values())) == "minimize" else -1.0
        for step, value in points:
            if step in self._reported:
                continue
            self._reported.add(step)
            self.trial.report(sign * value, step)
            if step != self._last_step and self.trial.should_prune():
                raise TrialPruned(f"stopped at step {step}: {self.search.prune.by} was {value:.6g}")


@flow(name="tune-trial", flow_run_name="{study}-{number}", validate_parameters=False)
def tune_trial(study: str, number: int, settings: dict[str, Any], work: Callable[[], State[Any]]) -> State[Any]:
    get_run_logger().info("%s", json.dumps(settings))
    return work()


@task(task_run_name="{stage}", cache_policy=NO_CACHE)
def _stage(stage: str, where: Path, execution: str, check: Callable[[], None]) -> State[Any] | None:
    try:
        run_logged(f"stage '{stage}'", *stage_command(stage, where, execution), check)
    except TrialPruned as error:
        return Completed(name="Pruned", message=str(error))
    except SonorantError as error:
        return Failed(message=str(error))
    return None


def trial_stage(stage: str, where: Path, execution: str, check: Callable[[], None]) -> None:
    """Run one outdated stage as a Prefect task. Raises TrialFailed or TrialPruned."""
    state: Any = _stage(stage, where, execution, check, return_state=True)
    if state.name == "Pruned":
        raise TrialPruned(state.message)
    if state.is_failed() and state.message:
        raise TrialFailed(" ".join(state.message.split()))
    state.result()  # raises other errors


@contextmanager
def once(graph: Pipeline, stage: str, settings: Mapping[str, Any]) -> Iterator[None]:
    """Keep other workers on this machine from running the same stage with the same settings simultaneously; they then
    use DVC's cache."""
    touched = graph.settings_of(stage, sorted(settings))
    text = json.dumps([stage, {key: settings[key] for key in touched}])
    lock = LOCKS / "stages" / hashlib.sha256(text.encode()).hexdigest()[:16]
    with locked(lock):
        yield
