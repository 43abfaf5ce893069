"""MLflow model that converts text to speech. MLflow executes this file (models from code); nothing imports it."""

import base64
import io
import json
import math
from numbers import Real
from pathlib import Path
from typing import Any

import mlflow.models
import numpy as np
import pandas as pd
import soundfile
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.pyfunc.model import PythonModel

from sonorant.errors import SonorantError
from sonorant.speech.request import MOMENT
from sonorant.speech.streaming import Speech
from sonorant.speech.subtitles import as_json
from sonorant.speech.voice import AT_ONCE, Voice

MANNER = {"speed": 1.0, "pitch": 0.0, "energy": 0.0}
UNSPOKEN = {"audio": "", "sample_rate": 0, "seconds": 0.0, "timings": "", "warning": "", "error": ""}


class SpokenVoice(PythonModel):
    def load_context(self, context: Any) -> None:
        self.voice = Voice.load(Path(context.artifacts["bundle"]))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Speak each row of a table with the column `text` and optionally `speaker` (name), `speed` (2.0 = twice as
        fast), `pitch` (semitones) and `energy` (dB), as in `Voice.say`. Texts may contain markup or be SSML, and
        may be numbers.

        Returns a row per text: `audio` (base64 of a 16-bit wav), `sample_rate` (Hz), `seconds`, `timings` (JSON:
        `words` as in `sonorant say --timings`, or `not_run`), `warning` (sentences with a bad `FinishReason`, or that
        nothing can be spoken), `error` (one line; no audio). The family codec_lm supports only speed 1. Raises
        MlflowException (HTTP 400) if no row can be spoken or the table exceeds the limit per request.
        """
        asked = model_input.to_dict("records")
        characters = sum(len(str(row.get("text"))) for row in asked)
        if characters > AT_ONCE.characters:
            raise _refusal(
                f"the rows have {characters} characters, but a request may have at most {AT_ONCE.characters}; "
                "split them"
            )
        rows = [self._row(number, row) for number, row in enumerate(asked, 1)]
        if rows and all(row["error"] for row in rows):
            raise _refusal("; ".join(row["error"] for row in rows[:5]) + ("; ..." if len(rows) > 5 else ""))
        return pd.DataFrame(rows, columns=list(UNSPOKEN))

    def _row(self, number: int, row: dict[str, Any]) -> dict[str, Any]:
        answer = UNSPOKEN | {"sample_rate": self.voice.sample_rate}
        try:
            speech = self._speech(row)
            told = [(samples, speech.completed) for samples in speech]
        except SonorantError as error:
            return answer | {"error": f"row {number}: {error}"}
        samples = np.concatenate([chunk for chunk, _ in told])
        words = [as_json(word) for _, completed in told for word in completed]
        why = self.voice.why_untimed
        timings = {"not_run": why} if why else {"words": words}
        file = io.BytesIO()
        soundfile.write(file, samples, self.voice.sample_rate, format="WAV", subtype="PCM_16")
        audio = base64.b64encode(file.getvalue()).decode()
        return answer | {
            "audio": audio,
            "seconds": len(samples) / self.voice.sample_rate,
            "timings": json.dumps(timings, ensure_ascii=False),
            "warning": "; ".join(speech.warnings),
        }

    def _speech(self, row: dict[str, Any]) -> Speech:
        given = {name: value for name, value in row.items() if not (pd.api.types.is_scalar(value) and pd.isna(value))}
        text, speaker = given.get("text"), given.get("speaker")
        if text is None:
            raise SonorantError("the text is missing")
        if isinstance(text, Real) and not isinstance(text, bool):
            text = str(math.trunc(text) if float(text).is_integer() else text)  # pandas makes integers floats
        if not isinstance(text, str):
            raise SonorantError(f"the text is of type {type(text).__name__}; give a string or a number")
        how: dict[str, Any] = {name: _number(name, given.get(name, usual)) for name, usual in MANNER.items()}
        timings = not self.voice.why_untimed
        how |= {"limits": AT_ONCE, "whole": True, "timings": timings, "silence": MOMENT}
        return self.voice.stream(text, speaker, **how)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SonorantError(f"{name} must be a number, not {value!r}") from None


def _refusal(line: str) -> MlflowException:
    return MlflowException(line, error_code=INVALID_PARAMETER_VALUE)


mlflow.models.set_model(SpokenVoice())
