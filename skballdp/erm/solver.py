r"""The minimiser of a regularised mean loss, to a gradient norm that is promised.

Problem
-------
Minimise over theta

    F(theta) = sum_i w_i loss(theta z_i; y_i) + alpha/2 ||theta - center||^2,

where z_i is the clipped row i with the constant feature 1 appended if there is an intercept
(regularised like every other coefficient) and ``w_i = class_weight[y_i] / n``. Its gradient is

    grad F(theta) = sum_i w_i slope_i z_i^T + alpha (theta - center),

slope_i the derivative of the loss with respect to the k scores of record i.

Stopping rule
-------------
A point is returned only if the float64 gradient at it, summed over all records, has norm at most
`tolerance`. F is alpha-strongly convex, so ``alpha ||theta - theta*|| <= ||grad F(theta)||``: the
result is within ``tolerance / alpha`` of the optimum theta*, plus the rounding error of the
computed gradient over alpha, which is bounded by public numbers for ``||theta|| <= 2R``
(`gradient_rounding_error`); other iterates are rejected. R bounds the norm of every minimiser.

Conventions
-----------
- ``theta`` has shape (k, q): k columns of scores, see `skballdp.erm.losses`; q = d + 1 with an
  intercept, in the last column, else d.
- m data sets that share all but one record are solved together: arrays of shape (m, k, q).
- What is minimised independently of the rest is a *problem*: one data set, or for a separable
  loss (one-vs-rest) one column of one data set. R is the bound for a problem. The tolerance is
  for a data set: it bounds the norm over all its columns.
- Inside, arrays have shape (m, v, k q / v): v problems a data set, v = k if separable, else 1.

The number of iterations and the final gradient depend on the data and leave this module for
nobody.
"""

from collections.abc import Callable

import numpy as np

from skballdp.data import RowBlocks
from skballdp.erm.losses import Loss

__all__ = ["minimize", "neighbour_optima"]

# Rows of the sample that starts the solver and that its model of the curvature comes from: an
# eighth of the data, within these limits; with fewer rows than the first, all of them.
_SAMPLE_ROWS = (1024, 8192)
# The sample is solved until its gradient is this fraction of the first: its optimum is no closer
# to the optimum of all records than that.
_SAMPLE_TOLERANCE = 0.01
# Up to this many parameters per column of scores their Gram matrix is formed and factored.
_LARGEST_GRAM = 1100
# Pairs of steps and gradient differences that L-BFGS keeps.
_MEMORY = 10
# Passes over the records after which the fast method gives up. It needs about ten.
_MAX_PASSES = 500
# Columns of scores, m k, that are computed together in one pass: more would leave the cache.
_MAX_COLUMNS = 256

_Apply = Callable[[np.ndarray], np.ndarray]


def minimize(
    loss: Loss,
    rows: RowBlocks,
    codes: np.ndarray,
    *,
    alpha: float,
    tolerance: float,
    max_norm: float,
    class_weight: np.ndarray | None = None,
    center: np.ndarray | None = None,
    fit_intercept: bool = True,
) -> np.ndarray:
    r"""Minimise the mean loss plus ``alpha/2 ||theta - center||^2``.

    Parameters
    ----------
    loss : Loss
        The loss, which knows the number of classes.
    rows : RowBlocks
        The records; clipped to a ball of radius `rows.norm_bound`, not None.
    codes : ndarray of int of shape (n,)
        Class codes.
    alpha : float
        Regularisation, > 0.
    tolerance : float
        Largest norm of the gradient at the result; at least four times the bound on the rounding
        error of the gradient, which the caller has checked.
    max_norm : float
        R, a bound on the norm of the minimiser of each problem.
    class_weight : ndarray of shape (n_classes,) or None, default=None
        Weights > 0 whose mean over the records is one; None is one for all.
    center : ndarray of shape (k, q) or None, default=None
        Public parameters to regularise towards; None is zero.
    fit_intercept : bool, default=True
        Append the constant feature 1 to the rows.

    Returns
    -------
    ndarray of shape (k, q)
        A point with ``||grad F|| <= tolerance``, hence within ``tolerance / alpha`` of the
        minimiser (see the module docstring).

    Notes
    -----
    L-BFGS, preconditioned with the inverse of a model of the second derivative that comes from a
    sample of the rows, and started at the approximate minimiser for this sample. It needs some
    five to ten passes over the records where unpreconditioned L-BFGS needs twenty to sixty.

    If it does not arrive, gradient descent with step ``1/(alpha + L)`` takes over, L the
    Lipschitz constant of the loss gradient, and always arrives. Proof: let e bound the error of
    the computed gradient and g be the exact one. While ``||g|| > 2e`` a step lowers F by at
    least ``(||g||^2 - e^2)/(2(alpha + L)) >= 3 ||g||^2/(8(alpha + L))``, which is at least a
    fraction ``3 alpha/(4(alpha + L))`` of ``F - F*``, since ``||g||^2 >= 2 alpha (F - F*)``. F is
    bounded below, so some iterate has ``||g|| <= 2e``, and its computed gradient is at most
    ``3e < tolerance``. The iterates stay within 2R: each step shrinks the distance to theta* by
    the factor ``1 - alpha/(alpha + L)`` up to an error of ``e/(alpha + L)``, the distance is at
    most R at the start, where the start is 0 or has ``||g|| <= alpha R``, and ``e <= alpha R``.
    """
    objective = _Objective(loss, rows, codes, alpha, class_weight, center, fit_intercept)
    sample = objective.sample()
    start = objective.center[None]
    slope = np.linalg.norm(sample(start, np.arange(1))[1])
    rough = max(tolerance, _SAMPLE_TOLERANCE * slope)
    start, _ = _lbfgs(sample, start, _scaling(sample), rough, max_norm)
    return _solve(objective, start, sample.inverse_curvature(start[0]), tolerance, max_norm)[0]


