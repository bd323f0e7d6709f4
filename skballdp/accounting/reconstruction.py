r"""Ball-ReRo: upper bounds on the success of an attacker who sees one Gaussian release.

Setting. A target record is drawn from a prior ``pi`` on candidates that lie in one ball of
radius r; candidates and prior are fixed **before** the target is drawn, and all candidates have
the same label. The attacker knows everything but the target and sees the release. ``kappa`` is
the best success of a guess made without it: ``max_i pi_i`` for exact identification, ``1/m`` for
m equally likely candidates. A candidate set that depends on the target breaks every bound here.

All bounds are rounded up, except that `epsilon_for_exact_id` rounds its epsilon down.

References
----------
J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction with
less noise", arXiv:2607.04209, section 4.
P. Guerra-Balboa, A. Sauer, H. Arcolezi and T. Strufe, "Understanding disclosure risk in
differential privacy", arXiv:2603.12142.
"""

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.special import ndtr, ndtri

from skballdp._validate import (
    check_choice,
    check_delta,
    check_epsilon,
    check_integer,
    check_real,
)
from skballdp.accounting.gaussian import epsilon_of, mu_of

__all__ = [
    "advantage_bound",
    "dp_bound",
    "epsilon_for_exact_id",
    "exact_id_bound",
    "exact_id_of_epsilon",
    "kappa_finite",
    "kappa_uniform_ball",
    "support_bound",
]

_UNIT_ROUNDOFF = 2.0**-53


def exact_id_bound(*, mu: float, kappa: float, method: str = "gaussian") -> float:
    """Bound on the success of any attack on a Gaussian release.

    Parameters
    ----------
    mu : float
        Sensitivity divided by noise scale, in [0, inf].
    kappa : float
        Best success without the release, in [0, 1].
    method : {"gaussian", "rdp"}
        The direct bound, which is never above the other, or the Renyi bound.

    Returns
    -------
    float
        In [kappa, 1], rounded up.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    Direct bound. Let Q be the law of (target, release with the ball's centre in place of the
    target) and P the real one. A success is an event E with ``Q(E) <= kappa``, since under Q the
    release says nothing about the target. P and Q are Gaussians that differ by a shift of at
    most ``mu`` noise scales, so by the Neyman-Pearson lemma

        P(E) <= Phi(Phi^-1(kappa) + mu).

    Renyi bound. ``P(E) <= (kappa e^{a mu^2/2})^((a-1)/a)`` for every order ``a > 1``. With
    ``L = sqrt(-2 log kappa)`` the best order is ``a = L/mu`` and the bound
    ``exp(-(L - mu)^2/2)`` when ``mu < L``, else 1.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import exact_id_bound
    >>> round(exact_id_bound(mu=0.5, kappa=0.1), 6)
    0.217239
    """
    mu = check_real("mu", mu, low=0.0)
    kappa = check_real("kappa", kappa, low=0.0, high=1.0)
    check_choice("method", method, ("gaussian", "rdp"))
    if mu == 0 or kappa == 1:
        return kappa
    if mu == math.inf:
        return 1.0
    if kappa == 0:
        return 0.0
    if method == "gaussian":
        x = float(ndtri(kappa))
        # The argument errs by a few u (|x| + mu), which a lower tail multiplies by |x + mu| + 1.
        slack = 16 * _UNIT_ROUNDOFF * (1 + abs(x) + mu) * (1 + abs(x + mu))
        bound = float(ndtr(x + mu)) * (1 + slack)
    else:
        log_order_scale = math.sqrt(-2 * math.log(kappa))
        if mu >= log_order_scale:
            return 1.0
        exponent = (log_order_scale - mu) ** 2 / 2
        bound = math.exp(-exponent) * (1 + 16 * _UNIT_ROUNDOFF * (1 + log_order_scale**2))
    return min(1.0, max(kappa, bound))


def dp_bound(*, epsilon: float, delta: float, kappa: float) -> float:
    """Bound on the success of any attack on an (epsilon, delta)-private release.

    Parameters
    ----------
    epsilon : float
        In [0, inf].
    delta : float
        In [0, 1].
    kappa : float
        Best success without the release, in [0, 1].

    Returns
    -------
    float
        ``min(1, e^epsilon kappa + delta)``, rounded up.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import dp_bound
    >>> round(dp_bound(epsilon=1.0, delta=1e-6, kappa=0.1), 6)
    0.271829
    """
    epsilon = check_epsilon(epsilon)
    delta = check_real("delta", delta, low=0.0, high=1.0)
    kappa = check_real("kappa", kappa, low=0.0, high=1.0)
    if kappa == 0:
        return delta
    log_product = epsilon + math.log(kappa)
    if log_product >= 0:
        return 1.0
    slack = 8 * _UNIT_ROUNDOFF * (1 + epsilon - math.log(kappa))
    return min(1.0, (math.exp(log_product) + delta) * (1 + slack))


