"""Check and convert values from JSON and YAML by their types. Ranges of settings are types too.

`sonorant.files.parse_checked` refuses other values in one line.
"""

import dataclasses
import operator
import sys
import typing
from collections.abc import Callable, Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any

try:
    from annotated_types import Interval as Interval
    from annotated_types import Len as Len
    from annotated_types import MinLen as MinLen
    from annotated_types import MultipleOf as MultipleOf
except ModuleNotFoundError:  # `make gpu-check` needs torch and NumPy alone, and checks no ranges

    @dataclasses.dataclass(frozen=True)
    class _Unchecked:
        def __init__(self, *limits: Any, **named: Any) -> None: ...

    Interval = Len = MinLen = MultipleOf = _Unchecked  # type: ignore[assignment, misc]

Count = Annotated[int, Interval(ge=1, le=10**9)]
Whole = Annotated[int, Interval(ge=0, le=10**9)]
Size = Annotated[int, Interval(ge=1, le=2**16)]
"""A dimension of a network or a transform."""
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Level = Annotated[float, Interval(ge=-1e9, le=1e9)]
Amount = Annotated[float, Interval(ge=0, le=1e9)]
Positive = Annotated[float, Interval(gt=0, le=1e9)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
Share = Annotated[float, Interval(gt=0, le=1)]
"""A fraction above 0, or a learning rate."""
Partial = Annotated[float, Interval(ge=0, lt=1)]
"""A fraction below 1, such as a dropout probability."""
Text = Annotated[str, MinLen(1)]


class DoubtError(Exception):
    """Raised if `built` cannot build the value; pydantic explains why."""


def built(kind: Any, value: Any) -> Any:
    """Convert a value from `json.loads` to the type `kind`: a dataclass, a plain type, or a tuple, list, dict, union or
    Literal of these, perhaps with bounds (Annotated). Raises DoubtError, also for a ValueError from a dataclass's
    `__post_init__`."""
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return _scalar(kind, value)
    if origin is typing.Annotated:
        return _within(arguments[1:], built(arguments[0], value))
    if origin in (typing.Union, UnionType):
        return _first(arguments, value)
    if origin is typing.Literal and type(value) is str and value in arguments:
        return value
    if origin is dict and type(value) is dict and arguments[0] is str:
        return {key: built(arguments[1], item) for key, item in value.items()}
    if origin is list and type(value) is list:
        return [built(arguments[0], item) for item in value]
    if origin is tuple and type(value) is list:
        kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(built(one, item) for one, item in zip(kinds, value, strict=True))
    raise DoubtError


def _dataclass(kind: Any, value: Any) -> Any:
    hints, needed = _fields(kind)
    if type(value) is not dict or not needed <= value.keys() <= hints.keys():
        raise DoubtError
    arguments = {name: built(hints[name], item) for name, item in value.items()}
    try:
        return kind(**arguments)
    except ValueError:
        raise DoubtError from None


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    needed = [field.name for field in fields if field.default is missing and field.default_factory is missing]
    return {field.name: hints[field.name] for field in fields}, frozenset(needed)


def _scalar(kind: Any, value: Any) -> Any:
    if kind is None or kind is NoneType:
        right = value is None
    elif kind is float and type(value) in (int, float):
        right = abs(value) <= sys.float_info.max
        value = float(value) if right else value
    else:
        right = kind in (bool, int, str) and type(value) is kind
    if not right:
        raise DoubtError
    return value


_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    **{name: getattr(operator, name) for name in ("ge", "gt", "le", "lt")},
    "multiple_of": lambda value, factor: value % factor == 0,
    "min_length": lambda value, least: len(value) >= least,
    "max_length": lambda value, most: len(value) <= most,
}
"""Checks of a value against each field of the classes of `annotated_types` used here."""


def _within(bounds: Iterable[Any], value: Any) -> Any:
    for bound in bounds:
        limits = dataclasses.asdict(bound).items()
        if not all(limit is None or _LIMITS[name](value, limit) for name, limit in limits):
            raise DoubtError
    return value


def _first(kinds: tuple[Any, ...], value: Any) -> Any:
    """Convert the value to the first matching type of a union; an integer becomes an int rather than a float."""
    for kind in sorted(kinds, key=lambda kind: kind is float):
        try:
            return built(kind, value)
        except DoubtError:
            pass
    raise DoubtError
