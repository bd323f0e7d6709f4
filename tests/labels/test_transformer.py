"""BlockRRLabelTransformer: our own conformance list, promises, warnings and errors."""

import dataclasses
import inspect
import json
import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skballdp import BlockRRLabelTransformer, LabelPrivacyCertificate, PrivacyWarning
from skballdp.exceptions import CertificationError
from skballdp.labels import rp_with_prior, rr, rr_on_bins
from skballdp.labels.certificate import PRIOR_SOURCES

CLASSES = ["ham", "spam", "maybe"]
SUPPORT = [0.0, 1.0, 2.0, 4.0]
VARIANTS = {
    "block_rr": {"classes": CLASSES},
    "rr": {"classes": CLASSES},
    "rr_top_k": {"classes": CLASSES, "k": 2},
    "rr_with_prior": {"classes": CLASSES},
    "rr_floor": {"classes": CLASSES, "floor": 0.3},
    "lp_optimal": {"classes": CLASSES, "utility": np.eye(3)},
    "rr_on_bins": {"support": SUPPORT},
    "rp_with_prior": {"support": SUPPORT},
}
TRANSFORMERS = [BlockRRLabelTransformer(name, **given) for name, given in VARIANTS.items()]
each = pytest.mark.parametrize("original", TRANSFORMERS, ids=list(VARIANTS))


@pytest.fixture
def transformer(original):
    return clone(original)


def labels_for(transformer, n=60):
    rng = np.random.default_rng(0)
    if transformer.support is not None:
        return rng.uniform(-1, 5, n)
    return rng.choice(CLASSES, n, p=[0.6, 0.3, 0.1])


# ---- conformance -------------------------------------------------------------------------------


@each
def test_conventions(transformer):
    before = {name: id(value) for name, value in transformer.get_params().items()}
    assert set(vars(transformer)) == set(before)  # nothing else is set in __init__
    y = labels_for(transformer)
    kept = y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        assert transformer.fit(y) is transformer
        noisy = transformer.transform(y)
    assert noisy.shape == y.shape
    np.testing.assert_array_equal(y, kept)
    assert {name: id(value) for name, value in transformer.get_params().items()} == before
    fitted = {name for name in vars(transformer) if name not in before}
    assert all(name.endswith("_") and not name.startswith("_") for name in fitted)
    other = clone(transformer)
    assert set(vars(other)) == set(before)
    assert other.set_params(epsilon=3.0).epsilon == 3.0
    restored = pickle.loads(pickle.dumps(transformer))
    assert restored.certificate_ == transformer.certificate_
    with pytest.warns(PrivacyWarning, match="release number 2"):
        restored.transform(y)
    assert repr(transformer)


@each
def test_not_fitted(transformer):
    y = labels_for(transformer)
    with pytest.raises(NotFittedError):
        transformer.transform(y)
    with pytest.raises(NotFittedError):
        _ = transformer.transition_matrix_
    assert not hasattr(transformer, "certificate_")


@each
def test_outputs_stay_in_the_domain(transformer):
    y = labels_for(transformer)
    noisy = transformer.fit(y).transform(y)
    if transformer.support is None:
        assert set(noisy) <= set(CLASSES) and transformer.classes_.tolist() == CLASSES
        np.testing.assert_allclose(transformer.transition_matrix_.sum(axis=1), 1)
        assert transformer.transition_matrix_.shape == (3, 3)
    elif transformer.mechanism == "rr_on_bins":
        assert set(noisy) <= set(transformer.mechanism_.bin_outputs)
        assert transformer.transition_matrix_.shape[0] == len(SUPPORT)
    else:
        first, last = transformer.mechanism_.support
        assert first <= noisy.min() and noisy.max() <= last
        assert not hasattr(transformer, "transition_matrix_")
    assert (transformer.prior_ is None) == (transformer.mechanism == "rr")


@each
def test_one_record(transformer):
    y = labels_for(transformer, 1)
    assert transformer.fit(y).transform(y).shape == (1,)
    assert clone(transformer).fit_transform(y).shape == (1,)


