r"""Privacy of a release on a grid with exact discrete Gaussian noise.

The release is ``g (k + Z)``: g the grid, ``k = round(theta / g)``, Z with p independent coordinates
of the discrete Gaussian law ``p_z = exp(-z^2 / (2 s^2)) / sum``, ``s = sigma / g``, the scale in
*steps* of the grid. p counts the coordinates that differ between two neighbours. Rounding moves
each of two neighbours by at most g/2 in each coordinate, so their k are at most
``(sensitivity + g sqrt p) / g`` apart, and ``mu = (sensitivity + g sqrt p) / sigma`` bounds their
distance in units of s.

Derivation. Let q be the law of the *rounded* continuous Gaussian. ``k + round(N(0, s^2))`` is
post-processing of a Gaussian release with ratio mu (rounding commutes with integer shifts), hence
(epsilon', delta')-private with the exact profile of `skballdp.accounting.gaussian`. The discrete
law is multiplicatively close to q. With f the density of N(0, s^2) and U uniform on [-1/2, 1/2],

    q_z / f(z) = E exp(-z U / s^2 - U^2 / (2 s^2)).

By Jensen the logarithm is at least ``-E U^2 / (2 s^2) = -1/(24 s^2)``; without the second term it
is at most ``log(sinh(w)/w) <= w^2/6 = z^2 / (24 s^4)``, ``w = z / (2 s^2)``. By Poisson summation
``f(z) = F p_z`` with ``F = 1 + 2 sum_{j>0} exp(-2 pi^2 s^2 j^2) >= 1``. So in p dimensions

    P <= e^a Q,   a = p/(24 s^2),      Q <= F^p e^{||z||^2 / (24 s^4)} P.

Let P, P' and Q, Q' be the laws for two neighbours, centres k, k', and G the outputs within T s of k
in every coordinate, hence within ``s (T sqrt p + mu)`` of k'. Then for every set S of outputs

    P(S) <= P(S and G) + P(not G) <= e^a Q(S and G) + tau
         <= e^a (e^epsilon' Q'(S and G) + delta') + tau
         <= e^(epsilon' + a + b) P'(S) + e^a delta' + tau,

``b = (T sqrt p + mu)^2 / (24 s^2) + p log F``, ``tau = 2 p e^{-T^2/2}`` (the discrete Gaussian is
sub-Gaussian with parameter s). No e^epsilon multiplies an error term.

Where epsilon leaves no room for a + b there is the other way: ``P <= e^a Q`` also bounds the total
variation between P and Q by ``1 - e^-a <= a``, on both sides of a pair, so that

    P(S) <= Q(S) + a <= e^epsilon Q'(S) + delta' + a
         <= e^epsilon P'(S) + delta' + (1 + e^epsilon) a.

Several releases of the same data, each of which may depend on those before, are one release of all
their coordinates to `epsilon_of`: `mu` the `skballdp.accounting.gaussian.compose` of theirs,
`n_coordinates` the sum and `steps` the smallest of theirs. The terms a, b and log F add up to at
most that (Minkowski's inequality for b).

References
----------
C. L. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS
2020, arXiv:2004.00010 (the law, its tails, its Renyi divergence).
"""

import math

import numpy as np

from skballdp._validate import check_integer, check_real
from skballdp.accounting import gaussian
from skballdp.exceptions import CertificationError

__all__ = ["LARGEST_PRICE", "calibrate", "epsilon_of", "grid_term", "mu_of", "ratio_excess"]

# More than all rounding errors of any formula below, relative.
_UP = 1 + 2.0**-40
# Share of delta that is spent on the tails.
_LOG_TAIL_SHARE = -40 * math.log(2)
_SMALLEST_STEPS = 0.5

# The grid: steps per noise scale that are enough, steps per noise scale and relative growth of the
# noise beyond which a coarse grid is refused.
_FINEST_STEPS = 2.0**40
_COARSEST_STEPS = 2.0**12
LARGEST_PRICE = 0.1


def grid_term(grid: np.ndarray, n_coordinates: int) -> np.ndarray:
    """What rounding to the grid adds to a sensitivity: ``grid * sqrt(n_coordinates)``, rounded up.

    Parameters
    ----------
    grid : ndarray
        Spacing g, >= 0, per block.
    n_coordinates : int
        How many coordinates can differ between two neighbours.

    Returns
    -------
    ndarray
        In the unit of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.accounting.discrete import grid_term
    >>> grid_term(np.array([0.25, 0.5]), 4).round(9)
    array([0.5, 1. ])
    """
    return grid * (math.sqrt(n_coordinates) * (1 + 2.0**-51))


