"""LabelDPClassifier and LabelDPRegressor: privacy, corrections, metadata, conventions, errors."""

import pickle
import re
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    LabelDPClassifier,
    LabelDPRegressor,
    NoisyLabelLogisticRegression,
    PrivacyWarning,
    privatize_labels,
)
from skballdp.labels import rp_with_prior, rr_on_bins
from skballdp.labels.correction import correct_probabilities
from skballdp.labels.mechanisms import LabelMechanism

CLASSES = ["owl", "cat", "dog", "bat"]  # not sorted
SUPPORT = np.linspace(0, 360, 19)
PRIOR = [0.45, 0.35, 0.12, 0.08]


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, n, p=PRIOR)
    X = (3.0 * np.eye(4, 5)[codes] + rng.standard_normal((n, 5))) / 5
    return X, np.array(CLASSES)[codes]


class Precomputed(SVC):
    """Takes kernels and gives probabilities."""

    def predict_proba(self, X):
        raise NotImplementedError


class TwoOnly(GaussianNB):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what fit was given."""

    def fit(self, X, y, sample_weight=None, tag=None):
        self.seen_ = {"X": X, "y": y, "sample_weight": sample_weight, "tag": tag}
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


LEARNERS = {
    "none": LabelDPClassifier(LogisticRegression(), classes=CLASSES),
    "proba": LabelDPClassifier(LogisticRegression(), classes=CLASSES, correction="proba"),
    "em": LabelDPClassifier(
        GaussianNB(), classes=CLASSES, correction="likelihood", em_iterations=3
    ),
    "direct": LabelDPClassifier(
        NoisyLabelLogisticRegression(alpha=1e-3), classes=CLASSES, correction="likelihood"
    ),
    "prior": LabelDPClassifier(
        LogisticRegression(), classes=CLASSES, prior_fraction=0.2, correction="proba"
    ),
    "head": LabelDPClassifier(
        BallDPLogisticRegression(alpha=0.1, random_state=0), classes=CLASSES, correction="proba"
    ),
}
each = pytest.mark.parametrize("name", LEARNERS)


def seeded(name):
    return clone(LEARNERS[name]).set_params(random_state=3)


# ---- privacy -----------------------------------------------------------------------------------


@each
def test_nothing_reads_true_labels_after_privatisation(name, monkeypatch):
    """They are destroyed as soon as noisy ones are drawn; everything comes out the same."""
    X, y = data()
    expected = seeded(name).fit(X, y)
    sample = LabelMechanism.sample
    mine = y.copy()

    def and_destroy(self, codes, rng=None):
        drawn = sample(self, codes, rng)
        codes[:] = 0
        mine[:] = "??"
        return drawn

    monkeypatch.setattr(LabelMechanism, "sample", and_destroy)
    fitted = seeded(name).fit(X, mine)
    assert set(mine) == {"??"}
    assert joblib.hash(fitted) == joblib.hash(expected)


@each
def test_labels_with_equal_noisy_labels_are_not_told_apart(name):
    """Two label vectors, one seed, the same draws: all of the fitted objects is equal."""
    X, y = data()
    clf = seeded(name).set_params(epsilon=0.5)
    parameters = {
        key: value
        for key, value in clf.get_params(deep=False).items()
        if key not in ("estimator", "correction", "em_iterations")
    }
    private = privatize_labels(y, **parameters)
    other = np.roll(CLASSES, 1)[[CLASSES.index(label) for label in y]]
    set_aside = np.setdiff1d(np.arange(len(y)), private.indices)
    other[set_aside] = y[set_aside]  # or the prior would differ
    drawn = privatize_labels(other, **parameters).labels
    differs = drawn != private.labels
    other[private.indices[differs]] = y[private.indices[differs]]
    assert np.count_nonzero(other != y) > 50
    np.testing.assert_array_equal(privatize_labels(other, **parameters).labels, private.labels)
    assert joblib.hash(clone(clf).fit(X, other)) == joblib.hash(clone(clf).fit(X, y))


@each
def test_nothing_private_is_stored(name):
    X, y = data(3000)
    fitted = clone(LEARNERS[name]).fit(X, y)
    stored = pickle.dumps(fitted)
    assert len(stored) < 12_000  # nothing has one entry per record
    public = {"estimator_", "classes_", "transition_matrix_", "prior_", "certificate_"}
    extra = {"log_likelihood_"} if name == "em" else set()
    assert set(vars(fitted)) - set(fitted.get_params(deep=False)) == public | extra
    if name != "head":
        assert fitted.random_state is None and fitted.certificate_.holds
        assert fitted.certificate_.epsilon_total == 1.0


def test_the_default_is_silent_and_a_seed_warns_once():
    X, y = data()
    clf = clone(LEARNERS["none"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(X, y)
    for learner in (clf, LabelDPRegressor(Ridge(), support=SUPPORT)):
        learner.set_params(random_state=0)
        targets = y if learner is clf else np.linspace(0, 300, len(y))
        name = type(learner).__name__
        with pytest.warns(PrivacyWarning, match=f"{name}: the noise was seeded") as record:
            learner.fit(X, targets)
        assert len(record) == 1 and record[0].filename == __file__
        assert not learner.certificate_.holds and learner.certificate_.estimator == name


def test_each_fit_draws_again():
    X, y = data()
    clf = LabelDPClassifier(Recorder(), epsilon=0.5, classes=CLASSES)
    first = clf.fit(X, y).estimator_.seen_["y"]
    # Equal with probability (3 x 0.196^2 + 0.33^2)^400.
    assert not np.array_equal(first, clf.fit(X, y).estimator_.seen_["y"])


# ---- what is fitted ----------------------------------------------------------------------------


def test_without_noise_it_is_the_estimator():
    X, y = data()
    with pytest.warns(PrivacyWarning, match="epsilon is infinite"):
        clf = clone(LEARNERS["none"]).set_params(epsilon=np.inf).fit(X, y)
    expected = LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), expected.predict(X))
    np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))
    np.testing.assert_array_equal(clf.predict_log_proba(X), expected.predict_log_proba(X))
    assert clf.classes_.tolist() == sorted(CLASSES)


def test_matrix_and_prior_are_in_the_order_of_classes_():
    X, y = data()
    clf = LabelDPClassifier(GaussianNB(), mechanism="rr_with_prior", classes=CLASSES, prior=PRIOR)
    clf.fit(X, y)
    assert clf.classes_.tolist() == ["bat", "cat", "dog", "owl"]
    assert clf.prior_.tolist() == [0.08, 0.35, 0.12, 0.45]
    np.testing.assert_allclose(clf.transition_matrix_.sum(axis=1), 1)
    used = clf.transition_matrix_.max(axis=0) > 0
    assert used[[1, 3]].all()  # the two most likely are always kept


@pytest.mark.parametrize("correction", ["none", "proba"])
def test_classes_that_never_appear(correction):
    """At epsilon 30 all 100 labels are kept, but for a probability of 3e-11."""
    X, y = data(100)
    absent = ["ant", "cow", "zebra"]
    clf = LabelDPClassifier(
        LogisticRegression(), epsilon=30.0, classes=CLASSES + absent, correction=correction
    ).fit(X, y)
    assert clf.classes_.tolist() == sorted(CLASSES + absent)
    missing = np.isin(clf.classes_, absent)
    proba = clf.predict_proba(X)
    assert proba.shape == (100, 7)
    np.testing.assert_allclose(proba[:, missing], 0, atol=1e-9)
    assert np.all(np.isneginf(clf.predict_log_proba(X)[:, missing])) or correction == "proba"
    if correction == "none":
        scores = clf.decision_function(X)
        np.testing.assert_array_equal(clf.classes_[scores.argmax(axis=1)], clf.predict(X))
    two = np.where(y == "owl", "owl", "cat")
    clf.fit(X, two)
    assert clf.predict_proba(X).shape == (100, 7)
    if correction == "none":
        scores = clf.decision_function(X)
        np.testing.assert_array_equal(clf.classes_[scores.argmax(axis=1)], clf.predict(X))


def test_one_noisy_class_of_two():
    clf = LabelDPClassifier(DummyClassifier(), epsilon=30.0, classes=["a", "b"])
    X = np.zeros((20, 1))
    assert clf.fit(X, ["b"] * 20).predict_proba(X).tolist() == [[0.0, 1.0]] * 20
    assert clf.fit(X, ["a"] * 20).predict_proba(X).tolist() == [[1.0, 0.0]] * 20


@pytest.mark.filterwarnings("ignore:Label not:UserWarning")
def test_scores_where_one_of_two_classes_never_appears():
    X = np.random.default_rng(0).standard_normal((20, 2))
    for label in ("a", "b"):
        # A single noisy label, but for a probability of 2e-12.
        clf = LabelDPClassifier(
            OneVsRestClassifier(LogisticRegression()), epsilon=30.0, classes=["a", "b"]
        ).fit(X, [label] * 20)
        assert clf.predict(X).tolist() == [label] * 20
        largest = np.finfo(float).max
        assert set(clf.decision_function(X)) == {largest if label == "b" else -largest}


@pytest.mark.parametrize("mechanism", ["block_rr", "rr_top_k"])
def test_proba_uses_the_matrix_and_the_prior(mechanism):
    """Neither symmetric nor, for rr_top_k, invertible."""
    X, y = data(1000)
    given = {"sigma": 1.0, "l": 2} if mechanism == "block_rr" else {"k": 3}
    clf = LabelDPClassifier(
        LogisticRegression(),
        mechanism=mechanism,
        classes=CLASSES,
        prior=PRIOR,
        correction="proba",
        random_state=0,
        **given,
    ).fit(X, y)
    g = clf._complete(clf.estimator_.predict_proba(X), absent=0.0)
    expected = correct_probabilities(g, clf.transition_matrix_, clf.prior_)
    f = clf.predict_proba(X)
    np.testing.assert_array_equal(f, expected)
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[f.argmax(axis=1)])
    assert mechanism == "rr_top_k" or np.any(clf.predict(X) != clf.estimator_.predict(X))
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), f)


def test_proba_corrects_predictions_only():
    X, y = data(2000)
    plain, corrected = seeded("none").fit(X, y), seeded("proba").fit(X, y)
    np.testing.assert_array_equal(
        corrected.estimator_.predict_proba(X), plain.estimator_.predict_proba(X)
    )
    f = corrected.predict_proba(X)
    np.testing.assert_allclose(f.sum(axis=1), 1)
    assert f.max(axis=1).mean() > plain.predict_proba(X).max(axis=1).mean() + 0.2
    # Under randomised response the order of the classes does not change.
    np.testing.assert_array_equal(corrected.predict(X), plain.predict(X))
    np.testing.assert_array_equal(corrected.predict(X), corrected.classes_[f.argmax(axis=1)])
    assert not hasattr(corrected, "decision_function")


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: make_pipeline(Normalizer(), e)])
def test_the_direct_correction_gets_the_matrix(wrap):
    X, y = data(2000)
    estimator = wrap(NoisyLabelLogisticRegression())
    clf = LabelDPClassifier(
        estimator, classes=CLASSES, prior_fraction=0.1, correction="likelihood"
    ).fit(X, y)
    inner = clf.estimator_ if wrap(1) == 1 else clf.estimator_[-1]
    np.testing.assert_array_equal(inner.transition_matrix, clf.transition_matrix_)
    np.testing.assert_array_equal(inner.classes, clf.classes_)
    assert clf.predict_proba(X).shape == (2000, 4)
    assert not hasattr(clf, "log_likelihood_")
    given = estimator if wrap(1) == 1 else estimator[-1]
    assert given.transition_matrix is None  # the parameter is not touched


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression(C=10)),
    ],
    ids=["bayes", "forest", "pipeline"],
)
def test_em_for_any_estimator_with_weights(estimator):
    X, y = data(600)
    clf = LabelDPClassifier(
        estimator, mechanism="rr", classes=CLASSES, correction="likelihood", em_iterations=4
    ).fit(X, y)
    assert 1 <= len(clf.log_likelihood_) <= 4 and np.all(np.diff(clf.log_likelihood_) > 0)
    assert clf.predict_proba(X).shape == (600, 4)
    clf.set_params(correction="none").fit(X, y)
    assert not hasattr(clf, "log_likelihood_")


def test_em_starts_with_the_prior_and_the_matrix():
    """One refit, done by hand, for a matrix that is not symmetric."""
    X, y = data()
    given = {"classes": CLASSES, "prior": PRIOR, "sigma": 1.0, "l": 2, "random_state": 0}
    clf = LabelDPClassifier(GaussianNB(), correction="likelihood", em_iterations=1, **given)
    private = privatize_labels(y, **given)
    T = private.transition_matrix
    assert not np.allclose(T, T.T)
    codes = np.array([CLASSES.index(label) for label in private.labels])
    weights = np.array(PRIOR) * T.T[codes]
    weights /= weights.sum(axis=1, keepdims=True)
    expected = GaussianNB().fit(
        np.repeat(X, 4, axis=0), np.tile(CLASSES, 400), sample_weight=weights.ravel()
    )
    np.testing.assert_allclose(clf.fit(X, y).predict_proba(X), expected.predict_proba(X), atol=1e-9)


# ---- metadata ----------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_metadata_are_cut_to_the_kept_rows():
    X, y = data()
    X[:, 0] = np.arange(400)
    weights = pd.Series(np.arange(400.0), index=np.arange(400)[::-1])
    recorder = Recorder().set_fit_request(sample_weight=True, tag=True)
    clf = LabelDPClassifier(recorder, classes=CLASSES, prior_fraction=0.3)
    seen = clf.fit(X, y, sample_weight=weights, tag="as it is").estimator_.seen_
    assert len(seen["X"]) == len(seen["y"]) == 280 and seen["tag"] == "as it is"
    np.testing.assert_array_equal(seen["X"][:, 0], np.asarray(seen["sample_weight"]))
    with pytest.raises(TypeError, match="unexpected"):
        clf.fit(X, y, unknown=1)
    # Through a Pipeline and a search.
    centre = StandardScaler(with_std=False).set_fit_request(sample_weight=False)
    scorer = get_scorer("accuracy").set_score_request(sample_weight=False)
    search = GridSearchCV(make_pipeline(centre, clf), {}, cv=2, scoring=scorer)
    search.fit(X, y, sample_weight=np.arange(400.0))
    seen = search.best_estimator_[-1].estimator_.seen_
    shift = np.asarray(seen["sample_weight"]) - seen["X"][:, 0]
    np.testing.assert_allclose(shift, 199.5)


@pytest.mark.usefixtures("routing")
def test_em_copies_metadata_with_the_records():
    class Tagged(GaussianNB):
        def fit(self, X, y, sample_weight=None, tag=None):
            np.testing.assert_array_equal(X[:, 0], tag)
            return super().fit(X, y, sample_weight)

    X, y = data()
    estimator = Tagged().set_fit_request(tag=True)
    clf = LabelDPClassifier(
        estimator, classes=CLASSES, prior_fraction=0.1, correction="likelihood", em_iterations=2
    )
    assert clf.fit(X, y, tag=X[:, 0]).predict(X).shape == (400,)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: make_pipeline(Normalizer(), e)])
def test_em_multiplies_weights_of_records(wrap):
    """Records of weight zero count for nothing."""
    X, y = data(600)
    estimator = wrap(GaussianNB().set_fit_request(sample_weight=True))
    clf = LabelDPClassifier(
        estimator, mechanism="rr", classes=CLASSES, correction="likelihood", random_state=0
    )
    clf.fit(X, y, sample_weight=np.ones(600))
    half = clone(clf).fit(X, y, sample_weight=np.arange(600) < 300)
    assert not np.allclose(half.predict_proba(X), clf.predict_proba(X))
    moved = X.copy()
    moved[300:] = X[0]
    again = clone(clf).fit(moved, y, sample_weight=np.arange(600) < 300)
    np.testing.assert_allclose(again.predict_proba(X), half.predict_proba(X), atol=1e-6)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("weights", [np.zeros(400), -np.ones(400), np.ones(3)])
def test_em_refuses_bad_weights(weights):
    X, y = data()
    estimator = GaussianNB().set_fit_request(sample_weight=True)
    clf = LabelDPClassifier(estimator, classes=CLASSES, correction="likelihood")
    with pytest.raises(ValueError, match="sample_weight must be"):
        clf.fit(X, y, sample_weight=weights)


def test_metadata_need_routing():
    X, y = data()
    for learner in (LEARNERS["none"], LabelDPRegressor(Ridge(), support=SUPPORT)):
        with pytest.raises(ValueError, match="fit got sample_weight: metadata need"):
            clone(learner).fit(X, y, sample_weight=np.ones(400))


# ---- inside scikit-learn -----------------------------------------------------------------------


def test_searches_over_nested_parameters():
    X, y = data()
    clf = LabelDPClassifier(NoisyLabelLogisticRegression(), classes=CLASSES)
    model = make_pipeline(Normalizer(), clf)
    grid = {
        "labeldpclassifier__estimator__alpha": [1e-3, 1e-2],
        "labeldpclassifier__epsilon": [2.0, 8.0],
        "labeldpclassifier__correction": ["none", "likelihood"],
    }
    search = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss", error_score="raise")
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(cross_val_score(model, X, y, cv=3, error_score="raise")) == 3


def test_rows_of_all_kinds():
    X, y = data()
    clf = LabelDPClassifier(
        NoisyLabelLogisticRegression(), classes=CLASSES, prior_fraction=0.1, correction="likelihood"
    )
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(400) * 2)
    clf.fit(frame, pd.Series(y, index=frame.index))
    assert clf.feature_names_in_.tolist() == list("abcde") and clf.n_features_in_ == 5
    for given in (sparse.csr_array(X), sparse.coo_array(X), X.tolist()):
        assert clf.fit(given, y.tolist()).predict(X).shape == (400,)
    assert not hasattr(clf, "feature_names_in_")


def test_delegation_and_tags():
    with pytest.raises(NotFittedError):
        clone(LEARNERS["none"]).predict(np.zeros((1, 5)))
    clf = LabelDPClassifier(LinearSVC(), classes=CLASSES)
    assert not hasattr(clf, "predict_proba") and not hasattr(clf, "predict_log_proba")
    assert hasattr(clf, "decision_function") and not hasattr(clf, "n_features_in_")
    assert LEARNERS["direct"].__sklearn_tags__().input_tags.sparse
    assert LEARNERS["none"].__sklearn_tags__().classifier_tags.multi_class
    two_only = LabelDPClassifier(TwoOnly(), classes=["a", "b"])
    assert not two_only.__sklearn_tags__().classifier_tags.multi_class
    assert not LabelDPClassifier(GaussianNB(), classes=CLASSES).__sklearn_tags__().input_tags.sparse
    assert not hasattr(LabelDPClassifier(GaussianNB(), classes=CLASSES), "decision_function")


# ---- regression --------------------------------------------------------------------------------


def test_regression_learns():
    """Diabetes at epsilon 6, fixed draws: much better than the mean, and not exact."""
    X, y = load_diabetes(return_X_y=True)
    given = {"support": SUPPORT, "epsilon": 6.0, "random_state": 0}
    plain = LabelDPRegressor(Ridge(alpha=0.1), **given).fit(X, y)
    assert 0.35 < plain.score(X, y) < Ridge(alpha=0.1).fit(X, y).score(X, y)
    assert plain.mechanism_.bin_outputs.min() >= 0 and plain.prior_.shape == (19,)
    given |= {"mechanism": "rp_with_prior", "correction": "debias", "epsilon": 4.0}
    assert LabelDPRegressor(Ridge(alpha=0.1), **given).fit(X, y).score(X, y) > 0.3


def test_debiased_targets_are_right_on_average():
    """A mean of 20,000; the bound is 6 standard errors, which it exceeds once in 5e8."""
    y = np.full(20_000, 3.0)
    model = LabelDPRegressor(
        Ridge(), mechanism="rp_with_prior", support=[0, 5, 10], half_width=1.0, correction="debias"
    ).fit(np.zeros((20_000, 1)), y)
    mechanism = model.mechanism_
    low, high = mechanism.support
    spread = (high - low) / mechanism.debias_slope / 2
    assert abs(model.predict([[0.0]])[0] - 3.0) < 6 * spread / np.sqrt(20_000)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 6.0])
def test_bins_are_never_worse_than_intervals(epsilon, seed):
    """Expected squared error with the true prior, for targets on the support, in closed form."""
    rng = np.random.default_rng(seed)
    y = np.arange(12.0)
    prior = rng.dirichlet(np.full(12, 0.5))
    bins = rr_on_bins(y, prior, epsilon)
    error = np.sum(prior[:, None] * bins.matrix() * (bins.bin_outputs - y[:, None]) ** 2)
    assert error == pytest.approx(bins.objective, rel=1e-9)
    for width in ("auto", 0.1, 0.5, 2.0):
        interval = rp_with_prior(np.arange(-0.5, 12), prior, width, epsilon)
        low, high, half = interval.low, interval.high, interval.half_width
        c, clipped = interval.uniform_weight, np.clip(y, low, high)
        near = half**2 / 3 + (clipped - y) ** 2
        far = (high - low + 2 * half) ** 2 / 12 + (interval.debias_centre - y) ** 2
        assert error <= prior @ ((1 - c) * near + c * far)


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (LabelDPClassifier(Ridge(), classes=CLASSES), "estimator must be a classifier"),
        (LabelDPClassifier(GaussianNB, classes=CLASSES), "estimator must be a classifier"),
        (LabelDPClassifier(None, classes=CLASSES), "estimator must be a classifier"),
        (LabelDPClassifier(GaussianNB()), "classes must be given"),
        (LabelDPClassifier(GaussianNB(), classes=3), "classes must be a one-dimensional list"),
        (LabelDPClassifier(GaussianNB(), classes=[["owl"], ["cat", "dog"]]), "classes must be"),
        (LabelDPClassifier(GaussianNB(), classes=[0.5, 1.5]), "classes must hold text, bools"),
        (
            LabelDPClassifier(GaussianNB(), classes=np.array([1, "owl"], dtype=object)),
            "classes must hold text, bools",
        ),
        (LabelDPClassifier(GaussianNB(), classes=CLASSES, mechanism="rr_on_bins"), "mechanism"),
        (LabelDPClassifier(GaussianNB(), classes=CLASSES, correction="em"), "correction must be"),
        (LabelDPClassifier(GaussianNB(), classes=CLASSES, em_iterations=0), "em_iterations must"),
        (LabelDPClassifier(GaussianNB(), classes=CLASSES, floor=0.1), "floor is not used"),
        (LabelDPClassifier(LinearSVC(), classes=CLASSES, correction="proba"), "predict_proba"),
        (
            LabelDPClassifier(KNeighborsClassifier(), classes=CLASSES, correction="likelihood"),
            "takes sample_weight, which that of a KNeighborsClassifier does not",
        ),
        (
            LabelDPClassifier(
                make_pipeline(Normalizer(), KNeighborsClassifier()),
                classes=CLASSES,
                correction="likelihood",
            ),
            "takes sample_weight",
        ),
        (
            LabelDPClassifier(BallDPLogisticRegression(), classes=CLASSES, correction="likelihood"),
            "no Ball-DP version",
        ),
        (
            LabelDPClassifier(
                make_pipeline(StandardScaler(), BallDPRidgePrototype()), classes=CLASSES
            ),
            "'standardscaler' of the Pipeline",
        ),
        (
            LabelDPClassifier(SVC(kernel="precomputed"), classes=CLASSES, prior_fraction=0.5),
            "not distances or kernels",
        ),
        (
            LabelDPClassifier(
                Precomputed(kernel="precomputed"), classes=CLASSES, correction="likelihood"
            ),
            "not distances or kernels: correction='likelihood' copies",
        ),
        (LabelDPRegressor(GaussianNB(), support=SUPPORT), "estimator must be a regressor"),
        (LabelDPRegressor(None, support=SUPPORT), "estimator must be a regressor"),
        (LabelDPRegressor(Ridge()), "support must be"),
        (LabelDPRegressor(Ridge(), support=SUPPORT, mechanism="rr"), "mechanism must be one of"),
        (LabelDPRegressor(Ridge(), support=SUPPORT, correction="debias"), "is not possible"),
        (LabelDPRegressor(Ridge(), support=SUPPORT, correction="proba"), "correction must be"),
    ],
)
def test_bad_parameters(learner, match):
    X, y = data(40)
    y = y if isinstance(learner, LabelDPClassifier) else np.arange(40.0)
    with pytest.raises((ValueError, TypeError), match=re.escape(match)):
        clone(learner).fit(X[:, :4] if "kernels" not in match else np.eye(40), y)


@pytest.mark.parametrize(
    "y", [["owl", "secret"] * 20, ["owl"] * 39, None, [["owl", "cat"]] * 40, [0.5] * 40]
)
def test_errors_do_not_quote_labels(y):
    X, _ = data(40)
    for classes in (CLASSES, "observed"):
        if classes == "observed" and y is not None and y[:2] == ["owl", "secret"]:
            continue  # nothing wrong with these
        clf = LabelDPClassifier(LogisticRegression(), classes=classes)
        with pytest.raises(ValueError) as error:
            clf.fit(X, y)
        assert not re.search("secret|owl|0[.]5", str(error.value))
        assert error.value.__context__ is None


@pytest.mark.parametrize("y", [3.25, [3.25, np.nan] * 20, ["3.25"] * 40, [[3.25, 1.0]] * 40])
def test_errors_do_not_quote_targets(y):
    with pytest.raises((ValueError, TypeError)) as error:
        LabelDPRegressor(Ridge(), support=SUPPORT).fit(np.zeros((40, 1)), np.array(y))
    assert "3.25" not in str(error.value) and error.value.__context__ is None


def test_many_classes_are_no_regression_problem():
    X, _ = data(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = LabelDPClassifier(DummyClassifier(), classes=range(30)).fit(X, np.arange(60) % 30)
    assert len(clf.classes_) == 30
