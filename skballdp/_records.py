"""Frozen dataclasses to standard JSON values and back, exactly.

Fields are typed with float, int, str, bool, tuples of these, and other such dataclasses; optional
ones are allowed, and ``Any`` for scalars of several types. Infinity, which standard JSON lacks, is
the string ``"inf"``; NaN is refused.
"""

import dataclasses
import math
import sys
import types
import typing
from typing import Any

__all__ = ["from_plain", "to_plain"]


def to_plain(value: Any) -> Any:
    """Dicts, lists, numbers, strings, booleans and None for a record or a part of one."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: to_plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        if value == math.inf:
            return "inf"
        raise ValueError(f"{value} has no place in a record.")
    return value


def from_plain(kind: Any, value: Any) -> Any:
    """The inverse of `to_plain`.

    Parameters
    ----------
    kind : type
        A dataclass, or the type of a field.
    value : object
        What `to_plain` made of such a value.

    Returns
    -------
    object
        Of type `kind`.

    Raises
    ------
    ValueError
        If the value does not have the structure of the type; the message names the field.
    """
    return _read(kind, value, "the record")


def _read(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _read_record(typing.cast(type, kind), value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return _read(kind, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where} must be a list.")
        if arguments[1:] == (...,):
            arguments = (arguments[0],) * len(value)
        if len(arguments) != len(value):
            raise ValueError(f"{where} must have {len(arguments)} entries, got {len(value)}.")
        return tuple(_read(k, v, where) for k, v in zip(arguments, value, strict=True))
    if kind is Any:
        if isinstance(value, dict | list):
            raise ValueError(f"{where} must be a number, a string, a boolean or null.")
        return value
    if kind is float:
        if value == "inf":
            return math.inf
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f'{where} must be a number or "inf".')
        # json reads NaN, Infinity and integers of any length.
        if not abs(value) <= sys.float_info.max:
            raise ValueError(f'{where} must be a finite number or "inf".')
        return float(value)
    if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    raise ValueError(f"{where} must be of type {kind.__name__}.")


def _read_record(cls: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object.")
    hints = typing.get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    if set(value) != names:
        differing = ", ".join(sorted(map(str, set(value) ^ names)))
        raise ValueError(f"{where} has missing or unknown fields: {differing}.")
    return cls(**{name: _read(hints[name], value[name], name) for name in value})