def typed_labels():
    return {
        "strings": (np.array(["b", "a", "c"]), ["b", "a", "c"]),
        "bool": (np.array([True, False]), [False, True]),
        "int": (np.array([7, -3, 5], dtype=np.int16), [5, -3, 7]),
        "float": (np.array([0.5, 1.5]), [0.5, 1.5]),
        "object strings": (np.array(["b", "a"], dtype=object), ["a", "b"]),
        "object numbers": (np.array([2, 1], dtype=object), [1, 2]),
        "object mixed": (np.array([("x",), 1, None], dtype=object)[1:2], None),
        "bytes": (np.array([b"b", b"a"]), [b"a", b"b"]),
        "list": (["b", "a"], ("a", "b")),
        "tuple of int": ((1, 0, 1), np.array([0, 1])),
        "series": (pd.Series(["b", "a"], index=[5, 9]), pd.Index(["a", "b"])),
        "nullable": (pd.Series(["b", "a"], dtype="string"), ["a", "b"]),
        "category": (pd.Series(["b", "a"], dtype="category"), ["a", "b"]),
    }


@pytest.mark.parametrize("kind", sorted(typed_labels()))
def test_types_of_labels(kind):
    """Without noise every label comes back as it was."""
    y, classes = typed_labels()[kind]
    if classes is None:
        classes = np.empty(2, dtype=object)
        classes[:] = [1, ("x",)]
    transformer = BlockRRLabelTransformer("rr", epsilon=math.inf, classes=classes)
    with pytest.warns(PrivacyWarning, match="epsilon is infinite"):
        out = transformer.fit(y).transform(y)
    assert out.tolist() == np.asarray(y).tolist()
    assert not transformer.certificate_.holds


def test_observed_classes_are_a_stated_assumption():
    y = ["b", "a", "b", "c"]
    transformer = BlockRRLabelTransformer(classes="observed").fit(y)
    assert transformer.classes_.tolist() == ["a", "b", "c"]
    assert transformer.certificate_.holds
    assert any("observed" in caveat for caveat in transformer.certificate_.caveats)


def test_column_vectors_warn_and_matrices_are_refused():
    transformer = BlockRRLabelTransformer(classes=CLASSES)
    y = np.array(["ham", "spam"])
    with pytest.warns(DataConversionWarning):
        transformer.fit(y[:, np.newaxis])
    with pytest.warns(DataConversionWarning):
        assert transformer.transform(y[:, np.newaxis]).shape == (2,)
    for bad in (np.array([["ham", "spam"]] * 3), [["ham"], ["spam", "ham"]], np.eye(3, dtype=int)):
        with pytest.raises(ValueError):
            transformer.fit(bad)


def test_a_pipeline_step_names_the_remedy():
    X, y = np.zeros((6, 2)), ["ham", "spam"] * 3
    pipeline = make_pipeline(BlockRRLabelTransformer(classes=CLASSES), LogisticRegression())
    with pytest.raises(TypeError, match="LabelDPClassifier"):
        pipeline.fit(X, y)
    with pytest.raises(TypeError, match="LabelDPClassifier"):
        BlockRRLabelTransformer(classes=CLASSES).fit(X, y)
    tags = BlockRRLabelTransformer().__sklearn_tags__()
    assert not tags.input_tags.two_d_array and tags.target_tags.one_d_labels


def test_every_mechanism_is_in_the_list():
    documented = inspect.getdoc(BlockRRLabelTransformer)
    assert all(f'"{name}"' in documented for name in VARIANTS)
    with pytest.raises(ValueError, match="mechanism must be one of"):
        BlockRRLabelTransformer("laplace", classes=CLASSES).fit(["ham"])


# ---- what is drawn -----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_frequencies(epsilon):
    """Each label is kept as often as the matrix says: binomial bounds at 1e-9 a side, and power."""
    n = 200_000
    transformer = BlockRRLabelTransformer(
        epsilon=epsilon, classes=CLASSES, prior=[0.7, 0.2, 0.1], sigma=1.0
    )
    transformer.fit(CLASSES)
    T = transformer.transition_matrix_
    noisy = transformer.transform(np.repeat(CLASSES, n)).reshape(3, n)
    for i, label in enumerate(CLASSES):
        kept = np.count_nonzero(noisy[i] == label)
        low, high = binom.ppf([1e-9, 1 - 1e-9], n, T[i, i])
        assert low <= kept <= high
        assert low > 0.98 * n * T[i, i] and high < 1.02 * n * T[i, i]


def test_automatic_parameters_depend_on_public_numbers():
    prior = np.array([10, 9, 3, 1]) / 23
    for epsilon, sigma, protected in (
        (0.5, 1.2, 2),
        (1.0, 1.2, 2),
        (2.0, 0.8, 3),
        (3.0, 0.8, 0),
        (5.0, 0.5, 0),
    ):
        transformer = BlockRRLabelTransformer(epsilon=epsilon, classes=range(4), prior=prior)
        facts = transformer.fit([0]).mechanism_.facts
        majority = np.flatnonzero(prior >= math.exp(-1 / sigma) * prior.max())
        assert facts["majority"] == majority.tolist()
        assert len(facts["protected"]) == (protected if facts["minority"] else 0)


