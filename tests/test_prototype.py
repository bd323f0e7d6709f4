"""The prototype head: prediction rule, priors, public prototypes, classes, containers."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skballdp import BallDPRidgePrototype, PrivacyWarning


def noiseless(**parameters):
    return BallDPRidgePrototype(epsilon=math.inf, **parameters)


def test_without_noise_and_regularisation_it_is_the_nearest_centroid(blobs):
    X, y = blobs
    ours = noiseless(alpha=1e-12, norm_bound=10.0).fit(X, y)
    theirs = NearestCentroid().fit(X, y)
    np.testing.assert_allclose(ours.prototypes_, theirs.centroids_, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_prototypes_solve_the_stated_problem(blobs):
    X, y = blobs
    public = np.random.default_rng(0).standard_normal((3, 5))
    for centre in (None, public):
        clf = noiseless(alpha=0.3, norm_bound=10.0, public_prototypes=centre).fit(X, y)
        mu, alpha, n = clf.prototypes_, 0.3, len(X)
        gradient = alpha * (mu - (0 if centre is None else public))
        for c in range(3):
            gradient[c] += 2 / n * (mu[c] - X[y == c]).sum(axis=0)
        assert np.abs(gradient).max() < 1e-14
        np.testing.assert_allclose(clf.exact_optimum(X, y), clf.released_parameters_)


def test_scores_are_the_stated_formula(blobs):
    X, y = blobs
    prior = np.array([0.5, 0.3, 0.2])
    clf = BallDPRidgePrototype(0.5, priors=prior, prior_scale=0.4).fit(X, y)
    d, sigma = X.shape[1], clf.noise_scale_
    distance = ((X[:, None, :] - clf.prototypes_) ** 2).sum(axis=2) - d * sigma**2
    distance -= 2 * 0.4**2 * np.log(prior)
    scores = clf.decision_function(X)
    np.testing.assert_allclose(scores - scores[:, :1], (distance[:, :1] - distance) / 2, atol=1e-12)
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[distance.argmin(axis=1)])
    likelihood = np.exp(-distance / (2 * 0.4**2))
    np.testing.assert_allclose(
        clf.predict_proba(X), likelihood / likelihood.sum(axis=1, keepdims=True)
    )


def test_default_prior_scale_and_uniform_priors(blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5, norm_bound=2.0, priors=[0.2, 0.3, 0.5]).fit(X, y)
    same = clone(clf).set_params(prior_scale=0.3)
    same.fit(X, y)
    same.prototypes_ = clf.prototypes_
    np.testing.assert_allclose(same.decision_function(X), clf.decision_function(X))
    empirical = BallDPRidgePrototype(0.5, priors="empirical").fit(X, y)
    np.testing.assert_allclose(empirical.class_prior_, [1 / 2, 1 / 3, 1 / 6])


def test_two_classes_give_one_score(blobs):
    X, y = blobs[0][:50], blobs[1][:50]
    clf = BallDPRidgePrototype(0.5).fit(X, y)
    scores = clf.decision_function(X)
    assert scores.shape == (50,)
    np.testing.assert_array_equal(clf.predict(X), (scores > 0).astype(int))
    assert clf.predict_proba(X).shape == (50, 2)


def test_the_noise_has_the_stated_scale():
    """Mean and variance of 400,000 coordinates; each false alarm below 1e-7 (5.5 sigma)."""
    d = 200_000
    X = np.zeros((6, d))
    X[:, 0] = 1
    y = np.array([0, 0, 0, 0, 1, 1])
    clf = BallDPRidgePrototype(0.5, delta=1e-3).fit(X, y)
    exact = clf.exact_optimum(X, y).reshape(2, d)
    assert clf.noise_scale_[1] > 1.9 * clf.noise_scale_[0]
    for c in range(2):
        z = (clf.prototypes_[c] - exact[c]) / clf.noise_scale_[c]
        assert abs(z.mean()) < 5.5 / math.sqrt(d)
        assert abs(z.var() - 1) < 5.5 * math.sqrt(2 / d)
    np.testing.assert_array_equal(clf.noise_scale_for(X, y), np.repeat(clf.noise_scale_, d))


def test_noise_is_fresh_and_does_not_use_the_global_generator(blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5)
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    first = clone(clf).fit(X, y).prototypes_
    assert np.array_equal(np.random.get_state()[1], state)
    np.random.seed(0)
    second = clone(clf).fit(X, y).prototypes_
    assert np.abs(first - second).min() > 0


def test_a_seed_reproduces_the_noise_and_exposes_the_difference(blobs):
    X, y = blobs
    other = X.copy()
    other[0] = -other[0]
    clf = BallDPRidgePrototype(random_state=0)
    with pytest.warns(PrivacyWarning, match="seed"):
        released = clone(clf).fit(X, y).released_parameters_
    np.testing.assert_array_equal(released, clone(clf).fit(X, y).released_parameters_)
    neighbour = clone(clf).fit(other, y).released_parameters_
    difference = clf.exact_optimum(other, y) - clf.exact_optimum(X, y)
    np.testing.assert_allclose(neighbour - released, difference, atol=1e-15)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_are_accepted_and_void_too(blobs, make):
    with pytest.warns(PrivacyWarning, match="seed"):
        clf = BallDPRidgePrototype(random_state=make(3)).fit(*blobs)
    assert not clf.certificate_.holds


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"epsilon": math.inf}, "epsilon is infinite"),
        ({"radius": 0.0}, "radius is 0"),
        ({"delta": 0.5}, "1 / n_samples"),
        ({"delta": 1 / 60}, "1 / n_samples"),
    ],
)
def test_weakening_warns_once(blobs, parameters, words):
    with pytest.warns(PrivacyWarning, match=words) as caught:
        BallDPRidgePrototype(**parameters).fit(*blobs)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_the_default_path_does_not_warn(blobs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = BallDPRidgePrototype().fit(*blobs)
        BallDPRidgePrototype(0.5, epsilon=0).fit(*blobs)
        BallDPRidgePrototype(0.5, norm_bound=None).fit(*blobs)
    assert clf.radius_ == 2.0 and clf.certificate_.holds
    assert clf.certificate_.epsilon == 1.0 and clf.certificate_.delta == 1e-6


def test_calibrations_order_the_noise(blobs):
    X, y = blobs
    scales = {}
    for calibration in ("per_class", "min_count", "global"):
        clf = BallDPRidgePrototype(0.5, calibration=calibration).fit(X, y)
        scales[calibration] = np.broadcast_to(clf.noise_scale_, 3)
    assert np.all(scales["per_class"][:2] < scales["min_count"][:2])
    assert scales["per_class"][2] == pytest.approx(scales["min_count"][2])
    assert np.all(scales["min_count"] < scales["global"])


@pytest.mark.parametrize("calibration", ["per_class", "min_count", "global"])
def test_a_class_without_records(blobs, calibration):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5, classes=[2, 1, 0, 9], calibration=calibration).fit(X, y)
    assert clf.classes_.tolist() == [0, 1, 2, 9]
    assert np.all(clf.prototypes_[3] == 0)
    assert np.all(clf.prototypes_[:3] != 0)
    far = np.zeros((1, 5))
    assert clf.predict(far)[0] != 9
    assert clf.predict_proba(X)[:, 3].max() == 0
    assert clf.certificate_.class_counts == (30, 20, 10, 0)
    assert clf.certificate_.check()
    three = BallDPRidgePrototype(0.5, calibration=calibration).fit(X, y)
    np.testing.assert_allclose(
        np.broadcast_to(clf.noise_scale_, 4)[:3], np.broadcast_to(three.noise_scale_, 3)
    )


def test_a_class_without_records_but_with_a_public_prototype(blobs):
    X, y = blobs
    public = np.vstack([np.zeros((3, 5)), np.full(5, 9.0)])
    clf = BallDPRidgePrototype(
        0.5, classes=[0, 1, 2, 9], public_prototypes=public, norm_bound=1.0
    ).fit(X, y)
    np.testing.assert_allclose(clf.prototypes_[3], public[3])
    assert clf.predict([[9.0] * 5])[0] == 9
    assert any("public prototypes" in caveat for caveat in clf.certificate_.caveats)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "c"]),
        np.array(["b", "a", "c"], dtype=object),
        np.array([2.0, 1.0, 3.0]),
        np.array([5, 3, 8], dtype=np.int16),
        np.array([True, False, True]),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_of_any_type(blobs, labels):
    X, y = blobs
    clf = noiseless().fit(X, labels[y])
    assert clf.classes_.dtype == labels.dtype
    assert set(clf.predict(X)) <= set(labels)
    assert clf.score(X, labels[y]) > 0.6
    assert clf.certificate_.check()


@pytest.mark.parametrize(
    "convert",
    [
        np.float32,
        np.asfortranarray,
        sp.csr_array,
        sp.csr_matrix,
        sp.csc_array,
        sp.coo_array,
        lambda X: X.tolist(),
        lambda X: pd.DataFrame(X, columns=list("abcde")),
    ],
)
def test_containers_agree(blobs, convert):
    X, y = blobs
    expected = noiseless().fit(X, y)
    given = convert(X) if convert is not np.float32 else X.astype(np.float32)
    clf = noiseless().fit(given, y)
    np.testing.assert_allclose(clf.prototypes_, expected.prototypes_, atol=1e-7)
    np.testing.assert_allclose(
        clf.decision_function(given), expected.decision_function(X), atol=1e-6
    )
    assert clf.prototypes_.dtype == np.float64
    if isinstance(given, pd.DataFrame):
        assert clf.feature_names_in_.tolist() == list("abcde")


def test_shapes_that_must_work():
    y = np.array([0, 1, 0, 1])
    for X in (
        np.array([[1.0], [2.0], [1.5], [0.0]]),  # one feature
        np.zeros((4, 3)),  # rows of zeros
        np.ones((4, 3)),  # constant features, duplicated rows
    ):
        X.setflags(write=False)
        clf = BallDPRidgePrototype(delta=1e-3).fit(X, y)
        assert clf.predict(X).shape == (4,)
        assert np.all(np.isfinite(clf.predict_proba(X)))
    clf = BallDPRidgePrototype(delta=1e-3).fit(np.eye(3), [0, 0, 1])  # a class with one record
    assert clf.certificate_.class_counts == (2, 1)


def test_clipping_equals_projecting_beforehand(blobs):
    X, y = blobs
    long = X * np.linspace(0.2, 4, len(X))[:, None]
    norms = np.linalg.norm(long, axis=1, keepdims=True)
    projected = long / np.maximum(1, norms)
    clf = noiseless(norm_bound=1.0)
    np.testing.assert_allclose(clf.exact_optimum(long, y), clf.exact_optimum(projected, y))
    with pytest.raises(ValueError, match=r"norm_bound=1\.0"):
        noiseless(norm_bound=1.0, out_of_bound="raise").fit(long, y)
    inside = BallDPRidgePrototype(0.5, out_of_bound="raise").fit(projected * 0.999, y)
    assert any("caller states" in caveat for caveat in inside.certificate_.caveats)


def test_without_a_norm_bound(blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5, norm_bound=None).fit(3 * X, y)
    assert any("no norm bound" in caveat for caveat in clf.certificate_.caveats)
    assert clf.certificate_.check()
    clf.predict(X)
    with pytest.raises(ValueError, match="prior_scale"):
        clf.predict_proba(X)
    clf.set_params(prior_scale=0.3).fit(3 * X, y).predict_proba(X)


def test_a_radius_beyond_the_ball_is_the_whole_ball(blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(5.0).fit(X, y)
    assert clf.radius_ == 2.0
    assert "5.0" in clf.certificate_.radius_source
    np.testing.assert_allclose(clf.noise_scale_, BallDPRidgePrototype().fit(X, y).noise_scale_)


def test_it_drops_into_scikit_learn():
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(Normalizer(), BallDPRidgePrototype(0.5, epsilon=4.0))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8
    grid = {"radius": [0.3, "standard"], "epsilon": [0.5, 1, np.inf], "priors": ["empirical"]}
    search = GridSearchCV(BallDPRidgePrototype(), grid, cv=3).fit(Normalizer().transform(X), y)
    assert search.best_score_ > 0.8


def test_parameters_are_left_alone(blobs):
    X, y = blobs
    prior = [0.2, 0.3, 0.5]
    clf = BallDPRidgePrototype("standard", priors=prior, classes=[0, 1, 2])
    clf.fit(X, y)
    assert clf.priors is prior and clf.radius == "standard" and clf.prior_scale is None


def test_prediction_reads_what_was_fitted(blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5, priors=[0.2, 0.3, 0.5]).fit(X, y)
    scores, proba = clf.decision_function(X), clf.predict_proba(X)
    clf.set_params(norm_bound=50.0, prior_scale="x", priors="uniform", public_prototypes=[0])
    np.testing.assert_array_equal(clf.decision_function(X), scores)
    np.testing.assert_array_equal(clf.predict_proba(X), proba)


@pytest.mark.parametrize("prior_scale", [1e-50, 1e-3, 1e50])
def test_extreme_prior_scales_give_probabilities(blobs, prior_scale):
    X, y = blobs
    proba = BallDPRidgePrototype(0.5, prior_scale=prior_scale).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_priors_must_leave_something_to_predict(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="priors"):
        BallDPRidgePrototype(0.5, classes=[-1, 0, 1, 2], priors=[1, 0, 0, 0]).fit(X, y)


def test_a_tiny_radius_without_a_norm_bound_states_what_it_covers():
    X = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]])
    clf = BallDPRidgePrototype(1e-18, norm_bound=None, delta=1e-3).fit(X, [0, 0, 1, 1])
    (caveat,) = [c for c in clf.certificate_.caveats if "no norm bound" in c]
    longest = float(caveat.split("no row is longer than ")[1].split(",")[0])
    assert longest < 1e-8  # these rows are not covered, and the certificate says so
    usual = BallDPRidgePrototype(0.5, norm_bound=None, delta=1e-3).fit(X, [0, 0, 1, 1])
    (caveat,) = [c for c in usual.certificate_.caveats if "no norm bound" in c]
    assert float(caveat.split("no row is longer than ")[1].split(",")[0]) > 1e5


def test_mixed_and_missing_labels_are_refused(blobs):
    X, y = blobs
    mixed = np.where(y == 0, "a", y.astype(object))
    missing = np.where(y == 0, None, y.astype(object))
    for labels in (mixed, missing):
        with pytest.raises(ValueError, match=r"labels of one type|Input y contains"):
            BallDPRidgePrototype().fit(X, labels)
    with pytest.raises(ValueError, match="labels of one type"):
        BallDPRidgePrototype(classes=np.array([0, "a", None], dtype=object)).fit(X, y)
    clf = BallDPRidgePrototype(0.5).fit(X, y.astype(object))
    assert clf.classes_.tolist() == [0, 1, 2] and clf.classes_.dtype.kind == "i"
    clf = BallDPRidgePrototype(0.5).fit(X, (y == 0).astype(object))
    assert clf.classes_.dtype == bool


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_inversion_gives_the_record_back(blobs, public, sparse):
    """Theorem 11 of the paper: exactly without noise, else with known noise."""
    X, y = blobs
    X = 1.5 * X / np.linalg.norm(X, axis=1).max()  # some rows are projected
    public = np.arange(3 * X.shape[1]).reshape(3, -1) / 10 if public else None
    clf = BallDPRidgePrototype(0.5, alpha=0.3, public_prototypes=public)
    rows, length = sp.csr_array(X) if sparse else X, np.linalg.norm(X, axis=1, keepdims=True)
    clipped = X / np.maximum(1, length)
    for index in (0, len(y) - 1, int(np.argmax(length))):
        optimum = clf.exact_optimum(rows, y)
        shift = np.zeros((3, X.shape[1]))
        shift[y[index]] = 1.0
        found = clf.invert_release(rows, y, index, [optimum, optimum + shift.ravel()])
        np.testing.assert_allclose(found[0], clipped[index], atol=1e-12)
        factor = np.count_nonzero(y == y[index]) + 0.3 * len(y) / 2
        np.testing.assert_allclose(found[1] - found[0], factor, rtol=1e-9)
    with pytest.raises(ValueError, match="does not fit"):
        clf.invert_release(rows, y, len(y), [optimum])
