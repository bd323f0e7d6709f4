r"""Every constant that the privacy proofs need, next to its derivation.

Symbols, as in the documentation: n records in R^d, K classes with counts n_c; alpha the
regularisation of ``mean loss + alpha/2 ||theta||^2``; B the norm bound; r the radius; Delta the
L2 sensitivity, the largest distance between the optima of two data sets that differ in one
record, by at most r, with the same label.

All functions take and return plain numbers or arrays of them, never data, and round up.

References
----------
J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction with
less noise", arXiv:2607.04209.
N. J. Higham, "Accuracy and stability of numerical algorithms", 2nd ed., SIAM 2002, chapter 3.
"""

import numpy as np

__all__ = [
    "class_sum_error",
    "clipped_domain",
    "gamma",
    "ridge_sensitivity",
]

_UNIT_ROUNDOFF = 2.0**-53


def gamma(k: float) -> float:
    """Relative error bound ``k u / (1 - k u)`` of k floating-point operations in a row.

    Higham 2002, Lemma 3.1; ``u = 2^-53``.
    """
    ku = k * _UNIT_ROUNDOFF
    return ku / (1 - ku)


def clipped_domain(
    *, radius: float, norm_bound: float | None, n_features: int
) -> tuple[float, float | None]:
    """Radius and norm bound that hold for rows as floats represent them.

    Parameters
    ----------
    radius, norm_bound : float
        The declared r and B (`norm_bound` None: no clipping, nothing to allow for).
    n_features : int
        Dimension d of a row.

    Returns
    -------
    tuple of float
        ``(r + (d + 8) u B, B (1 + (d + 8) u))``; r stays 0 if it is 0.

    Notes
    -----
    Exact clipping is 1-Lipschitz, so it keeps r-adjacent rows r-adjacent. A computed norm errs by
    at most ``(d/2 + 2) u`` relative and quotient and product by two more roundings, so each
    clipped row lies within ``(d/2 + 4) u B`` of the exact projection: two of them are at most
    ``(d + 8) u B`` farther apart.
    """
    if norm_bound is None or radius == 0:
        return radius, norm_bound
    error = (n_features + 8) * _UNIT_ROUNDOFF
    return (radius + error * norm_bound) * (1 + 2 * _UNIT_ROUNDOFF), norm_bound * (1 + 2 * error)


def ridge_sensitivity(
    *,
    radius: float,
    alpha: float,
    class_counts: np.ndarray,
    calibration: str,
) -> np.ndarray:
    r"""Sensitivity of the ridge prototypes, one value per class.

    Parameters
    ----------
    radius : float
        Radius r >= 0, in the unit of the rows.
    alpha : float
        Regularisation, > 0.
    class_counts : ndarray of int of shape (K,)
        Records per class, zeros allowed.
    calibration : {"per_class", "min_count", "global"}
        Which of the three valid bounds.

    Returns
    -------
    ndarray of shape (K,)
        Delta_c, rounded up; 0 for a class without records.

    Notes
    -----
    The prototypes minimise ``(1/n) sum ||x_i - mu_{y_i}||^2 + alpha/2 sum_c ||mu_c||^2``. Setting
    the gradient to zero gives, with S_c the sum of the rows of class c,

        mu_c = 2 S_c / (2 n_c + alpha n).

    Replacing a record of class c by another of the same label moves S_c by ``x' - x`` and no
    other class sum, and n and n_c stay. So only mu_c moves, by exactly

        2 ||x - x'|| / (2 n_c + alpha n) <= Delta_c = 2 r / (2 n_c + alpha n).

    - ``"per_class"`` (ours): each class has its own Delta_c. A pair of neighbours differs in one
      block only, in which shift over noise scale is at most mu whatever the class is.
    - ``"min_count"`` (Margaryan and Gupta, Proposition 10): the largest of them,
      ``2 r / (2 n_min + alpha n)``, over the classes with records.
    - ``"global"`` (their Corollary 2): ``2 r / (2 + alpha n)``, which holds for any counts.

    A regularisation towards a public prototype adds the constant ``alpha n mu0_c`` to the
    numerator and changes none of this. A class without records has a constant prototype.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.erm.sensitivity import ridge_sensitivity
    >>> counts = np.array([38, 22])
    >>> for rule in ("per_class", "min_count", "global"):
    ...     print(rule, ridge_sensitivity(
    ...         radius=0.5, alpha=0.1, class_counts=counts, calibration=rule).round(6))
    per_class [0.012195 0.02    ]
    min_count [0.02 0.02]
    global [0.125 0.125]
    """
    counts = np.asarray(class_counts, dtype=np.float64)
    occupied = counts > 0
    if calibration == "per_class":
        reference = np.where(occupied, counts, 1.0)
    elif calibration == "min_count":
        reference = np.full_like(counts, counts[occupied].min())
    else:
        reference = np.ones_like(counts)
    delta = 2 * radius / (2 * reference + alpha * counts.sum())
    return np.where(occupied, delta * (1 + 8 * _UNIT_ROUNDOFF), 0.0)


def class_sum_error(*, n_terms: int, norm_bound: float, public_norm: float = 0.0) -> float:
    """How far a computed ridge prototype can be from the exact one.

    Parameters
    ----------
    n_terms : int
        Largest number of terms added one after the other in a class sum.
    norm_bound : float
        Bound B on the rows.
    public_norm : float, default=0.0
        Largest norm of a public prototype.

    Returns
    -------
    float
        An L2 distance, in the unit of the rows. Twice this is added to the sensitivity.

    Notes
    -----
    Adding N terms one after the other errs by at most ``gamma_{N-1}`` times the sum of their
    absolute values in each coordinate, so by ``gamma_N n_c B`` in norm for a class sum; the
    product with the clipping factor, the denominator and the quotient cost six more roundings.
    Divided by ``(2 n_c + alpha n)/2 >= n_c`` this is ``gamma_{N+6} B``. The term of a public
    prototype, ``alpha n mu0 / (2 n_c + alpha n)``, is at most ``||mu0||`` long and takes part in
    one addition and a few roundings.
    """
    return gamma(n_terms + 6) * norm_bound + gamma(8) * public_norm