def test_the_order_of_the_classes_is_that_of_prior_and_utility():
    transformer = BlockRRLabelTransformer(
        "rr_top_k", k=1, classes=["z", "a", "m"], prior=[0.6, 0.3, 0.1]
    )
    assert set(transformer.fit_transform(["a", "m", "z"])) == {"z"}


@pytest.mark.parametrize("prior_method, prior_epsilon", [("discrete_laplace", 0.01), ("rr", 1.0)])
def test_learned_priors(prior_method, prior_epsilon):
    """All noise zero has probability 2e-8, an error of 0.02 less than 1e-20."""
    y = np.repeat([0, 1, 2], [600_000, 300_000, 100_000])
    transformer = BlockRRLabelTransformer(
        "rr_with_prior",
        classes=[0, 1, 2],
        prior_epsilon=prior_epsilon,
        prior_method=prior_method,
    )
    prior = transformer.fit(y).prior_
    np.testing.assert_allclose(prior, [0.6, 0.3, 0.1], atol=0.02)
    assert prior.sum() == pytest.approx(1) and not np.array_equal(prior, [0.6, 0.3, 0.1])


def test_regression_targets_move_to_the_support():
    given = {"support": SUPPORT, "prior": [0.25] * 4, "epsilon": math.inf}
    transformer = BlockRRLabelTransformer("rr_on_bins", **given)
    y = np.array([-9, 0.2, 0.5, 0.6, 1.5, 2.9, 3.0, 3.1, 99])
    with pytest.warns(PrivacyWarning):
        out = transformer.fit(y).transform(y)
    assert out.tolist() == [0, 0, 0, 1, 1, 2, 2, 4, 4]
    cells = BlockRRLabelTransformer("rp_with_prior", support=SUPPORT, prior_epsilon=200.0)
    assert cells.fit(y).prior_.tolist() == [4 / 9, 1 / 9, 4 / 9]  # the noise is zero
    cells = BlockRRLabelTransformer("rp_with_prior", support=SUPPORT, prior=[0.2, 0.3, 0.5])
    assert np.isfinite(cells.fit_transform(y)).all()
    assert cells.mechanism_.half_width > 0


def test_bins_equal_the_function():
    transformer = BlockRRLabelTransformer("rr_on_bins", support=SUPPORT, prior=[0.4, 0.3, 0.2, 0.1])
    expected = rr_on_bins(SUPPORT, [0.4, 0.3, 0.2, 0.1], 1.0)
    transformer.fit([0.0])
    np.testing.assert_array_equal(transformer.transition_matrix_, expected.matrix())
    transformer.set_params(loss="poisson").fit([0.0])
    assert transformer.mechanism_.loss == "poisson"


def test_intervals_equal_the_function():
    prior, given = [0.6, 0.3, 0.1], {"half_width": 0.5, "outside": "uniform"}
    transformer = BlockRRLabelTransformer("rp_with_prior", support=SUPPORT, prior=prior, **given)
    assert transformer.fit([0.0]).mechanism_ == rp_with_prior(SUPPORT, prior, 0.5, 1.0, "uniform")


def test_another_fit_leaves_no_trace():
    transformer = BlockRRLabelTransformer("rr", classes=CLASSES).fit(["ham"])
    transformer.set_params(mechanism="rr_on_bins", classes=None, support=SUPPORT).fit([0.0])
    assert not hasattr(transformer, "classes_")


# ---- promises ----------------------------------------------------------------------------------


def test_both_readings():
    y = labels_for(TRANSFORMERS[0])
    transformer = BlockRRLabelTransformer(epsilon=1.0, prior_epsilon=0.25, classes=CLASSES)
    certificate = transformer.fit(y).certificate_
    assert certificate.epsilon_disjoint == 1.0 and certificate.epsilon_same_records == 1.25
    assert certificate.epsilon_total == 1.0 and certificate.n_releases == 0
    default = BlockRRLabelTransformer(epsilon=0.5, classes=CLASSES).fit(y).certificate_
    assert default.prior_epsilon == default.epsilon == 0.5
    costly = clone(transformer).set_params(prior_epsilon=3.0).fit(y).certificate_
    assert costly.epsilon_disjoint == costly.epsilon_total == 3.0
    assert costly.epsilon_same_records == 4.0
    transformer.fit_transform(y)
    assert transformer.n_releases_ == 1
    assert transformer.certificate_.epsilon_total == 1.25
    assert "same records" in str(transformer.certificate_)
    public = BlockRRLabelTransformer(classes=CLASSES, prior=[0.5, 0.3, 0.2])
    public.fit_transform(y)
    assert public.certificate_.epsilon_total == 1.0
    assert any("prior was given" in caveat for caveat in public.certificate_.caveats)
    assert BlockRRLabelTransformer("rr", classes=CLASSES).fit(y).certificate_.prior_epsilon == 0


