"""Parity checks of a runtime: values, padding and chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.mel import MelConfig
from sonorant.export.candidate import Expected
from sonorant.export.distances import Arrays, Case, Difference, check_ends, difference
from sonorant.export.tolerance import Fault, Tolerance
from sonorant.families.parallel.synthesis import vocoder_frames
from sonorant.speech.bundle import ReceptiveField, VoiceDescription
from sonorant.speech.chunks import compute_chunks, decode_chunks
from sonorant.speech.runtimes import Runtime

NUDGE = 1.003
"""Speed factor of the second comparison, which changes every sum of durations."""
PARTS = (23, 40)
"""Numbers of frames of the first part and of later parts in `check_chunks`."""
ROUNDED = 1.0
"""Maximum number of frames by which padding may move a token's end."""
GRAPHS = {"states": "encoder", "ends": "encoder", "mel": "decoder", "samples": "vocoder"}


def follow(runtime: Runtime, inputs: Arrays, description: VoiceDescription) -> Case:
    """Run all graphs on the encoder's inputs and return the results."""
    states, ends = runtime.encode(**inputs)
    lengths = ends[:, -1]
    mel = runtime.decode(states, ends, np.arange(lengths.max()))
    (frames,) = vocoder_frames([mel], description)
    return Case(inputs, states, ends, mel, frames, runtime.vocode(frames, lengths))


@dataclass(frozen=True)
class Measured:
    runtime: Runtime
    audio: MelConfig
    tolerance: Tolerance

    def encode(self, case: Case) -> dict[str, Any]:
        states, ends = self.runtime.encode(**case.inputs)
        return {"states": states, "ends": ends}

    def sound(self, case: Case) -> dict[str, Any]:
        mel = self.runtime.decode(case.states, case.ends, case.time)
        return {"mel": mel, "samples": self.runtime.vocode(case.frames, case.lengths)}

    def compare(self, got: dict[str, Any], case: Case, batch: int, other: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the graph and report row of each output in `got`. Raises Fault at the first output that differs too
        much from `case`, which `other` computed."""
        # Padding is undefined: in int8, its error is several times as large.
        real_BN1 = (np.arange(case.tokens) < case.inputs["lengths"][:, None])[:, :, None]
        for output, values in got.items():
            graph, wanted = GRAPHS[output], getattr(case, output)
            length = case.tokens if graph == "encoder" else len(case.time)
            where = where_of(graph, output, length, batch)
            if output == "ends":
                yield graph, {"frames_off": check_ends(values, wanted, self.tolerance, where, other)}
                continue
            if output == "states":
                values, wanted = values * real_BN1, wanted * real_BN1
            yield (
                graph,
                row_of(length, batch, compare(where, output, values, wanted, self.audio, self.tolerance, other)),
            )


def compare(
    where: str, output: str, got: NDArray[Any], wanted: NDArray[Any], audio: MelConfig, tolerance: Tolerance, other: str
) -> Difference:
    found = difference(output, got, wanted, audio, where)
    found.check(tolerance, where, other)
    return found


def check_values(measured: Measured, expected: Expected) -> dict[str, dict[str, Any]]:
    """Return `{graph: {max_abs_diff, tolerance, relative_error, log_mel_db, correlation, worst: {length, output},
    cases}}`; `length` counts the longest row's tokens for the encoder, otherwise frames. Raises Fault if a tolerance is
    exceeded."""
    rows: dict[str, list[dict[str, Any]]] = {"encoder": [], "decoder": [], "vocoder": []}
    for case in expected.cases:
        rows["encoder"].append(_encoder_row(measured, expected, case))
        for graph, row in measured.compare(measured.sound(case), case, case.batch, expected.name):
            rows[graph].append(row)
    return {graph: summary_of(found, measured.tolerance) for graph, found in rows.items()}


def _encoder_row(measured: Measured, expected: Expected, case: Case) -> dict[str, Any]:
    """Compare the encoder's outputs. Correct sums of durations may differ by one frame after rounding, so a case that
    differs is compared again at a slightly different speed: a tie disappears, a fault remains."""
    again = False
    try:
        found = list(measured.compare(measured.encode(case), case, case.batch, expected.name))
    except Fault:
        again, inputs = True, case.inputs | {"speed": case.inputs["speed"] * np.float32(NUDGE)}
        states, ends = expected.runtime.encode(**inputs)
        case = replace(case, inputs=inputs, states=states, ends=ends)
        found = list(measured.compare(measured.encode(case), case, case.batch, expected.name))
    (_, states_row), (_, ends_row) = found
    return states_row | ends_row | {"compared_again": again}


def check_padding(measured: Measured, cases: Sequence[Case]) -> dict[str, Any]:
    """Compare rows of a batch with the same utterances computed alone; return `{max_abs_diff, tolerance, rows}`. Raises
    Fault if the tolerance is exceeded."""
    tolerance, rows, largest = measured.tolerance, 0, 0.0
    loose = replace(tolerance, frames=(max(ROUNDED, tolerance.frames[0]), tolerance.frames[1]))
    measured = replace(measured, tolerance=loose)
    for case in (case for case in cases if case.batch > 1):
        encoded, sounding = measured.encode(case), measured.sound(case)
        together = replace(case, states=encoded["states"], **sounding)
        for number in range(case.batch):
            one, row = case.row(number), together.row(number)
            alone = replace(one, **measured.encode(one) | measured.sound(one))
            got = {output: getattr(row, output) for output in GRAPHS}
            got["ends"] = encoded["ends"][number : number + 1, : one.tokens]
            for _, found in measured.compare(got, alone, case.batch, "the row alone"):
                largest = max(largest, found.get("max_abs_diff", 0.0))
            rows += 1
    return {"max_abs_diff": largest, "tolerance": tolerance.max_abs_diff, "rows": rows}


def check_chunks(measured: Measured, case: Case, receptive_field: ReceptiveField) -> dict[str, Any]:
    """Compare an utterance computed in parts with the whole; return `{max_abs_diff, tolerance, parts}`. Raises Fault if
    the tolerance is exceeded."""
    runtime = measured.runtime
    decoded = list(decode_chunks(runtime, case.states, case.ends, receptive_field.decoder, PARTS))
    spoken = list(compute_chunks(runtime.vocode, [case.frames], case.lengths, receptive_field.vocoder, PARTS))
    whole, largest = measured.sound(case), 0.0
    for output, parts in (("mel", decoded), ("samples", spoken)):
        where = f"{where_of(GRAPHS[output], output, len(case.time), case.batch)}, in {len(parts)} parts"
        got = np.concatenate(parts, axis=-1)
        found = compare(where, output, got, whole[output], measured.audio, measured.tolerance, "the whole")
        largest = max(largest, found.max_abs_diff)
    return {"max_abs_diff": largest, "tolerance": measured.tolerance.max_abs_diff, "parts": len(decoded)}


def where_of(graph: str, output: str, length: int, batch: int) -> str:
    return f"graph {graph}, output {output}, length {length}, batch {batch}"


def row_of(length: int, batch: int, found: Difference) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(found).items() if value is not None}
    return {"length": length, "batch": batch, **figures}


def summary_of(cases: list[dict[str, Any]], tolerance: Tolerance) -> dict[str, Any]:
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
    return {
        graph: {key: value for key, value in found.items() if key != "cases"} if isinstance(found, dict) else found
        for graph, found in graphs.items()
    }
