r"""Privacy of one Gaussian release: profile, calibration, composition.

Conventions. ``mu = sensitivity / noise scale`` is the signal-to-noise ratio (the "GDP
parameter"; its inverse is the noise multiplier). Everything here is a function of ``mu``,
``epsilon`` and ``delta``, plain floats, and errs on the safe side: `mu_of` rounds down,
`epsilon_of`, `delta_of` and `compose` round up.

Derivation (Balle and Wang 2018, Theorem 8). For ``N(0, 1)`` against ``N(mu, 1)`` the privacy
loss is normal with mean ``mu^2/2`` and variance ``mu^2``, hence

    delta(epsilon; mu) = Q(a) - e^epsilon Q(b),   a = epsilon/mu - mu/2,   b = a + mu,

with Q the upper normal tail. Two facts make it computable without overflow and without losing
digits. First ``e^epsilon = phi(a)/phi(b)``, since ``b^2 - a^2 = 2 epsilon``; with the Mills
ratio ``R = Q/phi`` (``sqrt(pi/2) erfcx(x/sqrt 2)``) the difference becomes

    delta = phi(a) (R(a) - R(b)).

Second, for small ``mu`` that difference cancels, but ``R'(x) = x R(x) - 1``, so

    R(a) - R(b) = integral over [a, b] of (1 - x R(x)) dx,

a smooth positive integrand on an interval of length ``mu``: a few Gauss-Legendre nodes give
it to full precision.

References
----------
B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy:
analytical calibration and optimal denoising", ICML 2018, arXiv:1805.06530.
"""

import math
import warnings
from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, ndtri

from skballdp._validate import check_delta, check_epsilon, check_real
from skballdp.exceptions import PrivacyWarning

__all__ = ["classical_noise_multiplier", "compose", "delta_of", "epsilon_of", "mu_of"]

_UNIT_ROUNDOFF = 2.0**-53
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SMALLEST_FLOAT = 5e-324
# Twelve nodes integrate the Mills integrand over an interval of length 1/2 to below 1e-16.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)