def test_a_second_release_is_counted_and_warns():
    y = labels_for(TRANSFORMERS[0])
    transformer = BlockRRLabelTransformer(epsilon=1.0, classes=CLASSES).fit(y)
    transformer.transform(y)
    with pytest.warns(PrivacyWarning, match="budgets add") as record:
        transformer.transform(y)
    assert record[0].filename == __file__
    assert transformer.n_releases_ == 2
    assert transformer.certificate_.epsilon_total == 3.0  # prior and two releases
    transformer.fit(y)
    assert transformer.n_releases_ == 0


@each
def test_certificates_check(transformer):
    certificate = transformer.fit(labels_for(transformer)).certificate_
    assert certificate.check() and certificate.prior_source in PRIOR_SOURCES
    assert LabelPrivacyCertificate.from_json(certificate.to_json()) == certificate


TAMPERED = [
    ("version", 2),
    ("version", True),
    ("estimator", None),
    ("mechanism", 1),
    ("epsilon", -0.1),
    ("epsilon", 701.0),
    ("epsilon", math.nan),
    ("epsilon", "1.0"),
    ("epsilon", True),
    ("epsilon", math.inf),  # and nothing voids the promise
    ("prior_epsilon", None),
    ("prior_epsilon", 0.0),  # but the prior was learned
    ("prior_epsilon", math.inf),
    ("prior_source", "given by the caller"),  # but it cost something
    ("prior_source", ["a list"]),
    ("same_records", 0),
    ("disjoint", 1),
    ("n_releases", -1),
    ("n_releases", 1.0),
    ("n_labels", 0),
    ("n_outputs", 0),
    ("n_outputs", "3"),
    ("voided_by", "a reason"),
    ("caveats", (1,)),
]


@pytest.mark.parametrize(("field", "value"), TAMPERED)
def test_tampering_is_noticed(field, value):
    certificate = BlockRRLabelTransformer(classes=CLASSES).fit(["ham"]).certificate_
    wrong = dataclasses.replace(certificate, **{field: value})
    with pytest.raises(CertificationError, match=f"contradicts itself: .*{field}"):
        wrong.check()
    record = json.loads(certificate.to_json())
    record[field] = list(value) if isinstance(value, tuple) else value
    with pytest.raises(ValueError, match=field):
        LabelPrivacyCertificate.from_json(json.dumps(record))


def test_a_contradiction_about_the_records_is_noticed():
    coder = BlockRRLabelTransformer(classes=CLASSES)
    coder.fit_transform(["ham"])
    same = coder.certificate_
    twice = dataclasses.replace(same, same_records=False, n_releases=2)
    for certificate in (same, twice):
        with pytest.raises(CertificationError, match="disjoint"):
            dataclasses.replace(certificate, disjoint=True).check()


def test_texts_that_do_not_know_of_disjoint_records_are_read():
    """The safe side: both readings."""
    certificate = BlockRRLabelTransformer(classes=CLASSES).fit(["ham"]).certificate_
    record = json.loads(certificate.to_json())
    assert record.pop("disjoint") is False
    assert LabelPrivacyCertificate.from_json(json.dumps(record)) == certificate


def test_printed_budgets_are_rounded_up():
    transformer = BlockRRLabelTransformer(epsilon=1.0000001, prior_epsilon=0.1, classes=CLASSES)
    text = str(transformer.fit(["ham"]).certificate_)
    assert "epsilon = 1.00001." in text and "epsilon = 1.10001." in text
    assert "epsilon 1.00001 a release" in text and "epsilon 0.1" in text


