"""A trained voice in use; needs numpy, onnxruntime and a text frontend."""

from typing import TYPE_CHECKING, Any

from sonorant.text.arriving import ArrivingText

if TYPE_CHECKING:
    from sonorant.speech.voice import Voice

__all__ = ["ArrivingText", "Voice"]


def __getattr__(name: str) -> Any:
    # Whoever only reads a bundle needs neither ONNX Runtime nor a text frontend.
    if name == "Voice":
        from sonorant.speech.voice import Voice

        return Voice
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