def delta_of(epsilon: float, mu: float) -> float:
    """Smallest delta for which a Gaussian release is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, in [0, inf].
    mu : float
        Sensitivity divided by noise scale, in [0, inf].

    Returns
    -------
    float
        The privacy profile ``delta(epsilon; mu)`` in [0, 1], rounded up (by about 1e-12
        relative; a positive value too small for float64 becomes the smallest float).

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8.

    Examples
    --------
    >>> from skballdp.accounting.gaussian import delta_of
    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    epsilon = check_epsilon(epsilon)
    mu = check_real("mu", mu, low=0.0)
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    return max(_SMALLEST_FLOAT, math.exp(min(0.0, _log_delta_above(epsilon, mu))))


def mu_of(epsilon: float, delta: float) -> float:
    """Largest signal-to-noise ratio whose release is (epsilon, delta)-private.

    The noise scale is then ``sensitivity / mu``.

    Parameters
    ----------
    epsilon : float
        Target, in [0, inf]; infinity asks for no noise and returns infinity.
    delta : float
        Target, in (0, 1); zero is accepted only with ``epsilon=inf``.

    Returns
    -------
    float
        Never above the exact root, so that ``delta(epsilon; mu) <= delta`` holds exactly, and
        within 1e-11 relative of it (for ``epsilon <= 1e12`` and ``delta >= 1e-300``).

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Notes
    -----
    For ``epsilon = 0`` the profile is ``2 Phi(mu/2) - 1 = erf(mu / sqrt 8)``, inverted in closed
    form. Otherwise the root is bracketed from below by the solution of ``Q(a) = delta``,
    ``mu = sqrt(t^2 + 2 epsilon) - t`` with ``t = Q^-1(delta)`` (the profile is less than
    ``Q(a)``) and by the root at ``epsilon = 0``; after the search ``mu`` moves down until the
    profile, evaluated with an allowance for its own rounding, is at most ``delta``.

    References
    ----------
    Balle and Wang, ICML 2018, Algorithm 1.

    Examples
    --------
    >>> from skballdp.accounting.gaussian import mu_of
    >>> round(mu_of(1.0, 1e-6), 6)
    0.236704
    """
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta, epsilon=epsilon)
    if epsilon == math.inf:
        return math.inf
    at_zero = 2 * math.sqrt(2) * float(erfinv(delta))
    if epsilon == 0:
        return _below(at_zero)
    t = -float(ndtri(delta))
    root = math.hypot(t, math.sqrt(2) * math.sqrt(epsilon))
    low = max(2 * (epsilon / (root + t)) if t > 0 else root - t, at_zero)
    low *= 1 - 1e-9  # the bracket itself is computed in floats
    if epsilon > 1e12 or delta < 1e-300:
        return low  # beyond what the profile can be evaluated for; below the root all the same
    high = 2 * low
    log_delta = math.log(delta)
    while _log_delta(epsilon, high) < log_delta:
        low, high = high, 2 * high
    mu = brentq(lambda m: _log_delta(epsilon, m) - log_delta, low, high, xtol=1e-300, rtol=1e-14)
    step = 2.0**-42
    while _log_delta_above(epsilon, mu) > log_delta:
        mu *= 1 - step
        step *= 2
    return float(mu)


def epsilon_of(mu: float, delta: float) -> float:
    """Smallest epsilon for which a Gaussian release is (epsilon, delta)-private.

    Parameters
    ----------
    mu : float
        Sensitivity divided by noise scale, in [0, inf].
    delta : float
        In [0, 1).

    Returns
    -------
    float
        In [0, inf], rounded up (by about 1e-11 relative): ``delta(epsilon; mu) <= delta``
        holds exactly. It is 0 only when ``delta(0; mu) <= delta``, and infinite only when
        ``mu`` is, or when ``delta = 0 < mu``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8.

    Examples
    --------
    >>> from skballdp.accounting.gaussian import epsilon_of
    >>> round(epsilon_of(1.0, 1e-6), 6)
    4.886554
    """
    mu = check_real("mu", mu, low=0.0)
    delta = check_real("delta", delta, low=0.0, high=1.0, high_open=True)
    if mu == 0:
        return 0.0
    if mu == math.inf or delta == 0:
        return math.inf
    if mu <= mu_of(0.0, delta):
        return 0.0
    # delta(epsilon; mu) < Q(a), so the root of Q(a) = delta lies above that of the profile.
    high = max(mu * (mu / 2 - float(ndtri(delta))) * (1 + 1e-9), _SMALLEST_FLOAT)
    if mu > 1e6 or delta < 1e-300:
        return high  # beyond what the profile can be evaluated for
    log_delta = math.log(delta)
    epsilon = 0.0
    if _log_delta(0.0, mu) > log_delta:  # else the root is 0 to within rounding
        while _log_delta(high, mu) > log_delta:
            high *= 2
        tolerance = 1e-14 * min(mu, high)
        epsilon = float(
            brentq(lambda e: _log_delta(e, mu) - log_delta, 0.0, high, xtol=tolerance, rtol=1e-14)
        )
    step = 2.0**-42
    while _log_delta_above(epsilon, mu) > log_delta:
        epsilon += step * max(epsilon, 2.0**-10 * mu)
        step *= 2
    return epsilon


def compose(mus: Iterable[float]) -> float:
    """Signal-to-noise ratio of several Gaussian releases of the same data, together.

    Parameters
    ----------
    mus : iterable of float
        One ratio per release, each in [0, inf] and all for the same pair of data sets (the
        same distance).

    Returns
    -------
    float
        ``sqrt(sum mu_j^2)``, rounded up; 0 for no release.

    Raises
    ------
    TypeError, ValueError
        If a ratio is not a number or out of range.

    Notes
    -----
    Independent Gaussian releases are one Gaussian release in the product space after whitening
    each with its noise scale; the shift has squared length ``sum mu_j^2``. The composition is
    exact, and holds for releases chosen adaptively as well.

    References
    ----------
    J. Dong, A. Roth and W. Su, "Gaussian differential privacy", JRSS B 2022, Corollary 2.

    Examples
    --------
    >>> from skballdp.accounting.gaussian import compose
    >>> round(compose([3.0, 4.0]), 9)
    5.0
    """
    values = [check_real(f"mus[{j}]", mu, low=0.0) for j, mu in enumerate(mus)]
    if len(values) < 2:
        return values[0] if values else 0.0
    total = math.hypot(*values)
    return total * (1 + 4 * _UNIT_ROUNDOFF) if total > 0 else 0.0


def classical_noise_multiplier(epsilon: float, delta: float) -> float:
    """Noise scale over sensitivity by the classical bound, for comparison only.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        ``sqrt(2 log(1.25 / delta)) / epsilon``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Warns
    -----
    PrivacyWarning
        If ``epsilon > 1``: the bound is proved only up to 1, and for large epsilon it adds too
        little noise (from about 9 on at ``delta = 1e-6``, from 8 on at 1e-3).

    References
    ----------
    C. Dwork and A. Roth, "The algorithmic foundations of differential privacy", 2014,
    Theorem A.1.

    Examples
    --------
    >>> from skballdp.accounting.gaussian import classical_noise_multiplier, mu_of
    >>> round(classical_noise_multiplier(1.0, 1e-6), 3), round(1 / mu_of(1.0, 1e-6), 3)
    (5.299, 4.225)
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, low_open=True, high_open=True)
    delta = check_delta(delta, epsilon=epsilon)
    if epsilon > 1:
        warnings.warn(
            f"the classical bound is not a guarantee for epsilon={epsilon!r} > 1; use mu_of",
            PrivacyWarning,
            stacklevel=2,
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def _mills(x: float) -> float:
    """Q(x) / phi(x); infinite below about -37."""
    return _SQRT_HALF_PI * float(erfcx(x * _SQRT_HALF))


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the profile, for 0 < mu < inf and epsilon < inf."""
    a = epsilon / mu - mu / 2
    if abs(a) > 1e8:
        return -math.inf if a > 0 else 0.0
    log_density = -a * a / 2 - _LOG_SQRT_2PI
    if mu < 0.5:  # then a >= -1/4: nothing overflows
        x = a + mu / 2 * (1 + _NODES)
        # 1 - x R(x) = O(1/x^2) cancels at most 1/x^2 <= 1/38^2 before phi(a) underflows.
        integrand = 1 - x * _SQRT_HALF_PI * erfcx(x * _SQRT_HALF)
        difference = mu / 2 * float(_NODE_WEIGHTS @ integrand)
    elif a > 0:
        difference = _mills(a) - _mills(a + mu)
    else:
        # Both terms are at least 1/2 and at most 0.42: no cancellation.
        density = math.exp(log_density)
        return math.log(0.5 * math.erfc(a * _SQRT_HALF) - density * _mills(a + mu))
    return log_density + math.log(difference) if difference > 0 else -math.inf


def _log_delta_above(epsilon: float, mu: float) -> float:
    """An upper bound on the logarithm of the profile: `_log_delta` plus its rounding error.

    ``a`` carries an error of about ``u (epsilon/mu + mu/2)``, which the tail multiplies by
    ``|a| + 1``; the rest (erfcx, exp, log, cancellation in ``1 - x R``) is below 1e-12 wherever
    delta is a normal float.
    """
    size = epsilon / mu + mu / 2
    a = epsilon / mu - mu / 2
    slack = 1e-12 + 4 * _UNIT_ROUNDOFF * (1 + abs(a)) * (1 + size)
    return _log_delta(epsilon, mu) + slack


def _below(x: float) -> float:
    """A few units in the last place below x >= 0."""
    return x * (1 - 16 * _UNIT_ROUNDOFF)