def test_certificates_are_records():
    y = labels_for(TRANSFORMERS[0])
    transformer = BlockRRLabelTransformer(epsilon=math.inf, prior_epsilon=1.0, classes=CLASSES)
    with pytest.warns(PrivacyWarning, match="infinite"):
        transformer.fit(y)
    certificate = transformer.certificate_
    text = certificate.to_json()
    assert json.loads(text)["epsilon"] == "inf"
    assert LabelPrivacyCertificate.from_json(text) == certificate
    assert "VOID" in str(certificate) and "<h3>" in certificate._repr_html_()
    assert "label of one record" in certificate.adjacency
    for bad in ("[]", "{}", text.replace('"epsilon"', '"epsilom"')):
        with pytest.raises(ValueError):
            LabelPrivacyCertificate.from_json(bad)
    held = BlockRRLabelTransformer(classes=CLASSES).fit(y).certificate_
    assert held.holds and "The promise holds." in str(held)


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0), np.random.default_rng(0)])
def test_seeds_void_the_certificate(seed):
    y = labels_for(TRANSFORMERS[0])
    transformer = BlockRRLabelTransformer(classes=CLASSES, random_state=seed)
    with pytest.warns(PrivacyWarning, match="seed") as record:
        transformer.fit(y)
    assert len(record) == 1 and record[0].filename == __file__
    assert not transformer.certificate_.holds
    first = transformer.transform(y)
    with pytest.warns(PrivacyWarning):
        assert not np.array_equal(first, transformer.transform(y))  # fresh noise
    if seed == 0:
        with pytest.warns(PrivacyWarning):
            np.testing.assert_array_equal(first, clone(transformer).fit(y).transform(y))


def test_a_seed_that_is_set_after_fit_voids_the_certificate_too():
    y = labels_for(TRANSFORMERS[0])
    transformer = BlockRRLabelTransformer(classes=CLASSES).fit(y)
    transformer.set_params(random_state=0)
    with pytest.warns(PrivacyWarning, match="seed") as record:
        transformer.transform(y)
    assert len(record) == 1 and record[0].filename == __file__
    assert not transformer.certificate_.holds and transformer.certificate_.n_releases == 1
    transformer.set_params(random_state=None)
    with pytest.warns(PrivacyWarning, match="release number 2") as record:
        transformer.transform(y)
    assert len(record) == 1 and len(transformer.certificate_.voided_by) == 1


def test_other_weaknesses_warn():
    y = labels_for(TRANSFORMERS[0])
    with pytest.warns(PrivacyWarning, match="hides next to nothing"):
        BlockRRLabelTransformer(epsilon=30.1, classes=CLASSES).fit(y)
    with pytest.warns(PrivacyWarning, match="the prior is not private"):
        transformer = BlockRRLabelTransformer(prior_epsilon=math.inf, classes=CLASSES).fit(y)
    assert not transformer.certificate_.holds


