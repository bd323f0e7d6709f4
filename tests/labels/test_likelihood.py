"""Learning under known noise: the forward loss, the descent, EM and corrected probabilities."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skballdp import NoisyLabelLogisticRegression
from skballdp.data import RowBlocks
from skballdp.erm.losses import BinaryLogistic, Softmax
from skballdp.erm.solver import Objective, descend
from skballdp.labels import block_rr, rr, rr_top_k
from skballdp.labels.correction import correct_probabilities, fit_by_em, posterior_weights
from skballdp.labels.likelihood import ForwardLogistic

PRIOR = np.array([0.45, 0.35, 0.12, 0.08])


def noisy_blobs(n=1500, epsilon=1.0, K=4, seed=0):
    """Unbalanced Gaussian classes with labels under randomised response; all of it fixed."""
    rng = np.random.default_rng(seed)
    prior = PRIOR[:K] / PRIOR[:K].sum()
    y = rng.choice(K, n, p=prior)
    X = 2.0 * np.eye(K, 6)[y] + rng.standard_normal((n, 6))
    mechanism = rr(K, epsilon)
    return X / 4, y, mechanism.sample(y, 1), mechanism.matrix()


# ---- the loss ----------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 5])
def test_the_forward_loss_and_its_slopes(K):
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(K), K)
    loss, codes = ForwardLogistic(K, T), rng.integers(0, K, 30)
    scores = 3 * rng.standard_normal((2, 30, loss.n_scores))
    values, slopes = loss.value_and_slope(scores, codes)
    f = softmax(np.concatenate([0 * scores, scores], axis=-1) if K == 2 else scores, axis=-1)
    fitted = np.take_along_axis(f @ T, np.broadcast_to(codes[:, None], (2, 30, 1)), axis=-1)
    np.testing.assert_allclose(values, -np.log(fitted), rtol=1e-12)
    for column in range(loss.n_scores):
        step = np.zeros(loss.n_scores)
        step[column] = 1e-6
        up, _ = loss.value_and_slope(scores + step, codes)
        down, _ = loss.value_and_slope(scores - step, codes)
        np.testing.assert_allclose(slopes[..., column], (up - down)[..., 0] / 2e-6, atol=1e-8)


@pytest.mark.parametrize("K", [2, 5])
def test_without_noise_it_is_the_log_loss(K):
    rng = np.random.default_rng(0)
    plain = BinaryLogistic(2) if K == 2 else Softmax(K)
    loss, codes = ForwardLogistic(K, np.eye(K)), rng.integers(0, K, 30)
    scores = 30 * rng.standard_normal((30, loss.n_scores))
    for ours, expected in zip(
        loss.value_and_slope(scores, codes), plain.value_and_slope(scores, codes), strict=True
    ):
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    np.testing.assert_allclose(
        loss.mean_curvature(scores, codes), plain.mean_curvature(scores, codes), atol=1e-12
    )
    extreme = np.full((30, loss.n_scores), 1e300)
    assert np.all(np.isfinite(loss.value_and_slope(extreme, codes)[1]))


def test_the_descent_never_ends_above_its_start():
    X, _, z, T = noisy_blobs(300)
    rows = RowBlocks(X, norm_bound=10.0)
    weights, center = np.full(300, 1 / 300), np.zeros((4, 7))
    objective = Objective(ForwardLogistic(4, T), rows, z, weights, 1e-4, center)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0, 10.0, 100.0):
        start = scale * rng.standard_normal((4, 7))
        end, arrived = descend(objective, start, tolerance=1e-7)
        values, gradients = zip(
            *(objective(theta[None], np.arange(1)) for theta in (start, end)), strict=True
        )
        assert values[1].sum() <= values[0].sum() * (1 + 1e-12)
        assert arrived and np.linalg.norm(gradients[1]) <= 1e-7


def test_a_descent_that_ends_uphill_or_early_says_so(monkeypatch):
    X, _, z, T = noisy_blobs(60)
    rows, weights = RowBlocks(X, norm_bound=10.0), np.full(60, 1 / 60)
    start = np.zeros((4, 7))
    objective = Objective(ForwardLogistic(4, T), rows, z, weights, 1e-4, start)
    nothing, left = np.array([], dtype=int), np.array([0])
    for end, unfinished in ((start + 100.0 * np.eye(4, 7), nothing), (start, left)):
        result = end[None], unfinished
        monkeypatch.setattr("skballdp.erm.solver._lbfgs", lambda *_, result=result: result)
        theta, arrived = descend(objective, start, tolerance=1e-7)
        np.testing.assert_array_equal(theta, start)
        assert not arrived


# ---- the estimator -----------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_a_matrix_it_is_logistic_regression(K, fit_intercept):
    """A constant feature stands for the intercept, which is regularised here."""
    X, y, _, _ = noisy_blobs(400, K=K)
    ours = NoisyLabelLogisticRegression(alpha=1e-2, fit_intercept=fit_intercept).fit(X, y)
    Z = np.column_stack([X, np.ones(400)]) if fit_intercept else X
    reference = LogisticRegression(C=1 / 4, fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = reference.fit(Z, y).coef_
    np.testing.assert_allclose(ours.coef_, expected[:, :6], atol=1e-6)
    assert ours.intercept_ == pytest.approx(expected[:, 6] if fit_intercept else 0, abs=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), reference.predict_proba(Z), atol=1e-6)


@pytest.mark.parametrize("K", [2, 4])
def test_the_correction_is_a_fixed_point_of_em(K):
    """Refitted with its own posterior weights, the corrected model does not move."""
    X, _, z, T = noisy_blobs(800, K=K)
    given = {"alpha": 1e-3, "classes": range(K)}
    corrected = NoisyLabelLogisticRegression(transition_matrix=T, **given).fit(X, z)
    weights = posterior_weights(corrected.predict_proba(X), T.T[z])
    copies = np.repeat(X, K, axis=0), np.tile(np.arange(K), len(X))
    refitted = NoisyLabelLogisticRegression(**given).fit(*copies, sample_weight=weights.ravel())
    np.testing.assert_allclose(refitted.coef_, corrected.coef_, atol=1e-2)
    plain = NoisyLabelLogisticRegression(**given).fit(X, z)
    assert np.abs(plain.coef_ - corrected.coef_).max() > 0.5  # the comparison has power


def test_the_correction_saves_rare_classes():
    """Mean accuracy over the classes, on fixed draws."""
    X, _, z, T = noisy_blobs(6000, epsilon=0.8)
    X_test, y_test, _, _ = noisy_blobs(4000, seed=9)
    means = []
    for matrix in (None, T):
        clf = NoisyLabelLogisticRegression(transition_matrix=matrix, classes=range(4)).fit(X, z)
        recall = [np.mean(clf.predict(X_test[y_test == c]) == c) for c in range(4)]
        means.append(np.mean(recall))
    noise = np.log(0.999 * clf.predict_proba(X_test)[np.arange(4000), y_test] + 0.001 / 4).mean()
    assert noise > -1.0  # probabilities of true labels: at most the entropy of the prior
    assert means[1] > means[0]


def test_order_of_the_classes_and_types_of_rows():
    X, _, z, _ = noisy_blobs(300)
    T = block_rr(1.0, prior=PRIOR, sigma=1.0, l=1).matrix()
    names = np.array(["z", "a", "m", "b"])
    straight = NoisyLabelLogisticRegression(transition_matrix=T, classes=range(4)).fit(X, z)
    named = NoisyLabelLogisticRegression(transition_matrix=T, classes=names).fit(
        sparse.csr_array(X), names[z]
    )
    assert named.classes_.tolist() == ["a", "b", "m", "z"]
    np.testing.assert_allclose(named.coef_, straight.coef_[[1, 3, 2, 0]], atol=2e-2)
    np.testing.assert_array_equal(named.decision_function(X).shape, (300, 4))
    log_proba = named.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(log_proba), named.predict_proba(X))


def test_a_class_that_never_appears():
    X, _, z, _ = noisy_blobs(200)
    T = rr(5, 1.0).matrix()
    clf = NoisyLabelLogisticRegression(transition_matrix=T, classes=range(5)).fit(X, z)
    assert clf.predict_proba(X).shape == (200, 5)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"alpha": 0.0}, "alpha must be"),
        ({"fit_intercept": 1}, "fit_intercept must be True or False"),
        ({"transition_matrix": np.eye(4)}, "classes must be given with a transition_matrix"),
        ({"classes": range(4), "transition_matrix": np.eye(3)}, "of shape (4, 4)"),
        ({"classes": range(4), "transition_matrix": np.full((4, 4), 0.3)}, "rows that sum to 1"),
        ({"classes": range(4), "transition_matrix": 2 * np.eye(4) - 0.25}, "non-negative"),
        ({"classes": range(3)}, "labels not in classes"),
        ({"classes": [0, 1, 2, 3, 3]}, "must not hold a duplicate"),
        ({"classes": [0]}, "at least two classes, got 1"),
        ({"classes": [[0], [1, 2]]}, "classes must be a one-dimensional list"),
        ({"classes": [0, None]}, "classes contains NaN or None"),
        ({"classes": range(4), "transition_matrix": np.eye(4)[[0, 0, 2, 3]]}, "cannot occur"),
    ],
)
def test_bad_parameters(given, match):
    X, _, z, _ = noisy_blobs(60)
    with pytest.raises((ValueError, TypeError), match=re.escape(match)):
        NoisyLabelLogisticRegression(**given).fit(X, z)


def test_a_single_weight_is_none():
    X, _, z, _ = noisy_blobs(60)
    clf = NoisyLabelLogisticRegression(alpha=1e-2)
    expected = clf.fit(X, z).coef_
    np.testing.assert_array_equal(clf.fit(X, z, sample_weight=3.0).coef_, expected)


@pytest.mark.parametrize("weights", [[1.0], -np.ones(60), np.zeros(60), np.full(60, np.nan)])
def test_bad_weights(weights):
    X, _, z, _ = noisy_blobs(60)
    with pytest.raises(ValueError, match="sample_weight must be"):
        NoisyLabelLogisticRegression().fit(X, z, sample_weight=weights)


def test_a_descent_that_does_not_arrive_says_so(monkeypatch):
    X, _, z, T = noisy_blobs(60)
    clf = NoisyLabelLogisticRegression(transition_matrix=T, classes=range(4))
    monkeypatch.setattr(
        "skballdp.labels.likelihood.descend", lambda objective, start, **_: (start, False)
    )
    with pytest.warns(ConvergenceWarning, match="before a stationary point"):
        clf.fit(X, z)


# ---- EM ----------------------------------------------------------------------------------------


def em_on(X, z, T, estimator, iterations, record):
    def fit(weights):
        assert weights.min() >= 0
        np.testing.assert_allclose(weights.sum(axis=1), 1)
        rows, codes = np.nonzero(weights)
        model = estimator().fit(X[rows], codes, sample_weight=weights[rows, codes])
        record(model)
        return model

    n, K = len(z), len(T)
    return fit_by_em(
        fit,
        lambda model: model.predict_proba(X),
        np.full((n, K), 1 / K),
        T.T[z],
        np.full(n, 1 / n),
        iterations,
    )


def test_em_raises_the_penalised_likelihood_in_every_step():
    X, _, z, T = noisy_blobs(500)
    alpha, values = 1e-3, []

    def record(model):
        fitted = (model.predict_proba(X) * T.T[z]).sum(axis=1)
        theta = np.column_stack([model.coef_, model.intercept_])
        values.append(np.log(fitted).mean() - alpha / 2 * np.sum(theta**2))

    em_on(X, z, T, lambda: NoisyLabelLogisticRegression(alpha=alpha), 25, record)
    assert len(values) > 5 and np.all(np.diff(values) > -1e-9)
    direct = NoisyLabelLogisticRegression(alpha=alpha, transition_matrix=T, classes=range(4))
    record(direct.fit(X, z))
    assert values[-1] >= max(values[:-1]) - 1e-6  # one descent, at least as far


def test_em_stops_where_the_likelihood_does():
    """A forest is no maximiser of likelihood: the best fit so far is returned."""
    X, _, z, T = noisy_blobs(200)
    models = []
    best, trace = em_on(
        X,
        z,
        T,
        lambda: RandomForestClassifier(5, max_depth=3, random_state=0),
        10,
        models.append,
    )
    assert np.all(np.diff(trace) > 0) and best is models[len(trace) - 1]


@pytest.mark.parametrize(
    ("values", "n_kept"), [([-1.0, -0.9, -0.95], 2), ([-1.0, -0.9, -0.9 + 1e-6, -0.5], 3)]
)
def test_em_stops_when_it_falls_or_hardly_rises(values, n_kept):
    models = iter(range(len(values)))
    best, trace = fit_by_em(
        fit=lambda _: next(models),
        probabilities_of=lambda model: np.exp([[values[model], -np.inf]]),
        start=np.array([[0.5, 0.5]]),
        likelihood=np.array([[1.0, 0.5]]),
        record_weights=np.ones(1),
        iterations=10,
    )
    np.testing.assert_allclose(trace, values[:n_kept])
    assert best == n_kept - 1


def test_posterior_where_the_model_excludes_the_label():
    weights = posterior_weights(np.array([[0.0, 1.0]]), np.array([[0.5, 0.0]]))
    assert weights.tolist() == [[1.0, 0.0]]


# ---- corrected probabilities -------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [rr(4, 0.6), block_rr(1.0, prior=PRIOR, sigma=1.0, l=1), rr(4, 1e-6)]
)
def test_exact_noisy_probabilities_give_exact_clean_ones(mechanism):
    f = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    T = mechanism.matrix()
    tolerance = 1e-13 / mechanism.epsilon
    np.testing.assert_allclose(correct_probabilities(f @ T, T, PRIOR), f, atol=tolerance)


def test_what_a_singular_matrix_leaves_open_stays_as_in_the_prior():
    T = rr_top_k(PRIOR, 2, 1.0).matrix()  # two labels have one row, two columns are zero
    np.testing.assert_allclose(correct_probabilities(PRIOR[None] @ T, T, PRIOR), PRIOR[None])
    g = np.array([[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    f = correct_probabilities(g, T, PRIOR)
    np.testing.assert_allclose(f[0] @ T, g[0], atol=1e-12)
    np.testing.assert_allclose(f[1], PRIOR)  # nothing is known
    assert np.all(f >= 0)


def test_randomised_response_keeps_the_order_of_the_classes():
    g = np.random.default_rng(0).dirichlet(np.ones(5), 200)
    f = correct_probabilities(g, rr(5, 0.3).matrix(), np.full(5, 0.2))
    np.testing.assert_allclose(f.sum(axis=1), 1)
    assert np.all(f >= 0)
    np.testing.assert_array_equal(f.argmax(axis=1), g.argmax(axis=1))


def test_no_warnings_in_ordinary_use():
    X, _, z, T = noisy_blobs(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NoisyLabelLogisticRegression(transition_matrix=T, classes=range(4)).fit(X, z)
