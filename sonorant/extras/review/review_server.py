"""HTTP server of the review: page, clips with sound and spectrogram, and decisions, which are written immediately."""

import dataclasses
import re
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sonorant.corpus.decisions import Decision, apply, read_decisions, write_decision
from sonorant.extras.review.clip_sound import ClipSounds
from sonorant.extras.review.review_clips import AUDIT, ReviewClip, load_clips
from sonorant.extras.review.word_columns import differences, tokens
from sonorant.pages.local_server import LocalRequest, LocalServer

_CLIP = re.compile(r"/clips/([^/]+?)(/sound|/picture)?")
_GIVEN = {"decision": (str,), "text": (str,), "start": (int, float), "end": (int, float), "note": (str,)}


class ChangedError(Exception):
    """The decision in the file differs from the one shown on the page."""


class Review:
    """Clips of a corpus and the file of decisions. There is no audit if `audit` is None or contains no audit.jsonl.
    Raises SonorantError as `load_clips` and `read_decisions` do."""

    def __init__(self, corpus: Path, prepared: Path, audit: Path | None, decisions: Path) -> None:
        self.corpus = corpus
        self.decisions = decisions
        self.audited = audit is not None and (audit / AUDIT).exists()
        clips = load_clips(corpus, prepared, audit if self.audited else None, self.decided())
        self.clips = {clip.name: clip for clip in clips}
        self.sounds = ClipSounds(corpus)
        self._lock = threading.Lock()

    def decided(self) -> dict[str, Decision]:

        return read_decisions(self.decisions) if self.decisions.exists() else {}

    def listed(self) -> dict[str, Any]:

        decided = self.decided()
        clips = [self._row(clip, decided.get(clip.name)) for clip in self.clips.values()]
        return {"audited": self.audited, "decisions": str(self.decisions), "clips": clips}

    def described(self, clip: ReviewClip, decision: Decision | None) -> dict[str, Any]:
        """Describe a clip for the page. Times are in seconds from its start, before any edit."""
        audited, utterance = clip.audited, clip.utterance
        row = self._row(clip, decision)
        words = audited.words if audited else ()
        spoken = " ".join(word.text for word in words) or row["text"]
        return row | {
            "original": utterance.text,
            "file": utterance.audio,
            "speaker": utterance.speaker,
            "seconds": self.sounds.seconds(utterance),
            "tokens": [dataclasses.asdict(token) for token in tokens(row["text"], words)],
            "words": [dataclasses.asdict(word) for word in words],
            "unexplained": [dataclasses.asdict(span) for span in audited.unexplained] if audited else [],
            "heard": {name: differences(spoken, text) for name, text in audited.heard.items()} if audited else {},
            "reading": str(audited.reading) if audited and audited.reading else None,
            "figures": audited.figures if audited else {},
        }

    def _row(self, clip: ReviewClip, decision: Decision | None) -> dict[str, Any]:
        return {
            "clip": clip.name,
            "id": clip.utterance.id,
            "text": " ".join(decision.text.split()) if decision and decision.text else clip.utterance.text,
            "score": clip.audited.score if clip.audited else None,
            "fault": clip.audited.fault if clip.audited else None,
            "rejected": clip.rejected,
            "decision": _as_row(decision),
        }

    def decide(self, clip: ReviewClip, before: Any, given: Any) -> Decision | None:
        """Write the decision `given` on a clip; None removes the decision. Raises ChangedError if the file's decision
        is not `before`, ValueError if the decision is invalid, SonorantError if the file cannot be read or written."""
        decision = None if given is None else _parse(clip.name, given)
        if decision is not None:
            apply(clip.utterance, decision, self.sounds.seconds(clip.utterance))
        with self._lock:
            if _as_row(self.decided().get(clip.name)) != before:
                raise ChangedError
            write_decision(self.decisions, clip.name, decision)
        return decision


class ReviewServer(LocalServer):
    def __init__(self, review: Review, port: int) -> None:
        self.review = review
        super().__init__(port, ReviewRequest)


class ReviewRequest(LocalRequest):
    server: ReviewServer
    largest = 50_000

    def get(self) -> None:
        """Send the list of clips, or a clip's description, sound or spectrogram."""
        review, asked = self.server.review, _CLIP.fullmatch(unquote(self.path))
        clip = review.clips.get(asked[1]) if asked else None
        if self.path == "/clips":
            self.send_json(HTTPStatus.OK, review.listed())
        elif asked is None or clip is None:
            self.refuse(HTTPStatus.NOT_FOUND, "no such clip" if asked else "no such page")
        elif asked[2] == "/sound":
            self.send_range(review.sounds.wav(clip.utterance), "audio/wav")
        elif asked[2] == "/picture":
            self.send(HTTPStatus.OK, review.sounds.picture(clip.utterance), "image/png")
        else:
            self.send_json(HTTPStatus.OK, review.described(clip, review.decided().get(clip.name)))

    def post(self, asked: dict[str, Any]) -> None:
        """Write a decision: {"clip", "before": the page's decision, "decision": the new one, or null to remove it}. The
        response describes the clip. Status 409 means that the file contains a different decision."""
        review = self.server.review
        if asked.keys() != {"clip", "before", "decision"}:
            raise ValueError("the request must have clip, before and decision")
        clip = review.clips.get(asked["clip"]) if isinstance(asked["clip"], str) else None
        if self.path != "/decisions" or clip is None:
            self.refuse(HTTPStatus.NOT_FOUND, "no such clip")
            return
        try:
            decision = review.decide(clip, asked["before"], asked["decision"])
            self.send_json(HTTPStatus.OK, review.described(clip, decision))
        except ChangedError:
            error = f"{review.decisions} now has another decision on this clip, shown here; nothing was written"
            answer = {"error": error, "clip": review.described(clip, review.decided().get(clip.name))}
            self.send_json(HTTPStatus.CONFLICT, answer)


def _as_row(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    row = dataclasses.asdict(decision)
    del row["clip"]
    return row


def _parse(clip: str, given: Any) -> Decision:
    if not isinstance(given, dict) or not {"decision"} <= given.keys() <= _GIVEN.keys():
        raise ValueError(f"a decision must be an object with the key decision; allowed keys: {', '.join(_GIVEN)}")
    values = {key: value for key, value in given.items() if value is not None}
    for key, value in values.items():
        if not isinstance(value, _GIVEN[key]) or isinstance(value, bool):
            raise ValueError(f"the decision's {key} must not be of type {type(value).__name__}")
    for edge in values.keys() & {"start", "end"}:
        values[edge] = round(float(values[edge]), 3)
    return Decision(clip=clip, **values)
