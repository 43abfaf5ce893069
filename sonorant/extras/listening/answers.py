"""Answers file of a listening test: a header line, then one line per answer. Each line is synced to disk."""

import dataclasses
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sonorant.errors import SonorantError
from sonorant.files import parse_checked, write_text

PAIR, RATING = "pair", "rating"
"""Kinds of trial."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """First line of an answers file."""

    test: str
    """Hash of the test's sounds and seed."""
    seed: int
    A: str
    """Folder or voice A as the user typed it."""
    B: str
    recordings: str | None
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    listener: str
    kind: str
    """PAIR or RATING."""
    sentence: str
    order: tuple[str, ...]
    """Systems in the order in which the page presents them."""
    prefers: str | None = None
    """Preferred system of a pair, A or B; None for neither."""
    scores: dict[str, int] | None = None
    """Ratings from 0 to 100 by system; None for a pair."""
    time: str
    """Time of the answer in UTC, ISO 8601."""

    def __post_init__(self) -> None:
        if self.kind == RATING:
            scores = self.scores or {}
            if scores.keys() != set(self.order) or not all(0 <= score <= 100 for score in scores.values()):
                raise ValueError("a rating must have a score from 0 to 100 for each system in its order")
        elif self.kind != PAIR or self.prefers not in (None, *self.order):
            raise ValueError(f"kind must be {RATING}, or {PAIR} with prefers null or a system in its order")

    @property
    def trial(self) -> tuple[str, str, str]:
        return (self.listener, self.kind, self.sentence)


class AnswersFile:
    """Answers to one test, open for appending. Raises SonorantError if the file belongs to a different test, is
    read-only, or is used by another server."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        try:
            if not path.exists():
                write_text(path, _line(header))
            self._file = path.open("r+b", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SonorantError(f"{path}: another sonorant listen is writing to it; stop that one first") from None
        except OSError as error:
            raise SonorantError(
                f"{path}: cannot be written ({error.strerror}); give another file with --answers"
            ) from None
        found, answers = read_answers(path)
        if found.test != header.test:
            kept = f"{found.A} against {found.B} on {len(found.sentences)} sentences, seed {found.seed}"
            raise SonorantError(f"{path}: contains answers to another test ({kept}); give another file with --answers")
        self.given = {answer.trial: answer for answer in answers}
        # A truncated answer was never confirmed, so its listener is asked again.
        self._file.truncate(path.read_bytes().rfind(b"\n") + 1)

    def add(self, answer: Answer) -> None:
        """Append an answer and sync it. Raises SonorantError if that fails; the file is then unchanged."""
        end, line = self._file.seek(0, os.SEEK_END), _line(answer).encode()
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise SonorantError(f"{self.path}: cannot be written ({error.strerror}); check the disk") from None
        self.given[answer.trial] = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def read_answers(path: Path) -> tuple[Header, list[Answer]]:
    """Read answers, ignoring a truncated last line. Raises SonorantError naming file and row."""
    try:
        text = path.read_bytes().decode("ascii")
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; create it with sonorant listen A B") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SonorantError(
            f"{path}: not an answers file ({error}); give a file that sonorant listen has written"
        ) from None
    rows = [_parsed(path, number, line) for number, line in enumerate(text.split("\n")[:-1], 1)]
    if not rows or not isinstance(rows[0], dict) or "test" not in rows[0]:
        raise SonorantError(f"{path}: not an answers file; give a file that sonorant listen has written")
    header = parse_checked(rows[0], Header, Path(f"{path}: row 1"))
    answers: dict[tuple[str, str, str], Answer] = {}
    for number, row in enumerate(rows[1:], 2):
        where = f"{path}: row {number}"
        answer = parse_checked(row, Answer, Path(where))
        if answer.trial in answers:
            raise SonorantError(
                f"{where}: '{answer.listener}' has already answered this trial; delete one of the answers"
            )
        answers[answer.trial] = answer
    return header, list(answers.values())


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise SonorantError(f"{path}: row {number}: not valid JSON ({error}); correct or delete it") from None


def _line(row: Header | Answer) -> str:
    return json.dumps(dataclasses.asdict(row)) + "\n"
