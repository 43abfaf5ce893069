"""Parity checks of the family codec_lm. Greedy tokens are always compared; the graphs `prefill` and `step` only if the
runtime has them."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Integers, Ints
from sonorant.audio.pitch import SourceRows
from sonorant.export.candidate import Candidate, Expected, Trained
from sonorant.export.distances import TOGETHER, Arrays, batches
from sonorant.export.tolerance import FROM_FLOAT
from sonorant.extras.codec_lm.decoding.advance import complete, looked_at
from sonorant.extras.codec_lm.decoding.session import TokenRuntime
from sonorant.extras.codec_lm.decoding.state import start_state
from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.extras.codec_lm.parity_cases import Step, TokenCase, frames_of, greedy_rules, prompts
from sonorant.extras.codec_lm.parity_checks import (
    Measured,
    check_chunks,
    check_padding,
    check_tokens,
    check_values,
    each_row,
)
from sonorant.extras.codec_lm.saved import load_language_model
from sonorant.extras.codec_lm.sounding import decoding_of, has_source
from sonorant.families.parallel.parity_checks import without_cases
from sonorant.layers.kv_cache import DynamicCache
from sonorant.speech.bundle import Bundle, VoiceDescription
from sonorant.speech.onnx_sessions import CPU, ON_CUDA, open_session
from sonorant.speech.runtimes import LoadOptions, load_runtime

STEPS = (0, 1, 7, 40)
"""Indices of the steps of each case whose values are compared."""


class TokenCandidate(Candidate):
    @staticmethod
    def expect(bundle: Bundle, trained: Trained, utterances: Sequence[Integers], name: str) -> Expected:
        """Run the trained models on the shortest, the middle and the longest utterance (N, 3), individually and as a
        batch."""
        runtime: Any = load_runtime("torch", bundle, LoadOptions(trained=trained, batches=(1, TOGETHER)))
        reference = Reference(runtime, load_language_model(trained[0])[0], bundle.description)
        few = [utterances[number] for number in sorted({0, len(utterances) // 2, len(utterances) - 1})]
        inputs = [
            {key: one[key] for key in ("tokens", "lengths", "speaker")}
            for one in batches(few, len(bundle.description.speakers))
        ]
        return Expected(reference, [reference.follow(one, number) for number, one in enumerate(inputs)], name)

    def computing(self) -> dict[str, Callable[[], Any]]:
        from_float = {"float": self._from_float} if self.variant == "int8" else {}
        return {
            "graphs": lambda: check_values(self.measured(), self.expected),
            **from_float,
            "tokens": lambda: self._same_tokens(self.expected),
            "padding": self._padding,
            "parts": self._parts,
        }

    def options(self) -> LoadOptions:
        return LoadOptions(variant=self.variant, trained=self.trained, batches=(1, TOGETHER))

    def _from_float(self) -> dict[str, Any]:
        return without_cases(check_values(self.measured(FROM_FLOAT), self.of_float))

    def _padding(self) -> dict[str, Any]:
        tokens = self._same_tokens(each_row(self.expected))
        return check_padding(self.measured(), self.expected.cases) | {"tokens": tokens}

    def _parts(self) -> dict[str, Any]:
        longest = max(self.expected.cases, key=lambda case: case.codes.shape[1])
        return check_chunks(self.measured(), longest, self.bundle.description.receptive_field)

    def _same_tokens(self, expected: Expected) -> dict[str, Any]:
        likelihoods = expected.runtime.likelihoods
        return check_tokens(
            self.loaded, expected, likelihoods, self.config.tokens[self.variant], self.tolerance("fp32").max_abs_diff
        )

    def measured(self, variant: str | None = None) -> Measured:
        """Return the candidate with the tolerance of `variant`; None means the candidate's variant."""
        graphs = self._graph if self.row.engine == "onnxruntime" else None
        return Measured(self.loaded, graphs, self.audio, self.tolerance(variant))

    def _graph(self, name: str, inputs: Arrays) -> Arrays:
        session = self._sessions[name]
        outputs = [output.name for output in session.get_outputs()]
        return dict(zip(outputs, session.run(outputs, inputs), strict=True))

    @cached_property
    def _sessions(self) -> dict[str, Any]:
        providers = (CPU,) if self.row.device == "cpu" else ON_CUDA
        return {graph: open_session(self.file(graph), None, providers) for graph in ("prefill", "step")}


