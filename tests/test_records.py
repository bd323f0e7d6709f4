"""Records to standard JSON values and back."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from skballdp._records import from_plain, to_plain


@dataclass(frozen=True)
class Inner:
    value: float


@dataclass(frozen=True)
class Outer:
    number: float
    count: int
    name: str
    flag: bool
    pair: tuple[str, float]
    many: tuple[Inner, ...]
    maybe: Inner | None
    fixed: int = field(default=3, init=False)


WHOLE = Outer(
    0.1 + 0.2, 7, "é", True, ("a", math.inf), (Inner(1e-300), Inner(-0.0)), Inner(2.0**-1074)
)
EMPTY = Outer(0.0, -1, "", False, ("", -1.5), (), None)


def plain(record, **changes):
    values = to_plain(record) | changes
    values.pop("fixed")
    return values


@pytest.mark.parametrize("record", [WHOLE, EMPTY])
def test_round_trip_through_json(record):
    text = json.dumps(plain(record), allow_nan=False)
    again = from_plain(Outer, json.loads(text))
    assert again == record
    assert [math.copysign(1, part.value) for part in again.many] == [
        math.copysign(1, part.value) for part in record.many
    ]


def test_plain_values():
    values = to_plain(WHOLE)
    assert values["pair"] == ["a", "inf"] and values["maybe"] == {"value": 2.0**-1074}
    assert values["fixed"] == 3 and to_plain(EMPTY)["maybe"] is None
    assert from_plain(Outer, plain(EMPTY, number=2)).number == 2.0
    assert isinstance(from_plain(Outer, plain(EMPTY, number=2)).number, float)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_what_standard_json_lacks_is_refused(value):
    with pytest.raises(ValueError, match="no place in a record"):
        to_plain(Inner(value))
    with pytest.raises(ValueError, match="value must be a finite number"):
        from_plain(Inner, {"value": value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": "1"}, 'number must be a number or "inf"'),
        ({"number": True}, "number must be a number"),
        ({"number": None}, "number must be a number"),
        ({"number": 10**400}, "number must be a finite number"),
        ({"count": 1.0}, "count must be of type int"),
        ({"count": False}, "count must be of type int"),
        ({"name": 3}, "name must be of type str"),
        ({"flag": 0}, "flag must be of type bool"),
        ({"pair": ["a"]}, "pair must have 2 entries, got 1"),
        ({"pair": "ab"}, "pair must be a list"),
        ({"pair": [1, 2.0]}, "pair must be of type str"),
        ({"many": [None]}, "many must be an object"),
        ({"many": [{"value": 1.0, "more": 2}]}, "many has missing or unknown fields: more"),
        ({"maybe": {}}, "maybe has missing or unknown fields: value"),
        ({"maybe": 1}, "maybe must be an object"),
        ({"more": 1}, "the record has missing or unknown fields: more"),
    ],
)
def test_other_structures_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        from_plain(Outer, plain(EMPTY, **changes))


@pytest.mark.parametrize("value", [None, [], "text", 1])
def test_a_record_must_be_an_object(value):
    with pytest.raises(ValueError, match="the record must be an object"):
        from_plain(Outer, value)


@dataclass(frozen=True)
class Labels:
    names: tuple[Any, ...]


def test_scalars_of_several_types():
    labels = Labels((1, 2.0, "inf", True, None))
    again = from_plain(Labels, json.loads(json.dumps(to_plain(labels))))
    assert again == labels and [*map(type, again.names)] == [*map(type, labels.names)]
    for value in ([1], {}):
        with pytest.raises(ValueError, match="names must be a number, a string"):
            from_plain(Labels, {"names": [value]})