def ratio_excess(*, steps: float, n_coordinates: int) -> float:
    """How much likelier any event can be than under the rounded continuous Gaussian.

    Parameters
    ----------
    steps : float
        Noise scale over grid, >= 1/2.
    n_coordinates : int
        p, >= 1.

    Returns
    -------
    float
        ``a = p / (24 steps^2)``, rounded up: every event is at most ``e^a`` times as likely.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Examples
    --------
    >>> from skballdp.accounting.discrete import ratio_excess
    >>> f"{ratio_excess(steps=2.0**24, n_coordinates=384):.1e}"
    '5.7e-14'
    """
    steps = check_real("steps", steps, low=_SMALLEST_STEPS, high_open=True)
    n_coordinates = check_integer("n_coordinates", n_coordinates, low=1)
    return n_coordinates / 24 / steps / steps * _UP + 5e-324


def mu_of(epsilon: float, delta: float, *, steps: float, n_coordinates: int) -> float:
    """Largest signal-to-noise ratio that is certified as (epsilon, delta)-private on a grid.

    Parameters
    ----------
    epsilon : float
        Target, in [0, inf].
    delta : float
        Target, in (0, 1); zero only with ``epsilon=inf``.
    steps : float
        Noise scale over grid, >= 1/2, or a lower bound on it.
    n_coordinates : int
        How many coordinates can differ between two neighbours.

    Returns
    -------
    float
        Bound on ``(sensitivity + grid_term) / noise scale``, rounded down; 0 if none is certified.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Notes
    -----
    See the module docstring. The larger of the two ways counts; in b, mu is bounded by the ratio
    of the continuous Gaussian.

    Examples
    --------
    >>> from skballdp.accounting import discrete, gaussian
    >>> round(gaussian.mu_of(1.0, 1e-6), 6)
    0.236704
    >>> round(discrete.mu_of(1.0, 1e-6, steps=2.0**24, n_coordinates=10**6), 6)
    0.236704
    >>> round(discrete.mu_of(1.0, 1e-6, steps=50.0, n_coordinates=10), 6)
    0.233352
    """
    continuous = gaussian.mu_of(epsilon, delta)
    if continuous == math.inf:
        return continuous
    loss, reduced = _multiplicative(delta, continuous, steps, n_coordinates)
    remaining = (epsilon - loss) * (1 - 2.0**-51)
    mu = gaussian.mu_of(remaining, reduced) if remaining >= 0 and reduced > 0 else 0.0
    reduced = _additive(epsilon, delta, steps, n_coordinates)
    if reduced > 0:
        mu = max(mu, gaussian.mu_of(epsilon, reduced))
    return min(mu, continuous)


def epsilon_of(mu: float, delta: float, *, steps: float, n_coordinates: int) -> float:
    """Smallest epsilon for which a release on a grid is certified as (epsilon, delta)-private.

    Parameters
    ----------
    mu : float
        ``(sensitivity + grid_term) / noise scale``, in [0, inf].
    delta : float
        In [0, 1).
    steps : float
        Noise scale over grid, >= 1/2, or a lower bound on it.
    n_coordinates : int
        How many coordinates can differ between two neighbours.

    Returns
    -------
    float
        In [0, inf], rounded up.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    Notes
    -----
    See the module docstring; the smaller of the two ways counts. The result of the first is what
    epsilon in ``1 + e^epsilon`` is bounded by in the second.

    Examples
    --------
    >>> from skballdp.accounting import discrete
    >>> round(discrete.epsilon_of(0.236704, 1e-6, steps=2.0**24, n_coordinates=384), 5)
    1.0
    """
    mu = check_real("mu", mu, low=0.0)
    delta = check_real("delta", delta, low=0.0, high=1.0, high_open=True)
    if mu == 0:
        return 0.0
    if mu == math.inf or delta == 0:
        return math.inf
    loss, reduced = _multiplicative(delta, mu, steps, n_coordinates)
    epsilon = (gaussian.epsilon_of(mu, reduced) + loss) * (1 + 2.0**-51)
    reduced = _additive(epsilon, delta, steps, n_coordinates)
    return min(epsilon, gaussian.epsilon_of(mu, reduced)) if reduced > 0 else epsilon


