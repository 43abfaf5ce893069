import copy
import dataclasses
import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sonorant.checked import DoubtError, built
from sonorant.errors import SonorantError
from sonorant.files import parse_checked


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    share: float
    kind: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("share must not exceed 1")


@dataclass(frozen=True, kw_only=True)
class Whole:
    count: int
    sure: bool
    parts: tuple[Part, ...]
    pair: tuple[int, str]
    shape: tuple[int | str, ...] = ()
    named: dict[str, Part] = field(default_factory=dict)
    level: float | None = None
    either: int | float = 0
    texts: list[str] = field(default_factory=list)
    anything: Any = None


RIGHT: dict[str, Any] = {
    "count": 3, "sure": True, "parts": [{"name": "x", "share": 0.5}, {"name": "y", "share": 1, "kind": "b"}],
    "pair": [1, "one"], "shape": ["batch", 4], "named": {"z": {"name": "z", "share": 0.0}}, "level": 2, "either": 2,
    "texts": ["t"], "anything": {"a": [1, None, "x"]},
}  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2.5, 1.0, -1e300, "a", "", [], [1, "one"], ["x"], {}, {"a": 1}, [[]], "1"]
)


def by_pydantic(value: Any) -> Whole | None:
    checker = TypeAdapter(tuple[Whole], config=ConfigDict(strict=True, extra="forbid"))
    try:
        return checker.validate_json(json.dumps([value]))[0]
    except ValidationError:
        return None


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, item in inside for place in places(item, (*path, key))]


def typed(value: Any) -> str:
    """Distinguishes 1, 1.0 and True."""
    return repr(value)


def test_what_is_right_needs_no_pydantic() -> None:
    found = built(Whole, RIGHT)
    assert typed(found) == typed(by_pydantic(RIGHT))
    code = (
        "import sys; from sonorant.speech.bundle import AudioSettings as A; from sonorant.files import parse_checked\n"
    )
    code += f"print(parse_checked({json.dumps(AUDIO)}, A, None), 'pydantic' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("AudioSettings(sample_rate=16000") and printed.endswith("f_max=8000.0) False\n")


AUDIO = {"sample_rate": 16000, "n_fft": 1024, "hop": 256, "n_mels": 80, "f_min": 0, "f_max": 8000}


@given(st.randoms(use_true_random=False), st.sampled_from(["replace", "remove", "add"]), VALUES)
def test_nothing_is_read_otherwise_than_by_pydantic(choice: random.Random, change: str, value: Any) -> None:
    changed = copy.deepcopy(RIGHT)
    *way, last = choice.choice(places(changed))
    inside: Any = changed
    for key in way:
        inside = inside[key]
    if change == "replace":
        inside[last] = value
    elif change == "remove":
        del inside[last]
    elif isinstance(inside, dict):
        inside["more"] = value
    else:
        inside.append(value)
    expected = by_pydantic(changed)
    try:
        found = built(Whole, changed)
    except DoubtError:
        return
    assert typed(found) == typed(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": "3"}, r"^f\.json: key 'count': input should be a valid integer, not '3'$"),
        ({"more": 1}, r"^f\.json: unknown key 'more'"),
        ({"parts": [{"name": "x", "share": 2.0}]}, r"^f\.json: parts\.0: share must not exceed 1$"),
    ],
)
def test_what_is_wrong_is_said_as_before(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SonorantError, match=message):
        parse_checked(RIGHT | change, Whole, Path("f.json"))
    assert parse_checked(RIGHT, Whole, Path("f.json")) == built(Whole, RIGHT)
    assert dataclasses.asdict(built(Whole, RIGHT))["level"] == 2.0
