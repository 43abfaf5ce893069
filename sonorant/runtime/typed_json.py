"""JSON to frozen dataclasses, strictly: a missing, unknown or mistyped key is named. Knows nothing of what the classes
mean.

Only a key that has a default may be missing.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

from sonorant.errors import SonorantError

Value = TypeVar("Value")


def parse(kind: type[Value], data: Any, where: str) -> Value:
    """Build `kind` from decoded JSON.

    `kind` is a dataclass, `tuple[X, ...]`, `list[X]`, `dict[str, X]`, a literal, a union of plain types, one type or
    None, `Any` or a plain type, nested at will. `where` names the place
    for messages. Raises SonorantError naming the key.
    """
    return typing.cast(Value, _parse(kind, data, where))


def _parse(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _parse_dataclass(typing.cast(type, kind), data, where)
    if origin is tuple:
        element = typing.get_args(kind)[0]
        return tuple(_parse(element, item, f"{where}[{i}]") for i, item in enumerate(_expect(list, data, where)))
    if origin is dict:
        element = typing.get_args(kind)[1]
        return {key: _parse(element, item, f"{where}.{key}") for key, item in _expect(dict, data, where).items()}
    if origin is typing.Literal:
        return _one_of(typing.get_args(kind), data, where)
    if origin in (typing.Union, types.UnionType):
        return _parse_union(typing.get_args(kind), data, where)
    if kind is float:
        return float(_expect((float, int), data, where))
    return _expect(kind, data, where)


def _parse_dataclass(kind: type, data: Any, where: str) -> Any:
    _expect(dict, data, where)
    hints = typing.get_type_hints(kind)
    missing = {field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING} - data.keys()
    unknown = data.keys() - hints.keys()
    if missing:
        raise SonorantError(f"{where}: key '{min(missing)}' is missing; export the voice again")
    if unknown:
        raise SonorantError(f"{where}: unknown key '{min(unknown)}'; allowed: {', '.join(hints)}")
    return kind(**{name: _parse(hints[name], value, f"{where}: {name}") for name, value in data.items()})


def _parse_union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if len(kinds) == 2 and types.NoneType in kinds:
        (kind,) = (kind for kind in kinds if kind is not types.NoneType)
        return None if data is None else _parse(kind, data, where)
    return _expect(kinds, data, where)


def _one_of(values: tuple[Any, ...], data: Any, where: str) -> Any:
    if data not in values:
        raise SonorantError(f"{where}: must be one of {', '.join(map(str, values))}, not {data!r}"[:300])
    return data


def _expect(kind: type | tuple[type, ...], data: Any, where: str) -> Any:
    # bool is a subclass of int in Python, but true is no number in JSON.
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
        names = " or ".join(k.__name__ for k in kinds)
        raise SonorantError(f"{where}: must be {names}, not {data!r}"[:300])
    return data
