"""The linear heads: scikit-learn's optimum, the stopping rule, calibration, parameters."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from skballdp import (
    BallDPLogisticRegression,
    BallDPSquaredHingeSVC,
    CertificationError,
    PrivacyCertificate,
    linear,
)
from skballdp.accounting.gaussian import mu_of
from skballdp.data import longest_product_sum
from skballdp.erm.sensitivity import (
    clipped_domain,
    gradient_error,
    gradient_gap,
    hinge_effective_gap,
    linear_sensitivity,
    minimizer_radius,
)
from tests.conftest import load_goldens, reference_data

REFERENCE = load_goldens("reference_goldens")
LINEAR = [fit for fit in REFERENCE["fits"] if fit["head"] != "ridge_prototype"]
HEADS = {
    "binary_logistic": BallDPLogisticRegression,
    "softmax_logistic": BallDPLogisticRegression,
    "squared_hinge": BallDPSquaredHingeSVC,
}
both = pytest.mark.parametrize("cls", [BallDPLogisticRegression, BallDPSquaredHingeSVC])
classes = pytest.mark.parametrize("n_classes", [2, 4])


def problem(n_classes, n=400, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n_classes, d))[y] + rng.standard_normal((n, d))
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y


def augmented(X):
    return np.hstack([X, np.ones((len(X), 1))])


def gradient(cls, theta, X, y, alpha, weights, center=0.0):
    """Gradient of the stated objective, written down a second time."""
    Z, n = augmented(X), len(X)
    scores = Z @ theta.T
    k = scores.shape[1]
    if cls is BallDPSquaredHingeSVC:
        sign = np.where(y[:, None] == (1 if k == 1 else np.arange(k)), 1.0, -1.0)
        slopes = -2 * sign * np.maximum(0, 1 - sign * scores)
    elif k == 1:
        slopes = expit(scores) - y[:, None]
    else:
        slopes = np.exp(scores - scores.max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        slopes[np.arange(n), y] -= 1
    return (weights[y][:, None] * slopes).T @ Z / n + alpha * (theta - center)


def matrix(clf, flat, d):
    """Parameters as rows (coefficients, intercept)."""
    k = len(flat) // (d + 1)
    return np.hstack([flat[: k * d].reshape(k, d), flat[k * d :].reshape(k, 1)])


@both
@classes
@pytest.mark.parametrize("alpha", [1e-3, 0.1])
def test_without_noise_it_is_scikit_learns_optimum(cls, n_classes, alpha):
    X, y = problem(n_classes)
    ours = cls(epsilon=math.inf, alpha=alpha).fit(X, y)
    C = 1 / (alpha * len(X))
    # Their intercept is free or scaled differently: an augmented column is regularised like ours.
    if cls is BallDPLogisticRegression:
        theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000)
    else:
        theirs = LinearSVC(C=C, fit_intercept=False, tol=1e-12, max_iter=100_000, dual=False)
    theirs.fit(augmented(X), y)
    np.testing.assert_allclose(np.c_[ours.coef_, ours.intercept_], theirs.coef_, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(augmented(X)))
    if cls is BallDPLogisticRegression:
        np.testing.assert_allclose(
            ours.predict_proba(X), theirs.predict_proba(augmented(X)), atol=1e-6
        )


@both
@classes
@pytest.mark.parametrize("class_weight", [None, "balanced", "dict"])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_the_stopping_rule_is_kept(cls, n_classes, class_weight, public, alpha):
    X, y = problem(n_classes, seed=1)
    y[y == 1] = np.where(np.arange((y == 1).sum()) % 3 == 0, 1, 0)  # imbalanced
    d, k = X.shape[1], 1 if n_classes == 2 else n_classes
    if class_weight == "dict":
        class_weight = {label: 1.0 + label for label in range(n_classes)}
    rng = np.random.default_rng(2)
    center = rng.standard_normal((k, d + 1)) if public else np.zeros((k, d + 1))
    clf = cls(
        0.5,
        alpha=alpha,
        class_weight=class_weight,
        public_coef=center[:, :d] if public else None,
        public_intercept=center[:, d] if public else None,
    ).fit(X, y)
    counts = np.bincount(y)
    weights = np.ones(n_classes)
    if class_weight == "balanced":
        weights = 1 / counts
    elif class_weight is not None:
        weights = 1.0 + np.arange(n_classes)
    weights = weights / (counts @ weights / len(y))
    theta = matrix(clf, clf.exact_optimum(X, y), d)
    norm = np.linalg.norm(gradient(cls, theta, X, y, alpha, weights, center))
    eta = clf.certificate_.solver_tolerance
    assert norm <= alpha * eta
    assert eta == pytest.approx(1e-3 * (clf.sensitivity_ - 2 * eta))
    assert clf.certificate_.weight_max == pytest.approx(max(1, weights.max()))
    assert clf.certificate_.check()
    head = "squared_hinge" if cls is BallDPSquaredHingeSVC else "logistic"
    radius = minimizer_radius(
        "softmax" if head == "logistic" and n_classes > 2 else head,
        alpha=alpha,
        norm_bound=1.0,
        n_classes=n_classes,
        public_norm=clf.certificate_.public_norm,
    )
    norms = np.linalg.norm(theta, axis=1) if head == "squared_hinge" else np.linalg.norm(theta)
    assert np.max(norms) <= radius + eta


@pytest.mark.parametrize("fit", LINEAR)
def test_reference_calibration_and_optima(fit):
    X, y = reference_data(**fit)
    clf = HEADS[fit["head"]](
        fit["r"],
        epsilon=fit["epsilon"],
        delta=fit["delta"],
        alpha=fit["lam"],
        norm_bound=fit["B"],
        sensitivity="paper",
    ).fit(X, y)
    # 0.2 % for the solver's tolerance, which the reference leaves out of its formula.
    binary_softmax = fit["head"] == "softmax_logistic" and fit["K"] == 2
    if not binary_softmax:  # ours is binary logistic regression for two classes
        assert clf.sensitivity_ == pytest.approx(1.002 * fit["delta_ball_formula"], rel=1e-4)
        assert clf.noise_scale_ == pytest.approx(1.002 * fit["sigma_formula"], rel=1e-4)
    theta = clf.set_params(epsilon=math.inf).exact_optimum(X, y)
    if fit.get("noiseless_theta_flat") and not binary_softmax:
        np.testing.assert_allclose(theta, fit["noiseless_theta_flat"], atol=2e-3)
    if fit["noiseless_theta_l2"] and not binary_softmax:
        assert np.linalg.norm(theta) == pytest.approx(fit["noiseless_theta_l2"], rel=1e-3)


@both
@classes
def test_calibration_is_the_stated_formula(cls, n_classes):
    X, y = problem(n_classes)
    n, alpha = len(X), 0.05
    clf = cls(0.3, alpha=alpha, epsilon=2.0, fit_intercept=False).fit(X, y)
    shape = {"radius": 0.3, "alpha": alpha, "norm_bound": 1.0, "fit_intercept": False}
    if cls is BallDPSquaredHingeSVC:
        gap = hinge_effective_gap(n_samples=n, **shape)
        gap *= math.sqrt(n_classes) if n_classes > 2 else 1
        assert gap <= gradient_gap("squared_hinge", n_classes=n_classes, **shape)
    else:
        name = "logistic" if n_classes == 2 else "softmax"
        gap = gradient_gap(name, n_classes=n_classes, **shape)
    assert clf.sensitivity_ == pytest.approx(1.002 * gap / (alpha * n), rel=1e-9)
    assert clf.noise_scale_ == pytest.approx(clf.sensitivity_ / mu_of(2.0, 1e-6), rel=1e-12)
    assert clf.intercept_.tolist() == [0.0] * len(clf.coef_)
    assert len(clf.released_parameters_) == clf.coef_.size
    paper = clone(clf).set_params(sensitivity="paper").fit(X, y)
    assert paper.noise_scale_ > 2 * clf.noise_scale_
    assert paper.certificate_.check() and paper.certificate_.sensitivity_rule == "paper"


@both
@classes
def test_rounding_of_clipped_rows_and_of_gradients_is_allowed_for(cls, n_classes, monkeypatch):
    """Down to the radius at which float64 cannot tell, the solver is asked for what it can do."""
    n, d, alpha, bound = 40, 2000, 0.1, 3.0
    X, y = np.random.default_rng(0).standard_normal((n, d)), np.arange(n) % n_classes
    name = "logistic" if n_classes == 2 else "softmax"
    shape = {
        "loss": "squared_hinge" if cls is BallDPSquaredHingeSVC else name,
        "alpha": alpha,
        "n_classes": n_classes,
    }
    asked = []

    def minimize(objective, *, tolerance, max_norm):
        asked.append(tolerance)
        return np.zeros(objective.center.shape)

    monkeypatch.setattr(linear, "minimize", minimize)
    refused = False
    for radius in np.geomspace(1e-3, 1e-12, 100).tolist():
        try:
            clf = cls(radius, alpha=alpha, norm_bound=bound).fit(X, y)
        except CertificationError:
            refused = True
            continue
        assert not refused
        allowed, ball = clipped_domain(radius=radius, norm_bound=bound, n_features=d)
        weight_max = clf.certificate_.weight_max
        exact = linear_sensitivity(
            **shape, radius=allowed, norm_bound=ball, n_samples=n, weight_max=weight_max
        )
        assert clf.certificate_.solver_tolerance == 1e-3 * exact
        error = gradient_error(
            **shape, norm_bound=ball, n_features=d, n_terms=longest_product_sum(n, d)
        )
        assert 4 * error <= asked[-1] <= alpha * clf.certificate_.solver_tolerance - error
    assert refused and len(asked) > 10
    plain = linear_sensitivity(**shape, radius=radius, norm_bound=bound, n_samples=n)
    for domain in (
        {"radius": allowed, "norm_bound": bound},
        {"radius": radius, "norm_bound": ball},
    ):
        assert linear_sensitivity(**shape, **domain, n_samples=n) > plain  # both can be told


@both
def test_the_certificate_knows_other_distances(cls):
    X, y = problem(2)
    certificate = cls(0.5).fit(X, y).certificate_
    assert PrivacyCertificate.from_json(certificate.to_json()) == certificate
    ratios = [certificate.mu_at(t) / t for t in (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)]
    assert all(a >= b * (1 - 1e-6) for a, b in itertools.pairwise(ratios))  # concave
    assert certificate.epsilon_at(2.0) > certificate.epsilon == 1.0
    assert certificate.mu_at(5.0) == certificate.mu_at(2.0)


def test_probabilities():
    for n_classes in (2, 3):
        X, y = problem(n_classes)
        clf = BallDPLogisticRegression(0.5).fit(X, y)
        proba, log_proba = clf.predict_proba(X), clf.predict_log_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_allclose(np.exp(log_proba), proba)
        np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(X))
        clf.coef_ *= 1e5
        assert np.all(np.isfinite(clf.predict_log_proba(X)))
    assert not hasattr(BallDPSquaredHingeSVC(), "predict_proba")


@both
@classes
@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.astype(np.float32),
        np.asfortranarray,
        sp.csr_array,
        sp.csr_matrix,
        lambda X: pd.DataFrame(X, columns=list("abcdef")),
    ],
)
def test_containers_agree(cls, n_classes, convert):
    X, y = problem(n_classes)
    X[X < 0.05] = 0.0
    labels = np.array(["w", "x", "y", "z"])[y]
    expected = cls(epsilon=math.inf).fit(X, labels)
    clf = cls(epsilon=math.inf).fit(convert(X), labels)
    np.testing.assert_allclose(clf.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_array_equal(clf.predict(convert(X)), expected.predict(X))


@both
def test_clipping_equals_projecting_beforehand(cls):
    X, y = problem(3)
    long = X * np.linspace(0.5, 5, len(X))[:, None]
    projected = long / np.maximum(1, np.linalg.norm(long, axis=1, keepdims=True))
    clf = cls(epsilon=math.inf)
    np.testing.assert_allclose(
        clf.exact_optimum(long, y), clf.exact_optimum(projected, y), atol=1e-6
    )


@both
@classes
def test_a_strong_pull_ends_at_the_public_model(cls, n_classes):
    X, y = problem(n_classes)
    k = 1 if n_classes == 2 else n_classes
    coef = np.random.default_rng(0).standard_normal((k, X.shape[1]))
    clf = cls(epsilon=math.inf, alpha=1e6, public_coef=coef).fit(X, y)
    np.testing.assert_allclose(clf.coef_, coef, atol=1e-4)
    np.testing.assert_allclose(clf.intercept_, 0, atol=1e-4)
    assert any("public coefficients" in caveat for caveat in clf.certificate_.caveats)


@both
def test_a_class_without_records(cls):
    X, y = problem(2)
    clf = cls(0.5, classes=[0, 1, 7]).fit(X, y)
    assert clf.coef_.shape == (3, 6) and clf.certificate_.class_counts[2] == 0
    assert clf.certificate_.check()


@both
@pytest.mark.parametrize(
    "name, value, error",
    [
        ("norm_bound", None, ValueError),
        ("sensitivity", "loose", ValueError),
        ("sensitivity", None, TypeError),
        ("fit_intercept", 1, TypeError),
        ("class_weight", "even", ValueError),
        ("class_weight", [1, 2, 3], TypeError),
        ("class_weight", {0: 1.0, 1: 1.0}, ValueError),
        ("class_weight", {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}, ValueError),
        ("class_weight", {0: 1.0, 1: 0.0, 2: 1.0}, ValueError),
        ("class_weight", {0: 1.0, 1: -1.0, 2: 1.0}, ValueError),
        ("class_weight", {0: 1.0, 1: "a", 2: 1.0}, TypeError),
        ("public_coef", np.zeros((2, 6)), ValueError),
        ("public_coef", np.full((3, 6), math.nan), ValueError),
        ("public_coef", np.full((3, 6), math.inf), ValueError),
        ("public_coef", np.full((3, 6), 1e51), ValueError),
        ("public_coef", [[1.0] * 6, [1.0], [1.0] * 6], ValueError),
        ("public_coef", np.zeros((3, 6), dtype=object), ValueError),
        ("public_coef", np.zeros((3, 6), dtype=complex), ValueError),
        ("public_intercept", np.zeros(2), ValueError),
        ("public_intercept", 0.0, ValueError),
        ("class_weight", {0: 1.0, 1: math.nan, 2: 1.0}, ValueError),
        ("class_weight", {0: 1.0, 1: math.inf, 2: 1.0}, ValueError),
    ],
)
def test_bad_parameters(cls, name, value, error):
    X, y = problem(3)
    with pytest.raises(error, match=name):
        cls(0.5, **{name: value}).fit(X, y)


@both
def test_messages_name_what_is_wrong(cls):
    X, y = problem(3)
    for class_weight, message in (
        ({0: 1.0, 1: 1.0, "cat": 1.0}, r"lacks 1 and has 1 unknown ones \('cat'\)\. Add"),
        ({0: 1.0, 1: -2.0, 2: 1.0}, r"class_weight\[1\] must be .*, got -2\.0\. Leave"),
    ):
        with pytest.raises(ValueError, match=message):
            cls(0.5, class_weight=class_weight).fit(X, y)
    with pytest.raises(ValueError, match=r"array of real numbers .* object of type list"):
        cls(0.5, public_coef=[[1.0], []]).fit(X, y)


@both
def test_bad_combinations(cls):
    X, y = problem(3)
    with pytest.raises(ValueError, match="public_intercept"):
        cls(0.5, fit_intercept=False, public_intercept=np.zeros(3)).fit(X, y)
    with pytest.raises(ValueError, match="sensitivity='paper'"):
        cls(0.5, sensitivity="paper", public_coef=np.ones((3, 6))).fit(X, y)
    with pytest.raises(CertificationError, match="alpha") as caught:
        cls(1e-9, alpha=1e-6).fit(np.full_like(X, math.nan), y)
    for word in ("n_samples=400", "n_features=6", "norm_bound=1.0", "alpha=1e-06"):
        assert word in str(caught.value)


@both
def test_in_scikit_learn(cls):
    X, y = problem(3)
    grid = {"radius": [0.3, "standard"], "epsilon": [1.0, np.inf], "alpha": [0.1, 1.0]}
    search = GridSearchCV(cls(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 1 / 3
    fitted = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(fitted.predict(X), search.predict(X))
