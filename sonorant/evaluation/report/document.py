"""JSON reports of the stages, with file and key in every error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl

RECORDINGS, COPIES = "recordings", "vocoder"
LABELS = {RECORDINGS: "recording", COPIES: "copy of the recording"}
"""Display names of kinds that are not variants."""
Kind = TypeVar("Kind")
AGAIN = "run the stage that writes the file again"


@dataclass(frozen=True)
class Document:
    """A JSON value with its file and dotted key. Readers raise SonorantError naming both if the value is missing or
    of another type."""

    value: Any
    file: Path
    key: str = ""

    @classmethod
    def read(cls, file: Path) -> Document:
        """Read a JSON file that holds an object."""
        document = cls(read_json(file), file)
        document.items()
        return document

    @classmethod
    def read_lines(cls, file: Path) -> list[Document]:
        """Read a JSONL file; keys are line numbers from 1."""
        return [cls(row, file, str(number)) for number, row in enumerate(read_jsonl(file), 1)]

    def __getitem__(self, key: str) -> Document:
        found = self.get(key)
        if found is None:
            raise SonorantError(f"{self.file}: key '{self._below(key)}' is missing; {AGAIN}")
        return found

    def get(self, key: str) -> Document | None:
        """The value below `key`; None if absent or null."""
        self.items()
        value = self.value.get(key)
        return None if value is None else Document(value, self.file, self._below(key))

    def items(self) -> list[tuple[str, Document]]:
        """Keys and values in file order, without nulls."""
        found = self._of_kind(dict, "an object").items()
        return [(key, Document(value, self.file, self._below(key))) for key, value in found if value is not None]

    def measured(self) -> list[tuple[str, Document]]:
        """Items with figures."""
        return [(key, found) for key, found in self.items() if not found.not_run]

    def absent(self) -> list[tuple[str, str]]:
        """Items with a reason in place of figures."""
        return [(key, found.not_run) for key, found in self.items() if found.not_run]

    def rows(self) -> list[Document]:
        rows = self._of_kind(list, "a list")
        return [Document(value, self.file, self._below(str(index))) for index, value in enumerate(rows)]

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._wrong("a number")
        return float(self.value)

    def interval(self) -> tuple[float, float]:
        """A list of two numbers."""
        ends = [row.number() for row in self.rows()]
        if len(ends) != 2:
            raise self._wrong("two numbers")
        return ends[0], ends[1]

    def text(self) -> str:
        return self._of_kind(str, "a text")

    def flag(self) -> bool:
        return self._of_kind(bool, "true or false")

    def figure(self, key: str, form: str) -> str | None:
        """The formatted number below `key`, the reason in its place, or None if absent."""
        found = self.get(key)
        return None if found is None else (found.not_run or f"{found.number():{form}}")

    def estimate(self, key: str, form: str = ".1f", scale: float = 1.0) -> str:
        """`12.3 [9.9, 15.2]` from `<key>` and `<key>_ci95`, times `scale`."""
        low, high = self[f"{key}_ci95"].interval()
        return f"{scale * self[key].number():{form}} [{scale * low:{form}}, {scale * high:{form}}]"

    def megabytes(self, key: str) -> str | None:
        """The bytes below `key` in MB (10^6), or None."""
        found = self.get(key)
        return None if found is None else f"{found.number() / 1e6:.2f} MB"

    @property
    def not_run(self) -> str | None:
        """ "not run: <why>" in place of figures, or None."""
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
    """Display name of a kind."""
    return LABELS.get(kind, kind)


def ordered(kinds: Iterable[str]) -> list[str]:
    """Recordings, copies, then variants in their order."""
    found = list(kinds)
    return [kind for kind in LABELS if kind in found] + [kind for kind in found if kind not in LABELS]
