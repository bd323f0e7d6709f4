"""privatize_labels and LabelDPSampler: the split, the prior, the promise and bad input."""

import dataclasses
import json
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skballdp import LabelDPSampler, PrivacyWarning, privatize_labels
from skballdp.labels import rr, rr_on_bins

CLASSES = ["ham", "spam", "maybe"]
SUPPORT = [0.0, 1.0, 2.0, 4.0]
VARIANTS = {
    "block_rr": {"classes": CLASSES},
    "rr": {"classes": CLASSES},
    "rr_top_k": {"classes": CLASSES, "k": 2, "prior": [0.5, 0.3, 0.2]},
    "rr_with_prior": {"classes": CLASSES},
    "rr_floor": {"classes": CLASSES, "floor": 0.3},
    "lp_optimal": {"classes": CLASSES, "utility": np.eye(3)},
    "rr_on_bins": {"support": SUPPORT},
    "rp_with_prior": {"support": SUPPORT},
}


def labels_for(mechanism, n=60):
    rng = np.random.default_rng(0)
    if "support" in VARIANTS[mechanism]:
        return rng.uniform(-1, 5, n)
    return rng.choice(CLASSES, n, p=[0.6, 0.3, 0.1])


@pytest.mark.parametrize("mechanism", VARIANTS)
def test_every_mechanism(mechanism):
    y = labels_for(mechanism)
    before = y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        private = privatize_labels(y, mechanism=mechanism, **VARIANTS[mechanism])
    np.testing.assert_array_equal(y, before)
    assert private.labels.shape == y.shape and private.n_samples == 60
    np.testing.assert_array_equal(private.indices, np.arange(60))
    certificate = private.certificate
    assert certificate.holds and certificate.epsilon_total == 1.0 and certificate.n_releases == 1
    assert certificate.estimator == "PrivateLabels" and certificate.mechanism == mechanism
    if mechanism == "rp_with_prior":
        assert not hasattr(private, "transition_matrix")
    else:
        np.testing.assert_allclose(private.transition_matrix.sum(axis=1), 1)
    if private.classes is not None:
        assert set(private.labels) <= set(CLASSES) and private.classes.tolist() == CLASSES


def test_without_records_for_it_the_prior_is_uniform():
    expected = rr(3, 1.0).matrix()
    for mechanism in ("block_rr", "rr_with_prior"):
        private = privatize_labels(["ham"] * 9, mechanism=mechanism, classes=CLASSES)
        np.testing.assert_allclose(private.transition_matrix, expected)
        assert "uniform" in private.certificate.prior_source
        assert not any("prior was given" in c for c in private.certificate.caveats)
    bins = privatize_labels([0.0], mechanism="rr_on_bins", support=SUPPORT)
    uniform = rr_on_bins(SUPPORT, [0.25] * 4, 1.0).matrix()
    np.testing.assert_allclose(bins.transition_matrix, uniform)
    with pytest.raises(ValueError, match="prior or prior_fraction must be given"):
        privatize_labels(["ham"], mechanism="rr_top_k", k=1, classes=CLASSES)


def test_a_public_prior_is_a_stated_assumption():
    private = privatize_labels(["ham"] * 9, classes=CLASSES, prior=[0.5, 0.3, 0.2])
    assert any("prior was given" in caveat for caveat in private.certificate.caveats)
    np.testing.assert_array_equal(private.prior, [0.5, 0.3, 0.2])


@pytest.mark.parametrize("method", ["discrete_laplace", "rr"])
def test_the_prior_comes_from_other_records(method):
    y = np.repeat(CLASSES, [600, 300, 100])
    private = privatize_labels(
        y, epsilon=3.0, classes=CLASSES, prior_fraction=0.25, prior_method=method
    )
    assert len(private.indices) == len(private.labels) == 750
    assert np.all(np.diff(private.indices) > 0)
    assert private.certificate.epsilon_total == 3.0 == private.certificate.prior_epsilon
    assert any("250 records were set aside" in caveat for caveat in private.certificate.caveats)


