"""How far two records may be apart and still count as neighbours."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from skballdp._validate import check_real

__all__ = ["Radius", "resolve_radius"]


@dataclass(frozen=True)
class Radius:
    """A radius that says where it came from.

    Parameters
    ----------
    value : float
        The radius, >= 0, in the unit of the rows.
    source : str, default="given by the caller"
        Where it came from, in words; the certificate repeats it.
    epsilon : float, default=0.0
        Privacy loss spent on choosing it; 0 for a value from public knowledge.

    Raises
    ------
    TypeError, ValueError
        If a value has the wrong type or is out of range.

    Examples
    --------
    >>> from skballdp import Radius
    >>> float(Radius(0.8, source="95 % quantile of public records"))
    0.8
    """

    value: float
    source: str = "given by the caller"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        value = check_real("value", self.value, low=0.0, high_open=True)
        epsilon = check_real("epsilon", self.epsilon, low=0.0, high_open=True)
        if not isinstance(self.source, str):
            raise TypeError(f"source must be a string, got {type(self.source).__name__}.")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "epsilon", epsilon)

    def __float__(self) -> float:
        return self.value


def resolve_radius(radius: Any, *, norm_bound: float | None) -> Radius:
    """Turn the estimators' `radius` parameter into a `Radius`.

    Parameters
    ----------
    radius : float, Radius or "standard"
        ``"standard"`` is ``2 * norm_bound``: every replacement inside the ball.
    norm_bound : float or None
        Bound on the rows.

    Returns
    -------
    Radius
        At most ``2 * norm_bound``, since no two rows of the ball are farther apart.

    Raises
    ------
    TypeError, ValueError
        If the radius is of another type, out of range, or needs a norm bound.
    """
    if isinstance(radius, str):
        if radius != "standard":
            raise ValueError(
                f"radius must be a number >= 0, a Radius or 'standard', got {radius!r}."
            )
        if norm_bound is None:
            raise ValueError(
                "radius='standard' means 2 * norm_bound, but norm_bound=None; give a number as "
                "radius or set norm_bound."
            )
        return Radius(2 * norm_bound, source='"standard": any replacement within norm_bound')
    if isinstance(radius, Radius):
        resolved = radius
    else:
        if isinstance(radius, bool) or not isinstance(radius, Real):
            raise TypeError(
                "radius must be a number >= 0, a Radius or 'standard', got an object of type "
                f"{type(radius).__name__}."
            )
        hint = "Use 'standard' for any replacement within norm_bound."
        value = check_real("radius", radius, low=0.0, high=math.inf, high_open=True, hint=hint)
        resolved = Radius(value)
    if norm_bound is not None and resolved.value > 2 * norm_bound:
        source = f"{resolved.source} as {resolved.value!r}; 2 * norm_bound covers everything"
        return Radius(2 * norm_bound, source=source, epsilon=resolved.epsilon)
    return resolved
