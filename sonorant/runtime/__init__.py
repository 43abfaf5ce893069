"""A trained voice in use. Knows nothing of training; needs numpy, onnxruntime and a text frontend."""

from sonorant.runtime.voice import Voice

__all__ = ["Voice"]