def neighbour_optima(
    loss: Loss,
    rows: RowBlocks,
    codes: np.ndarray,
    index: int,
    candidates: RowBlocks,
    *,
    alpha: float,
    tolerance: float,
    max_norm: float,
    class_weight: np.ndarray | None = None,
    center: np.ndarray | None = None,
    fit_intercept: bool = True,
) -> np.ndarray:
    """Minimisers for data sets in which one record is replaced, all at once.

    Parameters
    ----------
    loss, rows, codes, alpha, tolerance, max_norm, class_weight, center, fit_intercept
        As in `minimize`; `rows` and `codes` are the base data set.
    index : int
        Which record is replaced; its label stays.
    candidates : RowBlocks
        The m records that take its place, one in each data set; clipped like `rows`.

    Returns
    -------
    ndarray of shape (m, k, q)
        For each data set a point with gradient norm at most `tolerance`, as from `minimize`.

    Notes
    -----
    The base optimum is found once and the curvature there is modelled once, from all records
    (exactly, for one column of scores). The optima of the neighbours are O(1/n) away: a Newton
    step from the base optimum, for which only the replaced record matters, leaves an error of
    about the tolerance, and one to three passes over the records, each for all data sets, finish
    and certify them. Each data set is held to its own stopping rule, with the same fallback.
    """
    base = _Objective(loss, rows, codes, alpha, class_weight, center, fit_intercept)
    start = minimize(
        loss,
        rows,
        codes,
        alpha=alpha,
        tolerance=tolerance,
        max_norm=max_norm,
        class_weight=class_weight,
        center=center,
        fit_intercept=fit_intercept,
    )[None]
    inverse_curvature = base.inverse_curvature(start[0])
    replacements = candidates.clipped()
    together = max(1, _MAX_COLUMNS // loss.n_scores)
    return np.concatenate(
        [
            _solve(
                base.with_replaced(index, replacements[first : first + together]),
                start,
                inverse_curvature,
                tolerance,
                max_norm,
            )
            for first in range(0, len(replacements), together)
        ]
    )


class _Objective:
    """The function F for one data set, or for m that differ in one record.

    Calling it with parameters of shape (m', k, q) and the numbers of m' data sets returns the
    values per problem, of shape (m', v, 1), and the gradients, of shape (m', k, q). A single
    point, of shape (1, k, q), is evaluated for all these data sets in one cheap pass.
    """

    def __init__(
        self,
        loss: Loss,
        rows: RowBlocks,
        codes: np.ndarray,
        alpha: float,
        class_weight: np.ndarray | None,
        center: np.ndarray | None,
        fit_intercept: bool,
    ):
        self.loss = loss
        self.rows = rows
        self.codes = codes
        self.alpha = alpha
        shape = (loss.n_scores, rows.n_features + fit_intercept)
        self.center = np.zeros(shape) if center is None else center
        per_class = np.ones(loss.n_classes) if class_weight is None else class_weight
        self.weights = per_class[codes] / rows.n_rows
        self.replacements = np.zeros((1, 0))

    def sample(self) -> "_Objective":
        """The same for a fixed pseudo-random sample of the rows, or for all if they are few."""
        n = self.rows.n_rows
        size = min(max(n // 8, _SAMPLE_ROWS[0]), _SAMPLE_ROWS[1])
        if size >= n:
            return self
        # The choice must not follow the order of the rows, which may be sorted or interleaved.
        chosen = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
        part = self._copy()
        part.rows = self.rows.take(chosen)
        part.codes = self.codes[chosen]
        part.weights = self.weights[chosen] * (n / size)
        return part

    def with_replaced(self, index: int, replacements: np.ndarray) -> "_Objective":
        """The same for m data sets: row `index` is replaced by each of m clipped dense rows."""
        result = self._copy()
        result.label = self.codes[[index]]
        result.label_weight = self.weights[index]
        result.weights = self.weights.copy()
        result.weights[index] = 0.0
        ones = np.ones((len(replacements), self.center.shape[1] - replacements.shape[1]))
        result.replacements = np.hstack([replacements, ones])
        return result

    def _copy(self) -> "_Objective":
        result = object.__new__(_Objective)
        result.__dict__.update(self.__dict__)
        return result

    @property
    def curvature_bound(self) -> float:
        """A bound on the second derivative of F: alpha + L."""
        augmented = self.rows.norm_bound**2 + self.center.shape[1] - self.rows.n_features
        return self.alpha + self.loss.curvature_bound * augmented

    def __call__(self, theta: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m, k, q = theta.shape

        def pointwise(part: slice, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            # One column for each pair of a data set and a score, to (m, b, k) and back.
            scores = scores.T.reshape(m, k, -1).swapaxes(1, 2)
            values, slopes = self.loss.value_and_slope(scores, self.codes[part])
            weights = self.weights[part]
            slopes *= weights[:, None]
            return weights @ values, slopes.swapaxes(1, 2).reshape(m * k, -1).T

        value, gradient = self.rows.linear_sums(theta.reshape(m * k, q), pointwise)
        gradient = gradient.reshape(m, k, q)
        if self.replacements.size:
            z = self.replacements[which]
            scores = np.vecdot(theta, z[:, None])[:, None]
            values, slopes = self.loss.value_and_slope(scores, self.label)
            value = value + self.label_weight * values[:, 0]
            gradient = gradient + self.label_weight * slopes.swapaxes(1, 2) * z[:, None]
        offset = theta - self.center
        squares = np.vecdot(offset, offset)
        if not self.loss.separable:
            squares = squares.sum(axis=1, keepdims=True)
        return (value + self.alpha / 2 * squares)[..., None], gradient + self.alpha * offset

    def inverse_curvature(self, theta: np.ndarray) -> _Apply:
        """A model of the inverse of the second derivative at theta, as a function.

        The model is the same for all columns of scores: the inverse of
        ``sum_i w_i c_i z_i z_i^T + alpha``, c_i the mean curvature of the loss of record i. For
        one column that is exact. For more, a model with one matrix per column, or with the mean
        (k, k) curvature as a Kronecker factor, saves no pass.
        """
        if theta.shape[1] > _LARGEST_GRAM:
            return _scaling(self)

        def pointwise(part: slice, scores: np.ndarray) -> np.ndarray:
            return self.weights[part] * self.loss.mean_curvature(scores, self.codes[part])

        hessian = self.rows.gram(theta, pointwise)
        hessian[np.diag_indices_from(hessian)] += self.alpha
        # Not a Cholesky factor: numpy cannot solve with one, and scipy has BLAS threads of its
        # own, which compete with numpy's for the processors and slow the passes down tenfold.
        inverse = np.linalg.inv(hessian)
        return lambda g: g @ inverse


def _scaling(objective: _Objective) -> _Apply:
    return lambda g: g / objective.curvature_bound


def _solve(
    objective: _Objective,
    start: np.ndarray,
    inverse_curvature: _Apply,
    tolerance: float,
    max_norm: float,
) -> np.ndarray:
    """Points of shape (m, k, q) with gradient norms at most `tolerance`, from one start."""
    # The computed norm of a gradient of p entries is off by p u at most.
    tolerance *= 1 - start.size * 2.0**-52
    theta, unfinished = _lbfgs(objective, start, inverse_curvature, tolerance, max_norm)
    if unfinished.size:
        theta[unfinished] = _gradient_descent(
            objective, theta[unfinished], unfinished, tolerance, max_norm
        )
    return theta


def _lbfgs(
    objective: _Objective,
    start: np.ndarray,
    inverse_curvature: _Apply,
    tolerance: float,
    max_norm: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Preconditioned L-BFGS for all problems of m data sets, one pass over the records a step.

    Parameters
    ----------
    objective : _Objective
        The m objectives.
    start : ndarray of shape (1, k, q)
        Where all of them start.
    inverse_curvature : callable
        First model of the inverse of the second derivative.
    tolerance, max_norm : float
        As in `minimize`.

    Returns
    -------
    theta : ndarray of shape (m, k, q)
        Last accepted point of each data set.
    unfinished : ndarray of int
        Numbers of the data sets whose gradient is not below the tolerance.

    Notes
    -----
    The problems share the passes and nothing else. In a pass each is evaluated at one trial
    point, ``theta + step * direction``. It is accepted on sufficient decrease (Armijo), or where
    the values are equal up to rounding by the slope along the direction, which is still accurate
    (Hager and Zhang's approximate Wolfe condition), or when the gradient is small enough to stop.
    Otherwise the problem keeps its point and direction, and tries a shorter step in the next
    pass.
    """
    m, k, q = max(len(objective.replacements), 1), *start.shape[1:]
    inner = (-1, k, q) if objective.loss.separable else (-1, 1, k * q)

    def evaluate(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = objective(point.reshape(-1, k, q), which)
        return value, gradient.reshape(inner)

    def solved(gradient: np.ndarray) -> np.ndarray:
        return np.linalg.norm(gradient, axis=(1, 2)) <= tolerance

    result = np.repeat(start, m, axis=0)
    which, unfinished = np.arange(m), []
    value, gradient = evaluate(start)
    theta = result.reshape(inner)
    step = np.ones_like(value)
    scale = np.ones_like(value)
    history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for passes in range(_MAX_PASSES + 1):
        done = solved(gradient)
        stuck = ~done & ((step < 1e-9).any(axis=(1, 2)) | (passes == _MAX_PASSES))
        unfinished.extend(which[stuck])
        leave = done | stuck
        if leave.any():
            result[which[leave]] = theta[leave].reshape(-1, k, q)
            stay = ~leave
            history = [(s[stay], y[stay], rho[stay]) for s, y, rho in history]
            theta, value, gradient, step, scale, which = (
                a[stay] for a in (theta, value, gradient, step, scale, which)
            )
        if not len(which):
            break

        def precondition(g: np.ndarray) -> np.ndarray:
            return inverse_curvature(g.reshape(-1, k, q)).reshape(g.shape)

        direction = _direction(gradient, history, precondition, scale)
        trial = theta + step * direction
        trial_value, trial_gradient = evaluate(trial)
        slope, trial_slope = _dot(direction, gradient), _dot(direction, trial_gradient)
        accept = trial_value <= value + 1e-4 * step * slope
        accept |= (trial_value <= value * (1 + 1e-12)) & (np.abs(trial_slope) <= -0.8 * slope)
        accept |= solved(trial_gradient)[:, None, None]
        accept &= _dot(trial, trial) <= 4 * max_norm**2

        moved = np.where(accept, trial - theta, 0.0)
        change = np.where(accept, trial_gradient - gradient, 0.0)
        product = _dot(moved, change)
        # Strong convexity makes the product positive; rounding can spoil it in tiny steps.
        usable = accept & (product > objective.alpha / 2 * _dot(moved, moved))
        rho = np.divide(1.0, product, where=usable, out=np.zeros_like(product))
        history = [*history[1 - _MEMORY :], (moved, change, rho)]
        fit = _dot(change, precondition(change))
        scale = np.divide(product, fit, where=usable, out=scale)
        # A rejected step is shortened to the minimum of the parabola through the two slopes.
        shorter = step * np.clip(slope / np.minimum(slope - trial_slope, slope), 0.1, 0.5)
        step = np.where(accept, 1.0, shorter)
        theta = np.where(accept, trial, theta)
        value = np.where(accept, trial_value, value)
        gradient = np.where(accept, trial_gradient, gradient)
    return result, np.array(unfinished, dtype=int)


def _direction(
    gradient: np.ndarray,
    history: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    precondition: _Apply,
    scale: np.ndarray,
) -> np.ndarray:
    """The two-loop recursion; pairs with rho = 0, from rejected steps, change nothing."""
    direction = -gradient
    weights = []
    for moved, change, rho in reversed(history):
        weights.append(rho * _dot(moved, direction))
        direction = direction - weights[-1] * change
    direction = scale * precondition(direction)
    for (moved, change, rho), weight in zip(history, reversed(weights), strict=True):
        direction += (weight - rho * _dot(change, direction)) * moved
    return direction


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.vecdot(a, b)[..., None]


def _gradient_descent(
    objective: _Objective,
    theta: np.ndarray,
    which: np.ndarray,
    tolerance: float,
    max_norm: float,
) -> np.ndarray:
    """Gradient descent with step ``1/(alpha + L)``: slow and certain, see `minimize`."""
    theta = theta.copy()
    result = np.empty_like(theta)
    running = np.arange(len(which))
    _, gradient = objective(theta, which)
    # The proof needs a start whose distance to the optimum is at most R.
    per_problem = (1, 2) if not objective.loss.separable else (2,)
    far = (
        np.linalg.norm(gradient, axis=per_problem, keepdims=True) > 0.9 * objective.alpha * max_norm
    )
    theta = np.where(far, 0.0, theta)
    while running.size:
        _, gradient = objective(theta, which[running])
        done = np.linalg.norm(gradient, axis=(1, 2)) <= tolerance
        result[running[done]] = theta[done]
        running, theta, gradient = running[~done], theta[~done], gradient[~done]
        theta = theta - gradient / objective.curvature_bound
    return result
