"""Codec steps of the pipeline stages: save a pretrained codec, encode the corpus, and resynthesise recordings for
`evaluate`."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats
from sonorant.audio.pitch import track_pitch
from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.pretrained_codec import take_pretrained
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.families.family import Hear
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.files import sha256_file
from sonorant.layers.model_folder import describe, save_model
from sonorant.speech.bundle import AudioSettings


def take_codec(config: CodecConfig, features: Path, out: Path, provenance: dict[str, Any]) -> None:
    """Save the pretrained codec `config.pretrained` as a folder of a trained model. Raises SonorantError if it cannot
    be loaded or does not fit the features."""
    assert config.pretrained
    store = FeatureStore.open(features)
    codec, about = take_pretrained(config.pretrained, store.audio, config.codebooks)
    provenance = provenance | {"steps": 0, "pretrained": about["name"]}
    described = describe("codec", config, store.header) | {"pretrained": about, "provenance": provenance}
    save_model(out, codec.state_dict(), described)
    print(
        f"{about['name']} ({about['revision']}): {codec.codebooks} codebooks of {codec.codes} codes, used unchanged",
        flush=True,
    )


def encode_corpus(codec_folder: Path, features: Path, out: Path, family: str) -> None:
    """Write the codes of all utterances of `features` as the token store `out`."""
    codec, _ = load_codec(codec_folder)
    # On a CPU, a pretrained codec takes hours to encode a day of speech.
    codec.to("cuda" if torch.cuda.is_available() else "cpu")
    write_codes(out, family, FeatureStore.open(features), codec, sha256_file(codec_folder / "weights.pt"))


def hearing(codec_folder: Path, audio: AudioSettings) -> Hear:
    """Return a function that converts a recording to the input of the graph `vocoder`: codes, or frames with pitch
    decoded from codes."""
    codec, _ = load_codec(codec_folder)

    def hear(mel_MT: Floats, samples_S: Floats) -> tuple[NDArray[Any], int]:
        pitch_T2 = track_pitch(samples_S, audio.sample_rate, audio.hop, mel_MT.shape[1])
        codes_FG = codec.encode_utterance(np.concatenate([mel_MT, pitch_T2.T]), samples_S)
        if not isinstance(codec, SourceCodec):
            return codes_FG, len(codes_FG)
        with torch.no_grad():
            frames_1RT = codec.with_source(codec.frames(torch.from_numpy(codes_FG)[None]))
        return frames_1RT[0].numpy(), frames_1RT.shape[2]

    return hear