@pytest.mark.parametrize("fraction", [0.0, 0.25])
def test_only_the_reading_that_applies_is_printed(fraction):
    private = privatize_labels(
        ["ham", "spam"] * 20, epsilon=3.0, classes=CLASSES, prior_fraction=fraction
    )
    certificate = private.certificate
    assert certificate.disjoint and not certificate.same_records and certificate.check()
    shown = " ".join(str(certificate).split())
    assert "Each label was used once: epsilon = 3." in shown and "1 release so far" in shown
    assert "If the" not in shown and "same records" not in shown
    assert certificate.epsilon_same_records == (6.0 if fraction else 3.0)  # if reused elsewhere
    assert type(certificate).from_json(certificate.to_json()) == certificate


def test_the_split_does_not_look_at_labels():
    """One seed, labels that differ everywhere: the same records are kept."""
    kept = []
    for y in (np.repeat(CLASSES, 20), np.repeat(CLASSES[::-1], 20), np.tile(CLASSES[0], 60)):
        with pytest.warns(PrivacyWarning):
            private = privatize_labels(
                y, classes=CLASSES, prior_fraction=0.3, mechanism="rr_with_prior", random_state=5
            )
        kept.append(private.indices)
    np.testing.assert_array_equal(kept[0], kept[1])
    np.testing.assert_array_equal(kept[0], kept[2])
    # Nor at the order: each record is kept in 28 of 40 draws; bounds at 1e-9 a record and side.
    counts = np.zeros(60)
    for _ in range(40):
        private = privatize_labels(
            ["ham"] * 60, classes=CLASSES, prior_fraction=0.3, mechanism="rr_with_prior"
        )
        counts[private.indices] += 1
    low, high = binom.ppf([1e-9, 1 - 1e-9], 40, 0.7)
    assert low <= counts.min() and counts.max() <= high


def test_observed_classes_are_those_of_all_records():
    """Also of a class that is among the records for the prior, or among the others, only."""
    y = ["b"] * 50 + ["a"]
    for _ in range(5):
        private = privatize_labels(y, classes="observed", prior_fraction=0.5, epsilon=5.0)
        assert private.classes.tolist() == ["a", "b"]
    assert any("observed" in caveat for caveat in private.certificate.caveats)


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0), np.random.default_rng(0)])
def test_seeds_warn_once_and_void(seed):
    y = labels_for("rr")
    with pytest.warns(PrivacyWarning, match="privatize_labels: the noise was seeded") as record:
        private = privatize_labels(y, classes=CLASSES, random_state=seed, prior_fraction=0.2)
    assert len(record) == 1 and record[0].filename == __file__
    assert not private.certificate.holds
    if seed == 0:
        with pytest.warns(PrivacyWarning):
            again = privatize_labels(y, classes=CLASSES, random_state=0, prior_fraction=0.2)
        np.testing.assert_array_equal(private.labels, again.labels)
        np.testing.assert_array_equal(private.indices, again.indices)


def test_other_warnings_pass_through():
    with pytest.warns(PrivacyWarning, match="epsilon is infinite"):
        private = privatize_labels([1, 2, 1], epsilon=np.inf, classes=[1, 2])
    assert private.labels.tolist() == [1, 2, 1] and not private.certificate.holds
    with pytest.warns(DataConversionWarning) as record:
        privatize_labels(np.array([["ham"], ["spam"]]), classes=CLASSES)
    assert len(record) == 1 and record[0].filename == __file__


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"classes": None}, "classes must be given"),
        ({"mechanism": "laplace"}, "mechanism must be one of"),
        ({"prior_fraction": 1.0}, "prior_fraction must be a number in [0, 1)"),
        ({"prior_fraction": 0.01}, "of n_samples=4 is 0 records"),
        ({"prior_fraction": 0.9}, "of n_samples=4 is 4 records"),
        ({"prior_fraction": 0.5, "prior": [0.5, 0.3, 0.2]}, "not used when prior is given"),
        ({"prior_fraction": 0.5, "mechanism": "rr"}, "not used by mechanism='rr'"),
        ({"prior_method": "rr"}, "prior_method='rr' is not used when prior_fraction is 0"),
        ({"prior_method": "counts"}, "prior_method must be one of"),
        ({"floor": 0.1}, "floor is not used"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": 0.0, "prior_fraction": 0.5}, "epsilon must be above 0 to learn a prior"),
        ({"mechanism": "rr_on_bins", "classes": None}, "support must be"),
        ({"random_state": -1, "prior_fraction": 0.5}, "random_state must be"),
    ],
)
def test_bad_parameters(given, match):
    with pytest.raises((ValueError, TypeError), match=re.escape(match)):
        privatize_labels(["ham", "spam", "ham", "ham"], **{"classes": CLASSES, **given})


