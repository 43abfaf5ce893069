import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna.exceptions import TrialPruned
from optuna.trial import Trial, TrialState

from flows.tuning import study as studies
from flows.tuning.compare import differences, seed_settings, verdict
from flows.tuning.results import best_trials, chosen, counts, summary
from flows.tuning.search import Search
from flows.tuning.study import AGAIN, SETTINGS, TrialFailed, TuningStudy, make_study, open_storage
from sonorant.errors import SonorantError
from sonorant.files import parse_checked
from tests.support.imports import ROOT
from tests.support.processes import start
from tests.support.tuned import LOSS, SEARCH
from tests.support.waiting import PATIENCE, wait_until

RATE, CHANNELS = "train_acoustic.learning_rate", "acoustic.channels"
DEFAULTS = {RATE: 4e-3, CHANNELS: 192}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(studies.STORAGE, raising=False)
    return tmp_path


def made(base: dict[str, Any] | None = None, defaults: dict[str, Any] | None = None, **changes: Any) -> TuningStudy:
    search = parse_checked(json.loads(json.dumps(SEARCH | changes)), Search, Path("search.yaml"))
    return make_study(open_storage(), search, defaults or DEFAULTS, base or {"corpus.sentences": 3})


def off(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
    return (abs(settings[RATE] - 1e-3),)


def finish(study: TuningStudy, run: Any = off) -> list[dict[str, Any]]:
    while study.next_trial(run):
        pass
    return [trial.user_attrs[SETTINGS] for trial in study.trials]


def test_the_first_trial_is_the_defaults_and_their_number_is_kept(here: Path) -> None:
    tried = finish(made(trials=4))
    assert tried[0] == DEFAULTS | {"train_acoustic.steps": 6} and len(tried) == 4
    assert len({json.dumps(settings) for settings in tried}) == 4
    assert len(finish(made(trials=6))) == 6, "a higher number goes on"
    assert finish(made(trials=6))[:4] == tried
    outside = finish(made(study="outside", defaults=DEFAULTS | {CHANNELS: 17}))
    assert outside[0][CHANNELS] != 17 and len(outside) == 3


def test_an_uninterrupted_search_equals_one_in_pieces(here: Path) -> None:
    tried = finish(made(study="whole", trials=12))
    for trials in (3, 12):
        pieces = finish(made(study="pieces", trials=trials))
    assert pieces == tried, "also the trials that the sampler learned from others"
    assert finish(made(study="other", seed=2, trials=12))[1:] != tried[1:]


def test_an_interrupted_trial_is_taken_up_again_with_its_settings(here: Path) -> None:
    study = made()
    assert study.next_trial(off)

    def interrupted(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.next_trial(interrupted)
    assert study.left() == 2 and study.at_work() == 0
    finish(study)
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert study.trials[2].system_attrs[AGAIN] == [1]
    assert study.trials[2].params == study.trials[1].params
    assert "interrupted, repeated as 2" in summary(study)
    assert counts(study) == "3 complete, 0 left"


def test_a_failed_trial_ends_alone_and_says_why(here: Path) -> None:
    study, calls = made(), []

    def second_fails(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        calls.append(settings)
        if len(calls) == 2:
            raise TrialFailed("training has diverged")
        return off(trial, settings)

    finish(study, second_fails)
    assert counts(study) == "2 complete, 1 failed, 0 left" and len(calls) == 3
    assert "failed: training has diverged" in summary(study)


def test_what_fails_alike_again_and_again_does_not_use_up_the_trials(here: Path) -> None:
    """For example on a full disk. Trials that fail in different ways continue."""
    study, calls = made(trials=30), []

    def run(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        calls.append(trial.number)
        if len(calls) in (2, 3, 4):
            raise TrialFailed(f"diverged at step {trial.number}")
        if len(calls) > 5:
            raise TrialFailed("No space left on device")
        return off(trial, settings)

    with pytest.raises(SonorantError, match="the last 3 trials failed with the same error: No space left on device"):
        finish(study, run)
    assert len(calls) == 8 and study.left() == 22


def test_an_error_that_is_no_trials_own_ends_the_search(here: Path) -> None:
    def fails(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        raise SonorantError("no such figure")

    with pytest.raises(SonorantError, match="no such figure"):
        made().next_trial(fails)
    assert made(objectives={"b": "minimize"}).left() == 3, "nothing was worth keeping, so another figure may follow"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"space": {RATE: {"low": 1e-5, "high": 1.0, "log": True}}}, "exists with another 'space'"),
        ({"objectives": {LOSS: "maximize"}}, "exists with another 'objectives'"),
        ({"fixed": {}}, "exists with another 'fixed'"),
        ({"base": {"corpus.sentences": 4}}, "was started with corpus.sentences = 3, now it is 4"),
        ({"base": {"corpus.sentences": 3, "text.frontend": "gruut"}}, "was started with text.frontend = None"),
    ],
)
def test_another_search_does_not_go_on_with_a_study(changes: dict[str, Any], says: str, here: Path) -> None:
    made().next_trial(off)
    with pytest.raises(SonorantError) as caught:
        made(**changes)
    assert says in str(caught.value) and "another name" in str(caught.value)
    assert made(defaults={RATE: 1e-3, CHANNELS: 96}).defaults == DEFAULTS, "applying a trial's settings changes nothing"


WORKER = """\
import sys, time
from pathlib import Path
from flows.tuning.study import load_study, open_storage
study = load_study(open_storage(), 'tiny')
def run(trial, settings):
    with open('log', 'a') as log:
        log.write(f'{trial.number}\\n')
    while Path('hold').exists():
        time.sleep(0.02)
    return (settings['train_acoustic.learning_rate'],)
while study.next_trial(run) or study.at_work():
    time.sleep(0.05)
"""


def worker(folder: Path) -> subprocess.Popen[bytes]:
    more = {"PYTHONPATH": str(ROOT), "SONORANT_TUNING_HEARTBEAT": "10"}
    return start([sys.executable, "-c", WORKER], cwd=folder, env=os.environ | more)


def handed_out(folder: Path) -> list[int]:
    log = folder / "log"
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


def share_and_kill(folder: Path) -> TuningStudy:
    """Three workers share six trials; one is killed with SIGKILL during one. Return the finished study."""
    study = made(trials=6)
    (folder / "hold").touch()
    workers = [worker(folder) for _ in range(3)]
    wait_until(lambda: len(handed_out(folder)) == 3)
    assert study.at_work() == 3 and study.left() == 3
    workers[0].send_signal(signal.SIGKILL)
    (folder / "hold").unlink()
    for process in workers[1:]:
        assert process.wait(PATIENCE) == 0
    workers[0].wait()
    return study


@pytest.mark.long
def test_workers_share_a_study_and_a_killed_one_loses_no_trial(here: Path) -> None:
    study = share_and_kill(here)
    assert counts(study) == "6 complete, 0 left"
    numbers = handed_out(here)
    assert len(numbers) == len(set(numbers)) == 7, "the killed one's trial alone is done again, under a new number"
    [killed] = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    [again] = [trial for trial in study.trials if trial.system_attrs.get(AGAIN) == [killed.number]]
    assert again.params == killed.params and again.user_attrs[SETTINGS] == killed.user_attrs[SETTINGS]
    settings = [json.dumps(trial.user_attrs[SETTINGS]) for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(set(settings)) == 6, "no two workers tried the same"


@pytest.mark.long  # the test above, which uses SQLite, on PostgreSQL
def test_workers_share_a_study_in_postgres(here: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(studies.STORAGE, postgres)
    study = share_and_kill(here)
    assert counts(study) == "6 complete, 0 left" and not (here / "runs" / "tuning.db").exists()


def test_a_storage_that_is_away_is_one_line_without_its_password(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(studies.STORAGE, "postgresql+psycopg://me:secret@127.0.0.1:1/tuning")
    with pytest.raises(SonorantError) as caught:
        open_storage()
    assert "cannot be reached" in str(caught.value) or "[postgres]" in str(caught.value)
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_worse_trial_is_pruned_by_its_points(here: Path) -> None:
    study = made(trials=8, prune={"by": LOSS, "first_step": 2, "first_trials": 2})
    asked = []

    def learn(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        for step in range(1, 5):
            trial.report(trial.number + 1.0 / step, step)
            asked.append((trial.number, step))
            if trial.should_prune():
                raise TrialPruned
        return (float(trial.number),)

    finish(study, learn)
    assert [trial.state == TrialState.PRUNED for trial in study.trials] == [False, False, *[True] * 6]
    assert (7, 2) in asked and (7, 3) not in asked, "not before first_step, and then at once"


def test_the_best_is_one_or_a_front(here: Path) -> None:
    study = made(trials=4)
    assert best_trials(study) == []
    with pytest.raises(SonorantError, match="no trial is complete yet"):
        chosen(study, None)
    finish(study)
    values = [trial.values[0] for trial in study.trials]
    assert chosen(study, None).values == [min(values)] and chosen(study, 3).number == 3
    with pytest.raises(SonorantError, match="trial 4 is not complete; see: sonorant tune status tiny"):
        chosen(study, 4)
    several = made(study="several", objectives={"good": "maximize", "cheap": "minimize"}, trials=4, sampler="nsga2")
    planned = [(3.0, 0.3), (2.0, 0.1), (1.0, 0.2), (2.5, 0.2)]
    finish(several, lambda trial, settings: planned[trial.number])
    assert [trial.number for trial in best_trials(several)] == [0, 3, 1], "trial 2 is beaten in both"
    with pytest.raises(SonorantError, match=r"trials 0, 3, 1 are all on the Pareto front; choose one with --trial"):
        chosen(several, None)
    assert "Pareto front" in summary(several)


def test_a_grid_is_gone_through_once_by_two_workers(here: Path) -> None:
    space = {CHANNELS: {"low": 96, "high": 160, "step": 32}, RATE: {"choices": [1e-3, 2e-3]}}
    study = made(space=space, sampler="grid", trials=100, defaults={CHANNELS: 128, RATE: 1e-3})
    workers = [worker(here), worker(here)]
    assert [process.wait(PATIENCE) for process in workers] == [0, 0]
    done = [(trial.user_attrs[SETTINGS][CHANNELS], trial.user_attrs[SETTINGS][RATE]) for trial in study.trials]
    assert len(done) == 6, done
    assert set(done) == {(channels, rate) for channels in (96, 128, 160) for rate in (1e-3, 2e-3)}


def test_a_comparison_is_paired_by_seed(here: Path) -> None:
    study = made(trials=1)
    finish(study)
    pairs = {"1": (1.0, 3.0), "2": (5.0, 7.1), "3": (9.0, 10.9)}
    arms = {f"{arm} {seed}": {"train_acoustic.seed": seed} for seed in pairs for arm in ("trial", "defaults")}
    comparison = studies.make_comparison(study.search, "tiny-trial-0", arms, {"a": 1})
    finish(comparison, lambda trial, settings: _planned(pairs, trial))
    assert comparison.left() == 0 and len(comparison.trials) == 6
    [found] = differences(comparison)
    assert found.trial - found.defaults == pytest.approx(-2.0) and -2.3 < found.low < found.high < -1.7
    assert verdict(found, {LOSS: "minimize"}) == "better" and verdict(found, {LOSS: "maximize"}) == "worse"
    more = studies.make_comparison(study.search, "tiny-trial-0", arms | {"trial 4": {}, "defaults 4": {}}, {"a": 1})
    assert more.left() == 2, "what is done stays"
    with pytest.raises(SonorantError, match="was started with a = 1, now it is 2"):
        studies.make_comparison(study.search, "tiny-trial-0", arms, {"a": 2})


def _planned(pairs: dict[str, tuple[float, float]], trial: Trial) -> Sequence[float]:
    arm, seed = trial.user_attrs["arm"].split()
    return (pairs[seed][arm == "defaults"],)


def test_a_training_that_no_figure_is_of_is_not_repeated_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert seed_settings(7, ["train_acoustic/validation/loss"]) == {"train_acoustic.seed": 7}
    every = {"train_vocoder.seed": 7, "train_acoustic.seed": 7}
    assert seed_settings(7, ["train_acoustic/validation/loss", "intelligibility.fp32.wer"]) == every
    assert seed_settings(7) == every


def test_a_worker_that_was_taken_for_dead_leaves_its_trial_to_the_other(here: Path) -> None:
    study = made(trials=1)

    def suspended(trial: Trial, settings: dict[str, Any]) -> Sequence[float]:
        if trial.number == 0:  # as another worker does after missing signs of life
            study.study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            studies.RetryHeartbeatStaleTrialCallback()(study.study, study.trials[0])
        trial.set_user_attr("too", "late")
        return (1.0,)

    finish(study, suspended)
    assert counts(study) == "1 complete, 0 left" and len(study.trials) == 2
