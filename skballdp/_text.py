"""Numbers for readers, rounded to the safe side: a promise must not shrink in print."""

import decimal

__all__ = ["down", "up"]


def up(value: float, digits: int = 4) -> str:
    """The value with so many significant digits, not below it."""
    return _rounded(value, digits, decimal.ROUND_CEILING)


def down(value: float, digits: int = 4) -> str:
    """The value with so many significant digits, not above it."""
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    # From the shortest decimal that stands for the float: 0.7 is 0.7, not 0.69999...
    exact = decimal.Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    return f"{float(exact):.{digits}g}"
