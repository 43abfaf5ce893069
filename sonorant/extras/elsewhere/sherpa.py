"""Export a voice for sherpa-onnx (phones and small boards): `sonorant export-sherpa`.

sherpa-onnx (2.0, VITS with a lexicon) reads a graph that takes token ids, `lexicon.txt` and `tokens.txt`, and the
sample rate and language in the graph's metadata. It inserts a token " " between words, which the graph removes. It
splits text at full stops, question and exclamation marks and semicolons.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, compose, helper, numpy_helper, parser

from sonorant.errors import SonorantError
from sonorant.export.graph_files import opset_of
from sonorant.extras.elsewhere.exported_lexicon import Word, distinct, pronunciations
from sonorant.files import atomic_folder
from sonorant.plugins import load_family
from sonorant.speech import Voice
from sonorant.speech.bundle import Bundle, content_hash
from sonorant.text.frontend import END, PAUSES, START, Phoneme

LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "fr": "French"}
"""sherpa-onnx's names of the languages that it supports with a lexicon."""
BLANK = 0
"""Id of the token that sherpa-onnx inserts between words."""
ALIKE = {";": ",", ":": ","}
"""Punctuation marks that are spoken like a different mark."""
FRONT = """
<ir_version: {ir}, opset_import: ["": {opset}]>
front (int64[one, L] x, int64[one] x_length, float[one] noise_scale, float[one] length_scale,
       float[one] noise_scale_w{sid_input}) => (int64[one, tokens, 3] tokens, int64[one] speaker, float[one] speed)
<int64[K, 3] table, int64[1, 3] start, int64[1, 3] end> {{
    flat_shape = Constant <value = int64[1] {{-1}}> ()
    flat = Reshape (x, flat_shape)
    blank = Constant <value = int64 {{0}}> ()
    spoken = Greater (flat, blank)
    ids = Compress (flat, spoken)
    rows = Gather (table, ids)
    framed = Concat <axis = 0> (start, rows, end)
    batch_axis = Constant <value = int64[1] {{0}}> ()
    tokens = Unsqueeze (framed, batch_axis)
    speed = Reciprocal (length_scale)
    speaker = {speaker}
}}
"""
"""Graph that takes sherpa-onnx's inputs. A length scale of 0.5 doubles the speed; the noise scales have no effect."""


def export_sherpa(voice: Voice, out: Path, words_file: Path | None = None, variant: str | None = None) -> int:
    """Write `model.onnx`, `tokens.txt` and `lexicon.txt` to the new folder `out` atomically. Return the number of
    words. `words_file`: see `pronunciations`; `variant`: None means the voice's default.

    Raises SonorantError as `Family.whole_graph` and `pronunciations` do, and if the language is not in LANGUAGES.
    """
    bundle = voice.bundle
    code = bundle.description.frontend.language.split("-")[0]
    if code not in LANGUAGES:
        raise SonorantError(
            f"sherpa-onnx supports {', '.join(LANGUAGES)} with a lexicon, not {code}; use sonorant export-page"
        )
    whole = load_family(bundle.description.family).whole_graph(bundle, variant)
    with atomic_folder(out) as folder:  # first, because the words take half a minute
        words = pronunciations(voice.frontend, words_file)
        phonemes = [*(Phoneme(pause) for pause in PAUSES), *distinct(words.values())]
        ids = {phoneme: number for number, phoneme in enumerate(phonemes, BLANK + 1)}
        table = np.concatenate([np.zeros((1, 3), np.int16), voice.symbols.to_tokens(phonemes)[1:-1]])
        model = with_front(whole, table.astype(np.int64), len(bundle.description.speakers))
        helper.set_model_props(model, {key: str(value) for key, value in metadata(bundle, LANGUAGES[code]).items()})
        onnx.save(model, folder / "model.onnx")
        (folder / "tokens.txt").write_text(tokens_file(ids), encoding="utf-8")
        (folder / "lexicon.txt").write_text(lexicon_file(words), encoding="utf-8")
    return len(words)


def with_front(model: ModelProto, table: np.ndarray, speakers: int) -> ModelProto:
    """Prepend sherpa-onnx's inputs to the voice's graph. `table` (K, 3) int64: symbol, stress and word start of each
    token id."""
    several = speakers > 1
    words = {
        "ir": model.ir_version,
        "opset": opset_of(model),
        "sid_input": ", int64[one] sid" if several else "",
        "speaker": "Identity (sid)" if several else "Constant <value = int64[1] {0}> ()",
    }
    front = parser.parse_model(FRONT.format(**words))
    rows = {"table": table, "start": np.array([[START, 0, 0]]), "end": np.array([[END, 0, 0]])}
    del front.graph.initializer[:]
    front.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in rows.items())
    links = [(name, f"voice/{name}") for name in ("tokens", "speaker", "speed")]
    prefixed = compose.add_prefix(model, "voice/")
    joined = compose.merge_models(front, prefixed, links, outputs=["voice/samples"])
    unchanged = [each.name for each in joined.graph.input if each.name in ("voice/pitch", "voice/energy")]
    kept = [each for each in joined.graph.input if each.name not in unchanged]
    joined.graph.initializer.extend(numpy_helper.from_array(np.zeros(1, np.float32), name) for name in unchanged)
    del joined.graph.input[:]
    joined.graph.input.extend(kept)
    onnx.checker.check_model(joined, full_check=True)
    return joined


def metadata(bundle: Bundle, language: str) -> dict[str, object]:
    description = bundle.description
    return {
        "model_type": "vits",
        "comment": "sonorant",
        "language": language,
        "add_blank": 0,
        "n_speakers": len(description.speakers),
        "sample_rate": description.audio.sample_rate,
        "punctuation": " ".join([*PAUSES, *ALIKE]),
        "voice_sha256": content_hash(bundle),
    }


def tokens_file(ids: dict[Phoneme, int]) -> str:
    """Format tokens and their ids, one per line."""
    lines = [f"  {BLANK}", *(f"{token_of(phoneme)} {number}" for phoneme, number in ids.items())]
    lines += [f"{sign} {ids[Phoneme(pause)]}" for sign, pause in ALIKE.items()]
    return "\n".join(lines) + "\n"


def lexicon_file(words: dict[str, Word]) -> str:
    return "".join(f"{word} {' '.join(map(token_of, phonemes))}\n" for word, phonemes in words.items())


def token_of(phoneme: Phoneme) -> str:
    """Return a phoneme's name in tokens.txt and lexicon.txt: `#` at the start of a word, stress, symbol."""
    return f"{'#' * phoneme.word_start}{('', 'ˈ', 'ˌ')[phoneme.stress]}{phoneme.symbol}"
