"""Read JSON reports of the stages. Every error names the file and the key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.files import read_json, read_jsonl
from sonorant.pages.charts import ChartRow

LABELS = {RECORDINGS: "recording", VOCODER: "copy of the recording"}
AGAIN = "run the stage that writes the file again"


@dataclass(frozen=True)
class Document:
    """A JSON value with its file and dotted key. Reading a missing value or one of the wrong type raises SonorantError.

    A metric that was not measured is a string with the reason.
    """

    value: Any
    file: Path
    key: str = ""

    @classmethod
    def read(cls, file: Path) -> Document:
        return cls(read_json(file), file)

    @classmethod
    def read_lines(cls, file: Path) -> list[Document]:
        """Read a JSONL file; keys are line numbers from 1."""
        return [cls(row, file, str(number)) for number, row in enumerate(read_jsonl(file), 1)]

    def __getitem__(self, key: str) -> Document:
        found = self.get(key)
        if found is None:
            raise SonorantError(f"{self.file}: key '{self._below(key, None).key}' is missing; {AGAIN}")
        return found

    def get(self, key: str) -> Document | None:
        """Return the value at `key`; None if absent or null."""
        value = self._of_kind(dict, "an object").get(key)
        return None if value is None else self._below(key, value)

    def items(self) -> list[tuple[str, Document]]:
        found = self._of_kind(dict, "an object").items()
        return [(key, self._below(key, value)) for key, value in found if value is not None]

    def measured(self) -> list[tuple[str, Document]]:
        return [(key, found) for key, found in self.items() if not found.not_run]

    def absent(self) -> list[tuple[str, str]]:
        return [(key, found.not_run) for key, found in self.items() if found.not_run]

    def rows(self) -> list[Document]:
        return [self._below(str(index), value) for index, value in enumerate(self._of_kind(list, "a list"))]

    def number(self) -> float:
        return float(self._of_kind((int, float), "a number"))

    def text(self) -> str:
        return str(self._of_kind(str, "a text"))

    def flag(self) -> bool:
        return bool(self._of_kind(bool, "true or false"))

    def figure(self, *path: str, form: str = ".0f") -> str | None:
        """Return the formatted number at a path, the reason why it is missing, or None."""
        found = self._at(path)
        return None if found is None else found.not_run or f"{found.number():{form}}"

    def estimate(self, *path: str, form: str = ".1f", scale: float = 1.0) -> str | None:
        """Return the formatted number at a path times `scale`, with the interval `<last key>_ci95`, if any: `12.3 [9.9,
        15.2]`."""
        found, bounds = self._at(path), self._at((*path[:-1], f"{path[-1]}_ci95"))
        if found is None or found.not_run:
            return None if found is None else found.not_run
        ends = ", ".join(f"{scale * end.number():{form}}" for end in bounds.rows()) if bounds else ""
        return f"{scale * found.number():{form}}" + (f" [{ends}]" if ends else "")

    def chart_row(self, name: str, key: str, form: str = ".1f", scale: float = 1.0, strong: bool = False) -> ChartRow:
        low, high = (scale * end.number() for end in self[f"{key}_ci95"].rows())
        said = str(self.estimate(key, form=form, scale=scale))
        return ChartRow(name=name, value=scale * self[key].number(), low=low, high=high, said=said, strong=strong)

    def megabytes(self, *path: str) -> str | None:
        """Return the number of bytes at a path in MB (10^6), or None."""
        found = self._at(path)
        return None if found is None else f"{found.number() / 1e6:.2f} MB"

    @property
    def not_run(self) -> str | None:
        """Reason why metrics are missing ("not run: <why>"), or None."""
        return self.value if isinstance(self.value, str) else None

    def _at(self, path: Iterable[str]) -> Document | None:
        found: Document | None = self
        for key in path:
            if found is None or found.not_run:
                return found
            found = found.get(key)
        return found

    def _below(self, key: str, value: Any) -> Document:
        return Document(value, self.file, f"{self.key}.{key}" if self.key else key)

    def _of_kind(self, kind: type | tuple[type, ...], wanted: str) -> Any:
        if isinstance(self.value, kind):
            return self.value
        where = f"key '{self.key}'" if self.key else "its content"
        raise SonorantError(f"{self.file}: {where} must be {wanted}, not {repr(self.value)[:40]}; {AGAIN}")


def label(kind: str) -> str:
    return LABELS.get(kind, kind)


def ordered(kinds: Iterable[str]) -> list[str]:
    """Sort kinds of sound: recordings, copies, then variants in the order given."""
    found = list(kinds)
    return [kind for kind in LABELS if kind in found] + [kind for kind in found if kind not in LABELS]
