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

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skballdp._validate import check_choice, check_integer, check_real

__all__ = [
    "class_sum_error",
    "clipped_domain",
    "gamma",
    "gradient_error",
    "gradient_gap",
    "hinge_effective_gap",
    "linear_sensitivity",
    "logistic_effective_gap",
    "minimizer_radius",
    "ridge_sensitivity",
]

_UNIT_ROUNDOFF = 2.0**-53

_LOSSES = ("logistic", "softmax", "squared_hinge")
_MODES = ("tight", "paper")

# Inputs between these limits keep every intermediate product far away from overflow and from
# the subnormal numbers, where relative rounding errors are no longer bounded by 2**-53.
_SMALLEST = 1e-60
_LARGEST = 1e60
_SMALLEST_RADIUS = 1e-100
_LARGEST_WEIGHT = 1e15

# Rounding.  Every formula below is a chain of fewer than 60 operations that are backward
# stable or lose a few units in the last place (no uncontrolled cancellation: differences are
# taken with expm1, or their absolute error is small against the result, as said where it
# happens), hence a relative error below 60 * 2**-53 < 1e-14.  The factors leave a reserve.
_UP_RADIUS = 1.0 + 1e-14
_UP_GAP = 1.0 + 1e-12
_UP_PAPER = 1.0 + 1e-15
# Relative width at which the branch and bound stops: second-order and first-order bounds on a
# line, first-order bounds in a plane.
_TOLERANCE = 1e-11
_TOLERANCE_FIRST = 1e-7
_TOLERANCE_PLANE = 1e-4

_FloatArray = NDArray[np.float64]


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


# --------------------------------------------------------------------------------------------
# Linear heads: how long a minimizer can be, and how far apart two gradients
# --------------------------------------------------------------------------------------------


def minimizer_radius(
    loss: str,
    *,
    alpha: float,
    norm_bound: float,
    fit_intercept: bool = True,
    n_classes: int = 2,
    public_norm: float = 0.0,
) -> float:
    """Bound the length of every minimizer of the regularised objective.

    The objective is the mean loss over the records plus ``alpha / 2 * ||theta - theta0||^2``
    with a public ``theta0`` (zero unless `public_norm` is given).  The bound holds for every
    data set with feature norms up to `norm_bound`, any number of records and any positive
    weights with mean one.

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared_hinge"}
        Loss of the head.  For ``"squared_hinge"`` with more than two classes (one-vs-rest)
        the result is the bound for **one** of the binary problems.
    alpha : float
        Regularisation, as in scikit-learn's ``SGDClassifier``: it multiplies
        ``||theta||^2 / 2`` next to a *mean* loss.
    norm_bound : float
        Public bound ``B`` on the L2 norm of every feature vector.
    fit_intercept : bool, default=True
        Whether features are extended by a constant 1 whose coefficient is regularised, too.
    n_classes : int, default=2
        Number ``K`` of classes.  ``"logistic"`` needs 2, the others at least 2.
    public_norm : float, default=0.0
        ``||theta0||``, intercept included.  For one-vs-rest squared hinge the largest norm
        over the ``K`` public vectors.

    Returns
    -------
    float
        ``R`` with ``||theta|| <= R``, rounded up (by a relative ``1e-14``).

    Raises
    ------
    TypeError
        If an argument has the wrong type (a bool is not accepted as a number).
    ValueError
        If an argument has a value outside its range.

    See Also
    --------
    gradient_gap : Uses this bound.

    Notes
    -----
    This bound is ours; the paper (J. Margaryan and N. Gupta, arXiv 2607.04209) uses
    constants that amount to longer minimizers.

    Write ``Bt = sqrt(B^2 + 1)`` with an intercept and ``Bt = B`` without, ``rho = ||theta||``.
    Let ``theta0 = 0`` first.  At a minimizer ``theta`` is orthogonal to the gradient, so
    ``alpha rho^2`` equals the mean of ``-g_i . theta`` over the records, where ``g_i`` is the
    gradient of the loss of record ``i``.  That scalar has a maximum:

    * logistic: it is ``t sigmoid(-t)`` with the margin ``t <= rho Bt``.  The derivative
      vanishes where ``(t - 1) e^(t - 1) = 1 / e``, that is at ``t* = 1 + W(1/e)`` (Lambert's
      ``W``), and the maximum is ``c = W(1/e) = 0.278``.  With ``R1 = sqrt(c / alpha)``: if
      ``R1 Bt >= t*`` then ``R = R1``.  Otherwise no admissible ``t`` reaches ``t*``, the
      function grows on all of ``[0, rho Bt]`` and ``alpha rho <= Bt sigmoid(-rho Bt)``: ``R``
      is where equality holds.  In terms of ``x = R Bt`` that is ``x (1 + e^x) = Bt^2 / alpha``.
    * squared hinge: it is ``2 (1 - t)_+ t <= 1/2``, so ``c = 1/2`` and
      ``R = sqrt(1 / (2 alpha))``.  If ``alpha > 2 Bt^2`` the maximum at ``t = 1/2`` is out of
      reach and ``alpha rho <= 2 Bt (1 - rho Bt)`` gives ``R = 2 Bt / (alpha + 2 Bt^2)``.
    * softmax: it is ``sum_c p_c t_c`` with ``t_c`` the score of the label minus that of class
      ``c``, hence ``sum_c q_c log(1 / q_c) / (1 + sum_c q_c)`` with ``q_c = e^-t_c``, both
      sums over the ``K - 1`` other classes.  ``-q log q`` is concave, so for a given sum of
      the ``q_c`` equal ones are worst: ``t / (1 + e^t / (K - 1)) <= c = W((K - 1) / e)``.
      Moreover ``alpha rho <= ||mean g_i|| <= sqrt(2) Bt``, since ``||p - e_y|| <= sqrt(2)``.
      ``R`` is the smaller of ``sqrt(c / alpha)`` and ``sqrt(2) Bt / alpha``.

    With ``theta0`` of norm ``P > 0`` the same step reads ``alpha rho^2 <= c + alpha P rho``,
    so ``R = (P + sqrt(P^2 + 4 c / alpha)) / 2``; the refined branches for logistic and squared
    hinge are not used then, and softmax takes the minimum with ``P + sqrt(2) Bt / alpha``.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball Differential Privacy: How to Mitigate Data Reconstruction
    with Less Noise", arXiv 2607.04209, 2026.

    Examples
    --------
    >>> from skballdp.erm.sensitivity import minimizer_radius
    >>> round(minimizer_radius("logistic", alpha=0.01, norm_bound=1.0), 6)
    5.276974
    >>> round(minimizer_radius("squared_hinge", alpha=10.0, norm_bound=1.0), 6)
    0.202031
    """
    head = _check_head(loss, alpha, norm_bound, fit_intercept, n_classes, public_norm)
    return _minimizer_radius(head)


