"""Label mechanisms for regression targets: RR-on-Bins and RPWithPrior.

Conventions as in `skballdp.labels.mechanisms`. The support of the targets, or the nodes of the
histogram, must come from public knowledge: their range is not hidden.

References
----------
RR-on-Bins: B. Ghazi et al., "Regression with label differential privacy", ICLR 2023,
arXiv:2212.06074. RPWithPrior: H. Liu and Q. Huang, arXiv:2601.22625.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from skballdp._validate import check_choice, check_real
from skballdp.accounting.reconstruction import check_prior
from skballdp.labels.mechanisms import LabelMechanism, check_label_epsilon, rr_onto
from skballdp.noise import UniformMixture, make_rng

__all__ = ["BinsMechanism", "IntervalMechanism", "rp_with_prior", "rr_on_bins"]

_TIE = 1e-12
_CHUNK = 15_360
# Tuning tries this many half-widths for every pair of ends, the cells being cut into about as many
# parts as the second number says.
_WIDTHS, _CELLS = 64, 128


@dataclass(frozen=True, eq=False, kw_only=True)
class BinsMechanism(LabelMechanism):
    """What `rr_on_bins` returns: a `LabelMechanism` whose outputs stand for numbers.

    Labels are the positions in `values`, outputs those in `bin_outputs`.

    Attributes
    ----------
    values : ndarray of shape (n_labels,)
        Support of the targets.
    bin_of_value : ndarray of int, shape (n_labels,)
        Bin of each value.
    bin_outputs : ndarray of shape (n_outputs,)
        Number that each bin reports, increasing.
    loss : {"squared", "absolute", "poisson"}
        Loss that was minimised.
    objective : float
        Expected loss under the prior.

    See Also
    --------
    LabelMechanism : All other attributes, and the methods.

    Examples
    --------
    >>> from skballdp.labels import rr_on_bins
    >>> mechanism = rr_on_bins([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1], epsilon=2.0)
    >>> noisy = mechanism.bin_outputs[mechanism.sample([0, 3, 1])]  # positions of the values
    >>> round(mechanism.objective, 3)
    0.566
    """

    values: np.ndarray
    bin_of_value: np.ndarray
    bin_outputs: np.ndarray
    loss: str
    objective: float


def rr_on_bins(
    values: Any,
    prior: Any,
    epsilon: float,
    loss: str = "squared",
    *,
    method: str = "fractional",
) -> BinsMechanism:
    """Randomised response over bins: the smallest expected loss of any private mechanism.

    Parameters
    ----------
    values : array-like of shape (n,)
        Support of the targets, strictly increasing; public.
    prior : array-like of shape (n,)
        Probability of each value; sums to 1.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.
    loss : {"squared", "absolute", "poisson"}, default="squared"
        ``(v - y)^2``, ``|v - y|``, or ``v - y log v`` for values >= 0.
    method : {"fractional", "dynamic"}, default="fractional"
        How to search: both are exact. ``"dynamic"`` tries every number of bins, in O(n^3);
        ``"fractional"`` takes a few passes in O(n^2).

    Returns
    -------
    BinsMechanism
        Its `sample` takes positions in `values` and returns positions in ``bin_outputs``.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    Values are cut into d intervals, and the number of a value's own bin is reported with
    probability ``1/n``, that of any other with ``q/n``, ``n = 1 + (d-1) q``. The expected loss is

        sum over bins of cost / (1 + (d-1) q),
        cost = min_v sum_y p_y (1 if y is in the bin, else q) loss(v, y),

    whose minimiser, a weighted mean (median for the absolute loss, the smallest one), is what the
    bin reports. It sees **all** labels: reported numbers are pulled towards the overall mean.
    Intervals suffice, since the losses of two reported numbers cross once in y.

    The costs of all intervals come from sums over prefixes, taken around the mean, where they do
    not cancel. For the Poisson loss that means ``v - m - y log(v/m)``, m the overall mean, which
    differs from the loss by a constant. The fractional search takes the ratio lambda at hand,
    finds the shortest path from the first value to the last with lengths ``cost - lambda q``, and
    repeats with the ratio of that path until it does not fall any more (Dinkelbach). What the
    chosen bins report and cost is summed anew, value by value.

    References
    ----------
    Ghazi et al., arXiv:2212.06074, algorithms 1 and 2, and theorem 2 for optimality; the
    fractional search is ours.

    Examples
    --------
    >>> from skballdp.labels import rr_on_bins
    >>> mechanism = rr_on_bins([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1], epsilon=2.0)
    >>> mechanism.bin_of_value.tolist(), mechanism.bin_outputs.round(2).tolist()
    ([0, 1, 2, 2], [0.28, 1.0, 1.88])
    """
    values = check_increasing("values", values)
    prior = check_prior(prior, n_candidates=len(values))
    epsilon = check_label_epsilon(epsilon)
    check_choice("loss", loss, ("squared", "absolute", "poisson"))
    check_choice("method", method, ("fractional", "dynamic"))
    centre = float(prior @ values / prior.sum())
    if loss == "poisson" and (values[0] < 0 or centre <= 0):
        raise ValueError(
            "values must be non-negative for the poisson loss, and some positive one must have a "
            "positive prior. Shift them, or use another loss."
        )
    q = math.exp(-epsilon)
    search = _fractional if method == "fractional" else _dynamic
    starts = search(_interval_costs(values - centre, prior, q, loss, centre), q)
    bin_of_value = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    # Of the bins chosen, from their values: the sums over prefixes hide what is 1e-16 of them.
    bins = [_best_output(values, prior, q, loss, bin_of_value == b) for b in range(len(starts))]
    outputs, costs = np.array(bins).T
    return BinsMechanism(
        **rr_onto("RR-on-Bins", epsilon, bin_of_value, np.arange(len(starts)), len(starts)),
        facts={"bins": len(starts), "loss": loss},
        values=values,
        bin_of_value=bin_of_value,
        # Of equally good cuts one may have two outputs out of order by a rounding error.
        bin_outputs=np.maximum.accumulate(outputs),
        loss=loss,
        objective=float(costs.sum()) / (1.0 + (len(starts) - 1) * q),
    )


@dataclass(frozen=True, kw_only=True)
class IntervalMechanism:
    """What `rp_with_prior` returns: a noisy number near the target, or anywhere on an interval.

    Attributes
    ----------
    epsilon : float
        Privacy loss.
    low, high : float
        The interval [A1, A2].
    half_width : float
        Half-width delta of the favoured surroundings of a target.
    outside : {"project", "uniform"}
        What happens to targets outside the interval: nearest end, or no preference.
    objective : float
        Prior mass of the interval divided by `gamma`, see `rp_with_prior`.

    Notes
    -----
    Given a target y in the interval, the output has density ``1/gamma`` on ``[y - delta, y +
    delta]`` and ``q/gamma`` on the rest of ``[A1 - delta, A2 + delta]``, with ``gamma = 2 delta + q
    (A2 - A1)``.

    Outputs are drawn on a public grid of up to 2^31 points, the surroundings of every target
    having the same number of them (at least 2^10, commonly 2^24). On the grid the mechanism is
    exactly epsilon-private. A float added to y would not be: its last digits tell which y could
    have produced it.

    Examples
    --------
    >>> from skballdp.labels import rp_with_prior
    >>> mechanism = rp_with_prior([0, 1, 2], [0.8, 0.2], "auto", epsilon=2.0)
    >>> estimates = mechanism.debias(mechanism.sample([0.3, 1.1]))
    >>> estimates.shape
    (2,)
    """

    epsilon: float
    low: float
    high: float
    half_width: float
    outside: str
    objective: float

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest output."""
        return self.low - self.half_width, self.high + self.half_width

    @property
    def gamma(self) -> float:
        """Inverse density near the target."""
        return 2 * self.half_width + math.exp(-self.epsilon) * (self.high - self.low)

    @property
    def density_near(self) -> float:
        """Density of outputs near the target."""
        return 1.0 / self.gamma

    @property
    def density_far(self) -> float:
        """Density of the other outputs."""
        return math.exp(-self.epsilon) / self.gamma

    @property
    def uniform_weight(self) -> float:
        """Probability of a draw from the whole support, in the form as a mixture."""
        return math.exp(-self.epsilon) * (self.support[1] - self.support[0]) / self.gamma

    @property
    def debias_slope(self) -> float:
        """Slope of the expected output as a function of a target in the interval."""
        return -math.expm1(-self.epsilon) * 2 * self.half_width / self.gamma

    @property
    def debias_centre(self) -> float:
        """Middle of the interval."""
        return (self.low + self.high) / 2

    def max_ratio(self) -> float:
        """Largest ratio of two densities of one output: ``exp(epsilon)``."""
        return self.density_near / self.density_far if self.density_far > 0 else math.inf

    def sample(self, values: Any, rng: Any = None) -> np.ndarray:
        """Draw one output for each target.

        Parameters
        ----------
        values : array-like of shape (n,)
            Targets.
        rng : None, int, numpy Generator or RandomState, default=None
            None draws from the operating system's cryptographic generator; anything else is
            reproducible and therefore **not private**.

        Returns
        -------
        ndarray of float64, shape (n,)
            Outputs, independent of each other.

        Raises
        ------
        TypeError, ValueError
            If values are not finite numbers.
        """
        values = np.asarray(values)
        if values.dtype.kind not in "fiub" or values.ndim != 1:
            raise TypeError(
                "values must be a one-dimensional array of numbers, got shape "
                f"{values.shape} and dtype {values.dtype}."
            )
        rng = make_rng(rng)
        first, last = self.support
        points, near = self._grid()
        q = math.exp(-self.epsilon)
        gamma = near + q * (points - near)
        anywhere = q * points / gamma
        mixture = UniformMixture(
            [[anywhere, -math.expm1(-self.epsilon) * near / gamma], [1.0, 0.0]], [points, near]
        )
        is_near = mixture.parts % 2
        drawn = np.empty(len(values))
        for at in range(0, len(values), _CHUNK):
            y = values[at : at + _CHUNK].astype(np.float64)
            if not np.all(np.isfinite(y)):
                raise ValueError("values must be finite; remove NaN and infinity.")
            outlier = (y < self.low) | (y > self.high)
            rows = outlier.astype(np.intp) if self.outside == "uniform" else 0
            window = (np.clip(y, self.low, self.high) - self.low) / (last - first) * points
            window = np.minimum(window.astype(np.intp), points - near)
            slot, number = mixture.draw(rows, len(y), rng)
            point = number + window * is_near.take(slot)
            drawn[at : at + _CHUNK] = first + (point + 0.5) * ((last - first) / points)
        return drawn

    def debias(self, outputs: Any) -> np.ndarray:
        """Unbiased estimates of the targets, for those in the interval.

        Parameters
        ----------
        outputs : array-like of shape (n,)
            What `sample` returned.

        Returns
        -------
        ndarray of shape (n,)
            ``(output - c mid) / (1 - c)``, since the expected output is ``(1-c) y + c mid``, c
            being `uniform_weight`.

        Raises
        ------
        ValueError
            At epsilon = 0, when outputs tell nothing.
        """
        if self.debias_slope == 0:
            raise ValueError("epsilon must be above 0 for unbiased estimates, got 0.")
        outputs = np.asarray(outputs, dtype=np.float64)
        return self.debias_centre + (outputs - self.debias_centre) / self.debias_slope

    def expected_squared_error(self, nodes: Any, mass: Any) -> float:
        """Mean of ``(output - y)^2`` under a histogram prior that is uniform in each cell.

        Parameters
        ----------
        nodes : array-like of shape (m + 1,)
            Ends of the cells, strictly increasing.
        mass : array-like of shape (m,)
            Probability of each cell, up to a factor.

        Returns
        -------
        float
            In squared units of the targets.

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range.
        """
        nodes, mass = _check_histogram(nodes, mass)
        finer = np.union1d(nodes, [self.low, self.high])
        mass = np.diff(np.interp(finer, nodes, np.concatenate([[0.0], np.cumsum(mass)])))
        start, end = np.searchsorted(finer, [self.low, self.high])
        error = _squared_error(finer, mass, self.epsilon, self.outside)
        return float(error(start, end, self.half_width))

    def __str__(self) -> str:
        return (
            f"RPWithPrior: numbers in [{self.support[0]:.6g}, {self.support[1]:.6g}], within "
            f"{self.half_width:.6g} of the target with a density e^epsilon times as large as "
            f"elsewhere, epsilon = {self.epsilon:g}."
        )

    def _grid(self) -> tuple[int, int]:
        """Number of points of the grid, and how many of them are near a target."""
        share = 2 * self.half_width / (self.support[1] - self.support[0])
        points = min(2**31, math.ceil(2**24 / share))
        return points, min(points, max(1, math.floor(share * points)))