@pytest.mark.parametrize(
    "y", [["ham", "secret"], [], None, np.array([["ham", "secret"]] * 3), np.array("secret")]
)
def test_bad_labels_are_not_printed(y):
    with pytest.raises(ValueError) as error:
        privatize_labels(y, classes=CLASSES)
    assert "secret" not in str(error.value) and error.value.__context__ is None
    with pytest.raises((ValueError, TypeError)) as error:
        LabelDPSampler(classes=CLASSES).fit_resample(np.zeros((2, 1)), y)
    assert "secret" not in str(error.value) and error.value.__context__ is None


# ---- the sampler -------------------------------------------------------------------------------


def test_sampler_returns_rows_of_the_same_type():
    y = labels_for("rr")
    X = np.arange(120.0).reshape(60, 2)
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(60) + 100)
    sampler = LabelDPSampler(classes=CLASSES, prior_fraction=0.5, mechanism="rr_with_prior")
    for given in (X, X.astype(np.float32), frame, sparse.coo_array(X), X.tolist()):
        kept, noisy = clone(sampler).fit_resample(given, y)
        n_kept = kept.shape[0] if hasattr(kept, "shape") else len(kept)
        assert n_kept == len(noisy) == 30
    kept, _ = sampler.fit_resample(sparse.coo_array(X), y)
    np.testing.assert_array_equal(kept.toarray(), X[sampler.sample_indices_])
    kept, _ = sampler.fit_resample(X.tolist(), y)
    np.testing.assert_array_equal(kept, X[sampler.sample_indices_])
    kept, noisy = sampler.fit_resample(frame, y)
    pd.testing.assert_frame_equal(kept, frame.iloc[sampler.sample_indices_])
    assert sampler.certificate_.estimator == "LabelDPSampler"
    assert sampler.classes_.tolist() == CLASSES and sampler.prior_.shape == (3,)
    stored = pickle.dumps(sampler)
    assert pickle.loads(stored).certificate_ == sampler.certificate_
    json.loads(sampler.certificate_.to_json())
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sampler.fit_resample(X, y[:-1])


def test_sampler_takes_all_parameters_of_the_function():
    """And gives them to it: one seed, one result."""
    given = {"mechanism": "rp_with_prior", "support": SUPPORT, "half_width": 0.5, "epsilon": 2.0}
    y = labels_for("rp_with_prior")
    with pytest.warns(PrivacyWarning, match="LabelDPSampler"):
        _, noisy = LabelDPSampler(**given, random_state=3).fit_resample(np.zeros((60, 1)), y)
    with pytest.warns(PrivacyWarning):
        private = privatize_labels(y, **given, random_state=3)
    np.testing.assert_array_equal(noisy, private.labels)
    fields = {field.name for field in dataclasses.fields(private)}
    assert fields >= {"labels", "indices", "mechanism", "certificate"}


def test_sampler_has_the_shape_that_imbalanced_learn_wants():
    """A step with fit_resample and without transform; or its Pipeline rejects it."""
    sampler = LabelDPSampler()
    assert hasattr(sampler, "fit_resample")
    assert not any(hasattr(sampler, name) for name in ("fit", "transform", "fit_transform"))


def test_sampler_in_a_pipeline_of_imbalanced_learn():
    pipeline = pytest.importorskip("imblearn.pipeline")
    rng = np.random.default_rng(0)
    y = rng.choice(CLASSES, 900)
    X = 3 * np.eye(3)[np.searchsorted(np.sort(CLASSES), y)] + rng.standard_normal((900, 3))
    sampler = LabelDPSampler(classes=CLASSES, epsilon=3.0, prior_fraction=0.1)
    model = pipeline.make_pipeline(sampler, StandardScaler(), LogisticRegression())
    model.fit(X, y)
    assert model[0].sample_indices_.shape == (810,)
    assert model.predict(X).shape == (900,)  # the step is skipped outside fit
    assert model.score(X, y) > 0.6