def gradient_gap(
    loss: str,
    *,
    radius: float,
    alpha: float,
    norm_bound: float,
    fit_intercept: bool = True,
    n_classes: int = 2,
    public_norm: float = 0.0,
    mode: str = "tight",
) -> float:
    """Bound the distance of the loss gradients of two neighbouring records.

    Two records are neighbours when they have the same label and their features are at
    distance at most `radius`.  The gradients are taken at the same ``theta``, any possible
    minimizer.  By strong convexity the minimizers of two neighbouring data sets of ``n``
    records are at distance at most ``G / (alpha n)`` (times the largest class weight, if
    there are weights with mean one).

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared_hinge"}
        Loss of the head.  ``"squared_hinge"`` with more than two classes is one-vs-rest, and
        the result is the gap of the **stacked** gradient of all ``K`` binary problems,
        ``sqrt(K)`` times the binary one.
    radius : float
        Distance ``r`` between the two feature vectors, at least 0.  Anything above
        ``2 * norm_bound`` (infinity, too) is used as ``2 * norm_bound``, which stands for any
        replacement with the same label.  Positive values below ``1e-100`` are used as
        ``1e-100``.
    alpha : float
        Regularisation, as in scikit-learn's ``SGDClassifier``: it multiplies
        ``||theta||^2 / 2`` next to a *mean* loss.
    norm_bound : float
        Public bound ``B`` on the L2 norm of every feature vector.
    fit_intercept : bool, default=True
        Whether features are extended by a constant 1 whose coefficient is regularised, too.
    n_classes : int, default=2
        Number ``K`` of classes.  ``"logistic"`` needs 2, the others at least 2.
    public_norm : float, default=0.0
        Norm of the public model towards which one regularises, see `minimizer_radius`.
    mode : {"tight", "paper"}, default="tight"
        ``"tight"`` is our bound.  ``"paper"`` returns the Lipschitz constant of the paper's
        Proposition 12 times the radius, to reproduce the paper; it needs ``public_norm=0``.

    Returns
    -------
    float
        ``G``, rounded up: at most a relative ``2e-11`` above the exact value of the bound
        derived below, and never below it.

    Raises
    ------
    TypeError
        If an argument has the wrong type (a bool is not accepted as a number).
    ValueError
        If an argument has a value outside its range, or if ``mode="paper"`` is combined with
        a public model, for which the paper has no constant.

    See Also
    --------
    minimizer_radius : The bound ``R`` on the length of ``theta``.

    Notes
    -----
    The paper's constants (J. Margaryan and N. Gupta, arXiv 2607.04209), with
    ``Bt = sqrt(B^2 + 1)`` with an intercept and ``Bt = B`` without: logistic
    ``1 + Bt^2 / (4 alpha)``, softmax ``sqrt(2) (1 + Bt^2 / (2 alpha))``, squared hinge
    ``2 + 4 Bt sqrt(2 / alpha)``, each times ``r`` (and ``sqrt(K)`` for one-vs-rest).

    Everything below is ours.  Write ``i = 1`` with an intercept and ``0`` without, ``z`` for
    ``x`` extended by the constant, ``R`` for `minimizer_radius`.  The constant cancels in
    ``z - z'``, so ``|theta . (z - z')| <= R r``.

    **Logistic.**  The gradient is ``-y a z`` with ``a = sigmoid(-y theta . z)``.  Let
    ``u >= v`` be the two values of ``a``.  Then ``logit u - logit v <= tau := R r``, both
    logits are at most ``L := R Bt`` in modulus, and the squared distance is
    ``||u x - v x'||^2 + i (u - v)^2`` with ``||u x - v x'|| <= (u - v) B + v r =: E``.  For a
    given ``v`` this grows in ``u``, so ``u`` is as large as it can be.  Either
    ``logit u = logit v + tau`` with ``logit v <= L - tau``, or ``u = sigmoid(L)``, and then
    the expression is convex in ``v``, so that an end counts: ``v = u`` (value
    ``sigmoid(L) r``) or ``logit v = L - tau`` (the first case again).  It remains to maximise
    ``E^2 + i (u - v)^2`` along the curve ``logit u = logit v + tau``.

    **Maximum along the curve.**  ``u`` is a concave function of ``v`` on the curve.  The
    length of a vector is its largest component over all directions, and both components are
    at least 0, so the maximum is that over ``phi`` in ``[0, pi / 2]`` of ``h(phi)``, the
    maximum over the curve of the *linear* function ``cos(phi) E + sin(phi) (u - v)``.  That
    is ``A u - C v``, ``A = cos(phi) B + sin(phi)``, ``A - C = cos(phi) r``, concave in ``v``,
    and closes: with ``eps = e^(-tau/2)`` and ``w = sqrt(C / A)`` it has its maximum at
    ``v = eps (1 - eps w) / (w (1 - eps^2))``, ``u - v = (1 - eps w)(w - eps) / (w (1 -
    eps^2))`` if ``C > 0`` and ``w > eps``, else at ``u = v = 1``; if that is beyond the end
    of the curve, at the end.  (``logit v = -L`` is never in the way, since the maximum has
    ``logit v >= -tau/2 >= -L``.)  So exponentially thin regions of ``v`` are never searched.
    ``h`` is a support function: for ``phi`` between ``phi1`` and ``phi2`` the direction is a
    combination of the two end directions with coefficients at least 0 and sum at most
    ``1 / cos((phi2 - phi1)/2)``, hence

        ``h(phi) <= max(h(phi1), h(phi2)) / cos((phi2 - phi1)/2)``.

    A branch and bound over ``phi`` with this bound has an error of second order in the
    width and ends after at most four subdivisions.  Without an intercept only ``phi = 0``
    counts and the maximum is in closed form.

    **Softmax.**  The gradient is ``(p - e_y) z^T`` with the vector ``p`` of probabilities.
    The log-odds of ``p`` and ``p'`` differ by a vector of range at most
    ``tau := sqrt(2) R r``.  Relax the pair to any ``p, p'`` with that property.  With
    ``a = p - e_y`` the squared distance is ``||a x^T - a' x'^T||^2 + i ||a - a'||^2``, convex
    in ``p`` for a fixed ``p'`` (a polytope), so ``p`` is ``p'`` tilted by ``e^tau`` on a set
    ``S`` of classes: mass ``u`` on ``S`` against ``v`` for ``p'``, ``logit u = logit v + tau``,
    the same distribution inside ``S`` and the same outside.  The distance is convex in these
    two, so one class of ``S`` and one outside carry all mass.

    *The label is one of the two.*  The squared distance is at most twice the logistic
    expression above, on the whole curve (no ``L`` here).

    *It is not* (``K > 2``).  With ``P = (u - v)(2u - 1) = a . (a - a')``,
    ``Q = (u - v)(1 - 2v) = a' . (a' - a)`` and ``c = 1 + u v + (1-u)(1-v) = a . a'`` the
    squared distance is ``P ||x||^2 + Q ||x'||^2 + c ||x - x'||^2 + 2 i (u - v)^2``.  It is
    convex in ``(x, x')``, and at an extreme point of the admissible pairs one of the two has
    norm ``B`` (else both can be shifted either way).  ``P + Q = 2 (u - v)^2``, so at most one
    of ``P, Q`` is negative.  Say ``Q < 0`` (the other case is its mirror image
    ``(u, v) -> (1 - v, 1 - u)``).  If ``||x'|| = B`` then ``Q ||x'||^2 = Q B^2 <= Q (B - r)^2``
    because ``0 <= r <= 2 B``.  If ``||x|| = B`` and ``s = ||x - x'||`` then
    ``||x'|| >= |B - s|``, and ``Q (B - s)^2 + c s^2`` grows in ``s`` because ``0 <= -Q <= c``,
    so ``s = r`` is worst.  Either way the square is at most
    ``P B^2 + Q (B - r)^2 + c r^2 + 2 i (u - v)^2``; if neither is negative,
    ``(P + Q) B^2 + c r^2 + 2 i (u - v)^2``.  By the mirror image let
    ``y = (logit u + logit v) / 2 >= 0``, so ``P >= 0``, and ``Q >= 0`` means ``y <= tau/2``,
    that is ``v <= 1/2``.  With ``D = u - v``, ``T = u + v - 1`` one has
    ``c = (3 + T^2 - D^2) / 2`` and

    * ``y <= tau/2``: with ``C = cosh y``, ``k = cosh(tau/2)``, ``q = 2 Bt^2 - r^2/2`` the bound
      is ``3 r^2/2 + ((k^2 - 1) q + (C^2 - 1) r^2/2) / (C + k)^2``, whose derivative in ``C``
      has the sign of ``r^2 (C k + 1) - 2 (k^2 - 1) q``, which grows.  So the maximum is at
      an end: ``y = 0``, where ``D = tanh(tau/4)`` and ``T = 0``, or ``y = tau/2``, which
      belongs to the next case, too.
    * ``y >= tau/2``: the bound equals ``2 ((E - r/2)^2 + i D^2) + 3 r^2/2`` with the ``E`` of
      the logistic case, and ``E - r/2 = D B + (v - 1/2) r >= 0``.  This is the maximum along
      the curve above with ``v - 1/2`` in place of ``v`` and ``v >= 1/2``.

    **Squared hinge.**  The gradient is ``-2 y h z``, ``h = (1 - y theta . z)_+ <= M := 1 + R
    Bt``.  With ``h >= h'``, ``e = h - h' <= min(R s, M)`` and ``s = ||x - x'|| <= r`` the
    distance is at most ``2 sqrt((e B + (M - e) s)^2 + i e^2)``, convex in ``e``, so
    ``e = 0`` (value ``2 M r``) or ``e = min(R s, M)``.  The latter is constant for
    ``s >= M / R``.  Below, its square over 4 is ``s^2 ((b - R s)^2 + i R^2)``,
    ``b = M + R B``, whose derivative has the sign of
    ``2 t^2 - 3 b t + b^2 + i R^2``, ``t = R s``: besides the largest ``s`` only the smaller root
    ``t = (3 b - sqrt(b^2 - 8 i R^2)) / 4`` can be a maximum.  Second bound: absorb ``y`` in
    ``z``; for ``theta = rho phi``, ``||phi|| = 1``, all vectors ``(phi . z) z`` lie in one ball
    of radius ``Bt^2 / 2``, so with both records active the distance is at most
    ``2 (r + rho Bt^2)`` and with one active ``2 (1 + rho Bt) Bt``: together
    ``2 (max(r, Bt) + R Bt^2)``.  ``G`` is the smaller of the two bounds.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball Differential Privacy: How to Mitigate Data Reconstruction
    with Less Noise", arXiv 2607.04209, 2026.

    Examples
    --------
    >>> from skballdp.erm.sensitivity import gradient_gap
    >>> round(gradient_gap("logistic", radius=1.0, alpha=0.01, norm_bound=1.0), 4)
    1.2833
    >>> round(gradient_gap("logistic", radius=1.0, alpha=0.01, norm_bound=1.0, mode="paper"), 4)
    51.0
    >>> round(gradient_gap("softmax", radius=1.0, alpha=0.01, norm_bound=1.0, n_classes=5), 3)
    2.228
    """
    r = _check_radius(radius)
    head = _check_head(loss, alpha, norm_bound, fit_intercept, n_classes, public_norm)
    check_choice("mode", mode, _MODES)
    if mode == "paper" and head.public_norm > 0.0:
        raise ValueError(
            f"public_norm={head.public_norm!r} cannot be combined with mode='paper': the paper's "
            "constants hold for regularisation towards zero only. Use mode='tight' or "
            "public_norm=0."
        )
    if r == 0.0:
        return 0.0
    # A larger radius is always valid; this one keeps subnormal numbers out.
    r = min(max(r, _SMALLEST_RADIUS), 2.0 * head.norm_bound)
    stacked = math.sqrt(head.n_classes) if loss == "squared_hinge" and head.n_classes > 2 else 1.0
    if mode == "paper":
        return stacked * _paper_constant(head) * r * _UP_PAPER
    big_r = _minimizer_radius(head)
    if loss == "logistic":
        gap = _logistic_gap(r, big_r, head)
    elif loss == "softmax":
        gap = _softmax_gap(r, big_r, head)
    else:
        gap = stacked * float(_hinge_gap(np.array([big_r]), r, head)[0])
    return gap * _UP_GAP


