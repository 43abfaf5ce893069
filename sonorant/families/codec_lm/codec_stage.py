"""What a codec does beside being trained: be taken from elsewhere, encode the corpus, and copy a recording."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.arrays import Floats
from sonorant.audio.pitch import track_pitch
from sonorant.data.codes import write_codes
from sonorant.data.features import FeatureStore
from sonorant.families.codec_lm.codec import CodecConfig, SoundCodec
from sonorant.families.codec_lm.pretrained_codec import check_pretrained, refuse_without_graph, take_pretrained
from sonorant.families.codec_lm.saved import load_codec
from sonorant.families.codec_lm.source_codec import SourceCodec
from sonorant.families.family import Hear
from sonorant.files import sha256_file
from sonorant.models import describe, save_model
from sonorant.runtime.bundle import AudioSettings


def take_codec(config: CodecConfig, features: Path, out: Path, provenance: dict[str, Any]) -> None:
    """Write the codec that `config.pretrained` names as a trained folder. Raises SonorantError if it cannot ship."""
    assert config.pretrained
    store = FeatureStore.open(features)
    refuse_without_graph(config.pretrained, check_pretrained(config.pretrained, store.audio, config.codebooks))
    codec, about = take_pretrained(config.pretrained, store.audio, config.codebooks)
    provenance = provenance | {"steps": 0, "pretrained": about["name"]}
    described = describe("codec", config, store.header) | {"pretrained": about, "provenance": provenance}
    save_model(out, codec.state_dict(), described)
    print(
        f"{about['name']} ({about['revision']}): {codec.codebooks} codebooks of {codec.codes} codes, taken as it is",
        flush=True,
    )


def hearing(codec: SoundCodec, audio: AudioSettings) -> Hear:
    """How a recording becomes frames of a voice with this codec: by its codes, and what is decoded from them."""

    def hear(mel_MT: Floats, samples_S: Floats) -> tuple[NDArray[Any], int]:
        pitch_T2 = track_pitch(samples_S, audio.sample_rate, audio.hop, mel_MT.shape[1])
        codes_FG = codec.encode_utterance(np.concatenate([mel_MT, pitch_T2.T]), samples_S)
        if not isinstance(codec, SourceCodec):
            return codes_FG, len(codes_FG)
        with torch.no_grad():
            frames_1RT = codec.with_source(codec.frames(torch.from_numpy(codes_FG)[None]))
        return frames_1RT[0].numpy(), frames_1RT.shape[2]

    return hear


def encode_corpus(codec_folder: Path, features: Path, out: Path, family: str) -> None:
    """Write the codes of every utterance of `features` as the token store `out` of a family."""
    codec, _ = load_codec(codec_folder)
    # On a CPU a pretrained codec takes hours for a day of speech.
    codec.to("cuda" if torch.cuda.is_available() else "cpu")
    write_codes(out, family, FeatureStore.open(features), codec, sha256_file(codec_folder / "weights.pt"))
