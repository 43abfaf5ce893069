"""The voice as an MLflow model, by the file itself (models from code): text in, speech out. Knows nothing of training.

MLflow runs this file when a model is logged or loaded; nothing of Sonorant imports it.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import mlflow.models
import pandas as pd
import soundfile
from mlflow.pyfunc.model import PythonModel

from sonorant.runtime import Voice


class SpokenVoice(PythonModel):
    """Speaks each row of a table."""

    def load_context(self, context: Any) -> None:
        """Load the bundle among the model's artifacts. MLflow calls it once, by this name."""
        self.voice = Voice.load(Path(context.artifacts["bundle"]))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Speak a table with the column `text` and, if wanted, `speaker` (a name) and `speed` (2.0 = twice as fast).

        Returns a row each: `audio` (a 16-bit wav, base64), `sample_rate` (Hz), `seconds`.
        """
        rows = [self._speak(row) for row in model_input.to_dict("records")]
        return pd.DataFrame(rows, columns=["audio", "sample_rate", "seconds"])

    def _speak(self, row: dict[str, Any]) -> dict[str, Any]:
        speaker, speed = row.get("speaker"), row.get("speed")
        samples = self.voice.say(
            row["text"],
            speaker=None if pd.isna(speaker) else speaker,
            speed=float(speed) if speed is not None and pd.notna(speed) else 1.0,
        )
        file = io.BytesIO()
        soundfile.write(file, samples, self.voice.sample_rate, format="WAV", subtype="PCM_16")
        return {
            "audio": base64.b64encode(file.getvalue()).decode(),
            "sample_rate": self.voice.sample_rate,
            "seconds": len(samples) / self.voice.sample_rate,
        }


mlflow.models.set_model(SpokenVoice())
