"""JSON into dataclasses, by their type hints. Fields that a class does not know are left out: a newer command may say more."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def decode(kind: type[T], document: dict[str, Any]) -> T:
    """The document as an object of this dataclass; `KeyError` names a field that has to be there and is not."""
    values = {}
    for name, key, hint, required in _fields(typing.cast(type, kind)):
        if key in document:
            values[name] = _value(hint, document[key])
        elif required:
            raise KeyError(f"{kind.__name__}.{key}")
    return kind(**values)


@cache
def _fields(kind: type) -> list[tuple[str, str, Any, bool]]:
    """Each field's name, its key in JSON (`from_` is `from`), its type, and whether it has to be there."""
    hints = typing.get_type_hints(kind)
    absent = dataclasses.MISSING
    required = {one.name: one.default is absent and one.default_factory is absent for one in dataclasses.fields(kind)}
    return [(name, name.rstrip("_"), hints[name], has_to_be) for name, has_to_be in required.items()]


def _value(hint: Any, raw: Any) -> Any:
    if raw is None:
        return None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return _value(next(one for one in arguments if one is not type(None)), raw)
    if origin is list:
        return [_value(arguments[0], one) for one in raw]
    if origin is tuple:
        if len(arguments) != len(raw):
            raise ValueError(f"{len(arguments)} values were expected, and there are {len(raw)}: {raw}")
        return tuple(_value(kind, one) for kind, one in zip(arguments, raw))
    return decode(typing.cast(type, hint), raw) if dataclasses.is_dataclass(hint) else raw
