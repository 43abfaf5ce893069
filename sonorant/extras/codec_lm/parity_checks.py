"""Parity checks of a runtime: values, tokens, padding and chunks. Greedy decoding is compared in up to two ways. If a
freely running runtime does not decode torch's tokens, it runs again and receives torch's tokens before each step, so
that a tie between two codes is counted only once."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.mel import MelConfig
from sonorant.export.candidate import Expected
from sonorant.export.distances import Arrays
from sonorant.export.tolerance import Fault, Tolerance
from sonorant.extras.codec_lm.decoding.advance import LOG_HALF
from sonorant.extras.codec_lm.decoding.session import Stepper, TokenRuntime
from sonorant.extras.codec_lm.decoding.state import Rules, State
from sonorant.extras.codec_lm.parity_cases import TokenCase, frames_of, padded_cache
from sonorant.families.parallel.parity_checks import PARTS, compare, row_of, summary_of, where_of
from sonorant.speech.bundle import ReceptiveField
from sonorant.speech.chunks import Computing, compute_chunks

Graphs = Callable[[str, Arrays], Arrays]
"""Function that computes the graph `prefill` or `step`, given its name."""
Likelihoods = Callable[[TokenCase], Iterator[tuple[Floats, Floats]]]
"""Function that yields torch's logits at each step of a case's path: codes (B, G, K) and pointer (B, A)."""
NO_GRAPHS = "not run: this runtime has no such graph, so only its tokens are compared"


@dataclass(frozen=True)
class Measured:
    runtime: TokenRuntime
    graphs: Graphs | None
    """Function that computes a graph; None if the runtime has no separate graphs."""
    audio: MelConfig
    tolerance: Tolerance

    def compute(self, case: TokenCase) -> TokenCase:
        """Return the case with the candidate's results; without graphs, prefill and steps are unchanged."""
        computed = dataclasses.replace(
            case,
            states=self.runtime.encode(**case.inputs),
            frames=None if case.frames is None else self.runtime.decode(case.codes, case.lengths),
            samples=self.runtime.vocode(case.vocoded, case.vocoded_lengths),
        )
        if self.graphs is None:
            return computed
        inputs = {"states": case.states, "lengths": case.inputs["lengths"]}
        inputs |= {"prompt": case.prompt, "prompt_lengths": case.prompt_lengths}
        steps = tuple(
            dataclasses.replace(step, outputs=self.graphs("step", padded_cache(step.inputs))) for step in case.steps
        )
        return dataclasses.replace(computed, prefilled=self.graphs("prefill", inputs), steps=steps)

    def compare(
        self, got: TokenCase, wanted: TokenCase, batch: int, other: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the graph and report row of each output. Raises Fault for the first output that differs too much.
        `other` names the origin of `wanted`, such as "torch"."""
        pairs = zip(_outputs(got, self.graphs is not None), _outputs(wanted, self.graphs is not None), strict=True)
        for (graph, length, output, values), (_, _, _, expected) in pairs:
            where = where_of(graph, output, length, batch)
            found = compare(where, output, values, expected, self.audio, self.tolerance, other)
            yield graph, row_of(length, batch, found)


def _outputs(case: TokenCase, graphs: bool) -> Iterator[tuple[str, int, str, NDArray[Any]]]:
    yield "encoder", case.tokens, "states", case.states
    if graphs:
        for output in ("position", *sorted(case.prefilled.keys() - {"position"})):
            yield "prefill", case.tokens, output, _real(output, case.prefilled)
        for step in case.steps:
            for output in sorted(step.outputs):
                yield "step", step.number, output, step.outputs[output]
    if case.frames is not None:
        yield "decoder", case.codes.shape[1], "frames", case.frames
    yield "vocoder", case.codes.shape[1], "samples", case.samples


def _real(output: str, prefilled: Arrays) -> NDArray[Any]:
    real_BS, values = prefilled["position"] >= 0, prefilled[output]
    if output == "position":
        return values
    return values * (real_BS[:, None, None] if output.startswith("key") else real_BS[:, None, :, None]).astype(
        values.dtype
    )


def check_values(measured: Measured, expected: Expected) -> dict[str, Any]:
    """Compare each graph's outputs with the expected ones. In the result, `length` is in tokens, steps or code frames;
    `prefill` and `step` are `NO_GRAPHS` if the runtime lacks them. Raises Fault for the first output beyond the
    tolerance."""
    decoder = ("decoder",) if any(case.frames is not None for case in expected.cases) else ()
    names = ("encoder", "prefill", "step", *decoder, "vocoder")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for case in expected.cases:
        for graph, row in measured.compare(measured.compute(case), case, case.batch, expected.name):
            rows[graph].append(row)
    return {graph: summary_of(found, measured.tolerance) if found else NO_GRAPHS for graph, found in rows.items()}


def check_tokens(
    runtime: TokenRuntime, expected: Expected, likelihoods: Likelihoods, share: float, tie: float
) -> dict[str, Any]:
    """Return `{identical, share, ties, decisions}`: whether all greedy tokens equal torch's and, if not, the fraction
    of decisions that do, given torch's earlier tokens. A decision is a code or a move of the pointer. If torch's logits
    of two choices differ by less than `tie`, either is correct. Raises Fault with step and batch of the first wrong
    decision if more than `1 - share` are wrong."""
    wrong = decisions = ties = 0
    first, identical = "", True
    for case in expected.cases:
        decisions += _decisions(case)
        if decodes_alone(runtime.stepper(), case):
            continue
        identical = False
        for number, mistakes, tied in compare_decisions(runtime.stepper(), case, likelihoods, tie):
            if mistakes and not first:
                first = where_of("step", "tokens", number, case.batch)
            wrong, ties = wrong + mistakes, ties + tied
    found = (decisions - wrong) / max(1, decisions)
    if found < share:
        raise Fault(
            f"{first}: {1 - found:.2%} of the greedy tokens differ from those of {expected.name}; the maximum is "
            f"{1 - share:.2%}"
        )
    return {"identical": identical, "share": round(found, 6), "ties": ties, "decisions": decisions}


def decodes_alone(stepper: Stepper, case: TokenCase) -> bool:
    """Whether the stepper, running freely, decodes torch's tokens and ends each row where torch does."""
    _begin(stepper, case)
    state = stepper.run(case.path[0], len(case.path) - 1)
    return np.array_equal(state.ended_B, case.lengths) and np.array_equal(
        frames_of(state.grid_BSG, state.ended_B), case.codes
    )


def compare_decisions(
    stepper: Stepper, case: TokenCase, likelihoods: Likelihoods, tie: float
) -> Iterator[tuple[int, int, int]]:
    """Yield the index of each step and its numbers of wrong decisions and ties, given torch's earlier tokens."""
    _begin(stepper, case)
    codes = case.path[0].used_BGK.shape[2]
    said = zip(case.path, case.path[1:], likelihoods(case), strict=False)
    for number, (before, after, (logits_BGK, advance_BA)) in enumerate(said):
        got, alive_B = stepper.run(before, 1), before.ended_B < 0
        other_BG = (got.codes_BG != after.codes_BG) & (after.codes_BG < codes)
        both = np.minimum([got.codes_BG, after.codes_BG], codes - 1)
        likely = np.take_along_axis(logits_BGK[None], both[..., None], axis=3)[..., 0]
        tied_BG = other_BG & (np.abs(likely[0] - likely[1]) < tie)
        # A pointer that leaves the last phoneme stays in place; `ended_B` shows that it left.
        other_B = alive_B & ((got.pointer_B != after.pointer_B) | (got.ended_B != after.ended_B))
        tied_B = other_B & (np.abs(_survival(before, case.rules, advance_BA) - LOG_HALF) < tie)
        wrong = int((other_BG & ~tied_BG).sum() + (other_B & ~tied_B).sum())
        yield number, wrong, int(tied_BG.sum() + tied_B.sum())


def _survival(before: State, rules: Rules, advance_BA: Floats) -> Floats:
    highest_B1 = advance_BA.max(axis=1, keepdims=True)
    return (
        before.log_survival_B
        + (advance_BA[:, 0] - highest_B1[:, 0])
        - np.log(np.exp(advance_BA - highest_B1).sum(axis=1))
    )


def _decisions(case: TokenCase) -> int:
    codes = case.path[0].used_BGK.shape[2]
    return int(
        sum((after.codes_BG < codes).sum() + (before.ended_B < 0).sum() for before, after in pairwise(case.path))
    )


def _begin(stepper: Stepper, case: TokenCase) -> None:
    stepper.begin(case.states, case.inputs["lengths"], case.prompt, case.prompt_lengths, case.rules)


def check_padding(measured: Measured, cases: Sequence[TokenCase]) -> dict[str, Any]:
    """Compare each row of a batch with the same utterance computed alone. Returns `{max_abs_diff, tolerance, rows}`.
    Raises Fault as `check_values` does."""
    rows, largest = 0, 0.0
    for case in (case for case in cases if case.batch > 1):
        together = measured.compute(case)
        for number in range(case.batch):
            alone = measured.compute(case.row(number))
            found = [row for _, row in measured.compare(together.row(number), alone, case.batch, "the row alone")]
            rows, largest = rows + 1, max(largest, *(row["max_abs_diff"] for row in found))
    return {"max_abs_diff": largest, "tolerance": measured.tolerance.max_abs_diff, "rows": rows}


def each_row(expected: Expected) -> Expected:
    rows = [case.row(number) for case in expected.cases if case.batch > 1 for number in range(case.batch)]
    return Expected(expected.runtime, rows, f"{expected.name} in a batch")


def check_chunks(measured: Measured, case: TokenCase, receptive_field: ReceptiveField) -> dict[str, Any]:
    """Compare decoder and vocoder outputs computed in parts, with receptive fields as context, with those computed as a
    whole. Returns `{max_abs_diff, tolerance, parts}`. Raises Fault as `check_values` does."""
    runtime, found, parts = measured.runtime, [], 0
    graphs: list[tuple[str, str, Computing, NDArray[Any], Ints, int]] = [
        ("vocoder", "samples", runtime.vocode, case.vocoded, case.vocoded_lengths, receptive_field.vocoder)
    ]
    if case.frames is not None:
        graphs.append(("decoder", "frames", runtime.decode, case.codes, case.lengths, receptive_field.decoder))
    for graph, output, compute, given, lengths, sees in graphs:
        axis = 1 if given is case.codes else 2
        pieces = list(compute_chunks(compute, [given], lengths, sees, PARTS, axis=axis))
        parts = max(parts, len(pieces))
        where = f"{where_of(graph, output, case.codes.shape[1], case.batch)}, in {len(pieces)} parts"
        got, whole = np.concatenate(pieces, axis=-1), compute(given, lengths)
        value = compare(where, output, got, whole, measured.audio, measured.tolerance, "the whole")
        found.append(value.max_abs_diff)
    return {"max_abs_diff": max(found), "tolerance": measured.tolerance.max_abs_diff, "parts": parts}