def test_a_label_of_the_prior_does_not_touch_the_draws():
    """With the estimate fixed, the labels that made it have no influence; nor is a label stored."""
    y = ["ham"] * 50 + ["spam"] * 10
    a = BlockRRLabelTransformer("rr", classes=CLASSES, random_state=0)
    b = clone(a)
    with pytest.warns(PrivacyWarning):
        a.fit(y)
        b.fit([*y[:-1], "maybe"])
    z = labels_for(TRANSFORMERS[0])
    np.testing.assert_array_equal(a.transform(z), b.transform(z))
    stored = pickle.dumps(BlockRRLabelTransformer(classes=range(3)).fit([0] * 400 + [1] * 13))
    assert len(stored) < 4000


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"classes": None}, "classes must be given"),
        ({"classes": "seen"}, "classes must be one of 'observed'"),
        ({"classes": ["ham"]}, "at least two classes"),
        ({"classes": []}, "at least two classes"),
        ({"classes": {"ham", "spam"}}, "one-dimensional list of labels, got an object of type set"),
        ({"classes": 3}, "one-dimensional list"),
        ({"classes": [["ham", "spam"]]}, "one-dimensional list"),
        ({"classes": [["ham", "spam"], ["maybe"]]}, "one-dimensional list"),
        ({"classes": np.array([{}, {}])}, "hashable labels"),
        ({"classes": ["ham", "ham", "spam"]}, "duplicate"),
        ({"classes": [0.0, math.nan]}, "classes contains NaN"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"epsilon": 701}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"epsilon": 0}, "prior_epsilon must be above 0"),
        ({"prior_epsilon": -1}, "prior_epsilon must be"),
        ({"prior_method": "laplace"}, "prior_method must be"),
        ({"prior": [0.5, 0.5]}, "one entry per class"),
        ({"prior": [0.5, 0.6, 0.1]}, "sum to 1"),
        ({"prior": [0.5, 0.3, 0.2], "prior_epsilon": 1.0}, "not used when prior is given"),
        ({"prior": [0.5, 0.3, 0.2], "prior_method": "rr"}, "not used when prior is given"),
        ({"prior": [1.1, -0.2, 0.1]}, "prior must be non-negative"),
        ({"prior": [[0.5, 0.3, 0.2]]}, "prior must be a one-dimensional array"),
        ({"sigma": None}, "sigma must be given for mechanism='block_rr', got None. Its default is"),
        ({"l": None}, "l must be given for mechanism='block_rr', got None. Its default is 'auto'"),
        ({"sigma": 0}, "sigma must be"),
        ({"sigma": "wide"}, "sigma must be"),
        ({"l": -1}, "l must be"),
        ({"l": "all"}, "l must be"),
        ({"k": 2}, "k is not used by mechanism='block_rr', got 2: leave it at its default, None"),
        ({"floor": 0.1}, "floor is not used"),
        ({"support": SUPPORT}, "support is not used"),
        ({"utility": np.eye(3)}, "not used by mechanism='block_rr', got an object of type ndarray"),
        ({"mechanism": "rr", "sigma": 1.0}, "sigma is not used"),
        ({"mechanism": "rr", "prior": [0.5, 0.3, 0.2]}, "prior is not used"),
        ({"mechanism": "rr_top_k"}, "k must be given"),
        ({"mechanism": "rr_top_k", "k": 4}, "k must be an integer between 1 and 3"),
        ({"mechanism": "rr_floor"}, "floor must be given"),
        ({"mechanism": "rr_floor", "floor": 0.9}, "floor must not exceed"),
        ({"mechanism": "lp_optimal"}, "utility must be given"),
        ({"mechanism": "lp_optimal", "utility": np.ones((3, 2))}, "one column per class"),
        ({"mechanism": "rr_on_bins", "support": SUPPORT}, "classes is not used"),
        ({"mechanism": "rr_on_bins", "classes": None}, "support must be given"),
        ({"mechanism": "rr_on_bins", "classes": None, "support": [1, 0]}, "strictly increasing"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters(given, match):
    transformer = BlockRRLabelTransformer(**{"classes": CLASSES, **given})
    with pytest.raises(ValueError, match=re.escape(match)):
        transformer.fit(["ham", "spam"])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (["ham", "secret"], "labels not in classes"),
        ([1, 2], "labels not in classes"),
        ([1.0, math.nan], "NaN"),
        (np.array(["ham", None], dtype=object), "NaN or None"),
        (pd.Series(["ham", pd.NA], dtype="string"), "NaN"),
        ([], "at least one label"),
    ],
)
def test_bad_labels_are_not_printed(y, match):
    transformer = BlockRRLabelTransformer(classes=CLASSES)
    for call in (transformer.fit, clone(transformer).fit(["ham"]).transform):
        with pytest.raises(ValueError, match=match) as error:
            call(y)
        assert "secret" not in str(error.value) and error.value.__cause__ is None


def test_labels_without_an_order_cannot_be_observed():
    """And the error neither prints them nor carries numpy's, whose frames hold them."""
    y = np.array(["secret", 1, ("secret",)], dtype=object)
    with pytest.raises(ValueError, match="List the classes") as error:
        BlockRRLabelTransformer(classes="observed").fit(y)
    assert "secret" not in str(error.value) and error.value.__context__ is None


@pytest.mark.parametrize("mechanism", ["rr_on_bins", "rp_with_prior"])
def test_bad_targets(mechanism):
    dates = np.array(["2020", "2021"], dtype="datetime64[Y]")
    missing = pd.Series([1, pd.NA], dtype="Int64")
    for y in ([0.0, math.nan], [math.inf], ["a", "b"], ["1.5", "2"], dates, missing):
        with pytest.raises(ValueError, match="finite numbers"):
            BlockRRLabelTransformer(mechanism, support=SUPPORT).fit(y)


def test_large_data_in_one_call():
    """Memory is linear in n, and codes agree with the order of unsorted classes."""
    y = np.random.default_rng(0).integers(0, 3, 100_000)
    with pytest.warns(PrivacyWarning):
        transformer = BlockRRLabelTransformer("rr", epsilon=math.inf, classes=[2, 0, 1]).fit(y)
    np.testing.assert_array_equal(transformer.transform(y), y)
    assert rr(3, 1.0).sample(y).max() == 2
