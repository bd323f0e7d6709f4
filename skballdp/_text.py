"""Texts for readers: numbers rounded to the safe side, and certificates in words."""

import decimal
import html
import textwrap
from collections.abc import Sequence

__all__ = ["as_html", "as_text", "down", "up"]

_WIDTH = 88


def as_text(title: str, sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A document of headings and sentences, in lines of 88 characters at most."""
    lines = [title, "=" * len(title), ""]
    for heading, body in sections:
        lines.append(heading)
        for item in body:
            lines += textwrap.wrap(
                item, _WIDTH, initial_indent="  ", subsequent_indent="    ", tabsize=4
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def as_html(title: str, sections: Sequence[tuple[str, Sequence[str]]], details: str = "") -> str:
    """The same for notebooks, with more HTML at the end."""
    parts = [f"<h3>{html.escape(title)}</h3>"]
    for heading, body in sections:
        items = "".join(f"<li>{html.escape(item)}</li>" for item in body)
        parts.append(f"<h4>{html.escape(heading)}</h4><ul>{items}</ul>")
    return f'<div class="skballdp-certificate">{"".join(parts)}{details}</div>'


def up(value: float, digits: int = 4) -> str:
    """The value with so many significant digits, not below it: a promise must not shrink."""
    return _rounded(value, digits, decimal.ROUND_CEILING)


def down(value: float, digits: int = 4) -> str:
    """The value with so many significant digits, not above it."""
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    # From the shortest decimal that stands for the float: 0.7 is 0.7, not 0.69999...
    exact = decimal.Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    return f"{float(exact):.{digits}g}"
