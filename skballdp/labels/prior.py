"""Estimates of the label prior from labels that are private.

The records that a prior is estimated from must not be among those whose labels are then
privatised with it; if they are, both budgets add. See
`skballdp.labels.transformer.BlockRRLabelTransformer`.
"""

import math
from typing import Any

import numpy as np

from skballdp._validate import check_choice, check_real
from skballdp.labels.mechanisms import check_label_epsilon
from skballdp.noise import discrete_laplace, make_rng

__all__ = ["prior_from_histogram", "prior_from_rr", "private_histogram", "project_simplex"]


def project_simplex(x: Any) -> np.ndarray:
    """Nearest probability vector in Euclidean distance.

    Parameters
    ----------
    x : array-like of shape (n,)
        Any finite numbers.

    Returns
    -------
    ndarray of shape (n,)
        Non-negative, summing to 1.

    Raises
    ------
    ValueError
        If x is empty, not one-dimensional or not finite.

    Notes
    -----
    ``max(x - theta, 0)``: with the entries in descending order, ``theta = (x_1 + ... + x_rho -
    1)/rho`` for the largest rho with ``x_rho`` above that value.

    References
    ----------
    J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, ICML 2008.

    Examples
    --------
    >>> from skballdp.labels import project_simplex
    >>> project_simplex([0.9, 0.3, -0.2]).round(3).tolist()
    [0.8, 0.2, 0.0]
    """
    return project_rows(_check_numbers("x", x)[np.newaxis])[0]


def project_rows(x: np.ndarray) -> np.ndarray:
    """`project_simplex` of each row, of finite numbers."""
    # Relative to the largest entry: for large x, the sum of the chosen ones would hide the 1.
    x = x - x.max(axis=1, keepdims=True)
    descending = -np.sort(-x, axis=1)
    theta = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, x.shape[1] + 1)
    rho = np.count_nonzero(descending > theta, axis=1) - 1
    projected: np.ndarray = np.maximum(x - theta[np.arange(len(x)), rho][:, np.newaxis], 0.0)
    return projected


def prior_from_rr(counts: Any, epsilon: float, *, rule: str = "project") -> np.ndarray:
    """Prior from the counts of labels that went through randomised response.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of noisy labels in each class.
    epsilon : float
        Privacy loss of the randomised response, in (0, 700], or infinity.
    rule : {"project", "clip", "none"}, default="project"
        What to do about negative estimates: nearest probability vector, clip and normalise, or
        nothing, which is unbiased.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sums to 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; no prior can be told at ``epsilon=0``.

    Notes
    -----
    A class with frequency c among the noisy labels has the unbiased estimate ``(n c - q)/(1-q)``,
    ``n = 1 + (K-1) q``; as ``c + (K c - 1) q/(1-q)`` it keeps its digits for small epsilon. It
    needs no trusted curator, and many records: at K = 10, epsilon = 1 and 335 records its standard
    deviation is 0.11.

    References
    ----------
    P. Kairouz, K. Bonawitz and D. Ramage, ICML 2016, for estimation under randomised response.

    Examples
    --------
    >>> from skballdp.labels import prior_from_rr
    >>> prior_from_rr([50, 30, 20], epsilon=1.0).round(3).tolist()
    [0.775, 0.225, 0.0]
    """
    counts = _check_numbers("counts", counts)
    epsilon = check_label_epsilon(epsilon)
    check_choice("rule", rule, ("project", "clip", "none"))
    if epsilon == 0:
        raise ValueError("epsilon must be above 0 for a prior, got 0: the counts tell nothing.")
    if counts.min() < 0 or counts.sum() <= 0:
        raise ValueError("counts must be non-negative, with at least one label.")
    total = counts.sum()
    odds = math.exp(-epsilon) / -math.expm1(-epsilon)  # q/(1-q)
    unbiased = counts / total + odds * ((len(counts) * counts - total) / total)
    if rule == "none":
        return unbiased
    return project_simplex(unbiased) if rule == "project" else _clip(unbiased)


def prior_from_histogram(counts: Any, *, rule: str = "clip") -> np.ndarray:
    """Prior from noisy class counts.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Counts with noise, as from `private_histogram`; may be negative.
    rule : {"clip", "project"}, default="clip"
        Clip at zero and divide by the sum, or divide and take the nearest probability vector.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sums to 1; uniform if nothing positive is left.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    Ghazi et al., arXiv:2212.06074, and Liu and Ding, arXiv:2602.03277, use the first rule.

    Examples
    --------
    >>> from skballdp.labels import prior_from_histogram
    >>> prior_from_histogram([6, -1, 2]).tolist()
    [0.75, 0.0, 0.25]
    """
    counts = _check_numbers("counts", counts)
    check_choice("rule", rule, ("clip", "project"))
    if rule == "clip":
        return _clip(counts)
    if counts.sum() <= 0:
        return np.full(len(counts), 1.0 / len(counts))
    return project_simplex(counts / counts.sum())


def private_histogram(counts: Any, epsilon: float, rng: Any = None) -> np.ndarray:
    """Class counts with discrete Laplace noise.

    Parameters
    ----------
    counts : array-like of int, shape (n_classes,)
        True counts.
    epsilon : float
        Privacy loss, in [1e-14, 700], or infinity for no noise.
    rng : None, int, numpy Generator or RandomState, default=None
        None draws from the operating system's cryptographic generator; anything else is
        reproducible and therefore **not private**.

    Returns
    -------
    ndarray of int64, shape (n_classes,)
        Noisy counts; may be negative.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Replacing one label moves two counts by one each, so the L1 sensitivity is 2, and noise with
    ``P(z) = (1-a)/(1+a) a^|z|``, ``a = exp(-epsilon/2)``, makes the release epsilon-private. The
    counts are integers and so is the noise: there are no gaps between floats to exploit.

    References
    ----------
    A. Ghosh, T. Roughgarden and M. Sundararajan, SIAM J. Computing 41 (2012).

    Examples
    --------
    >>> from skballdp.labels import private_histogram
    >>> private_histogram([20, 10, 0], epsilon=1.0).shape
    (3,)
    """
    counts = np.asarray(counts)
    if counts.dtype.kind not in "iu" or counts.ndim != 1 or len(counts) == 0:
        raise ValueError(
            "counts must be a one-dimensional array of integers, got shape "
            f"{counts.shape} and dtype {counts.dtype}."
        )
    epsilon = check_label_epsilon(epsilon)
    epsilon = check_real("epsilon", epsilon, low=1e-14, hint="A prior needs a positive budget.")
    return counts + discrete_laplace(epsilon / 2, len(counts), make_rng(rng))


def _clip(x: np.ndarray) -> np.ndarray:
    clipped = np.maximum(x, 0.0)
    if clipped.sum() <= 0:
        return np.full(len(x), 1.0 / len(x))
    return clipped / clipped.sum()


def _check_numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"{name} must be a one-dimensional array of numbers, got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite.")
    return array
