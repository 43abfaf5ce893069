"""HTTP server of the listening test: page, trials, sounds, answers."""

import re
import threading
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from sonorant.extras.listening.answers import PAIR, Answer, AnswersFile
from sonorant.extras.listening.listening_sounds import RECORDINGS
from sonorant.extras.listening.trials import ListeningTest, Trial
from sonorant.pages.local_server import LocalRequest, LocalServer

LONGEST = 60
"""Maximum length of a listener's name in characters."""
KEPT = 32
"""Number of sounds cached in memory."""
_SOUND = re.compile(r"/sounds/([0-9a-f]{32})")
_CHOICES = ("first", "none", "second")


class AnsweredError(Exception):
    """The trial is already answered, or is not the listener's next one."""


class Sitting:
    """A listening test and its answers file. Replies never reveal which system made a sound."""

    def __init__(self, test: ListeningTest, answers: AnswersFile) -> None:
        self._test, self._answers = test, answers
        self._shown: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self.wav = lru_cache(KEPT)(self._wav)

    def state(self, listener: str) -> dict[str, Any]:
        """Return the listener's progress and next trial (None after the last)."""
        trials = self._test.trials(listener)
        done, trial = self._next(listener, trials)
        shown = None if trial is None else self._show(listener, trial)
        return {"listener": listener, "done": done, "total": len(trials), "trial": shown}

    def answer(self, listener: str, token: Any, given: Any) -> None:
        """Write the answer to the listener's next trial. `given`: one of _CHOICES for a pair; a score per sound, in the
        page's order, for a rating. Raises AnsweredError if `token` is not the next trial's, ValueError if `given` is
        invalid."""
        with self._lock:
            _, trial = self._next(listener, self._test.trials(listener))
            if trial is None or token != self._test.token(listener, trial):
                raise AnsweredError
            self._answers.add(_answer(listener, trial, given))

    def _next(self, listener: str, trials: list[Trial]) -> tuple[int, Trial | None]:
        left = [trial for trial in trials if (listener, trial.kind, trial.sentence) not in self._answers.given]
        return len(trials) - len(left), left[0] if left else None

    def _show(self, listener: str, trial: Trial) -> dict[str, Any]:
        def token(place: object, system: str) -> str:
            name = self._test.token(listener, trial, place)
            self._shown[name] = (system, trial.sentence)
            return name

        return {
            "token": self._test.token(listener, trial),
            "kind": trial.kind,
            "text": self._test.sounds.texts.get(trial.sentence),
            "sounds": [token(place, system) for place, system in enumerate(trial.order)],
            "reference": None if trial.kind == PAIR else token("reference", RECORDINGS),
        }

    def _wav(self, token: str) -> bytes:
        """Return a sound of a trial that was shown. Raises KeyError for an unknown token."""
        return self._test.sounds.wav(*self._shown[token], token)


def _answer(listener: str, trial: Trial, given: Any) -> Answer:
    told: dict[str, Any] = {"listener": listener, "kind": trial.kind, "sentence": trial.sentence, "order": trial.order}
    told["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    if trial.kind == PAIR:
        if given not in _CHOICES:
            raise ValueError(f"the answer to a pair must be one of {', '.join(_CHOICES)}")
        return Answer(**told, prefers=dict(zip(_CHOICES, (trial.order[0], None, trial.order[1]), strict=True))[given])
    whole = isinstance(given, list) and len(given) == len(trial.order) and all(type(score) is int for score in given)
    if not whole:
        raise ValueError(f"the answer to a rating must be {len(trial.order)} integers")
    return Answer(**told, scores=dict(zip(trial.order, given, strict=True)))


class ListenServer(LocalServer):
    def __init__(self, sitting: Sitting, port: int) -> None:
        self.sitting = sitting
        super().__init__(port, ListenRequest)


class ListenRequest(LocalRequest):
    server: ListenServer
    largest = 2_000

    def get(self) -> None:
        sound = _SOUND.fullmatch(self.path)
        try:
            self.send_range(self.server.sitting.wav(sound[1] if sound else ""), "audio/wav")
        except KeyError:
            self.refuse(HTTPStatus.NOT_FOUND, "no such page or sound; reload the page")

    def post(self, asked: dict[str, Any]) -> None:
        """Write "answer", if given, to "trial", and send the `Sitting.state` of "listener". Status 409 means that the
        trial is already answered."""
        keys = {"/next": {"listener"}, "/answers": {"listener", "trial", "answer"}}.get(self.path)
        if keys is None:
            self.refuse(HTTPStatus.NOT_FOUND, "no such page")
            return
        name = asked.get("listener") if asked.keys() == keys else None
        listener = " ".join(name.split()).casefold() if isinstance(name, str) else ""
        if not 1 <= len(listener) <= LONGEST or not listener.isprintable():
            raise ValueError(
                f"the request must have {', '.join(sorted(keys))}; listener must have 1 to {LONGEST} characters"
            )
        sitting, status = self.server.sitting, HTTPStatus.OK
        try:
            if self.path == "/answers":
                sitting.answer(listener, asked["trial"], asked["answer"])
        except AnsweredError:
            status = HTTPStatus.CONFLICT
        self.send_json(status, sitting.state(listener))
