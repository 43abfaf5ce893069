"""Resynthesis: a recording through the codec alone, for `evaluate`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats
from sonorant.audio.pitch import track_pitch
from sonorant.extras.codec_lm.codec import SoundCodec
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.families.family import Hear
from sonorant.speech.bundle import AudioSettings


def hearing(codec: SoundCodec, audio: AudioSettings) -> Hear:
    """A function from a recording to input of the graph `vocoder`: codes, or frames decoded from them, pitch
    included."""

    def hear(mel_MT: Floats, samples_S: Floats) -> tuple[NDArray[Any], int]:
        pitch_T2 = track_pitch(samples_S, audio.sample_rate, audio.hop, mel_MT.shape[1])
        codes_FG = codec.encode_utterance(np.concatenate([mel_MT, pitch_T2.T]), samples_S)
        if not isinstance(codec, SourceCodec):
            return codes_FG, len(codes_FG)
        with torch.no_grad():
            frames_1RT = codec.with_source(codec.frames(torch.from_numpy(codes_FG)[None]))
        return frames_1RT[0].numpy(), frames_1RT.shape[2]

    return hear
