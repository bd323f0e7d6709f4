"""The solver against independent gradients, scikit-learn and direct refits."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skballdp.data import RowBlocks, longest_product_sum
from skballdp.erm import solver
from skballdp.erm.losses import BinaryLogistic, Softmax, SquaredHinge
from skballdp.erm.sensitivity import gradient_error, minimizer_radius
from skballdp.erm.solver import Objective, minimize, neighbour_optima

LOSSES = [
    pytest.param(BinaryLogistic(2), id="logistic"),
    pytest.param(Softmax(4), id="softmax"),
    pytest.param(SquaredHinge(2), id="hinge-2"),
    pytest.param(SquaredHinge(4), id="hinge-4"),
]
FAR = 1e6  # a bound on the norm of the minimiser that never matters


def _data(loss, *, n=600, d=12, seed=0, sparse=False):
    """Clustered rows, a third of them longer than 1, and their classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(loss.n_classes, size=n)
    centers = rng.standard_normal((loss.n_classes, d))
    X = rng.standard_normal((n, d)) + centers[codes]
    if sparse:
        X *= rng.random((n, d)) < 0.3
    X *= rng.uniform(0.2, 1.4, size=(n, 1)) / np.maximum(
        np.linalg.norm(X, axis=1, keepdims=True), 1e-9
    )
    return X, codes


def _rows(X, norm_bound=1.0):
    return RowBlocks(X, norm_bound=norm_bound)


def _clip(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)