def hinge_effective_gap(
    *,
    radius: float,
    alpha: float,
    norm_bound: float,
    n_samples: int,
    weight_max: float = 1.0,
    fit_intercept: bool = True,
) -> float:
    """Bound the effective gradient gap of a binary squared-hinge head of ``n`` records.

    ``weight_max * G_eff / (alpha * n)`` bounds the distance of the minimizers of two
    neighbouring data sets, as ``weight_max * G / (alpha * n)`` does with ``G`` from
    `gradient_gap`.  ``G_eff`` is never larger than ``G``.  It takes into account that a long
    minimizer forces the loss to be curved along it, which pays (a factor up to 1.5) when the
    radius is small against the norm bound and ``alpha^1.5 n`` is large.

    Parameters
    ----------
    radius : float
        Distance ``r`` between the two feature vectors, as in `gradient_gap`.
    alpha : float
        Regularisation, towards zero.
    norm_bound : float
        Public bound ``B`` on the L2 norm of every feature vector.
    n_samples : int
        Number ``n`` of records, the same in both data sets.
    weight_max : float, default=1.0
        Largest weight of a record when the weights have mean one (so at least 1).
    fit_intercept : bool, default=True
        Whether features are extended by a constant 1 whose coefficient is regularised, too.

    Returns
    -------
    float
        ``G_eff``, rounded up: at most a relative ``2e-7`` above the exact value of the bound
        derived below, and never below it.

    Raises
    ------
    TypeError
        If an argument has the wrong type (a bool is not accepted as a number).
    ValueError
        If an argument has a value outside its range.

    See Also
    --------
    gradient_gap : The bound that needs neither ``n`` nor the weights.

    Notes
    -----
    For one-vs-rest with ``K`` classes multiply by ``sqrt(K)`` (each binary problem moves by
    at most this bound), provided the weights have mean one in each binary problem.  With a
    public model (``public_norm > 0``) the bound does not hold.

    This bound is ours.  Notation of `gradient_gap`; ``g(theta; z) = -2 y h z``,
    ``h = (1 - y theta . z)_+``.  ``D`` and ``D'`` differ in one record, ``z`` against
    ``z'``, of weight ``w_j``.  Let ``t = theta(D) - theta(D') = ||t|| e``,
    ``v = theta(D') = rho phi`` with unit vectors ``e`` and ``phi``, ``c = |phi . e|``.  The
    other records have weights ``w_i``, hinge values ``A_i`` at ``theta(D)`` and ``B_i`` at
    ``v``, and ``t_i = y_i z_i . t``; then ``A_i - B_i = -c_i t_i`` with ``0 <= c_i <= 1``.

    1. Subtract the gradients of the objective without record ``j`` at the two minimizers and
       take the product with ``t``.  On one side that is
       ``alpha ||t||^2 + (2/n) sum w_i c_i t_i^2``, on the other
       ``-(w_j/n) (g(theta(D); z) - g(v; z')) . t``, at most
       ``(w_j/n) |(g(v; z) - g(v; z')) . t|`` since ``g(.; z)`` is monotone.  So with
       ``kappa* = (2/n) sum w_i c_i (t_i / ||t||)^2`` and ``N* = |(g(v; z) - g(v; z')) . e|``

           ``||t|| <= w_j N* / (alpha n (1 + kappa* / alpha))``.

    2. *A lower bound for kappa*.*  ``v`` is a minimizer:
       ``alpha v = (2/n) sum w_i B_i y_i z_i - (w_j/n) g(v; z')``, and
       ``||g(v; z')|| <= 2 M Bt``.  The product with ``e``, with
       ``gamma = 2 M Bt w_max / n``: ``alpha rho c - gamma <= |(2/n) sum w_i B_i t_i / ||t|| |``.
       ``B_i t_i = 0`` wherever ``c_i = 0``, so by Cauchy and Schwarz this is at most the root
       of ``(2/n) sum w_i B_i^2 / c_i`` times the root of ``kappa*``.  If ``B_i > 0`` and
       ``c_i < 1`` then ``A_i = 0``, ``c_i = B_i / t_i`` and ``B_i^2 / c_i = B_i t_i <=
       B_i Bt ||t||``.  With ``E`` the weighted mean of ``B_i^2`` (that of ``B_i`` is at most
       ``sqrt(E)``) and ``||t|| <= delta0 := w_max G / (alpha n)``:

           ``kappa* >= kappa(rho, c) := (alpha rho c - gamma)_+^2 / (2 (E + Bt delta0 sqrt(E)))``.

    3. *An upper bound for E.*  As in `minimizer_radius`, ``alpha rho^2`` is twice the
       weighted mean of ``B - B^2``, at most ``2 (sqrt(E) - E)`` with the mean over all of
       ``D'``.  Hence ``sqrt(E) <= (1 + sqrt(1 - 2 alpha rho^2)) / 2``.
    4. *An upper bound for N*.*  Absorb ``y`` in ``z``, ``s = ||z - z'|| <= r``.  Both records
       active: ``N* / 2`` is ``|(z - z') . e - rho (z - z')^T S (z + z')|`` with the symmetric
       part ``S`` of ``phi e^T``, whose eigenvalues are ``(phi . e +- 1) / 2``.
       ``||z + z'||^2 <= 4 Bt^2 - s^2``, and ``s sqrt(4 Bt^2 - s^2)`` grows up to
       ``s = sqrt(2) Bt``; also the values of ``z^T S z`` fill an interval of length ``Bt^2``
       at most.  One active: its ``h`` is at most ``rho s``.  So ``N* <= N(rho, c)``, twice the
       minimum of ``max(r + rho min(Bt^2, k (1 + c)), rho r Bt)``, with
       ``k = m sqrt(4 Bt^2 - m^2) / 2``, ``m = min(r, sqrt(2) Bt)``, and of half the bound of
       `gradient_gap` with ``R`` replaced by ``rho``.

    ``G_eff`` is the supremum of ``N(rho, c) / (1 + kappa(rho, c) / alpha)`` over
    ``0 <= rho <= R``, ``0 <= c <= 1``.  ``N`` and ``kappa`` do not decrease in ``rho``, so on
    ``[rho1, rho2]`` the value is at most the supremum over ``c`` of
    ``N(rho2, c) / (1 + kappa(rho1, c) / alpha)``, and that one closes: as a function of ``c``
    the numerator is linear, cut off below and above; where it is constant the smallest ``c``
    counts, and a positive linear function over a positive convex one has one maximum, found
    from a quadratic equation.  What remains is a branch and bound over ``rho``, done in the
    angle ``psi``, ``rho = sin(psi) / sqrt(2 alpha)``, where the bound on ``sqrt(E)`` is the
    smooth ``cos(psi / 2)^2``.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball Differential Privacy: How to Mitigate Data Reconstruction
    with Less Noise", arXiv 2607.04209, 2026 (the setting; not this bound).

    Examples
    --------
    >>> from skballdp.erm.sensitivity import gradient_gap, hinge_effective_gap
    >>> kw = dict(radius=0.05, alpha=0.01, norm_bound=1.0)
    >>> round(gradient_gap("squared_hinge", **kw), 3)
    1.908
    >>> round(hinge_effective_gap(n_samples=100_000, **kw), 3)
    1.379
    """
    r = _check_radius(radius)
    head = _check_head("squared_hinge", alpha, norm_bound, fit_intercept, 2, 0.0)
    n = check_integer("n_samples", n_samples, low=1, hint="Pass the number of records.")
    w_max = check_real(
        "weight_max",
        weight_max,
        low=1.0,
        high=_LARGEST_WEIGHT,
        hint="Scale the weights to mean one; the largest is then at least 1.",
    )
    if r == 0.0:
        return 0.0
    r = min(max(r, _SMALLEST_RADIUS), 2.0 * head.norm_bound)
    return _HingeProblem(r, head, w_max / n).largest() * _UP_GAP


