"""Small validators: every message names the parameter, its value and the remedy.

They return the value as a plain Python number. The values are parameters, which are public;
nothing here ever sees a row of ``X``.
"""

import math
import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

__all__ = [
    "check_choice",
    "check_delta",
    "check_epsilon",
    "check_integer",
    "check_real",
    "without_data",
]

# Messages of scikit-learn that quote shapes, types and names only, never a value of the data. They
# are told by how they begin: a text in the data may contain any of these words.
_HARMLESS = re.compile(
    r"Found array with|Found input variables with inconsistent|X has \d+ features, but"
    r"|Input (X|y|X_pool|X_candidates) contains (NaN|infinity)"
    r"|(The f|F)eature names|Sparse data was passed|Only sparse matrices with"
    r"|y should be a 1d array|[\w ]{1,80} requires y to be passed|y cannot be None"
    r"|float\(\) argument must be a string or a real number|Unknown label type: [a-z-]+\. "
)


def check_real(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
    hint: str = "",
) -> float:
    """Return `value` as a float in the interval from `low` to `high`, or raise."""
    left, right = "(" if low_open else "[", ")" if high_open else "]"
    wanted = f"a number in {left}{low:g}, {high:g}{right}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(_message(name, value, wanted, hint))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    above = number > low if low_open else number >= low
    below = number < high if high_open else number <= high
    if not (above and below):  # a NaN fails both comparisons
        raise ValueError(_message(name, value, wanted, hint))
    return number


def check_integer(name: str, value: Any, *, low: int, hint: str = "") -> int:
    """Return `value` as an int of at least `low`, or raise."""
    wanted = f"an integer >= {low}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(_message(name, value, wanted, hint))
    if value < low:
        raise ValueError(_message(name, value, wanted, hint))
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...], hint: str = "") -> str:
    """Return `value` if it is one of the strings in `choices`, or raise."""
    wanted = "one of " + ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise TypeError(_message(name, value, wanted, hint))
    if value not in choices:
        raise ValueError(_message(name, value, wanted, hint))
    return value


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return epsilon in [0, inf], or raise."""
    return check_real(name, value, low=0.0, hint="Use np.inf for a release without noise.")


def check_delta(value: Any, *, epsilon: float, name: str = "delta") -> float:
    """Return delta in (0, 1); zero only when `epsilon` is infinite."""
    if epsilon == math.inf:
        return check_real(name, value, low=0.0, high=1.0, high_open=True)
    return check_real(
        name,
        value,
        low=0.0,
        high=1.0,
        low_open=True,
        high_open=True,
        hint="Gaussian noise needs delta > 0; 1e-6 is usual, well below 1 / n_samples.",
    )


def _message(name: str, value: Any, wanted: str, hint: str) -> str:
    shown = repr(value)
    if len(shown) > 60 or "\n" in shown:  # arrays and the like: the type says enough
        shown = f"an object of type {type(value).__name__}"
    return f"{name} must be {wanted}, got {shown}." + (f" {hint}" if hint else "")


def without_data(check: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a validator of scikit-learn; its errors must not quote the data.

    Some of them print the array they refuse. Those are replaced, and raised with no link to the
    original, whose arguments a traceback or a debugger would show.
    """
    try:
        return check(*args, **kwargs)
    except (TypeError, ValueError) as error:
        # What follows the first line may be an array.
        message, kind = str(error), type(error)
        first_line = message.split("\n", 1)[0]
    if _HARMLESS.match(first_line):
        # The remedy that follows NaN is scikit-learn's list of estimators for missing values.
        if "contains NaN" in first_line:
            first_line += " Repair or leave out such records."
        raise kind(first_line)
    if "Complex data not supported" in message:
        raise ValueError("Complex data not supported: X must hold real numbers.")
    if re.search(r"Expected 2D array|Expected .*dim|dimension", message):
        raise ValueError(
            "Expected 2D array, got another number of dimensions: X must have shape (n_samples, "
            "n_features). Reshape your data with X.reshape(-1, 1) for one feature or X.reshape(1, "
            "-1) for one record."
        )
    raise ValueError(
        "X must be a rectangular array of real numbers, and y hold one label per record: it has "
        "another type, or entries that are not numbers. Encode text and categories beforehand."
    )