def support_bound(prior: Any, d: Any) -> float:
    """Bound on exact identification for a concrete list of candidates.

    Parameters
    ----------
    prior : array-like of shape (m,)
        Probability of each candidate; sums to one.
    d : array-like of shape (m,)
        Distance of each candidate's noiseless release to one fixed reference, in units of the
        noise scale; infinite distances are allowed.

    Returns
    -------
    float
        In [max(prior), 1], rounded up. Any reference is valid, so the smallest bound over a
        few references is too.

    Raises
    ------
    ValueError
        If lengths differ, a distance is negative or NaN, or the prior is no distribution.

    Notes
    -----
    Let ``q_i`` be the probability, under the reference, that the attacker answers i. Then the
    success is at most

        max over q in the simplex of  sum_i pi_i Phi(Phi^-1(q_i) + d_i),

    a concave problem. Its Lagrange dual at any price ``c > 0`` is

        c + sum_i max_q [pi_i Phi(Phi^-1(q) + d_i) - c q],

    with the inner maximum at ``Phi^-1(q_i) = (log(pi_i/c) - d_i^2/2) / d_i`` for ``d_i > 0`` and
    equal to ``max(0, pi_i - c)`` for ``d_i = 0`` and to ``pi_i`` for infinite ``d_i``. Every
    value of the dual is an upper bound, whatever c is: the root search for the best c (where
    ``sum q_i = 1``) can make the result looser, never wrong.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import support_bound
    >>> round(support_bound([0.25] * 4, [0.2, 0.5, 1.0, 2.0]), 6)
    0.581196
    """
    prior = check_prior(prior)
    d = np.asarray(d, dtype=np.float64)
    if d.shape != prior.shape:
        raise ValueError(
            f"d must have one distance per candidate: shape {prior.shape}, got {d.shape}."
        )
    if not np.all(d >= 0):  # NaN fails too
        raise ValueError("d must hold distances >= 0 (np.inf is allowed), got another value.")
    possible = prior > 0
    # At 100 noise scales a candidate is told apart for certain: the square must not overflow.
    prior, d = prior[possible], np.where(d > 100, math.inf, d)[possible]
    always = float(prior[d == math.inf].sum())
    at_reference = prior[d == 0]
    moved = (d > 0) & (d < math.inf)
    pi, d = prior[moved], d[moved]
    floor = float(at_reference.max(initial=0.0))
    if len(pi) == 0:
        bound = always + floor
    else:
        log_pi = np.log(pi)

        def quantiles(log_c: float) -> np.ndarray:
            with np.errstate(over="ignore"):  # a tiny d makes a step of the tail
                return (log_pi - log_c - d**2 / 2) / d

        def excess(log_c: float) -> float:
            return float(ndtr(quantiles(log_c)).sum()) - 1.0

        # At 40 noise scales a tail is 1 or 0 in floats: these ends bracket the root, and the 1
        # keeps them apart for tiny d.
        low = float(np.max(log_pi - d**2 / 2 - 40 * d)) - 1
        high = float(np.max(log_pi - d**2 / 2 + 40 * d)) + 1
        log_c = brentq(excess, low, high, xtol=1e-13) if excess(low) > 0 else low
        if floor > 0:
            log_c = max(log_c, math.log(floor))
        c = math.exp(log_c)
        t = quantiles(log_c)
        dual = c + float(np.sum(pi * ndtr(t + d) - c * ndtr(t)))
        dual += float(np.maximum(at_reference - c, 0.0).sum())
        bound = always + dual
    slack = 1e-13 + 8 * _UNIT_ROUNDOFF * len(prior)
    return min(1.0, max(float(prior.max()), bound * (1 + slack)))


