"""A learning curve: the same training on some and on all minutes of the recordings, with several seeds.

Each arm (a size and a seed) is a predefined trial as in `compare.py`: stored, shared by workers, and resumable.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from flows.tuning.compare import FIRST_SEED, seed_settings
from flows.tuning.figures import MINUTES, Figure, NoFigure
from flows.tuning.search import Search, Values
from flows.tuning.sizes import ALL, MORE, REPORT, STUDY, corpus_path, files_below, read_sizes
from flows.tuning.study import ARM, DETAILS, SETTINGS, TuningStudy, make_comparison
from flows.workspace import check_settings, parse_overrides
from sonorant.errors import SonorantError
from sonorant.extras.learning_curve.conclusions import Measure
from sonorant.extras.learning_curve.curve_page import as_json, curve_page, sentences_of
from sonorant.extras.learning_curve.fit import Curve, curve_of
from sonorant.extras.learning_curve.points import Point
from sonorant.extras.learning_curve.tuned import Tuned, advantages, tuned_sentences
from sonorant.families.family import VoiceConfig
from sonorant.files import write_json, write_text
from sonorant.plugins import load_family
from tasks import params

KEY = "features.minutes"
TUNED = "-tuned"
"""Suffix that marks the size in the name of a fine-tuned arm."""
ALIKE = 0.99
"""Fraction of all minutes above which a size is omitted."""
CHEAP: dict[str, Any] = {
    "quantize.method": "ptq",
    "verify.runtimes": ["onnxruntime"],
    "evaluate.latency_repeats": 3,
    "evaluate.hear": "fp32",
}
"""Default settings of every trial: metrics of fp32 need neither int8 training nor exact timing."""
MEASURES = (
    Measure(
        name="intelligibility.fp32.above_recordings.wer",
        words="words misunderstood beyond the recordings' own",
        unit="points",
    ),
    Measure(name="naturalness.fp32.dnsmos_below_recordings", words="DNSMOS below the recordings'", unit="points"),
    Measure(name="naturalness.fp32.pitch_correlation", words="pitch correlation with the recordings"),
    Measure(
        name="short_texts.fp32.short.faulty_rate", words="short texts with a lost word", unit="points", scale=100.0
    ),
)
"""Metrics that a curve shows by default."""


def begin_curve(
    sizes: str,
    seeds: int,
    figures: Sequence[str],
    name: str = STUDY,
    root: Path = Path(),
    tuned: Mapping[str, Any] | None = None,
) -> TuningStudy:
    """Create or resume the study of a learning curve. Raises SonorantError for invalid options.

    `tuned`: settings of fine-tuned voices (`settings_from`), trained in addition to those from scratch.
    """
    from flows.graph import read_graph
    from flows.tuning.begin import base_of  # imports torch, not needed to show a curve

    if seeds < 2:
        raise SonorantError(f"--seeds {seeds}: an interval requires at least 2; 3 are better")
    minutes = read_sizes(sizes)
    search = Search(
        study=name,
        objectives={MINUTES: "maximize"},  # a study needs an objective; the curve's figures are only recorded
        also=list(figures) or [measure.name for measure in MEASURES],
        space={KEY: Values(choices=[*minutes, None])},
        fixed=cheap(figures),
    )
    for settings in ({KEY: minutes[0]}, search.fixed, tuned or {}):
        check_settings(root / "params.yaml", settings)
    graph = read_graph(root.resolve())
    for figure in map(Figure, figures):
        figure.stage(graph)
        with suppress(NoFigure):  # this project's voice lacks the figure
            figure.check(root)
    arms = {
        f"{label}{kind} {seed}": {**search.fixed, KEY: value, **seed_settings(seed), **settings}
        for seed in range(FIRST_SEED, FIRST_SEED + seeds)  # completes a curve of the first seed first
        for label, value in [*((f"{size:g}", size) for size in minutes), (ALL, None)]
        for kind, settings in {"": {}, **({TUNED: tuned} if tuned else {})}.items()
    }
    base = base_of(search, graph, root) | {"--figure": search.also, "--init-from and --with": tuned}
    base["the files of corpus.path"] = files_below(corpus_path(root))
    return make_comparison(search, name, arms, base)


def _source(trial: FrozenTrial) -> str:
    settings = trial.user_attrs[SETTINGS]
    return " and ".join(sorted({str(value) for key, value in settings.items() if key.endswith(".init_from")}))


def settings_from(init_from: str, changes: Sequence[str]) -> dict[str, Any]:
    """Return settings that fine-tune a registered voice, a bundle, or the folder `models` of a project.

    `changes`: additional settings, each KEY=VALUE. Raises SonorantError if one has no value.
    """
    family, folder = load_family(params.load("voice", VoiceConfig).family), Path(init_from)
    roles = {"predictor": family.predictor.name, "waveform": family.waveform.name}
    in_folder = all((folder / role / "model.json").is_file() for role in roles)
    named = str(folder.resolve()) if folder.exists() else init_from  # each trial runs in its own folder
    settings = {f"train_{kind}.init_from": f"{named}/{role}" if in_folder else named for role, kind in roles.items()}
    return settings | parse_overrides(changes, "--with")


def cheap(figures: Sequence[str]) -> dict[str, Any]:
    """Return settings that skip work that `figures` do not need."""
    if any("int8" in figure or figure.startswith(("speed.", "first_audio.", "memory.")) for figure in figures):
        return {"evaluate.hear": "all"}
    return CHEAP


def measures_of(study: TuningStudy) -> list[Measure]:
    known = {measure.name: measure for measure in MEASURES}
    return [known.get(name, Measure(name=name, words=name)) for name in study.search.also]


def curves_of(study: TuningStudy) -> tuple[dict[Measure, Curve | str], list[str]]:
    """Return each metric's curve, or the reason why it has none, and notes on omissions. Raises SonorantError if the
    study is not a learning curve."""
    if KEY not in study.search.space or not study.compares:
        raise SonorantError(f"study '{study.name}' is not a learning curve; see: sonorant tune status {study.name}")
    by_size = {size: trials for size, trials in _by_arm(study).items() if not size.endswith(TUNED)}
    notes = [f"{study.left() + study.at_work()} trainings are incomplete."] if study.left() + study.at_work() else []
    minutes = {size: float(np.mean([trial.values[0] for trial in trials])) for size, trials in by_size.items()}
    for size in [size for size in by_size if size != ALL and minutes[size] >= ALIKE * minutes.get(ALL, float("inf"))]:
        notes.append(f"{size} minutes are omitted, because there are only {minutes[ALL]:.1f}.")
        del by_size[size]
    found: dict[Measure, Curve | str] = {}
    for measure in measures_of(study):
        try:
            found[measure] = curve_of(_points(measure.name, [(minutes[s], trials) for s, trials in by_size.items()]))
        except SonorantError as error:
            found[measure] = f"not run: {error}"
    return found, notes


def tuned_of(study: TuningStudy) -> tuple[str, Tuned]:
    """Return the source of the fine-tuned voices and their advantage in each metric; both are empty without fine-tuned
    voices."""
    by_arm = _by_arm(study)
    pairs = [(trials, by_arm[f"{size}{TUNED}"]) for size, trials in by_arm.items() if f"{size}{TUNED}" in by_arm]
    found: Tuned = {}
    for measure in measures_of(study) if pairs else ():
        try:
            both = [_points(measure.name, [(float(t[0].values[0]), t) for t in pair]) for pair in pairs]
            found[measure] = advantages([(scratch, tuned) for scratch, tuned in both])
        except (SonorantError, ValueError) as error:
            found[measure] = f"not run: {error}"
    return (_source(pairs[0][1][0]) if pairs else ""), found


def _by_arm(study: TuningStudy) -> dict[str, list[FrozenTrial]]:
    by_arm: dict[str, list[FrozenTrial]] = {}
    for trial in study.trials:
        if trial.state == TrialState.COMPLETE and DETAILS in trial.user_attrs:
            by_arm.setdefault(trial.user_attrs[ARM].split()[0], []).append(trial)
    return by_arm


def _points(name: str, sizes: Sequence[tuple[float, list[FrozenTrial]]]) -> list[Point]:
    points: list[Point] = []
    why = ""
    for minutes, trials in sizes:
        details = [trial.user_attrs[DETAILS][name] for trial in trials]
        why = next((each["not_run"] for each in details if "not_run" in each), why)
        details = [each for each in details if "value" in each]
        if not details:
            continue
        known = all(each["parts"] for each in details)
        points.append(
            Point(
                minutes=minutes,
                values=tuple(each["value"] for each in details),
                intervals=tuple((each["ci95"][0], each["ci95"][1]) for each in details if each["ci95"]),
                parts=tuple(np.array(each["parts"], dtype=np.float64) for each in details) if known else (),
            )
        )
    if not points and why:
        raise SonorantError(why)
    return points


def write_report(study: TuningStudy, more: float | None = None, report: Path = REPORT) -> list[str]:
    """Write `reports/curve.json` and `reports/curve.html`; return their conclusions.

    `more`: additional minutes to forecast; None means `MORE`, or the recorded minutes if fewer. Raises SonorantError if
    `more` is too large.
    """
    found, notes = curves_of(study)
    there = [curve.most for curve in found.values() if isinstance(curve, Curve)]
    more = min([MORE, *there]) if more is None else more
    began = tuned_of(study)
    write_json(report, as_json(study.name, found, more, notes, *began))
    write_text(report.with_suffix(".html"), curve_page(study.name, found, more, notes, *began))
    return [*sentences_of(found, more), *tuned_sentences(began[1]), *notes]