def rp_with_prior(
    nodes: Any,
    mass: Any,
    half_width: float | str,
    epsilon: float,
    outside: str = "project",
) -> IntervalMechanism:
    """Noisy regression targets with a best interval for the prior (RPWithPrior).

    Parameters
    ----------
    nodes : array-like of shape (m + 1,)
        Ends of the cells of a histogram, strictly increasing; public.
    mass : array-like of shape (m,)
        Prior mass of each cell, up to a factor.
    half_width : float or "auto"
        Outputs this close to the target are favoured; > 0. ``"auto"`` chooses both interval and
        half-width by expected squared error under the prior.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.
    outside : {"project", "uniform"}, default="project"
        Targets outside the interval: nearest end (smaller error), or no preference.

    Returns
    -------
    IntervalMechanism
        Its `sample` takes and returns numbers.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    See Also
    --------
    rr_on_bins : Never worse in expected squared error with the same prior.

    Notes
    -----
    With a given half-width the interval maximises ``F(A1, A2) = mass / (2 delta + q (A2 - A1))``,
    with the prior mass of [A1, A2]: up to a factor, the probability that a target lies in the
    interval and its output near it. On each pair of cells F is a ratio of linear functions with
    positive denominator, hence largest at a corner: only pairs of nodes need to be tried. The first
    pair wins a tie.

    For the squared error the best ends need not be nodes. ``"auto"`` cuts the cells into about 128
    parts, tries 64 half-widths for every pair of ends, from a thousandth of the range to all of it,
    and refines the best one. If the prior came from private labels, this is post-processing.

    References
    ----------
    Liu and Huang, arXiv:2601.22625, for the mechanism; that nodes suffice, the mixture form and the
    squared error are ours.

    Examples
    --------
    >>> from skballdp.labels import rp_with_prior
    >>> mechanism = rp_with_prior([0, 1, 2, 3, 4, 5], [40, 25, 15, 12, 8], 0.25, epsilon=1.0)
    >>> mechanism.low, mechanism.high, round(mechanism.density_near, 3)
    (0.0, 2.0, 0.809)
    """
    nodes, mass = _check_histogram(nodes, mass)
    epsilon = check_label_epsilon(epsilon)
    check_choice("outside", outside, ("project", "uniform"))
    if isinstance(half_width, str):
        check_choice("half_width", half_width, ("auto",), "Or give a number above 0.")
        parts = max(1, _CELLS // len(mass))
        positions = np.arange(len(mass) * parts + 1) / parts
        nodes = np.interp(positions, np.arange(len(nodes)), nodes)
        if not np.all(np.diff(nodes) > 0):
            raise ValueError(
                "nodes must be further apart for their size, half_width='auto' cuts the cells into "
                "parts. Subtract an offset from nodes and targets."
            )
        mass = np.repeat(mass / parts, parts)
        start, end, width = _tune(nodes, mass, epsilon, outside)
    else:
        name = "half_width, the paper's delta"
        width = check_real(name, half_width, low=0.0, low_open=True, high_open=True)
        start, end = _best_interval(nodes, mass, epsilon, width)
    low, high = float(nodes[start]), float(nodes[end])
    if width * 2**20 < high - low + 2 * width:
        raise ValueError(
            f"half_width must be at least a millionth of the range, got {width!r}: the grid of "
            "outputs would be too coarse. Use a larger one."
        )
    density = float(mass[start:end].sum()) / (2 * width + math.exp(-epsilon) * (high - low))
    return IntervalMechanism(
        epsilon=epsilon, low=low, high=high, half_width=width, outside=outside, objective=density
    )


def check_increasing(name: str, values: Any, at_least: int = 1) -> np.ndarray:
    """Return a float64 array of finite, strictly increasing numbers, or raise."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 1 or len(array) < at_least:
        raise ValueError(
            f"{name} must be a one-dimensional array of at least {at_least} numbers, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)) or not np.all(np.diff(array) > 0):
        raise ValueError(f"{name} must be finite and strictly increasing. Use numpy.unique.")
    return array


def _best_output(
    values: np.ndarray, prior: np.ndarray, q: float, loss: str, inside: np.ndarray
) -> tuple[float, float]:
    """Reported number and cost of one bin."""
    weight, base = prior * np.where(inside, 1.0, q), values[np.argmax(inside)]
    weight, values = weight[weight > 0], values[weight > 0]
    if len(weight) == 0:  # without noise such a bin costs nothing, whatever it reports
        return float(base), 0.0
    total = weight.sum()
    if loss == "absolute":
        output = values[np.argmax(np.cumsum(weight) >= total / 2 * (1 - _TIE))]
        return float(output), float(weight @ np.abs(output - values))
    output = base + weight @ (values - base) / total
    if loss == "squared":
        return float(output), float(weight @ (output - values) ** 2)
    return float(output), float(weight @ (output - xlogy(values, output)))


def _interval_costs(
    x: np.ndarray, prior: np.ndarray, q: float, loss: str, centre: float
) -> np.ndarray:
    """Cost of the bin from value r to value i, for all r <= i, up to a constant for "poisson".

    Numbers are relative to `centre`; entries with r > i are infinite.
    """
    n = len(x)

    def inside_and_all(weights: np.ndarray) -> tuple[np.ndarray, float]:
        prefix = np.concatenate([[0.0], np.cumsum(weights)])
        return prefix[np.newaxis, 1:] - prefix[:-1, np.newaxis], float(prefix[-1])

    p_in, p_all = inside_and_all(prior)
    weight = q * p_all + (1.0 - q) * p_in
    empty = np.tril(np.ones((n, n), dtype=bool), -1)
    idle = empty | (weight <= 0)  # without noise a bin of probability zero costs nothing
    weight = np.where(idle, 1.0, weight)
    if loss == "absolute":
        cost = _absolute_costs(x, prior, q, weight)
    else:
        m_in, m_all = inside_and_all(prior * x)
        output = (q * m_all + (1.0 - q) * m_in) / weight
        if loss == "squared":
            s_in, s_all = inside_and_all(prior * x**2)
            cost = np.maximum(q * s_all + (1.0 - q) * s_in - weight * output**2, 0.0)
        else:
            output = np.maximum(output, -centre)  # a mean of values >= 0
            with np.errstate(divide="ignore", invalid="ignore"):
                log_term = (centre + output) * np.log1p(output / centre)
            cost = weight * (output - np.where(output > -centre, log_term, 0.0))
    cost = np.where(idle, 0.0, cost)
    cost[empty] = np.inf
    return cost


def _absolute_costs(x: np.ndarray, prior: np.ndarray, q: float, weight: np.ndarray) -> np.ndarray:
    """Mean absolute deviations of all bins from their weighted medians."""
    n = len(x)
    P = np.concatenate([[0.0], np.cumsum(prior)])
    M = np.concatenate([[0.0], np.cumsum(prior * x)])
    before, upto = P[:-1, np.newaxis], P[np.newaxis, 1:]
    # Weight up to value j: q P_j before the bin, more by (1-q) (P_j - before) inside it, more by a
    # constant after it. Where it reaches one half, up to rounding, is the smallest median.
    half = weight / 2 * (1 - _TIE)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        first = np.searchsorted(P[1:], half / q) if q > 0 else np.full((n, n), n)
        inside = np.searchsorted(P[1:], half + (1.0 - q) * before)
        rest = (half - (1.0 - q) * (upto - before)) / q if q > 0 else np.full((n, n), np.inf)
        after = np.searchsorted(P[1:], rest)
    r, i = np.arange(n)[:, np.newaxis], np.arange(n)[np.newaxis, :]
    median = np.where(first < r, first, np.where(inside <= i, np.maximum(inside, r), after))
    median = np.clip(median, 0, n - 1)
    at = x[median]

    def deviation(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Sum of p |x - at| over the positions from `low` up to, but not including, `high`."""
        cut = np.clip(median, low, high)
        left = at * (P[cut] - P[low]) - (M[cut] - M[low])
        return left + (M[high] - M[cut]) - at * (P[high] - P[cut])

    whole = deviation(np.zeros_like(r), np.full_like(i, n))
    return q * whole + (1.0 - q) * deviation(np.minimum(r, i), i + 1)


def _ratio(cost: np.ndarray, starts: np.ndarray, q: float) -> float:
    ends = np.append(starts[1:], len(cost)) - 1
    return float(cost[starts, ends].sum()) / (1.0 + (len(starts) - 1) * q)


def _fractional(cost: np.ndarray, q: float) -> np.ndarray:
    """First positions of the bins of smallest ratio, by Dinkelbach's method."""
    n = len(cost)
    best = np.array([0])
    ratio = _ratio(cost, best, q)
    to_end = np.ascontiguousarray(cost.T)  # row i: bins that end with value i
    while True:
        length = np.zeros(n + 1)
        came_from = np.zeros(n + 1, dtype=np.intp)
        for i in range(n):
            candidates = length[: i + 1] + to_end[i, : i + 1]
            came_from[i + 1] = np.argmin(candidates)
            length[i + 1] = candidates[came_from[i + 1]] - ratio * q
        path = [int(came_from[n])]
        while path[-1] > 0:
            path.append(int(came_from[path[-1]]))
        starts = np.array(path[::-1])
        new_ratio = _ratio(cost, starts, q)
        # Falls strictly, over finitely many partitions; a fall by rounding only is none.
        if not new_ratio < ratio - _TIE * abs(ratio):
            return best
        best, ratio = starts, new_ratio


def _dynamic(cost: np.ndarray, q: float) -> np.ndarray:
    """The same by the dynamic program over the number of bins."""
    n = len(cost)
    to_end = np.ascontiguousarray(cost.T)
    total = cost[0]  # total[i]: least cost of d bins that end with value i
    came_from: list[np.ndarray] = []
    best, ratio = np.array([0]), float(total[-1])
    for d in range(2, n + 1):
        candidates = total[:-1] + to_end[:, 1:]
        came_from.append(np.argmin(candidates, axis=1) + 1)
        total = np.take_along_axis(candidates, came_from[-1][:, np.newaxis] - 1, axis=1)[:, 0]
        if total[-1] / (1.0 + (d - 1) * q) < ratio - _TIE * abs(ratio):
            ratio = float(total[-1] / (1.0 + (d - 1) * q))
            path = [n]
            for back in reversed(came_from):
                path.append(int(back[path[-1] - 1]))
            best = np.array([0, *path[:0:-1]])
    return best


def _check_histogram(nodes: Any, mass: Any) -> tuple[np.ndarray, np.ndarray]:
    nodes = check_increasing("nodes", nodes, at_least=2)
    mass = np.asarray(mass)
    if mass.dtype.kind not in "fiu" or mass.shape != (len(nodes) - 1,):
        raise ValueError(
            f"mass must be an array of {len(nodes) - 1} numbers, one per cell between nodes, got "
            f"shape {mass.shape} and dtype {mass.dtype}."
        )
    mass = mass.astype(np.float64)
    if not np.all(np.isfinite(mass)) or mass.min() < 0 or mass.sum() <= 0:
        raise ValueError("mass must be finite, non-negative and not all zero.")
    return nodes, mass / mass.sum()


def _best_interval(
    nodes: np.ndarray, mass: np.ndarray, epsilon: float, width: float
) -> tuple[int, int]:
    prefix = np.concatenate([[0.0], np.cumsum(mass)])
    start, end = np.triu_indices(len(nodes), 1)  # in lexicographic order
    gamma = 2 * width + math.exp(-epsilon) * (nodes[end] - nodes[start])
    F = (prefix[end] - prefix[start]) / gamma
    first = int(np.flatnonzero(F.max() * (1 - _TIE) <= F)[0])
    return int(start[first]), int(end[first])


def _squared_error(nodes: np.ndarray, mass: np.ndarray, epsilon: float, outside: str) -> Any:
    """Expected squared error as a function of the ends' positions and the half-width."""
    x = nodes - float(mass @ (nodes[:-1] + nodes[1:]) / 2)
    middle = (x[:-1] + x[1:]) / 2
    square = middle**2 + np.diff(x) ** 2 / 12  # mean square in a cell
    moments = [np.concatenate([[0.0], np.cumsum(mass * power)]) for power in (1.0, middle, square)]
    q = math.exp(-epsilon)

    def around(point: Any, start: Any, end: Any) -> tuple[Any, Any]:
        """Mass, and integral of ``(point - y)^2``, from node `start` to node `end`."""
        m0, m1, m2 = (moment[end] - moment[start] for moment in moments)
        return m0, np.maximum(m2 - 2 * point * m1 + point**2 * m0, 0.0)

    def error(start: Any, end: Any, width: Any) -> Any:
        low, high, last = x[start], x[end], len(nodes) - 1
        mid, gamma = (low + high) / 2, 2 * width + q * (high - low)
        c = q * (high - low + 2 * width) / gamma
        spread = (high - low + 2 * width) ** 2 / 12
        m_in, mid_in = around(mid, start, end)
        _, mid_all = around(mid, 0, last)
        if outside == "uniform":
            inside = (1 - c) * m_in * width**2 / 3 + c * (m_in * spread + mid_in)
            return inside + (1 - m_in) * spread + (mid_all - mid_in)
        clipped = around(low, 0, start)[1] + around(high, end, last)[1]
        return (1 - c) * (width**2 / 3 + clipped) + c * (spread + mid_all)

    return error


def _tune(
    nodes: np.ndarray, mass: np.ndarray, epsilon: float, outside: str
) -> tuple[int, int, float]:
    error = _squared_error(nodes, mass, epsilon, outside)
    widths = float(nodes[-1] - nodes[0]) * np.geomspace(1e-3, 1.0, _WIDTHS)
    best = (math.inf, 0, 1, 0)
    for start in range(len(nodes) - 1):
        ends = np.arange(start + 1, len(nodes))
        errors = error(start, ends[:, np.newaxis], widths)
        at, width = divmod(int(np.argmin(errors)), _WIDTHS)
        best = min(best, (float(errors[at, width]), start, int(ends[at]), width))
    _, start, end, nearest = best
    around = np.log(widths[[max(nearest - 1, 0), min(nearest + 1, _WIDTHS - 1)]])
    refined = minimize_scalar(
        lambda log_width: float(error(start, end, math.exp(log_width))),
        bounds=tuple(around),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return start, end, math.exp(refined.x)
