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

from dataclasses import dataclass, field, replace

import numpy as np

from skballdp.data import RowBlocks
from skballdp.erm.losses import Loss

__all__ = ["Objective", "descend", "minimize", "neighbour_optima"]

# Rows of the sample that starts the solver and that its model of the curvature comes from: a
# tenth of the data, within these limits; with fewer rows than the first, all of them.
_SAMPLE_ROWS = (1024, 8192)
# The sample is solved until its gradient has shrunk to this fraction: its optimum is no closer to
# the optimum of all records than that.
_SAMPLE_REDUCTION = 0.01
# Up to this many parameters per column of scores their Gram matrix is formed and factored.
_LARGEST_GRAM = 1100
# Pairs of steps and gradient differences that L-BFGS keeps.
_MEMORY = 20
# Passes over the records after which the fast method gives up; it needs about ten. For each
# thousand of L / alpha it may take as many again: gradient descent, which takes over, needs more.
_MAX_PASSES = 500
# Columns of scores, m k, that are computed together in one pass: more would leave the cache.
_MAX_COLUMNS = 256


@dataclass(frozen=True)
class Objective:
    """The function F for one data set, or for m that differ in one record.

    Calling it with parameters of shape (m', k, q) and the numbers of m' data sets returns the
    values per problem, of shape (m', v, 1), and the gradients, of shape (m', k, q). A single
    point, of shape (1, k, q), is evaluated for all these data sets in one cheap pass.

    Parameters
    ----------
    loss : Loss
        The loss, which knows the number of classes.
    rows : RowBlocks
        The n records, clipped to a ball (`rows.norm_bound` is not None).
    codes : ndarray of int of shape (n,)
        Class codes.
    weights : ndarray of shape (n,)
        Class weights over n, with sum one over the records; 0 for one that is replaced.
    alpha : float
        Regularisation, > 0.
    center : ndarray of shape (k, q)
        Parameters at which the regulariser is zero.
    replacements : ndarray of shape (m, q) or None, default=None
        Augmented record of each of m data sets that is not among `rows`; None stands for m = 1
        and no such record.
    label, label_weight : ndarray of shape (1,)
        Its code and weight, the same for all.
    """

    loss: Loss
    rows: RowBlocks
    codes: np.ndarray
    weights: np.ndarray
    alpha: float
    center: np.ndarray
    replacements: np.ndarray | None = None
    label: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=int))
    label_weight: np.ndarray = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(
        cls,
        loss: Loss,
        rows: RowBlocks,
        codes: np.ndarray,
        *,
        alpha: float,
        class_weight: np.ndarray | None = None,
        center: np.ndarray | None = None,
        fit_intercept: bool = True,
    ) -> "Objective":
        """The objective of one data set.

        Parameters
        ----------
        loss, rows, codes, alpha
            As in the class.
        class_weight : ndarray of shape (n_classes,) or None, default=None
            Weights > 0 with mean one over the records; None is one for all.
        center : ndarray of shape (k, q) or None, default=None
            Public parameters to regularise towards; None is zero.
        fit_intercept : bool, default=True
            Append the constant feature 1 to the rows.

        Returns
        -------
        Objective
            F of the module docstring.
        """
        if class_weight is None:
            class_weight = np.ones(loss.n_classes)
        if center is None:
            center = np.zeros((loss.n_scores, rows.n_features + fit_intercept))
        return cls(loss, rows, codes, class_weight[codes] / rows.n_rows, alpha, center)

    def sample(self) -> "Objective":
        """The same for a fixed pseudo-random sample of the rows, or for all if they are few."""
        n = self.rows.n_rows
        size = min(max(n // 10, _SAMPLE_ROWS[0]), _SAMPLE_ROWS[1])
        if size >= n:
            return self
        # The choice must not follow the order of the rows, which may be sorted or interleaved.
        chosen = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
        return replace(
            self,
            rows=self.rows.take(chosen),
            codes=self.codes[chosen],
            weights=self.weights[chosen] * (n / size),
        )

    def with_replaced(self, index: int, replacements: np.ndarray) -> "Objective":
        """The same for m data sets: row `index` is replaced by each of m clipped dense rows."""
        weights = self.weights.copy()
        weights[index] = 0.0
        ones = np.ones((len(replacements), self.center.shape[1] - replacements.shape[1]))
        return replace(
            self,
            weights=weights,
            replacements=np.hstack([replacements, ones]),
            label=self.codes[[index]],
            label_weight=self.weights[[index]],
        )

    @property
    def curvature_bound(self) -> float:
        """A bound on the second derivative of F: alpha + L."""
        if self.rows.norm_bound is None:
            raise ValueError("the gradient is Lipschitz only for rows in a ball; set norm_bound.")
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
        if self.replacements is not None:
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

    def inverse_curvature(self, theta: np.ndarray) -> np.ndarray | None:
        """A model of the inverse of the second derivative at theta, of shape (q, q).

        The model is the same for all columns of scores: the inverse of
        ``sum_i w_i c_i z_i z_i^T + alpha``, c_i the mean curvature of the loss of record i. For
        one column that is exact. For more, a model with one matrix per column, or with the mean
        (k, k) curvature as a Kronecker factor, saves no pass.
        """
        if theta.shape[1] > _LARGEST_GRAM:
            return None

        def pointwise(part: slice, scores: np.ndarray) -> np.ndarray:
            return self.weights[part] * self.loss.mean_curvature(scores, self.codes[part])

        hessian = self.rows.gram(theta, pointwise)
        # The second term keeps the single-precision matrix positive definite for any alpha.
        hessian[np.diag_indices_from(hessian)] += self.alpha + 1e-6 * np.trace(hessian)
        # Not a Cholesky factor: numpy cannot solve with one, and scipy has BLAS threads of its
        # own, which compete with numpy's for the processors and slow the passes down tenfold.
        return np.linalg.inv(hessian)


def minimize(objective: Objective, *, tolerance: float, max_norm: float) -> np.ndarray:
    r"""Minimise F for one data set.

    Parameters
    ----------
    objective : Objective
        F.
    tolerance : float
        Largest norm of the gradient at the result; at least four times the bound on the rounding
        error of the gradient, which the caller has checked.
    max_norm : float
        R, a bound on the norm of the minimiser of each problem.

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
    fraction ``3 alpha/(4(alpha + L))`` of ``F - F*``, since ``||g||^2 >= 2 alpha (F - F*)``. So
    F - F* falls geometrically, and with it ``||g||^2 <= 2(alpha + L)(F - F*)``, until some
    iterate has ``||g|| <= 2e``; its computed gradient is at most ``3e < tolerance``. The iterates
    stay within 2R: each step shrinks the distance to theta* by the factor
    ``1 - alpha/(alpha + L)`` up to an error of ``e/(alpha + L)``, the distance is at most R at
    the start, which is 0 or has ``||g|| <= alpha R``, and ``e <= alpha R``.
    """
    sample = objective.sample()
    start = _rough_optimum(sample, tolerance, max_norm)
    inverse_curvature = sample.inverse_curvature(start[0])
    del sample  # a copy of rows
    return _solve(objective, start, inverse_curvature, tolerance, max_norm)[0]


def descend(
    objective: Objective, start: np.ndarray, *, tolerance: float
) -> tuple[np.ndarray, bool]:
    """Go downhill from a point to a stationary one, for a loss that need not be convex.

    Parameters
    ----------
    objective : Objective
        F; its loss is non-negative, and `mean_curvature` of the loss is that of a convex majorant.
    start : ndarray of shape (k, q)
        Where to start.
    tolerance : float
        Largest norm of the gradient at the result.

    Returns
    -------
    theta : ndarray of shape (k, q)
        A point with ``F(theta) <= F(start)`` up to rounding.
    arrived : bool
        Whether the gradient there is below the tolerance; it is not a promise.

    Notes
    -----
    The L-BFGS of `minimize`. It keeps only pairs of steps and gradient differences along which F
    curves upwards, so that all directions lead down, convex or not, and accepts a step if F falls
    (up to a relative 1e-12) or the gradient vanishes. Where the latter led uphill, to a saddle, the
    start is returned. There is no bound on the distance to a minimiser, and no promise of privacy
    rests on the result.
    """
    inverse_curvature = objective.sample().inverse_curvature(start)
    theta, unfinished = _lbfgs(objective, start[None], inverse_curvature, tolerance, np.inf)
    before, after = (
        float(objective(point, np.arange(1))[0].sum()) for point in (start[None], theta)
    )
    if after > before * (1 + 1e-12):
        return start, False
    return theta[0], not unfinished.size


def neighbour_optima(
    objective: Objective,
    index: int,
    candidates: RowBlocks,
    *,
    tolerance: float,
    max_norm: float,
) -> np.ndarray:
    """Minimise F for data sets in which one record is replaced, all at once.

    Parameters
    ----------
    objective : Objective
        F for the base data set.
    index : int
        Which record is replaced; its label stays.
    candidates : RowBlocks
        The m records that take its place, one in each data set; clipped like the others.
    tolerance, max_norm : float
        As in `minimize`, for each data set.

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
    start = _rough_optimum(objective.sample(), tolerance, max_norm)
    inverse_curvature = objective.inverse_curvature(start[0])
    start = _solve(objective, start, inverse_curvature, tolerance, max_norm)
    replacements = candidates.clipped()
    together = max(1, _MAX_COLUMNS // objective.loss.n_scores)
    optima = [
        _solve(
            objective.with_replaced(index, replacements[first : first + together]),
            start,
            inverse_curvature,
            tolerance,
            max_norm,
        )
        for first in range(0, len(replacements), together)
    ]
    return np.concatenate(optima)


def _rough_optimum(sample: Objective, tolerance: float, max_norm: float) -> np.ndarray:
    """Where the solver starts, of shape (1, k, q): near the minimiser for a sample."""
    center = sample.center[None]
    return _lbfgs(sample, center, None, tolerance, max_norm, _SAMPLE_REDUCTION)[0]


def _solve(
    objective: Objective,
    start: np.ndarray,
    inverse_curvature: np.ndarray | None,
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
    objective: Objective,
    start: np.ndarray,
    inverse_curvature: np.ndarray | None,
    tolerance: float,
    max_norm: float,
    reduction: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Preconditioned L-BFGS for all problems of m data sets, one pass over the records a step.

    Parameters
    ----------
    objective : Objective
        The m objectives.
    start : ndarray of shape (1, k, q)
        Where all of them start.
    inverse_curvature : ndarray of shape (q, q) or None
        Model of the inverse of the second derivative; None is the usual multiple of the identity,
        from the last step.
    tolerance, max_norm : float
        As in `minimize`.
    reduction : float, default=0.0
        Stop as well at this fraction of the first gradient norm.

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
    _, k, q = start.shape
    inner = (-1, k, q) if objective.loss.separable else (-1, 1, k * q)

    def evaluate(point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        value, gradient = objective(point.reshape(-1, k, q), which)
        if inverse_curvature is None:
            newton = gradient / objective.curvature_bound
        else:
            newton = (gradient.reshape(-1, q) @ inverse_curvature).reshape(gradient.shape)
        return value, gradient.reshape(inner), newton.reshape(inner)

    m = 1 if objective.replacements is None else len(objective.replacements)
    which = np.arange(m)
    unfinished: list[int] = []
    value, gradient, newton = evaluate(start)
    tolerance = max(tolerance, reduction * float(np.linalg.norm(gradient)))
    result = np.repeat(start, m, axis=0)
    theta = result.reshape(inner)
    step, scale = np.ones_like(value), np.ones_like(value)
    history: list[tuple[np.ndarray, ...]] = []
    max_passes = _MAX_PASSES
    if reduction == 0:  # a rough start is not worth more
        conditioning = objective.curvature_bound / objective.alpha
        max_passes = int(_MAX_PASSES * max(1.0, conditioning / 1000))
    for passes in range(max_passes + 1):
        done = np.linalg.norm(gradient, axis=(1, 2)) <= tolerance
        stuck = ~done & ((step < 1e-9).any(axis=(1, 2)) | (passes == max_passes))
        unfinished.extend(which[stuck])
        leave = done | stuck
        if leave.any():
            result[which[leave]] = theta[leave].reshape(-1, k, q)
            stay = ~leave
            history = [tuple(a[stay] for a in pair) for pair in history]
            which, theta, value, gradient, newton, step, scale = (
                a[stay] for a in (which, theta, value, gradient, newton, step, scale)
            )
        if not len(which):
            break

        direction = _direction(gradient, newton, scale, history)
        trial = theta + step * direction
        trial_value, trial_gradient, trial_newton = evaluate(trial)
        slope, trial_slope = _dot(direction, gradient), _dot(direction, trial_gradient)
        accept = trial_value <= value + 1e-4 * step * slope
        accept |= (trial_value <= value * (1 + 1e-12)) & (np.abs(trial_slope) <= -0.8 * slope)
        accept |= _dot(trial_gradient, trial_gradient) <= tolerance**2 / inner[1]
        accept &= _dot(trial, trial) <= 4 * max_norm**2

        moved, change, newton_change = (
            np.where(accept, new - old, 0.0)
            for new, old in (
                (trial, theta),
                (trial_gradient, gradient),
                (trial_newton, newton),
            )
        )
        product = _dot(moved, change)
        # Strong convexity makes the product positive; rounding can spoil it in tiny steps.
        usable = accept & (product > objective.alpha / 2 * _dot(moved, moved))
        rho = np.divide(1.0, product, where=usable, out=np.zeros_like(product))
        scale = np.divide(product, _dot(change, newton_change), where=usable, out=scale)
        history = [*history[1 - _MEMORY :], (moved, change, newton_change, rho)]
        step = np.where(accept, 1.0, 0.4 * step)
        theta = np.where(accept, trial, theta)
        value = np.where(accept, trial_value, value)
        gradient = np.where(accept, trial_gradient, gradient)
        newton = np.where(accept, trial_newton, newton)
    return result, np.array(unfinished, dtype=int)


def _direction(
    gradient: np.ndarray,
    newton: np.ndarray,
    scale: np.ndarray,
    history: list[tuple[np.ndarray, ...]],
) -> np.ndarray:
    """The two-loop recursion of L-BFGS, with the model P of the inverse curvature applied before.

    `newton` is P times the gradient, and the history holds P times each change of it, so that P
    is applied once a pass. Pairs with rho = 0, from rejected steps, change nothing.
    """
    weights = []
    direction, modelled = -gradient, -newton
    for moved, change, newton_change, rho in reversed(history):
        weight = rho * _dot(moved, direction)
        direction = direction - weight * change
        modelled = modelled - weight * newton_change
        weights.append(weight)
    direction = scale * modelled
    for (moved, change, _, rho), weight in zip(history, reversed(weights), strict=True):
        direction += (weight - rho * _dot(change, direction)) * moved
    return direction


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.vecdot(a, b)[..., None]


def _gradient_descent(
    objective: Objective,
    theta: np.ndarray,
    which: np.ndarray,
    tolerance: float,
    max_norm: float,
) -> np.ndarray:
    """Gradient descent with step ``1/(alpha + L)``: slow and certain, see `minimize`."""
    result = np.empty_like(theta)
    running = np.arange(len(which))
    _, gradient = objective(theta, which)
    # The proof needs a start whose distance to the optimum is at most R.
    problem = 2 if objective.loss.separable else (1, 2)
    distance = np.linalg.norm(gradient, axis=problem, keepdims=True) / objective.alpha
    theta = np.where(distance < 0.9 * max_norm, theta, 0.0)
    while running.size:
        _, gradient = objective(theta, which[running])
        done = np.linalg.norm(gradient, axis=(1, 2)) <= tolerance
        result[running[done]] = theta[done]
        running, theta, gradient = running[~done], theta[~done], gradient[~done]
        theta = theta - gradient / objective.curvature_bound
    return result
