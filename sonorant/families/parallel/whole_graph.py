"""A voice of the `parallel` family as one ONNX graph: token ids -> samples, one utterance at a time.

Joins the encoder, decoder and vocoder with the steps that runtimes compute in Python: frame numbers, and the vocoder's
source (`sonorant.audio.pitch.SourceRows`).
"""

from __future__ import annotations

import onnx
from onnx import ModelProto, compose, parser

from sonorant.audio.pitch import NOISE_FRAMES, REFERENCE
from sonorant.export.graph_files import opset_of
from sonorant.families.parallel.synthesis import vocoder_rows
from sonorant.speech.bundle import Bundle

TIME = """
<ir_version: {ir}, opset_import: ["": {opset}]>
time (int64[one, tokens] ends) => (int64[frames] time, int64[one] lengths) {{
    zero = Constant <value = int64 {{0}}> ()
    step = Constant <value = int64 {{1}}> ()
    last = ReduceMax <keepdims = 0> (ends)
    time = Range (zero, last, step)
    shape = Constant <value = int64[1] {{1}}> ()
    lengths = Reshape (last, shape)
}}
"""
"""ONNX graph that computes an utterance's frame numbers and their count."""
SOURCE = """
<ir_version: {ir}, opset_import: ["": {opset}]>
source (float[one, rows, frames] mel) => (float[one, all, frames] frames) {{
    from = Constant <value = int64[1] {{-2}}> ()
    to = Constant <value = int64[1] {{-1}}> ()
    rows_axis = Constant <value = int64[1] {{1}}> ()
    octaves_float = Slice (mel, from, to, rows_axis)
    octaves = Cast <to = 11> (octaves_float)
    two = Constant <value = double {{2.0}}> ()
    reference = Constant <value = double {{{reference}}}> ()
    times = Pow (two, octaves)
    hertz = Mul (reference, times)
    first = Constant <value = int64[1] {{0}}> ()
    second = Constant <value = int64[1] {{1}}> ()
    end = Constant <value = int64[1] {{9223372036854775807}}> ()
    time_axis = Constant <value = int64[1] {{2}}> ()
    begin = Slice (hertz, first, second, time_axis)
    before = Slice (hertz, first, to, time_axis)
    after = Slice (hertz, second, end, time_axis)
    sum = Add (before, after)
    half = Constant <value = double {{{half_seconds}}}> ()
    cycles = Mul (sum, half)
    none = Sub (begin, begin)
    all_cycles = Concat <axis = 2> (none, cycles)
    axis = Constant <value = int64 {{2}}> ()
    phase = CumSum (all_cycles, axis)
    whole = Constant <value = double {{1.0}}> ()
    fraction_double = Mod <fmod = 1> (phase, whole)
    fraction = Cast <to = 1> (fraction_double)
    zero = Constant <value = int64 {{0}}> ()
    step = Constant <value = int64 {{1}}> ()
    shape = Shape <start = 2, end = 3> (mel)
    count = Squeeze (shape)
    counted = Range (zero, count, step)
    turn = Constant <value = int64 {{{noise_frames}}}> ()
    number = Mod (counted, turn)
    number_float = Cast <to = 1> (number)
    as_fraction = Shape (fraction)
    numbers = Expand (number_float, as_fraction)
    frames = Concat <axis = 1> (mel, fraction, numbers)
}}
"""
"""ONNX graph that appends the rows of `SourceRows` to the decoder's frames; it also sums the phase in float64."""


def whole_graph(bundle: Bundle, variant: str | None = None) -> ModelProto:
    description = bundle.description
    encoder, decoder, vocoder = (_prefixed(onnx.load(bundle.graph_file(name, variant)), name) for name in bundle.graphs)
    facts: dict[str, object] = {"ir": encoder.ir_version, "opset": opset_of(encoder)}
    time = _prefixed(parser.parse_model(TIME.format(**facts)), "time")
    joined = _joined(encoder, time, [("encoder/ends", "time/ends")], kept=["encoder/states", "encoder/ends"])
    inner = [("encoder/states", "decoder/states"), ("encoder/ends", "decoder/ends"), ("time/time", "decoder/time")]
    joined = _joined(joined, decoder, inner, kept=["time/lengths"])
    frames = "decoder/mel"
    if vocoder_rows(description) != description.graphs["decoder"].outputs[0].shape[1]:
        seconds = description.audio.hop / description.audio.sample_rate
        facts |= {"reference": REFERENCE, "half_seconds": repr(seconds / 2), "noise_frames": NOISE_FRAMES}
        source = _prefixed(parser.parse_model(SOURCE.format(**facts)), "source")
        joined = _joined(joined, source, [("decoder/mel", "source/mel")], kept=["time/lengths"])
        frames = "source/frames"
    joined = _joined(joined, vocoder, [(frames, "vocoder/mel"), ("time/lengths", "vocoder/lengths")], kept=[])
    return _finished(joined)


def _prefixed(model: ModelProto, name: str) -> ModelProto:
    return compose.add_prefix(model, f"{name}/")


def _joined(first: ModelProto, second: ModelProto, links: list[tuple[str, str]], kept: list[str]) -> ModelProto:
    outputs = [*kept, *(each.name for each in second.graph.output)]
    return compose.merge_models(first, second, links, outputs=outputs)


def _finished(model: ModelProto) -> ModelProto:
    graph = model.graph
    names = {"encoder/tokens": "tokens", "vocoder/samples": "samples"}
    names |= {f"encoder/{name}": name for name in ("speaker", "speed", "pitch", "energy")}
    kept = [each for each in graph.input if each.name != "encoder/lengths"]
    graph.node.insert(0, onnx.helper.make_node("Shape", ["tokens"], ["encoder/lengths"], start=1, end=2))
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for each in (*kept, *graph.output):
        each.name = names.get(each.name, each.name)
    del graph.input[:]
    graph.input.extend(kept)
    versions = {each.domain: each.version for each in model.opset_import}  # merging repeats the versions for each graph
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in versions.items())
    onnx.checker.check_model(model, full_check=True)
    return model