def logistic_effective_gap(
    *,
    radius: float,
    alpha: float,
    norm_bound: float,
    fit_intercept: bool = True,
    public_norm: float = 0.0,
) -> float:
    """Bound the gradient gap of the logistic head, for a radius above the norm bound.

    Takes the place of `gradient_gap` where it is smaller.  That bound lets both records have the
    largest possible slope and lie on opposite sides; but records with the largest slope lie on
    the same side.  The gain is 27 % at ``alpha = 0.1``, ``B = 1``, ``r = 2``, no intercept.

    Parameters
    ----------
    radius, alpha, norm_bound, fit_intercept, public_norm
        As in `gradient_gap`.

    Returns
    -------
    float
        Never below the exact value of the bound derived below; at most a relative ``2e-4`` above
        it, or equal to that of `gradient_gap`, which it never exceeds.

    Raises
    ------
    TypeError, ValueError
        As in `gradient_gap`.

    See Also
    --------
    gradient_gap : The bound for every head and every radius.

    Notes
    -----
    This bound is ours.  Notation of `gradient_gap`: ``u >= v`` are the slopes of the two records,
    ``t = logit u`` and ``t' = logit v``, so that ``t = -y theta . z`` and
    ``t' = -y theta . z'``, ``||theta|| <= R``, ``||z||, ||z'|| <= Bt``.

    The gap is at most the root of ``((u - v) B + v s)^2 + i (u - v)^2``, ``s = ||x - x'||``.
    Besides ``s <= r`` one has ``s^2 = 2 ||z||^2 + 2 ||z'||^2 - ||z + z'||^2``, and
    ``|t + t'| = |theta . (z + z')| <= R ||z + z'||``.  So

        ``s <= s(t + t') := min(r, sqrt(4 Bt^2 - ((t + t') / R)^2))``,

    and the bound is the maximum of that root with ``s = s(t + t')`` over
    ``-L <= t' <= t <= L``, ``t - t' <= R r``, ``L = R Bt``.  For ``r <= B`` there is no gain:
    ``(u - v) B + v s = u B - v (B - s)`` is then large where v is small.

    *Maximum.*  On a rectangle ``t1 <= t <= t2``, ``t1' <= t' <= t2'`` the expression is at most
    its value with ``u = sigmoid(t2)``, the largest s, and v at one of its two ends, since the
    square is convex in v.  Branch and bound with this first-order bound needs about one over its
    tolerance rectangles around a smooth maximum; it is valid at any time.

    Examples
    --------
    >>> from skballdp.erm.sensitivity import gradient_gap, logistic_effective_gap
    >>> kw = dict(radius=2.0, alpha=0.1, norm_bound=1.0, fit_intercept=False)
    >>> round(gradient_gap("logistic", **kw), 3), round(logistic_effective_gap(**kw), 3)
    (1.683, 1.221)
    """
    r = _check_radius(radius)
    head = _check_head("logistic", alpha, norm_bound, fit_intercept, 2, public_norm)
    if r == 0.0:
        return 0.0
    r = min(max(r, _SMALLEST_RADIUS), 2.0 * head.norm_bound)
    big_r = _minimizer_radius(head)
    gap = _logistic_gap(r, big_r, head)
    if r > head.norm_bound:
        gap = min(gap, _opposite_gap(r, big_r, head, gap))
    return gap * _UP_GAP


