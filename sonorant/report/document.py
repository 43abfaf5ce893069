"""A JSON report whose every value knows its file and key, so that what is missing is named. Knows nothing of what the
keys mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json


@dataclass(frozen=True)
class Document:
    """A value, the file it stands in and its dotted key there.

    Every reading method raises SonorantError naming file and key where the value is missing or of another kind.
    """

    value: Any
    file: Path
    key: str = ""

    @classmethod
    def read(cls, file: Path) -> Document:
        """The whole of a JSON file, which must hold an object."""
        document = cls(read_json(file), file)
        document.items()
        return document

    def __getitem__(self, key: str) -> Document:
        found = self.get(key)
        if found is None:
            raise SonorantError(
                f"{self.file}: key '{self._below(key)}' is missing; run the stage that writes the file again"
            )
        return found

    def get(self, key: str) -> Document | None:
        """The value below `key`, None where there is none or it is null."""
        self.items()
        value = self.value.get(key)
        return None if value is None else Document(value, self.file, self._below(key))

    def items(self) -> list[tuple[str, Document]]:
        """An object's keys and values, in the file's order, nulls left out."""
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        return [
            (key, Document(value, self.file, self._below(key)))
            for key, value in self.value.items()
            if value is not None
        ]

    def rows(self) -> list[Document]:
        """A list's values."""
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        return [Document(value, self.file, self._below(str(index))) for index, value in enumerate(self.value)]

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
        if not isinstance(self.value, str):
            raise self._wrong("a text")
        return self.value

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self._wrong("true or false")
        return self.value

    @property
    def not_run(self) -> str | None:
        """The words that stand in place of figures, such as "not run: <why>"; None where there are figures."""
        return self.value if isinstance(self.value, str) else None

    def _below(self, key: str) -> str:
        return f"{self.key}.{key}" if self.key else key

    def _wrong(self, wanted: str) -> SonorantError:
        where = f"key '{self.key}'" if self.key else "its content"
        found = repr(self.value) if len(repr(self.value)) <= 40 else f"{repr(self.value)[:40]}..."
        return SonorantError(
            f"{self.file}: {where} must be {wanted}, not {found}; run the stage that writes the file again"
        )
