"""Speech synthesis with a trained voice. Requires only numpy, onnxruntime and a text frontend."""

from sonorant.speech.voice import Voice
from sonorant.text.arriving import ArrivingText

__all__ = ["ArrivingText", "Voice"]
