"""Choosing parameters without always choosing the weakest promise."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skballdp._validate import check_real
from skballdp.radius import policy_level

__all__ = ["strongest_within"]


def strongest_within(tolerance: float = 0.01) -> Callable[[dict[str, Any]], int]:
    """Pick the strongest promise among the candidates that score about as well as the best.

    Less noise scores better, so a search by accuracy alone always ends at the smallest radius and
    the largest epsilon of the grid.

    Parameters
    ----------
    tolerance : float, default=0.01
        Mean scores within this distance of the best count as equal, >= 0.

    Returns
    -------
    callable
        For the parameter ``refit`` of `sklearn.model_selection.GridSearchCV` and its relatives: it
        takes ``cv_results_`` and returns the position of the candidate with the largest radius,
        then the smallest epsilon, then the smallest delta, then the best score.

    Raises
    ------
    TypeError, ValueError
        If the tolerance is not a number or negative. The callable raises a ValueError for results
        with several metrics or with no finite score, and for radii that cannot be compared
        because only some are policies read off the data.

    Notes
    -----
    Radii are compared as they resolve: ``"standard"`` is ``2 * norm_bound``, and a larger number
    counts as that. If the grid has no ``norm_bound``, ``"standard"`` is taken to be the largest.

    The search itself is not covered by any certificate when the data are private: every fold and
    every score is one more look at them. Search on public records.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, strongest_within
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"radius": [0.3, 0.6, "standard"], "epsilon": [2.0, 8.0]}
    >>> search = GridSearchCV(BallDPRidgePrototype(), grid, refit=strongest_within(0.9), cv=3)
    >>> search.fit(normalize(X), y).best_params_
    {'epsilon': 2.0, 'radius': 'standard'}
    """
    return functools.partial(_strongest, tolerance=check_real("tolerance", tolerance, low=0.0))


def _strongest(cv_results: dict[str, Any], tolerance: float) -> int:
    if "mean_test_score" not in cv_results:
        raise ValueError(
            "strongest_within needs the results of one metric: give the search a single scoring."
        )
    scores = np.asarray(cv_results["mean_test_score"], dtype=np.float64)
    if not np.any(np.isfinite(scores)):
        raise ValueError("strongest_within found no finite score: every fit of the search failed.")
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    candidates = np.flatnonzero(scores >= scores.max() - tolerance)
    params = cv_results["params"]
    radii = _comparable_radii(params)

    def strength(k: int) -> tuple[float, float, float, float]:
        epsilon, delta = (_value(params[k], name, 0.0) for name in ("epsilon", "delta"))
        return radii[k], -float(epsilon), -float(delta), scores[k]

    return max(candidates.tolist(), key=strength)  # the first among equals


def _comparable_radii(params: list[dict[str, Any]]) -> list[float]:
    values = [_value(candidate, "radius", "standard") for candidate in params]
    policies = [policy_level(value) for value in values]
    if any(level is not None for level in policies):
        rest = {value for value, level in zip(values, policies, strict=True) if level is None}
        if rest - {"standard"}:
            raise ValueError(
                "strongest_within cannot compare radii given as numbers with policies such as "
                "'q95', which depend on the data; measure them with radius_quantiles first."
            )
        return [math.inf if level is None else level for level in policies]
    radii = []
    for candidate, value in zip(params, values, strict=True):
        norm_bound = _value(candidate, "norm_bound", None)
        whole = math.inf if norm_bound is None else 2 * float(norm_bound)
        radii.append(whole if value == "standard" else min(float(value), whole))
    return radii


def _value(params: dict[str, Any], name: str, default: Any) -> Any:
    """Value of a parameter by its last name, as in ``ballridge__radius``."""
    found = [key for key in params if key == name or key.endswith(f"__{name}")]
    if len(found) > 1:
        raise ValueError(
            f"strongest_within found several parameters called {name}: {', '.join(sorted(found))}."
        )
    return params[found[0]] if found else default