def advantage_bound(*, mu: float, prior: Any) -> float:
    """Bound on the reconstruction advantage of any attack on a Gaussian release.

    Parameters
    ----------
    mu : float
        Largest ratio of shift to noise scale over **pairs of candidates**, in [0, inf];
        candidates of one ball of radius r can be 2 r apart.
    prior : array-like of shape (m,)
        Probability of each candidate; sums to one.

    Returns
    -------
    float
        ``(2 Phi(mu/2) - 1) (1 - sum pi_i^2)``, rounded up.

    Raises
    ------
    TypeError, ValueError
        If mu is not a number or out of range, or the prior is no distribution.

    Notes
    -----
    The advantage is the success when the release is made from the target, minus the success
    when it is made from an independent draw of the prior. For each pair of values the two laws
    of the release are at total variation at most ``2 Phi(mu/2) - 1``, and the pair is the same
    value with probability ``sum pi_i^2``.

    References
    ----------
    Guerra-Balboa et al., arXiv:2603.12142, Theorem 4.1.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import advantage_bound
    >>> round(advantage_bound(mu=1.0, prior=[1 / 8] * 8), 4)
    0.3351
    """
    mu = check_real("mu", mu, low=0.0)
    prior = check_prior(prior)
    total_variation = math.erf(mu / math.sqrt(8))
    collision = float(np.sum(prior**2)) * (1 - 8 * _UNIT_ROUNDOFF * len(prior))
    bound = total_variation * max(0.0, 1 - collision) * (1 + 16 * _UNIT_ROUNDOFF)
    return min(1.0, bound)


def epsilon_for_exact_id(
    bound: float,
    *,
    n_candidates: int | None = None,
    kappa: float | None = None,
    delta: float,
) -> float:
    """Largest epsilon whose release keeps exact identification at or below `bound`.

    Parameters
    ----------
    bound : float
        Wanted bound on the attacker's success, above `kappa` and at most 1.
    n_candidates : int, optional
        Number m of equally likely candidates: ``kappa = 1/m``. Give this or `kappa`.
    kappa : float, optional
        Best success without the release, in (0, 1).
    delta : float
        The delta that goes with epsilon, in (0, 1).

    Returns
    -------
    float
        Epsilon, rounded down; infinity for ``bound=1``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the bound cannot be promised at this delta.

    Notes
    -----
    ``mu = Phi^-1(bound) - Phi^-1(kappa)`` solves the direct bound of `exact_id_bound` for the
    signal-to-noise ratio, and epsilon follows from mu. The result is then moved down until the
    bound, recomputed from epsilon, is at most the one that was asked for.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4; B. Kulynych et al., arXiv:2407.02191, for
    calibration to attack risk in general.

    Examples
    --------
    >>> from skballdp import epsilon_for_exact_id, exact_id_of_epsilon
    >>> epsilon = epsilon_for_exact_id(0.2, n_candidates=10, delta=1e-6)
    >>> round(epsilon, 4)
    1.959
    >>> round(exact_id_of_epsilon(epsilon, n_candidates=10, delta=1e-6), 9)
    0.2
    """
    kappa = _check_kappa(n_candidates, kappa)
    bound = check_real("bound", bound, low=0.0, high=1.0)
    delta = check_delta(delta, epsilon=0.0)
    if bound == 1:
        return math.inf
    lowest = exact_id_bound(mu=mu_of(0.0, delta), kappa=kappa)
    if bound < lowest:
        raise ValueError(
            f"bound={bound!r} cannot be promised: even epsilon=0 at delta={delta!r} allows "
            f"{lowest:.6g}, and a guess without the release succeeds with {kappa:.6g}. Use a "
            "larger bound, a smaller delta or more candidates."
        )
    epsilon = epsilon_of(max(0.0, float(ndtri(bound)) - float(ndtri(kappa))), delta)
    step = 2.0**-42
    while exact_id_bound(mu=mu_of(epsilon, delta), kappa=kappa) > bound:
        epsilon *= max(0.0, 1 - step)
        step *= 2
    return epsilon


def exact_id_of_epsilon(
    epsilon: float,
    *,
    n_candidates: int | None = None,
    kappa: float | None = None,
    delta: float,
) -> float:
    """Bound on exact identification for a release calibrated to (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        In [0, inf].
    n_candidates : int, optional
        Number m of equally likely candidates: ``kappa = 1/m``. Give this or `kappa`.
    kappa : float, optional
        Best success without the release, in (0, 1).
    delta : float
        In (0, 1); zero only with ``epsilon=inf``.

    Returns
    -------
    float
        In [kappa, 1], rounded up.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    See Also
    --------
    epsilon_for_exact_id : The inverse.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.

    Examples
    --------
    >>> from skballdp import exact_id_of_epsilon
    >>> round(exact_id_of_epsilon(2.0, n_candidates=10, delta=1e-6), 4)
    0.2024
    """
    kappa = _check_kappa(n_candidates, kappa)
    return exact_id_bound(mu=mu_of(epsilon, delta), kappa=kappa)


