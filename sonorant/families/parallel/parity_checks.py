"""Parity checks of a runtime: values, padding and chunks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.mel import MelConfig
from sonorant.export.candidate import Expected
from sonorant.export.distances import Arrays, Case, Difference, check_comparable, check_ends, difference
from sonorant.export.tolerance import Fault, Tolerance
from sonorant.families.parallel.synthesis import vocoder_frames
from sonorant.speech.bundle import ReceptiveField, VoiceDescription
from sonorant.speech.chunks import compute_chunks, decode_chunks
from sonorant.speech.runtimes import Runtime

NUDGE = 1.003
"""Speed factor of a second comparison, which moves every sum of durations."""
PARTS = (23, 40)
"""Frames of the first part and of later ones in `check_chunks`."""
ROUNDED = 1.0
"""Frames by which padding may move a token's end, if a sum of durations lies between two frames."""


def follow(runtime: Runtime, inputs: Arrays, description: VoiceDescription) -> Case:
    """A runtime's results for the encoder's inputs."""
    states, ends = runtime.encode(**inputs)
    lengths = ends[:, -1]
    mel = runtime.decode(states, ends, np.arange(lengths.max()))
    (frames,) = vocoder_frames([mel], description)
    return Case(inputs, states, ends, mel, frames, runtime.vocode(frames, lengths))


def check_values(
    runtime: Runtime, expected: Expected, audio: MelConfig, tolerance: Tolerance
) -> dict[str, dict[str, Any]]:
    """`{graph: {max_abs_diff, tolerance, relative_error, log_mel_db, correlation, worst: {length, output}, cases}}`.
    `length` counts the longest row's tokens for the encoder, else its frames. Raises Fault naming graph, output,
    length, batch and figure if a case exceeds the tolerance."""
    rows: dict[str, list[dict[str, Any]]] = {"encoder": [], "decoder": [], "vocoder": []}
    for case in expected.cases:
        rows["encoder"].append(_encoder_values(runtime, expected, case, audio, tolerance))
        for graph, output, got, wanted in (
            ("decoder", "mel", runtime.decode(case.states, case.ends, case.time), case.mel),
            ("vocoder", "samples", runtime.vocode(case.frames, case.lengths), case.samples),
        ):
            where = where_of(graph, output, len(case.time), case.batch)
            found = compare(where, output, got, wanted, audio, tolerance, expected.name)
            rows[graph].append(row_of(len(case.time), case.batch, found))
    return {graph: summary_of(cases, tolerance) for graph, cases in rows.items()}


def compare(
    where: str, output: str, got: NDArray[Any], wanted: NDArray[Any], audio: MelConfig, tolerance: Tolerance, other: str
) -> Difference:
    """Measure an output. Raises Fault, beginning with `where`, if it is too far from `other`, such as "torch"."""
    found = difference(output, got, wanted, audio, where)
    found.check(tolerance, where, other)
    return found


def _encoder_values(
    runtime: Runtime, expected: Expected, case: Case, audio: MelConfig, tolerance: Tolerance
) -> dict[str, Any]:
    """Durations are rounded to frames, so two right sums near a half may differ by one. A case that differs is compared
    again at a slightly different speed: a tie disappears, a fault stays."""
    try:
        return _compare_encoder(runtime, case, audio, tolerance, expected.name) | {"compared_again": False}
    except Fault:
        inputs = case.inputs | {"speed": case.inputs["speed"] * np.float32(NUDGE)}
        states, ends = expected.runtime.encode(**inputs)
        case = replace(case, inputs=inputs, states=states, ends=ends)
        return _compare_encoder(runtime, case, audio, tolerance, expected.name) | {"compared_again": True}


def _compare_encoder(runtime: Runtime, case: Case, audio: MelConfig, tolerance: Tolerance, name: str) -> dict[str, Any]:
    states, ends = runtime.encode(**case.inputs)
    where = where_of("encoder", "states", case.tokens, case.batch)
    check_comparable(states, case.states, where)
    # Padding is undefined: in int8 its error is several times as large.
    real_BN1 = (np.arange(case.tokens) < case.inputs["lengths"][:, None])[:, :, None]
    found = compare(where, "states", states * real_BN1, case.states * real_BN1, audio, tolerance, name)
    off = check_ends(ends, case.ends, tolerance, where_of("encoder", "ends", case.tokens, case.batch), name)
    return row_of(case.tokens, case.batch, found) | {"frames_off": off}