class Reference:
    """The trained models under torch, with which candidates are compared."""

    def __init__(self, runtime: TokenRuntime, model: LanguageModel, voice: VoiceDescription) -> None:
        self.runtime, self.model, self.voice, self.description = runtime, model, voice, decoding_of(voice)

    @torch.inference_mode()
    def follow(self, inputs: Arrays, number: int) -> TokenCase:
        states = self.runtime.encode(**inputs)
        prompt, prompt_lengths = prompts(len(states), number, self.description)
        rules = greedy_rules(inputs["lengths"], self.description)
        state = start_state(rules, prompt_lengths, self.description)
        path, stepper = [state], self.runtime.stepper()
        stepper.begin(states, inputs["lengths"], prompt, prompt_lengths, rules)
        while not complete(path[-1], np).all():
            path.append(stepper.run(path[-1], 1))
        lengths = path[-1].ended_B
        codes = frames_of(path[-1].grid_BSG, lengths)
        frames, vocoded, stride = self._sounding(codes, lengths)
        case = TokenCase(
            inputs,
            states,
            prompt,
            prompt_lengths,
            {},
            (),
            rules,
            tuple(path),
            codes,
            lengths,
            frames,
            vocoded,
            stride,
            self.runtime.vocode(vocoded, lengths * stride),
        )
        return self._with_graphs(case)

    def _sounding(self, codes: Ints, lengths: Ints) -> tuple[Floats | None, NDArray[Any], int]:
        """Return the output of the graph `decoder`, the input of the graph `vocoder`, and the number of input frames
        per code frame."""
        if not has_source(self.voice):
            return None, codes, 1
        frames = self.runtime.decode(codes, lengths)
        source = SourceRows(self.voice.audio.sample_rate, self.voice.audio.hop)
        return frames, source.append(frames), self.description.stride

    def likelihoods(self, case: TokenCase) -> Iterator[tuple[Floats, Floats]]:
        """Yield the logits of codes (B, G, K) and of the pointer (B, A) at each step of a case's path."""
        for _, outputs in self._steps(case):
            yield outputs["logits"], outputs["advance"]

    def _with_graphs(self, case: TokenCase) -> TokenCase:
        cache = self._prefilled(case)
        prefilled = _held(cache) | {"position": cache.positions.numpy()}
        early = dataclasses.replace(case, path=case.path[: max(STEPS) + 2])
        steps = (
            Step(number, *arrays) for number, arrays in enumerate(self._steps(early, kept=STEPS)) if number in STEPS
        )
        return dataclasses.replace(case, prefilled=prefilled, steps=tuple(steps))

    def _prefilled(self, case: TokenCase) -> DynamicCache:
        cache = DynamicCache(self.description.layers)
        fed = (case.states, case.inputs["lengths"], case.prompt, case.prompt_lengths)
        states, lengths, prompt, prompt_lengths = map(torch.from_numpy, fed)
        self.model.prefill(states, lengths, prompt, prompt_lengths, cache)
        return cache

    @torch.inference_mode()
    def _steps(self, case: TokenCase, kept: Collection[int] = ()) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield the inputs and outputs of the graph `step` at each step of a case's path, with the cache only at the
        steps `kept`."""
        cache = self._prefilled(case)
        for number, state in enumerate(case.path[:-1]):
            inputs = {
                "codes": state.codes_BG,
                "state": looked_at(state, case.states, np),
                "age": state.age_B,
                "position": state.position_B,
            }
            fed = (torch.from_numpy(np.ascontiguousarray(one)) for one in inputs.values())
            codes, phoneme, age, position = fed
            before = {"slot_position": cache.positions.numpy(), **_held(cache)} if number in kept else {}
            logits_BGK, advance_BA = self.model.step(codes, phoneme, age, position, cache)
            after = _held(cache) if number in kept else {}
            new = {
                f"new_{name}": one[..., -1] if name.startswith("key") else one[:, :, -1] for name, one in after.items()
            }
            yield inputs | before, {"logits": logits_BGK.numpy(), "advance": advance_BA.numpy(), **new}


def _held(cache: DynamicCache) -> Arrays:
    """Return keys and values in the graphs' layout: key_<layer> (B, H, D, slots), value_<layer> (B, H, slots, D)."""
    keys = {f"key_{layer}": key.transpose(2, 3).contiguous().numpy() for layer, key in enumerate(cache.keys)}
    return keys | {f"value_{layer}": value.contiguous().numpy() for layer, value in enumerate(cache.values)}