def calibrate(
    sensitivity: np.ndarray,
    epsilon: float,
    delta: float,
    *,
    n_coordinates: int,
    magnitude: float,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Ratio, grids and noise scales of a release.

    Parameters
    ----------
    sensitivity : ndarray of shape (n_blocks,)
        L2 sensitivity per block, 0 for a block that cannot change; two neighbours differ in one
        block only. Some block can; over mu, all are far from the ends of the exponent range.
    epsilon, delta : float
        The promise, epsilon finite.
    n_coordinates : int
        Size of a block.
    magnitude : float
        Public bound on the absolute value of a parameter.

    Returns
    -------
    mu : float
        Certified ratio, for all blocks the same.
    grid : ndarray of shape (n_blocks,)
        Powers of two; 0 for a block that cannot change.
    scale : ndarray of shape (n_blocks,)
        Noise scales with ``(sensitivity + grid_term(grid)) / scale <= mu``, in floats too.

    Raises
    ------
    CertificationError
        If no grid is fine enough and yet represents all parameters in float64.

    Notes
    -----
    A finer grid costs less and nothing speaks against it but the 53 bits of a float: the grid is
    the smallest power of two with at most 2^40 steps in a noise scale and 2^52 in `magnitude` plus
    128 noise scales. Nothing but public numbers enters. The order of the computation is safe: the
    continuous mu is the largest possible, so sensitivity over it bounds every noise scale from
    below; that, over the grid, bounds the steps, and the steps the certified mu; both bounds can
    only improve with the scale that follows from them.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.accounting.discrete import calibrate
    >>> mu, grid, scale = calibrate(
    ...     np.array([0.01, 0.03]), 1.0, 1e-6, n_coordinates=384, magnitude=1.0)
    >>> round(mu, 6), np.log2(grid), scale.round(6)
    (0.236704, array([-44., -42.]), array([0.042247, 0.12674 ]))
    """
    continuous = gaussian.mu_of(epsilon, delta)
    moving = sensitivity > 0
    smallest = sensitivity / continuous * (1 - 2.0**-51)
    finest = np.maximum(smallest / _FINEST_STEPS, (magnitude + 128 * smallest) * 2.0**-52)
    grid = np.where(moving, _power_of_two_above(finest), 0.0)
    steps = float(np.min(smallest[moving] / grid[moving]))
    if steps >= _COARSEST_STEPS:
        mu = mu_of(epsilon, delta, steps=steps, n_coordinates=n_coordinates)
        if mu > 0:
            total = sensitivity + grid_term(grid, n_coordinates)
            scale = total * (1 + 2.0**-52) / mu * (1 + 2.0**-51)
            if np.all(scale <= (1 + LARGEST_PRICE) * smallest):
                return mu, grid, scale
    raise CertificationError(
        f"the noise scale {np.min(smallest[moving]):.3g} is too small to be added exactly to "
        f"{n_coordinates} parameters of up to {magnitude:.3g} in float64. Use a smaller epsilon, a "
        "larger delta or a larger radius; epsilon=np.inf releases without noise."
    )


def _multiplicative(delta: float, mu: float, steps: float, p: int) -> tuple[float, float]:
    """``a + b`` rounded up and ``(delta - tau) e^-a`` rounded down."""
    a = ratio_excess(steps=steps, n_coordinates=p)
    log_tau = math.log(delta) + _LOG_TAIL_SHARE
    t = math.sqrt(2 * (math.log(2 * p) - log_tau))
    distance = (t * math.sqrt(p) + mu) * _UP
    tail = math.exp(-2 * (math.pi * steps) ** 2) * _UP + 5e-324
    log_f = 2 * tail / (1 - tail)  # j^2 >= j: a geometric series
    b = (distance / steps) ** 2 / 24 + p * log_f
    reduced = delta * (1 - 2.0**-39) * math.exp(-a)
    return (a + b) * _UP, math.nextafter(reduced, 0.0)


def _additive(epsilon: float, delta: float, steps: float, p: int) -> float:
    """``delta - (1 + e^epsilon) a`` rounded down, 0 if that is negative."""
    a = ratio_excess(steps=steps, n_coordinates=p)
    # Beyond the range of floats this way leads nowhere, however small a is.
    factor = 1 + math.exp(epsilon) * _UP if epsilon <= 700 else math.inf
    return max(0.0, math.nextafter((delta - factor * a) * (1 - 2.0**-51), 0.0))


def _power_of_two_above(x: np.ndarray) -> np.ndarray:
    """The smallest power of two that is at least x, for x > 0."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent))