def _gradient(theta, loss, X, codes, *, alpha, class_weight=None, center=None, intercept=True):
    """Gradient of the objective from its definition, in one piece and without the package."""
    Z = np.hstack([_clip(X), np.ones((len(X), 1))]) if intercept else _clip(X)
    scores = Z @ theta.T
    if isinstance(loss, SquaredHinge):
        own = codes[:, None] == (1 if loss.n_classes == 2 else np.arange(loss.n_classes))
        sign = np.where(own, 1.0, -1.0)
        slopes = -2 * sign * np.maximum(1 - sign * scores, 0)
    else:
        if loss.n_classes == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        slopes = softmax(scores, axis=1) - np.eye(loss.n_classes)[codes]
        slopes = slopes[:, -theta.shape[0] :]
    weights = np.ones(loss.n_classes) if class_weight is None else class_weight
    center = 0.0 if center is None else center
    return (slopes * weights[codes][:, None]).T @ Z / len(X) + alpha * (theta - center)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("alpha", [10.0, 1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("intercept", [True, False])
def test_gradient_norm_is_below_the_tolerance(loss, alpha, intercept):
    X, codes = _data(loss)
    tolerance = 1e-9
    objective = Objective.of(loss, _rows(X), codes, alpha=alpha, fit_intercept=intercept)
    theta = minimize(objective, tolerance=tolerance, max_norm=FAR)
    assert theta.shape == (loss.n_scores, 12 + intercept)
    gradient = _gradient(theta, loss, X, codes, alpha=alpha, intercept=intercept)
    assert np.linalg.norm(gradient) <= tolerance * (1 + 1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_sampling_and_blocks_do_not_change_the_promise(loss):
    X, codes = _data(loss, n=15_000, d=400)
    order = np.argsort(codes)  # sorted by class: a prefix would not be a sample
    X, codes = X[order], codes[order]
    objective = Objective.of(loss, _rows(X), codes, alpha=0.01)
    theta = minimize(objective, tolerance=1e-8, max_norm=FAR)
    gradient = _gradient(theta, loss, X, codes, alpha=0.01)
    assert np.linalg.norm(gradient) <= 1.001e-8


@pytest.mark.parametrize("loss", LOSSES)
def test_class_weights_and_center(loss):
    X, codes = _data(loss)
    rng = np.random.default_rng(5)
    class_weight = rng.uniform(0.2, 3, size=loss.n_classes)
    class_weight /= class_weight[codes].mean()
    center = rng.standard_normal((loss.n_scores, 13))
    objective = Objective.of(
        loss, _rows(X), codes, alpha=0.03, class_weight=class_weight, center=center
    )
    theta = minimize(objective, tolerance=1e-10, max_norm=FAR)
    gradient = _gradient(
        theta, loss, X, codes, alpha=0.03, class_weight=class_weight, center=center
    )
    assert np.linalg.norm(gradient) <= 1.001e-10


@pytest.mark.parametrize("loss", LOSSES)
def test_wide_rows_are_solved_without_a_gram_matrix(loss, monkeypatch):
    monkeypatch.setattr(solver, "_LARGEST_GRAM", 3)
    monkeypatch.setattr(RowBlocks, "gram", None)
    X, codes = _data(loss)
    theta = minimize(Objective.of(loss, _rows(X), codes, alpha=0.01), tolerance=1e-9, max_norm=FAR)
    assert np.linalg.norm(_gradient(theta, loss, X, codes, alpha=0.01)) <= 1.001e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_storage_of_the_rows_does_not_matter(loss):
    X, codes = _data(loss, n=3000, d=30, sparse=True)
    X = X.astype(np.float32)  # so that all of them hold the same numbers
    tolerance, alpha = 1e-10, 0.02
    thetas = [
        minimize(
            Objective.of(loss, _rows(Z), codes, alpha=alpha), tolerance=tolerance, max_norm=FAR
        )
        for Z in (X.astype(float), X, sp.csr_array(X), sp.csr_array(X.astype(float)))
    ]
    for theta in thetas[1:]:
        assert np.linalg.norm(theta - thetas[0]) <= 2 * tolerance / alpha * 1.01


def test_integer_rows_are_clipped_in_float():
    rng = np.random.default_rng(0)
    X, codes = rng.integers(-3, 4, size=(200, 5)), rng.integers(2, size=200)
    loss = BinaryLogistic(2)
    theta = minimize(Objective.of(loss, _rows(X), codes, alpha=0.1), tolerance=1e-10, max_norm=FAR)
    assert np.linalg.norm(_gradient(theta, loss, X, codes, alpha=0.1)) <= 1.001e-10


@pytest.mark.parametrize("loss", LOSSES[:2])
@pytest.mark.parametrize("intercept", [True, False])
def test_agrees_with_sklearn_logistic_regression(loss, intercept):
    X, codes = _data(loss)
    alpha = 0.01
    Z = np.hstack([_clip(X), np.ones((len(X), 1))]) if intercept else _clip(X)
    reference = LogisticRegression(
        C=1 / (alpha * len(X)), fit_intercept=False, tol=1e-12, solver="newton-cg", max_iter=1000
    ).fit(Z, codes)
    objective = Objective.of(loss, _rows(X), codes, alpha=alpha, fit_intercept=intercept)
    theta = minimize(objective, tolerance=1e-10, max_norm=FAR)
    np.testing.assert_allclose(theta, reference.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES[2:])
def test_agrees_with_sklearn_linear_svc(loss):
    X, codes = _data(loss)
    alpha = 0.01
    Z = np.hstack([_clip(X), np.ones((len(X), 1))])
    # scikit-learn minimises ||theta||^2/2 + C sum of losses.
    reference = LinearSVC(
        C=1 / (alpha * len(X)), dual=False, fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(Z, codes)
    theta = minimize(
        Objective.of(loss, _rows(X), codes, alpha=alpha), tolerance=1e-10, max_norm=FAR
    )
    np.testing.assert_allclose(theta, reference.coef_, atol=1e-6)


def test_two_class_softmax_is_binary_logistic_with_twice_the_regularisation():
    # The minimiser over two columns is (-t/2, t/2), with ||.||^2 = t^2/2.
    X, codes = _data(BinaryLogistic(2))
    one = minimize(
        Objective.of(BinaryLogistic(2), _rows(X), codes, alpha=0.01), tolerance=1e-11, max_norm=FAR
    )
    # Three classes of which the last has no records and is held away by a public intercept.
    center = np.zeros((3, 13))
    center[2, -1] = -1e3
    two = minimize(
        Objective.of(Softmax(3), _rows(X), codes, alpha=0.02, center=center),
        tolerance=1e-11,
        max_norm=FAR,
    )
    np.testing.assert_allclose(two[1] - two[0], one[0], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_descent_takes_over(loss, monkeypatch):
    X, codes = _data(loss)
    monkeypatch.setattr(solver, "_MAX_PASSES", 0)
    objective = Objective.of(loss, _rows(X), codes, alpha=1.0)
    theta = minimize(objective, tolerance=1e-8, max_norm=10.0)
    assert np.linalg.norm(_gradient(theta, loss, X, codes, alpha=1.0)) <= 1.001e-8
    optima = neighbour_optima(objective, 5, _rows(X[:3]), tolerance=1e-8, max_norm=10.0)
    for theta, row in zip(optima, X[:3], strict=True):
        changed = X.copy()
        changed[5] = row
        assert np.linalg.norm(_gradient(theta, loss, changed, codes, alpha=1.0)) <= 1.001e-8


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_descent_starts_again_from_zero_where_its_proof_needs_it(loss, monkeypatch):
    X, codes = _data(loss)
    objective = Objective.of(loss, _rows(X), codes, alpha=1.0)
    far = np.full((1, *objective.center.shape), 100.0)
    visited = []
    call = Objective.__call__
    monkeypatch.setattr(
        Objective, "__call__", lambda self, *args: visited.append(args[0]) or call(self, *args)
    )
    solver._gradient_descent(objective, far, np.arange(1), 1e-6, 2.0)
    assert np.all(visited[1] == 0) and len(visited) > 3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
def test_steps_of_gradient_descent_are_short_enough_for_any_rows(loss, intercept):
    X, codes = _data(loss)
    objective = Objective.of(loss, _rows(X, 2.0), codes, alpha=0.3, fit_intercept=intercept)
    c = {BinaryLogistic: 1 / 4, Softmax: 1 / 2, SquaredHinge: 2}[type(loss)]
    assert objective.curvature_bound == pytest.approx(0.3 + c * (4 + intercept), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_descent_does_not_take_over_where_it_would_never_end(loss, monkeypatch):
    # Of a million steps and more; the fast method goes on instead.
    X, codes = _data(loss)
    monkeypatch.setattr(solver, "_LARGEST_GRAM", 3)  # no model of the curvature: many passes
    monkeypatch.setattr(solver, "_MAX_PASSES", 20)
    monkeypatch.setattr(solver, "_gradient_descent", None)
    theta = minimize(Objective.of(loss, _rows(X), codes, alpha=1e-6), tolerance=1e-9, max_norm=FAR)
    assert np.linalg.norm(_gradient(theta, loss, X, codes, alpha=1e-6)) <= 1.001e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_a_misleading_model_of_the_curvature_does_no_harm(loss, monkeypatch):
    # Directions that are useless, or not even descent directions.
    X, codes = _data(loss)
    for bad in (1e6 * np.eye(13), -np.eye(13)):
        monkeypatch.setattr(Objective, "inverse_curvature", lambda self, theta, bad=bad: bad)
        objective = Objective.of(loss, _rows(X), codes, alpha=0.3)
        theta = minimize(objective, tolerance=1e-8, max_norm=10.0)
        assert np.linalg.norm(_gradient(theta, loss, X, codes, alpha=0.3)) <= 1.001e-8


@pytest.mark.parametrize("loss", LOSSES)
def test_points_beyond_twice_the_bound_are_rejected(loss):
    # The rounding bound ends there. With an R that is too small (a caller never gives one) the
    # fast method stops at that sphere and says so.
    X, codes = _data(loss)
    objective = Objective.of(loss, _rows(X), codes, alpha=0.01)
    theta = minimize(objective, tolerance=1e-9, max_norm=FAR)
    problem = 1 if loss.separable else None
    max_norm = 0.4 * np.linalg.norm(theta, axis=problem).max()
    found, unfinished = solver._lbfgs(objective, np.zeros((1, *theta.shape)), None, 1e-9, max_norm)
    np.testing.assert_array_equal(unfinished, [0])
    assert np.all(np.linalg.norm(found[0], axis=problem) <= 2 * max_norm * (1 + 1e-12))
    assert np.linalg.norm(found) > max_norm


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
def test_neighbours_equal_direct_refits(loss, intercept):
    X, codes = _data(loss)
    rng = np.random.default_rng(1)
    alpha, tolerance, index = 0.01, 1e-9, 17
    class_weight = rng.uniform(0.5, 2, size=loss.n_classes)
    class_weight /= class_weight[codes].mean()
    center = 0.1 * rng.standard_normal((loss.n_scores, 12 + intercept))
    candidates = np.vstack([X[index], 3 * rng.standard_normal((6, 12)), np.zeros(12)])
    keywords = {
        "alpha": alpha,
        "class_weight": class_weight,
        "center": center,
        "fit_intercept": intercept,
    }
    optima = neighbour_optima(
        Objective.of(loss, _rows(X), codes, **keywords),
        index,
        _rows(candidates),
        tolerance=tolerance,
        max_norm=FAR,
    )
    assert optima.shape == (len(candidates), loss.n_scores, 12 + intercept)
    for theta, row in zip(optima, candidates, strict=True):
        changed = X.copy()
        changed[index] = row
        gradient = _gradient(
            theta,
            loss,
            changed,
            codes,
            alpha=alpha,
            class_weight=class_weight,
            center=center,
            intercept=intercept,
        )
        assert np.linalg.norm(gradient) <= tolerance * (1 + 1e-3)
        refit = minimize(
            Objective.of(loss, _rows(changed), codes, **keywords),
            tolerance=tolerance,
            max_norm=FAR,
        )
        assert np.linalg.norm(theta - refit) <= 2 * tolerance / alpha * 1.01


def test_neighbours_in_groups_and_from_csr(monkeypatch):
    loss = Softmax(4)
    X, codes = _data(loss, sparse=True)
    keywords = {"tolerance": 1e-10, "max_norm": FAR}
    dense = neighbour_optima(
        Objective.of(loss, _rows(X), codes, alpha=0.1), 3, _rows(X[100:107]), **keywords
    )
    monkeypatch.setattr(solver, "_MAX_COLUMNS", 9)  # two data sets at a time
    rows = sp.csr_array(X)
    sparse = neighbour_optima(
        Objective.of(loss, _rows(rows), codes, alpha=0.1), 3, _rows(rows[100:107]), **keywords
    )
    np.testing.assert_allclose(dense, sparse, atol=2.1e-9)


def test_hinge_candidates_beyond_the_margin_are_tied():
    # Records with a margin above one at their own optimum do not move it: the same optimum.
    rng = np.random.default_rng(2)
    X = np.vstack([[0.95, 0.0], 0.2 * rng.standard_normal((50, 2)) + [-0.6, 0]])
    X = np.vstack([X, 0.2 * rng.standard_normal((50, 2)) + [0.6, 0]])
    codes = np.r_[1, np.zeros(50, dtype=int), np.ones(50, dtype=int)]
    alpha, tolerance = 1e-3, 1e-10
    candidates = np.array([[0.95, 0.1], [0.9, -0.2], [-0.5, 0.0]])
    optima = neighbour_optima(
        Objective.of(SquaredHinge(2), _rows(X), codes, alpha=alpha),
        0,
        _rows(candidates),
        tolerance=tolerance,
        max_norm=FAR,
    )
    margins = np.einsum("ikq,iq->i", optima, np.hstack([candidates, np.ones((3, 1))]))
    assert np.all(margins[:2] > 1) and margins[2] < 1
    within = 2 * tolerance / alpha
    assert np.linalg.norm(optima[0] - optima[1]) <= within
    assert np.linalg.norm(optima[0] - optima[2]) > 100 * within


def test_rows_on_the_kink_of_the_hinge():
    # Every margin is exactly one at the optimum's limit: curvature jumps at each step.
    X = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 100, axis=0)
    codes = np.repeat([1, 0], 100)
    for alpha in (1e-2, 1e-6):
        objective = Objective.of(SquaredHinge(2), _rows(X), codes, alpha=alpha)
        theta = minimize(objective, tolerance=1e-11, max_norm=2.0)
        np.testing.assert_allclose(theta, [[2 / (2 + alpha), 0, 0]], atol=1.01e-11 / alpha)


def test_unbounded_rows_are_refused():
    objective = Objective.of(
        BinaryLogistic(2), RowBlocks(np.eye(2), norm_bound=None), np.array([0, 1]), alpha=1.0
    )
    with pytest.raises(ValueError, match="norm_bound"):
        minimize(objective, tolerance=1e-6, max_norm=1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_error_bounds_the_error_of_the_gradient(loss):
    # Against extended precision; the bound is a worst case, so far above what happens.
    n, d, alpha = 3000, 50, 0.01
    X, codes = _data(loss, n=n, d=d)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((loss.n_scores, d + 1))
    objective = Objective.of(loss, _rows(X), codes, alpha=alpha)
    computed = objective(theta[None], np.arange(1))[1][0]
    factors = np.concatenate([block.weights for block in objective.rows.blocks()])
    rows = X.astype(np.longdouble) * factors[:, None]
    # Rows within the ball by 1e-16: the clipping in `_gradient` is by a factor of one.
    exact = _gradient_of_clipped(theta.astype(np.longdouble), loss, rows, codes, alpha)
    name = {BinaryLogistic: "logistic", Softmax: "softmax"}.get(type(loss), "squared_hinge")
    shape = {"alpha": alpha, "norm_bound": 1.0, "n_classes": loss.n_classes}
    norms = np.linalg.norm(theta, axis=1) if loss.separable else np.linalg.norm(theta)
    theta_norm = float(np.max(norms))
    assert theta_norm <= 2 * minimizer_radius(name, **shape)
    bound = gradient_error(name, n_terms=longest_product_sum(n, d), n_features=d, **shape)
    error = float(np.linalg.norm((computed - exact).astype(float)))
    assert 0 < error < bound < 1e-8


def _gradient_of_clipped(theta, loss, rows, codes, alpha):
    Z = np.hstack([rows, np.ones((len(rows), 1))])
    scores = Z @ theta.T
    if isinstance(loss, SquaredHinge):
        own = codes[:, None] == (1 if loss.n_classes == 2 else np.arange(loss.n_classes))
        sign = np.where(own, 1, -1)
        slopes = -2 * sign * np.maximum(1 - sign * scores, 0)
    else:
        if loss.n_classes == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        slopes = p / p.sum(axis=1, keepdims=True) - np.eye(loss.n_classes)[codes]
        slopes = slopes[:, -len(theta) :]
    return slopes.T @ Z / len(rows) + alpha * theta


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("norm_bound", [1e-20, 1.0, 1e20, 1e45])
def test_extreme_scales_raise_no_warning_and_keep_the_rule(loss, norm_bound):
    """Rows far beyond single precision: a warning would depend on the data."""
    X, codes = _data(loss, n=60, d=5)
    X = X * norm_bound
    X[0] *= 1e60
    alpha = 0.1 * max(norm_bound, 1.0) ** 2
    objective = Objective.of(loss, _rows(X, norm_bound), codes, alpha=alpha)
    tolerance = 1e-6 * max(norm_bound, 1.0)
    theta = minimize(objective, tolerance=tolerance, max_norm=FAR)
    gradient = objective(theta[None], np.arange(1))[1]
    assert np.linalg.norm(gradient) <= tolerance