def linear_sensitivity(
    loss: str,
    *,
    radius: float,
    alpha: float,
    norm_bound: float,
    n_samples: int,
    n_classes: int = 2,
    fit_intercept: bool = True,
    weight_max: float = 1.0,
    public_norm: float = 0.0,
    mode: str = "tight",
) -> float:
    """Sensitivity of the exact optimum of a linear head.

    Parameters
    ----------
    loss, radius, alpha, norm_bound, n_classes, fit_intercept, public_norm, mode
        As in `gradient_gap`.
    n_samples : int
        Number n of records.
    weight_max : float, default=1.0
        Largest weight of a record, weights having mean one over the records.

    Returns
    -------
    float
        Delta, rounded up, in the unit of the parameters.

    Raises
    ------
    TypeError, ValueError
        As in `gradient_gap`.

    Notes
    -----
    Let u and v be the optima of neighbouring data sets, F and F' their objectives. F is
    alpha-strongly convex and ``grad F(u) = 0 = grad F'(v)``, so

        ``alpha ||u - v|| <= ||grad F(v)|| = ||grad F(v) - grad F'(v)||``,

    and the two objectives differ in one record: the right-hand side is ``w/n`` times the distance
    of two gradients at v, a minimizer. Hence ``Delta = weight_max G / (alpha n)``. The smaller G of
    `hinge_effective_gap` and `logistic_effective_gap` takes the place of G where it applies.

    References
    ----------
    J. Margaryan and N. Gupta, arXiv:2607.04209, section 3 (the argument); K. Chaudhuri,
    C. Monteleoni and A. Sarwate, JMLR 12, 2011 (output perturbation).

    Examples
    --------
    >>> from skballdp.erm.sensitivity import linear_sensitivity
    >>> kw = dict(radius=1.0, alpha=0.01, norm_bound=1.0, n_samples=1000)
    >>> round(linear_sensitivity("logistic", **kw), 6)
    0.12833
    >>> round(linear_sensitivity("logistic", mode="paper", **kw), 6)
    5.1
    """
    gap = gradient_gap(
        loss,
        radius=radius,
        alpha=alpha,
        norm_bound=norm_bound,
        fit_intercept=fit_intercept,
        n_classes=n_classes,
        public_norm=public_norm,
        mode=mode,
    )
    if loss == "squared_hinge" and mode == "tight" and public_norm == 0:
        effective = hinge_effective_gap(
            radius=radius,
            alpha=alpha,
            norm_bound=norm_bound,
            n_samples=n_samples,
            weight_max=weight_max,
            fit_intercept=fit_intercept,
        )
        stacked = math.sqrt(n_classes) * _UP_PAPER if n_classes > 2 else 1.0
        gap = min(gap, stacked * effective)
    if loss == "logistic" and mode == "tight":
        effective = logistic_effective_gap(
            radius=radius,
            alpha=alpha,
            norm_bound=norm_bound,
            fit_intercept=fit_intercept,
            public_norm=public_norm,
        )
        gap = min(gap, effective)
    return weight_max * gap / (alpha * n_samples) * _UP_PAPER


