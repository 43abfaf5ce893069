"""Dataclasses from what JSON holds, as strictly as `sonorant.files` asks of pydantic, which takes longer to import and
to begin than all the rest of reading a voice. What is not clearly right is left to pydantic, which says what is wrong.
"""

import dataclasses
import math
import typing
from functools import cache
from types import NoneType, UnionType
from typing import Any


class DoubtError(Exception):
    """The value is not right, or of a type that is not known here."""


def built(kind: Any, value: Any) -> Any:
    """A value from `json.loads` as the type `kind`: a dataclass, a plain type, or tuple, list, dict, union and Literal
    of such. Raises DoubtError, also for a ValueError from a dataclass's `__post_init__`."""
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return _scalar(kind, value)
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
    """Types of a dataclass's fields by name, and the names of those without a default."""
    hints = typing.get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    needed = [field.name for field in fields if field.default is missing and field.default_factory is missing]
    return {field.name: hints[field.name] for field in fields}, frozenset(needed)


def _scalar(kind: Any, value: Any) -> Any:
    if kind is None or kind is NoneType:
        right = value is None
    elif kind is float and type(value) in (int, float):
        value = float(value)
        right = math.isfinite(value)
    else:
        right = kind in (bool, int, str) and type(value) is kind
    if not right:
        raise DoubtError
    return value


def _first(kinds: tuple[Any, ...], value: Any) -> Any:
    """The value as the one type of a union that it is, an integer rather as int than as float."""
    for kind in sorted(kinds, key=lambda kind: kind is float):
        try:
            return built(kind, value)
        except DoubtError:
            pass
    raise DoubtError
