"""The JSON reports of the stages: values that know their file and key, so that a missing one is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl

RECORDINGS, COPIES = "recordings", "vocoder"
LABELS = {RECORDINGS: "recording", COPIES: "copy of the recording"}
"""Who speaks a sentence, besides the variants of the voice, which are called as they are."""
Kind = TypeVar("Kind")
AGAIN = "run the stage that writes the file again"


@dataclass(frozen=True)
class Document:
    """A value, its file and its dotted key there. Every reading method raises SonorantError naming file and key where
    the value is missing or of another kind."""

    value: Any
    file: Path
    key: str = ""

    @classmethod
    def read(cls, file: Path) -> Document:
        """The whole of a JSON file, which must hold an object."""
        document = cls(read_json(file), file)
        document.items()
        return document

    @classmethod
    def read_lines(cls, file: Path) -> list[Document]:
        """Every line of a JSONL file; its key is its number, from 1."""
        return [cls(row, file, str(number)) for number, row in enumerate(read_jsonl(file), 1)]

    def __getitem__(self, key: str) -> Document:
        found = self.get(key)
        if found is None:
            raise SonorantError(f"{self.file}: key '{self._below(key)}' is missing; {AGAIN}")
        return found

    def get(self, key: str) -> Document | None:
        """The value below `key`; None if it is absent or null."""
        self.items()
        value = self.value.get(key)
        return None if value is None else Document(value, self.file, self._below(key))

    def items(self) -> list[tuple[str, Document]]:
        """An object's keys and values in the file's order, without nulls."""
        found = self._of_kind(dict, "an object").items()
        return [(key, Document(value, self.file, self._below(key))) for key, value in found if value is not None]

    def measured(self) -> list[tuple[str, Document]]:
        """The items that hold figures."""
        return [(key, found) for key, found in self.items() if not found.not_run]

    def absent(self) -> list[tuple[str, str]]:
        """The items that hold words in place of figures, with those words."""
        return [(key, found.not_run) for key, found in self.items() if found.not_run]

    def rows(self) -> list[Document]:
        """A list's values."""
        rows = self._of_kind(list, "a list")
        return [Document(value, self.file, self._below(str(index))) for index, value in enumerate(rows)]

    def number(self) -> float:
        """A number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._wrong("a number")
        return float(self.value)

    def interval(self) -> tuple[float, float]:
        """A list of two numbers: the ends of an interval."""
        ends = [row.number() for row in self.rows()]
        if len(ends) != 2:
            raise self._wrong("two numbers")
        return ends[0], ends[1]

    def text(self) -> str:
        """A string."""
        return self._of_kind(str, "a text")

    def flag(self) -> bool:
        """True or false."""
        return self._of_kind(bool, "true or false")

    def figure(self, key: str, form: str) -> str | None:
        """The number below `key`, or the words in its place; None if it is absent."""
        found = self.get(key)
        return None if found is None else (found.not_run or f"{found.number():{form}}")

    def estimate(self, key: str, form: str = ".1f", scale: float = 1.0) -> str:
        """`12.3 [9.9, 15.2]` from the keys `<key>` and `<key>_ci95`, times `scale`."""
        low, high = self[f"{key}_ci95"].interval()
        return f"{scale * self[key].number():{form}} [{scale * low:{form}}, {scale * high:{form}}]"

    def megabytes(self, key: str) -> str | None:
        """The bytes below `key` in MB (10^6); None if they are absent."""
        found = self.get(key)
        return None if found is None else f"{found.number() / 1e6:.2f} MB"

    @property
    def not_run(self) -> str | None:
        """The words in place of figures, such as "not run: <why>"; None if there are figures."""
        return self.value if isinstance(self.value, str) else None

    def _below(self, key: str) -> str:
        return f"{self.key}.{key}" if self.key else key

    def _of_kind(self, kind: type[Kind], wanted: str) -> Kind:
        if not isinstance(self.value, kind):
            raise self._wrong(wanted)
        return self.value

    def _wrong(self, wanted: str) -> SonorantError:
        where = f"key '{self.key}'" if self.key else "its content"
        found = repr(self.value) if len(repr(self.value)) <= 40 else f"{repr(self.value)[:40]}..."
        return SonorantError(f"{self.file}: {where} must be {wanted}, not {found}; {AGAIN}")


def label(kind: str) -> str:
    """The name readers see of whoever speaks."""
    return LABELS.get(kind, kind)


def ordered(kinds: Iterable[str]) -> list[str]:
    """Recordings first, then their copies, then the variants in their order."""
    found = list(kinds)
    return [kind for kind in LABELS if kind in found] + [kind for kind in found if kind not in LABELS]