def gradient_error(
    loss: str,
    *,
    alpha: float,
    norm_bound: float,
    n_features: int,
    n_terms: int,
    n_classes: int = 2,
    fit_intercept: bool = True,
    public_norm: float = 0.0,
) -> float:
    """How far a computed gradient of the objective can be from the exact one.

    Parameters
    ----------
    loss, alpha, norm_bound, n_classes, fit_intercept, public_norm
        As in `gradient_gap`.
    n_features : int
        Dimension d of a row.
    n_terms : int
        Largest number N of terms that a sum over the records adds one after the other.

    Returns
    -------
    float
        Bound on the norm of the error, at points no longer than 2 R.

    Raises
    ------
    TypeError, ValueError
        As in `gradient_gap`.

    Notes
    -----
    u = 2^-53, R = `minimizer_radius`, Bt as in `gradient_gap`; weights have mean one. Let c be the
    Lipschitz constant of a record's slopes in its scores, and A a bound on its slopes:
    ``(1/4, 1)`` for logistic, ``(1/2, sqrt 2)`` for softmax, ``(2, 2 + 4 R Bt)`` for the squared
    hinge.

    - A score is an inner product of d + 1 terms, times the clipping factor: its error is at most
      ``gamma_{d+8} 2 R Bt`` (over all classes together, since the parameters of all together are
      no longer than 2R), the shift by the largest score in softmax included. Slopes change by c
      times that.
    - A slope computed from given scores has a relative error of at most 16 u, and of (K + 16) u
      for softmax, whose denominator is a sum of K terms.
    - The products with weight, clipping factor and feature, and the sum of the records, cost
      ``gamma_{N+8}``, relative to ``mean w ||slope|| ||z|| <= A Bt``.
    - The term ``alpha (theta - theta0)``, with ``||theta - theta0|| <= 3 R``, costs at most
      ``16 u alpha R``.

    Together ``Bt (2 c gamma_{d+8} R Bt + A (gamma_{N+8} + 16 u)) + 16 u alpha R``; one-vs-rest
    stacks K such gradients.

    References
    ----------
    N. J. Higham, "Accuracy and stability of numerical algorithms", 2nd ed., SIAM 2002, chapter 3.

    Examples
    --------
    >>> from skballdp.erm.sensitivity import gradient_error
    >>> error = gradient_error(
    ...     "logistic", alpha=0.01, norm_bound=1.0, n_features=384, n_terms=5000)
    >>> error < 2e-12
    True
    """
    head = _check_head(loss, alpha, norm_bound, fit_intercept, n_classes, public_norm)
    bt, big_r = head.full_bound, _minimizer_radius(head)
    lipschitz, slope, steps = {
        "logistic": (0.25, 1.0, 16),
        "softmax": (0.5, math.sqrt(2.0), n_classes + 16),
        "squared_hinge": (2.0, 2.0 + 4.0 * big_r * bt, 16),
    }[loss]
    error = bt * (
        2.0 * lipschitz * gamma(n_features + 8) * big_r * bt
        + slope * (gamma(n_terms + 8) + steps * _UNIT_ROUNDOFF)
    )
    error += 16 * _UNIT_ROUNDOFF * alpha * big_r
    stacked = math.sqrt(n_classes) if loss == "squared_hinge" and n_classes > 2 else 1.0
    return stacked * error * (1 + 1e-9)


# --------------------------------------------------------------------------------------------
# The bounds
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Head:
    """Checked description of a head."""

    loss: str
    alpha: float
    norm_bound: float
    fit_intercept: bool
    n_classes: int
    public_norm: float

    @property
    def full_bound(self) -> float:
        """``Bt``, the norm bound of the features extended by the constant."""
        return math.hypot(self.norm_bound, 1.0) if self.fit_intercept else self.norm_bound

    @property
    def extra_bound(self) -> float:
        """``Bt - B`` without cancellation."""
        return 1.0 / (self.full_bound + self.norm_bound) if self.fit_intercept else 0.0


def _paper_constant(head: _Head) -> float:
    """Lipschitz constant of the paper's Proposition 12."""
    bt, alpha = head.full_bound, head.alpha
    if head.loss == "logistic":
        return 1.0 + bt * bt / (4.0 * alpha)
    if head.loss == "softmax":
        return math.sqrt(2.0) * (1.0 + bt * bt / (2.0 * alpha))
    return 2.0 + 4.0 * bt * math.sqrt(2.0 / alpha)


def _minimizer_radius(head: _Head) -> float:
    """`minimizer_radius` on checked input."""
    alpha, bt, p = head.alpha, head.full_bound, head.public_norm
    if head.loss == "squared_hinge":
        c = 0.5
    elif head.loss == "softmax":
        c = _lambert_w((head.n_classes - 1) / math.e)
    else:
        c = _lambert_w(1.0 / math.e)
    # hypot(p, 2 sqrt(c / alpha)) is the square root in the formula; at p = 0 this is R1.
    big_r = 0.5 * (p + math.hypot(p, 2.0 * math.sqrt(c / alpha)))
    if head.loss == "softmax":
        big_r = min(big_r, p + math.sqrt(2.0) * bt / alpha)
    elif p == 0.0 and head.loss == "squared_hinge":
        if alpha > 2.0 * bt * bt:
            big_r = 2.0 * bt / (alpha + 2.0 * bt * bt)
    elif p == 0.0 and big_r * bt < 1.0 + c:
        big_r = _logistic_root(bt * bt / alpha) / bt
    # Which side of a branch rounding picks does not matter: the two values agree there to
    # first order or better.
    return big_r * _UP_RADIUS


def _logistic_root(k: float) -> float:
    """Solve ``x (1 + e^x) = k`` for ``x > 0``.

    The left side is increasing and convex and ``x = k/2`` lies to the right of the root, so
    Newton's method decreases to it; a relative error of ``k`` never grows in ``x``.  Called
    for roots below ``1 + W(1/e)`` only, so nothing overflows after the first bound.
    """
    x = min(0.5 * k, 1.3)
    while True:
        ex = math.exp(x)
        new = x - (x * (1.0 + ex) - k) / (1.0 + ex + x * ex)
        if not new < x:  # no progress left in floating point
            return x
        x = new


def _lambert_w(x: float) -> float:
    """Solve ``w e^w = x`` for ``w > 0`` given ``x > 0`` (Newton on ``w + log w = log x``).

    The function is increasing and concave, so after the first step the iterates increase to
    the root, which is well conditioned.
    """
    log_x = math.log(x)
    w = math.log1p(x)
    for _ in range(50):
        new = w * (1.0 + log_x - math.log(w)) / (1.0 + w)
        if abs(new - w) <= 2e-16 * new:
            return new
        w = new
    return w


def _sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    ex = math.exp(x)
    return ex / (1.0 + ex)


def _logistic_gap(r: float, big_r: float, head: _Head) -> float:
    """Logistic bound of `gradient_gap`, up to rounding."""
    cap = big_r * head.full_bound
    tau = big_r * r
    # The end of the curve: logit u = L, logit v = L - tau (no cancellation between these two).
    end = big_r * ((head.norm_bound - r) + head.extra_bound)
    v_end = _sigmoid(end)
    # sigmoid(L) - sigmoid(L - tau) = sigmoid(L) sigmoid(tau - L) (1 - e^-tau)
    d_end = -_sigmoid(cap) * _sigmoid(-end) * math.expm1(-tau)
    curve = _Curve(head.norm_bound, r, tau, head.fit_intercept, v_high=v_end, d_high=d_end)
    return max(_sigmoid(cap) * r, _farthest(curve))