def check_padding(runtime: Runtime, cases: Sequence[Case], audio: MelConfig, tolerance: Tolerance) -> dict[str, Any]:
    """The largest difference `{max_abs_diff, tolerance, rows}` between a row of a batch and the same utterance alone.
    Raises Fault as `check_values`; `length` is the row's own."""
    rows, largest = 0, 0.0
    loose = replace(tolerance, frames=(max(ROUNDED, tolerance.frames[0]), tolerance.frames[1]))
    for case in (case for case in cases if case.batch > 1):
        states, ends = runtime.encode(**case.inputs)
        mel, samples = runtime.decode(case.states, case.ends, case.time), runtime.vocode(case.frames, case.lengths)
        for number in range(case.batch):
            one, row = case.row(number), slice(number, number + 1)
            tokens, frames = one.tokens, len(one.time)
            heard = frames * samples.shape[1] // mel.shape[2]
            states_alone, ends_alone = runtime.encode(**one.inputs)
            for graph, output, length, got, alone in (
                ("encoder", "states", tokens, states[row, :tokens], states_alone),
                ("decoder", "mel", frames, mel[row, :, :frames], runtime.decode(one.states, one.ends, one.time)),
                ("vocoder", "samples", heard, samples[row, :heard], runtime.vocode(one.frames, one.lengths)),
            ):
                where = where_of(graph, output, length, case.batch)
                found = compare(where, output, got, alone, audio, tolerance, "the row alone")
                largest = max(largest, found.max_abs_diff)
            where = where_of("encoder", "ends", tokens, case.batch)
            check_ends(ends[row, :tokens], ends_alone, loose, where, "the row alone")
            rows += 1
    return {"max_abs_diff": largest, "tolerance": tolerance.max_abs_diff, "rows": rows}


def check_chunks(
    runtime: Runtime, case: Case, receptive_field: ReceptiveField, audio: MelConfig, tolerance: Tolerance
) -> dict[str, Any]:
    """The largest difference `{max_abs_diff, tolerance, parts}` between the whole and its parts, each with its
    receptive field. Raises Fault as `check_values`."""
    decoded = list(decode_chunks(runtime, case.states, case.ends, receptive_field.decoder, PARTS))
    spoken = list(compute_chunks(runtime.vocode, [case.frames], case.lengths, receptive_field.vocoder, PARTS))
    found = []
    for graph, output, parts, whole in (
        ("decoder", "mel", decoded, runtime.decode(case.states, case.ends, case.time)),
        ("vocoder", "samples", spoken, runtime.vocode(case.frames, case.lengths)),
    ):
        where = f"{where_of(graph, output, len(case.time), case.batch)}, in {len(parts)} parts"
        value = compare(where, output, np.concatenate(parts, axis=-1), whole, audio, tolerance, "the whole")
        found.append(value.max_abs_diff)
    return {"max_abs_diff": max(found), "tolerance": tolerance.max_abs_diff, "parts": len(decoded)}


def where_of(graph: str, output: str, length: int, batch: int) -> str:
    """Beginning of a fault's message."""
    return f"graph {graph}, output {output}, length {length}, batch {batch}"


def row_of(length: int, batch: int, found: Difference) -> dict[str, Any]:
    """A case of the report."""
    row = {"length": length, "batch": batch, "output": found.output, "max_abs_diff": found.max_abs_diff}
    row["relative_error"] = found.relative_error
    return row | {name: value for name in ("log_mel_db", "correlation") if (value := getattr(found, name)) is not None}


def summary_of(cases: list[dict[str, Any]], tolerance: Tolerance) -> dict[str, Any]:
    """A graph's worst case, and all cases."""
    worst = max(cases, key=lambda case: case["max_abs_diff"])
    measures = [name for name in ("relative_error", "log_mel_db", "frames_off") if name in worst]
    correlations = [case["correlation"] for case in cases if "correlation" in case]
    return {
        "max_abs_diff": worst["max_abs_diff"],
        "tolerance": tolerance.max_abs_diff,
        **{name: max(case[name] for case in cases) for name in measures},
        **({"correlation": min(correlations)} if correlations else {}),
        "worst": {"length": worst["length"], "output": worst["output"]},
        "cases": cases,
    }


def without_cases(graphs: dict[str, Any]) -> dict[str, Any]:
    """The result of `check_values` without single cases."""
    return {
        graph: {key: value for key, value in found.items() if key != "cases"} if isinstance(found, dict) else found
        for graph, found in graphs.items()
    }
