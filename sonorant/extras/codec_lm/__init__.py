"""Family codec_lm: a language model over the codes of a neural codec."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    families={"codec_lm": "sonorant.extras.codec_lm.family:CODEC_LM"},
)