def _opposite_gap(r: float, big_r: float, head: _Head, enough: float) -> float:
    """Maximum of `logistic_effective_gap`, up to rounding; stops once it is at least `enough`.

    Values are at least ``r / 2 >= B / 2`` (at ``t = t' = 0``), so the absolute rounding errors of
    slopes and their differences, a few units of ``2**-53 B``, are small relative ones.
    """
    b, bt = head.norm_bound, head.full_bound
    cap, tau, icpt = big_r * bt, big_r * r, float(head.fit_intercept)

    def value(t_high: _FloatArray, t: _FloatArray, sum_low: _FloatArray) -> _FloatArray:
        """The root, with u at `t_high`, v at `t`, and s at the sum smallest in modulus."""
        u, v = expit(t_high), expit(t)
        ratio = np.minimum(sum_low / (2.0 * cap), 1.0)
        s = np.minimum(r, 2.0 * bt * np.sqrt((1.0 - ratio) * (1.0 + ratio)))
        longest: _FloatArray = np.hypot((u - v) * b + v * s, icpt * (u - v))
        return longest

    parts = 16
    step = 2.0 * cap / parts
    ends = -cap + step * np.arange(parts)
    low, low2 = (corner.ravel() for corner in np.meshgrid(ends, ends, indexing="ij"))
    best = 0.0
    while True:
        # Rectangles overlap by more than the rounding errors of their corners.
        slack = 1e-13 * cap
        high, high2 = low + (step + slack), low2 + (step + slack)
        # Those that hold a point with 0 <= t - t' <= tau.
        inside = (high >= low2) & (low - high2 <= tau)
        low, low2, high, high2 = low[inside], low2[inside], high[inside], high2[inside]
        sum_low = np.maximum(np.maximum(low + low2, -(high + high2)) - slack, 0.0)
        upper = np.maximum(value(high, low2 - slack, sum_low), value(high, high2, sum_low))
        # A point of the rectangle, where there is one near its middle, is a lower bound.
        middle = low + 0.5 * step
        middle2 = np.clip(low2 + 0.5 * step, middle - tau, middle)
        best = max(best, float(value(middle, middle2, np.abs(middle + middle2)).max()))
        alive = upper > best * (1.0 + _TOLERANCE_PLANE)
        if not alive.any() or best >= enough:
            return best * (1.0 + _TOLERANCE_PLANE)
        if np.count_nonzero(alive) > 100_000:
            return float(upper.max())
        step *= 0.5
        half = step * np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
        low = (low[alive, np.newaxis] + half[0]).ravel()
        low2 = (low2[alive, np.newaxis] + half[1]).ravel()


def _softmax_gap(r: float, big_r: float, head: _Head) -> float:
    """Softmax bound of `gradient_gap`, up to rounding."""
    tau = math.sqrt(2.0) * big_r * r
    label = _Curve(head.norm_bound, r, tau, head.fit_intercept)
    gap = math.sqrt(2.0) * _farthest(label)
    if head.n_classes > 2:
        bt = head.full_bound
        d_mid = math.tanh(0.25 * tau)
        mid = math.sqrt(2.0 * (bt * d_mid) ** 2 + 0.5 * r * r * (3.0 - d_mid * d_mid))
        others = _Curve(
            head.norm_bound,
            r,
            tau,
            head.fit_intercept,
            shift=0.5,
            v_low=0.5,
            d_low=0.5 * math.tanh(0.5 * tau),
        )
        gap = max(gap, mid, math.sqrt(2.0 * _farthest(others) ** 2 + 1.5 * r * r))
    return gap


def _hinge_gap(rho: _FloatArray, r: float, head: _Head) -> _FloatArray:
    """Squared-hinge bound of `gradient_gap` (binary) for each ``R`` in `rho`, up to rounding."""
    b, bt = head.norm_bound, head.full_bound
    i_rho = rho if head.fit_intercept else np.zeros_like(rho)
    m = 1.0 + rho * bt
    slope = m + rho * b
    # s = M / R is where the hinge difference e = R s reaches M (s = r if that comes first).
    s_end = m / np.maximum(rho, m / r)
    first = np.maximum(m * r, s_end * np.hypot(slope - rho * s_end, i_rho))
    # The inner maximum, where the derivative has real roots and the smaller one is in reach.
    disc = slope * slope - 8.0 * i_rho * i_rho
    t_peak = 0.25 * (3.0 * slope - np.sqrt(np.maximum(disc, 0.0)))
    inside = (disc >= 0.0) & (t_peak < rho * s_end)
    s_peak = t_peak / np.where(inside, rho, 1.0)
    peak = np.where(inside, s_peak * np.hypot(slope - t_peak, i_rho), 0.0)
    first = np.maximum(first, peak)
    second = max(r, bt) + rho * bt * bt
    return 2.0 * np.minimum(first, second)


# --------------------------------------------------------------------------------------------
# Longest vector along the curve logit u = logit v + tau
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """The vectors ``(D B + (v - shift) r, i D)`` with ``logit u = logit v + tau``, ``D = u - v``.

    ``v`` runs from `v_low` to `v_high`, where ``D`` is `d_low` and `d_high`.  With
    ``shift <= v_low`` both components are at least 0.  The default ends are the limits
    ``u = v = 0`` and ``u = v = 1``.
    """

    norm_bound: float
    radius: float
    tau: float
    intercept: bool
    shift: float = 0.0
    v_low: float = 0.0
    d_low: float = 0.0
    v_high: float = 1.0
    d_high: float = 0.0

    def support(self, phi: _FloatArray) -> _FloatArray:
        """Largest component along ``(cos phi, sin phi)``: ``h`` in the Notes of `gradient_gap`.

        Rounding.  ``1 - w``, ``1 - eps``, ``1 - eps w`` and ``1 - eps^2`` are formed without
        cancellation.  ``w - eps = (1 - eps) - (1 - w)`` can cancel, but then ``A (1 - eps)`` is
        about ``A (1 - w) <= cos(phi) r`` and ``v`` is near 1, so its error is small against
        the second term.  An error of ``w`` itself (large only where ``C / A`` is near 0) moves
        the point *along* the curve, where the value is stationary: the loss is
        ``eps (dw)^2 / w`` in units of ``A / (1 - eps^2)``, with ``(dw)^2`` at most a few
        ``2**-53`` and ``eps < w``.  Likewise it does not matter on which side of the end of
        the curve rounding puts a maximum that is close to it.
        """
        cos, sin = np.maximum(np.cos(phi), 0.0), np.sin(phi)
        eps = math.exp(-0.5 * self.tau)
        one_eps = -math.expm1(-0.5 * self.tau)
        one_eps2 = -math.expm1(-self.tau)
        a = cos * self.norm_bound + sin
        x = cos * self.radius / a  # 1 - C / A
        one_w = x / (1.0 + np.sqrt(np.maximum(1.0 - x, 0.0)))
        inner = (x < 1.0) & (one_w < one_eps)
        w = np.where(inner, 1.0 - one_w, 1.0)
        one_eps_w = one_eps + eps * one_w
        v = np.where(inner, eps * one_eps_w / (w * one_eps2), 1.0)
        d = np.where(inner, one_eps_w * (one_eps - one_w) / (w * one_eps2), 0.0)
        above, below = v > self.v_high, v < self.v_low
        v = np.where(above, self.v_high, np.where(below, self.v_low, v))
        d = np.where(above, self.d_high, np.where(below, self.d_low, d))
        value: _FloatArray = a * d + cos * self.radius * (v - self.shift)
        return value