def kappa_uniform_ball(eta: float, radius: float, dim: int) -> float:
    """Best blind success within `eta` for a uniform prior in a ball.

    Parameters
    ----------
    eta : float
        Distance that still counts as a success, >= 0.
    radius : float
        Radius of the ball, > 0, in the unit of eta.
    dim : int
        Dimension of the ball, >= 1.

    Returns
    -------
    float
        ``min(1, (eta/radius)^dim)``, rounded up.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Notes
    -----
    A ball of radius eta around any point holds at most this share of the volume.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.2.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import kappa_uniform_ball
    >>> round(kappa_uniform_ball(0.5, 1.0, 3), 9)
    0.125
    """
    eta = check_real("eta", eta, low=0.0)
    radius = check_real("radius", radius, low=0.0, low_open=True)
    dim = check_integer("dim", dim, low=1)
    if eta >= radius:
        return 1.0
    # d ulps from the power, d from the quotient; an underflowing power is not zero.
    power = (eta / radius) ** dim * (1 + 4 * dim * _UNIT_ROUNDOFF)
    return min(1.0, power) if eta == 0 else min(1.0, max(power, 5e-324))


def kappa_finite(candidates: Any, prior: Any, eta: float) -> float:
    """Best blind success within `eta` for a finite list of candidates.

    Parameters
    ----------
    candidates : array-like of shape (m, n_features)
        The candidates.
    prior : array-like of shape (m,)
        Probability of each candidate; sums to one.
    eta : float
        Distance that still counts as a success, >= 0; 0 asks for exact identification, where
        equal candidates count together.

    Returns
    -------
    float
        Largest prior mass within eta of one candidate, rounded up.

    Raises
    ------
    TypeError, ValueError
        If shapes do not match, a value is not finite, or the prior is no distribution.

    Notes
    -----
    The attacker answers with one of the candidates. If any point of space is allowed as an
    answer, use ``kappa_finite(candidates, prior, 2 * eta)``: all candidates within eta of one
    point are within 2 eta of each other, so that value is an upper bound.

    References
    ----------
    Margaryan and Gupta, arXiv:2607.04209, section 4.2.

    Examples
    --------
    >>> from skballdp.accounting.reconstruction import kappa_finite
    >>> kappa_finite([[0.0], [1.0], [3.0]], [0.25, 0.25, 0.5], eta=1.0)
    0.5
    """
    candidates = np.asarray(candidates, dtype=np.float64)
    if candidates.ndim != 2 or not np.all(np.isfinite(candidates)):
        raise ValueError(
            "candidates must be a finite array of shape (m, n_features), got shape "
            f"{candidates.shape}; reshape it or remove NaN and infinity."
        )
    prior = check_prior(prior, n_candidates=len(candidates))
    eta = check_real("eta", eta, low=0.0)
    # A distance that rounds to just above eta still counts: more mass is the safe side.
    reach = eta * (1 + candidates.shape[1] * _UNIT_ROUNDOFF)
    return min(1.0, float(max(prior @ (cdist(candidates, candidates) <= reach))))


def check_prior(prior: Any, n_candidates: int | None = None) -> np.ndarray:
    """Return `prior` as a float64 array that sums to one within 1e-8, or raise."""
    array = np.asarray(prior)
    if array.dtype.kind not in "fiu" or array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"prior must be a one-dimensional array of numbers, got shape {array.shape} and "
            f"dtype {array.dtype}."
        )
    if n_candidates is not None and len(array) != n_candidates:
        raise ValueError(
            f"prior must have one entry per candidate, {n_candidates}, got {len(array)}."
        )
    array = array.astype(np.float64)
    if not np.all(array >= 0):  # NaN fails too
        raise ValueError("prior must be non-negative and finite; remove NaN or negative entries.")
    if abs(array.sum() - 1) > 1e-8:
        raise ValueError(f"prior must sum to 1, got {float(array.sum())!r}; divide it by its sum.")
    return array


def _check_kappa(n_candidates: int | None, kappa: float | None) -> float:
    if (n_candidates is None) == (kappa is None):
        raise ValueError(
            f"give exactly one of n_candidates and kappa, got n_candidates={n_candidates!r} and "
            f"kappa={kappa!r}."
        )
    if n_candidates is not None:
        return 1.0 / check_integer("n_candidates", n_candidates, low=2)
    return check_real("kappa", kappa, low=0.0, high=1.0, low_open=True, high_open=True)
