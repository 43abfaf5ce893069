"""The codec's part of the stage `train_waveform` besides training: take a pretrained codec, and encode the corpus."""

from pathlib import Path
from typing import Any

import torch

from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.pretrained_codec import take_pretrained
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.files import sha256_file
from sonorant.layers.model_folder import describe, save_model


def take_codec(config: CodecConfig, features: Path, out: Path, provenance: dict[str, Any]) -> None:
    """Save the codec `config.pretrained` as a trained folder. Raises SonorantError if the codec cannot be loaded or
    does not fit the features."""
    assert config.pretrained
    store = FeatureStore.open(features)
    codec, about = take_pretrained(config.pretrained, store.audio, config.codebooks)
    provenance = provenance | {"steps": 0, "pretrained": about["name"]}
    described = describe("codec", config, store.header) | {"pretrained": about, "provenance": provenance}
    save_model(out, codec.state_dict(), described)
    print(
        f"{about['name']} ({about['revision']}): {codec.codebooks} codebooks of {codec.codes} codes, taken as it is",
        flush=True,
    )


def encode_corpus(codec_folder: Path, features: Path, out: Path, family: str) -> None:
    """Write the codes of all utterances of `features` as the token store `out`."""
    codec, _ = load_codec(codec_folder)
    # A pretrained codec on a CPU takes hours for a day of speech.
    codec.to("cuda" if torch.cuda.is_available() else "cpu")
    write_codes(out, family, FeatureStore.open(features), codec, sha256_file(codec_folder / "weights.pt"))