def _farthest(curve: _Curve) -> float:
    """Length of the longest vector of `curve`, at most a relative `_TOLERANCE` too long.

    Branch and bound over the angle: a cell of width ``step`` is bounded by the larger of its
    two ends over ``cos(step / 2)``.  No end exceeds ``best``, so cells are dropped for good
    once ``1 / cos(step / 2) <= 1 + _TOLERANCE``: the fourth round, 64 * 16**3 cells to a right
    angle, always ends the search.
    """
    if not curve.intercept:
        return float(curve.support(np.zeros(1))[0])
    left, step, parts, best = np.zeros(1), 0.5 * math.pi, 64, 0.0
    while left.size:
        step /= parts
        nodes = left[:, np.newaxis] + step * np.arange(parts + 1)
        h = curve.support(nodes)
        best = max(best, float(h.max()))
        upper = np.maximum(h[:, :-1], h[:, 1:]) / math.cos(0.5 * step)
        left = nodes[:, :-1][upper > best * (1.0 + _TOLERANCE)]
        parts = 16
    return best * (1.0 + _TOLERANCE)


# --------------------------------------------------------------------------------------------
# Curvature for the squared hinge
# --------------------------------------------------------------------------------------------


class _HingeProblem:
    """The maximum behind `hinge_effective_gap`; ``load`` is the largest weight over ``n``."""

    def __init__(self, radius: float, head: _Head, load: float) -> None:
        self.radius, self.head = radius, head
        alpha, bt = head.alpha, head.full_bound
        big_r = _minimizer_radius(head)
        self.gap = float(_hinge_gap(np.array([big_r]), radius, head)[0])
        self.psi_end = math.asin(min(1.0, big_r * math.sqrt(2.0 * alpha)))
        self.gamma = 2.0 * (1.0 + big_r * bt) * bt * load * _UP_GAP
        self.bt_delta0 = bt * load * self.gap / alpha * _UP_GAP
        m = min(radius, math.sqrt(2.0) * bt)
        self.k = 0.5 * m * math.sqrt((2.0 * bt - m) * (2.0 * bt + m))

    def largest(self) -> float:
        """Supremum of ``N / (1 + kappa / alpha)``, up to rounding and `_TOLERANCE_FIRST`.

        The bounds are of first order in the width of a cell, so about ``width**-0.5`` cells
        survive around a smooth maximum: a few thousand at the end.  They are valid at any
        time, and so the search stops early (with a looser result) if there are far more.
        """
        left, step, parts, best = np.zeros(1), self.psi_end, 64, 0.0
        while True:
            step /= parts
            left = (left[:, np.newaxis] + step * np.arange(parts)).ravel()
            # Ends pulled apart by more than the rounding errors of `left` and `step`.
            low, high = left * (1.0 - 1e-14), (left + step) * (1.0 + 1e-14)
            best = max(best, float(self.bound(high, high).max()))
            upper = self.bound(low, high)
            alive = upper > best * (1.0 + _TOLERANCE_FIRST)
            if not alive.any():
                return min(self.gap, best * (1.0 + _TOLERANCE_FIRST))
            if np.count_nonzero(alive) > 20_000:
                return min(self.gap, float(upper.max()))
            left, parts = left[alive], 4

    def bound(self, psi1: _FloatArray, psi2: _FloatArray) -> _FloatArray:
        """Supremum over ``c`` of ``N(rho2, c) / (1 + kappa(rho1, c) / alpha)`` for each cell."""
        r, bt, alpha, gamma = self.radius, self.head.full_bound, self.head.alpha, self.gamma
        to_rho = 1.0 / math.sqrt(2.0 * alpha)
        q = alpha * to_rho * np.sin(np.minimum(psi1, 0.5 * math.pi))  # alpha rho1
        rho2 = to_rho * np.sin(np.minimum(psi2, 0.5 * math.pi))
        root_e = np.cos(0.5 * psi1) ** 2
        # kappa / alpha = p (q c - gamma)_+^2.  p q^2 <= 1, so the cancellation in q c - gamma
        # costs no more than a few units in the last place of 1 + kappa / alpha.
        p = 0.5 / (alpha * root_e * (root_e + self.bt_delta0))

        # Half of N is slope c + base, cut off at low and high.
        slope = rho2 * self.k
        base = r + slope
        half_gap = 0.5 * _hinge_gap(rho2, r, self.head)
        one_active = rho2 * (r * bt)
        high = np.minimum(np.maximum(r + rho2 * (bt * bt), one_active), half_gap)
        low = np.minimum(one_active, half_gap)

        # The numerator reaches high at c_high.  Beyond, and where it is still at low, the
        # smallest c counts: the values at 0 and at c_high cover these.
        safe_slope = np.where(slope > 0.0, slope, 1.0)
        c_high = np.where(slope > 0.0, np.clip((high - base) / safe_slope, 0.0, 1.0), 0.0)
        # (d + shift) / (1 + p d^2), d = q c - gamma, is stationary at the positive root of
        # p d^2 + 2 p shift d = 1.  For q = 0 there is no denominator: the largest c.
        shift = gamma + base * (q / safe_slope)
        root_p = np.sqrt(p)
        d = 1.0 / (p * shift + root_p * np.hypot(root_p * shift, 1.0))
        c_star = np.where(q > 0.0, (d + gamma) / np.where(q > 0.0, q, 1.0), 1.0)
        c = np.minimum(c_star, c_high)
        inner = np.clip(base + slope * c, low, high)
        inner = inner / (1.0 + p * np.maximum(q * c - gamma, 0.0) ** 2)
        value: _FloatArray = 2.0 * np.maximum(np.clip(base, low, high), inner)
        return value


# --------------------------------------------------------------------------------------------
# Input
# --------------------------------------------------------------------------------------------


def _check_radius(radius: float) -> float:
    return check_real("radius", radius, low=0.0, hint="Pass a distance >= 0.")


def _check_head(
    loss: str,
    alpha: float,
    norm_bound: float,
    fit_intercept: bool,
    n_classes: int,
    public_norm: float,
) -> _Head:
    loss = check_choice("loss", loss, _LOSSES)
    alpha = check_real(
        "alpha",
        alpha,
        low=_SMALLEST,
        high=_LARGEST,
        hint="Without regularisation the optimum has no bounded sensitivity; pass e.g. 0.01.",
    )
    norm_bound = check_real(
        "norm_bound",
        norm_bound,
        low=_SMALLEST,
        high=_LARGEST,
        hint="Pass a public bound on the norm of the feature vectors, e.g. 1.0.",
    )
    public_norm = check_real(
        "public_norm",
        public_norm,
        low=0.0,
        high=_LARGEST,
        hint="Pass the norm of the public model, or 0 to regularise towards zero.",
    )
    if not isinstance(fit_intercept, bool | np.bool_):
        raise TypeError(f"fit_intercept must be a bool, got {fit_intercept!r}. Pass True or False.")
    n_classes = check_integer("n_classes", n_classes, low=2)
    if loss == "logistic" and n_classes != 2:
        raise ValueError(
            f"n_classes must be 2 for loss='logistic', got {n_classes}. "
            "Use loss='softmax' for more classes."
        )
    return _Head(loss, alpha, norm_bound, bool(fit_intercept), n_classes, public_norm)
