"""What every head refuses, and that it tells nothing private when it does."""

import math
import pickle
import traceback

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skballdp import BallDPRidgePrototype, CertificationError, PrivacyWarning, Radius
from tests.instances import HEADS, names

heads = pytest.mark.parametrize("head", HEADS, ids=names(HEADS))

BAD_PARAMETERS = [
    ("epsilon", -1.0, ValueError),
    ("epsilon", math.nan, ValueError),
    ("epsilon", "1", TypeError),
    ("epsilon", None, TypeError),
    ("epsilon", True, TypeError),
    ("delta", 0.0, ValueError),
    ("delta", 1.0, ValueError),
    ("delta", -1e-6, ValueError),
    ("delta", math.nan, ValueError),
    ("delta", "small", TypeError),
    ("radius", -0.1, ValueError),
    ("radius", math.nan, ValueError),
    ("radius", math.inf, ValueError),
    ("radius", "huge", ValueError),
    ("radius", None, TypeError),
    ("radius", True, TypeError),
    ("radius", [0.5], TypeError),
    ("norm_bound", 0.0, ValueError),
    ("norm_bound", -1.0, ValueError),
    ("norm_bound", math.inf, ValueError),
    ("norm_bound", math.nan, ValueError),
    ("norm_bound", "1", TypeError),
    ("out_of_bound", "ignore", ValueError),
    ("out_of_bound", None, TypeError),
    ("alpha", 0.0, ValueError),
    ("alpha", -1.0, ValueError),
    ("alpha", math.inf, ValueError),
    ("alpha", "auto", TypeError),
    ("noise", "gaussian", ValueError),
    ("noise", None, TypeError),
    ("classes", "ab", ValueError),
    ("classes", [0], ValueError),
    ("classes", [0, 0, 1, 2], ValueError),
    ("classes", [[0, 1, 2]], ValueError),
    ("classes", [0, 1], ValueError),
    ("random_state", -1, ValueError),
    ("random_state", "seed", TypeError),
    ("random_state", 1.5, TypeError),
]
PROTOTYPE_PARAMETERS = [
    ("calibration", "none", ValueError),
    ("calibration", 1, TypeError),
    ("priors", "flat", ValueError),
    ("priors", [0.5, 0.5], ValueError),
    ("priors", [0.5, 0.6, -0.1], ValueError),
    ("priors", [0.5, 0.3, 0.1], ValueError),
    ("priors", [0.5, 0.5, math.nan], ValueError),
    ("prior_scale", 0.0, ValueError),
    ("prior_scale", "wide", TypeError),
    ("public_prototypes", np.zeros((2, 5)), ValueError),
    ("public_prototypes", np.full((3, 5), math.nan), ValueError),
    ("public_prototypes", "mean", ValueError),
]


@heads
@pytest.mark.parametrize("name, value, error", BAD_PARAMETERS)
def test_bad_parameters(head, blobs, name, value, error):
    with pytest.raises(error, match=name) as caught:
        clone(head).set_params(**{name: value}).fit(*blobs)
    assert len(str(caught.value)) > len(name) + 20  # says what is wanted


@pytest.mark.parametrize("name, value, error", PROTOTYPE_PARAMETERS)
def test_bad_prototype_parameters(blobs, name, value, error):
    with pytest.raises(error, match=name):
        BallDPRidgePrototype(**{name: value}).fit(*blobs)


def test_bad_combinations(blobs):
    with pytest.raises(ValueError, match="norm_bound"):
        BallDPRidgePrototype(norm_bound=None).fit(*blobs)
    with pytest.raises(ValueError, match="prior_scale"):
        BallDPRidgePrototype(0.5, norm_bound=None, priors="empirical").fit(*blobs)
    with pytest.raises(ValueError, match="delta"):
        BallDPRidgePrototype(epsilon=1.0, delta=0).fit(*blobs)
    BallDPRidgePrototype(epsilon=math.inf, delta=0).fit(*blobs)


@heads
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_records(head, blobs, container, value):
    X, y = blobs[0].copy(), blobs[1]
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(head).fit(container(X), y)
    clf = clone(head).fit(*blobs)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clf.predict(container(X))


@heads
def test_bad_data(head, blobs):
    X, y = blobs
    head = clone(head)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        head.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Complex data"):
        head.fit(X + 1j, y)
    with pytest.raises(ValueError, match="1 class"):
        head.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="1 class"):
        clone(head).set_params(classes=[0, 1]).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="1 sample"):
        head.fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="0 sample"):
        head.fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="0 feature"):
        head.fit(X[:, :0], y)
    with pytest.raises(ValueError, match="Reshape your data"):
        head.fit(X[:, 0], y)
    with pytest.raises(ValueError, match="label type"):
        head.fit(X, np.linspace(0, 1, len(X)) + 0.123)
    with pytest.raises(ValueError, match="features"):
        head.fit(X, y).predict(X[:, :-1])


@heads
def test_unknown_labels_are_not_printed(head, blobs):
    X, y = blobs
    labels = np.array(["a", "b", "secret"])[y]
    with pytest.raises(ValueError, match="not in classes") as caught:
        clone(head).set_params(classes=["a", "b"]).fit(X, labels)
    assert "secret" not in str(caught.value)


@heads
def test_what_float64_cannot_certify_is_refused_before_the_data_are_read(head, blobs):
    X, y = blobs
    poisoned = np.full_like(X, math.nan)
    with pytest.raises(CertificationError, match="radius") as caught:
        clone(head).set_params(radius=1e-15).fit(poisoned, y)
    for name in ("n_samples", "n_features", "norm_bound", "alpha"):
        assert name in str(caught.value)


@heads
def test_released_parameters_lie_on_a_public_grid(head, blobs):
    """Multiples of a power of two that, like the scale, is known before the rows are read."""
    clf = clone(head).fit(*blobs)
    certificate = clf.certificate_
    assert certificate.noise == "discrete" and certificate.check()
    released = clf.released_parameters_.reshape(len(certificate.grid), -1)
    for block, grid, scale in zip(released, certificate.grid, certificate.noise_scale, strict=True):
        np.testing.assert_array_equal(block / grid, np.rint(block / grid))
        assert np.all(np.abs(block / grid) < 2.0**53)
        assert 2.0**24 <= scale / grid <= 2.0**41
    continuous = clone(head).set_params(noise="continuous")
    with pytest.warns(PrivacyWarning, match="digits can name the hidden record"):
        continuous.fit(*blobs)
    scaled = continuous.released_parameters_ / max(certificate.grid)
    assert np.any(scaled != np.rint(scaled)) or np.max(np.abs(scaled)) >= 2.0**51
    assert continuous.certificate_.noise == "continuous" and continuous.certificate_.check()


def test_noise_beyond_float64_is_refused(blobs):
    clf = BallDPRidgePrototype(epsilon=0, delta=5e-324, norm_bound=1e50)
    with pytest.raises(CertificationError, match="float64"):
        clf.fit(*blobs)


@heads
@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_noise_below_the_spacing_of_floats_is_refused(head, blobs, noise):
    clf = clone(head).set_params(noise=noise, epsilon=1e30)
    with pytest.raises(CertificationError, match="too small to be added"):
        clf.fit(*blobs)


@heads
def test_calibration_does_not_depend_on_the_rows(head, blobs):
    X, y = blobs
    rng = np.random.default_rng(0)
    head = clone(head).set_params(radius=0.5)
    first = clone(head).fit(X, y)
    second = clone(head).fit(5 * rng.standard_normal(X.shape), y)
    assert first.certificate_ == second.certificate_
    np.testing.assert_array_equal(head.noise_scale_for(X, y), head.noise_scale_for(-X, y))


@heads
def test_underflow_in_the_rows_is_never_reported(head, blobs):
    """Else it would decide, by the rows, whether there is a release."""
    X, y = blobs
    rng = np.random.default_rng(3)
    X = X * 10.0 ** rng.integers(-200, 140, size=(len(X), 1))
    clf = clone(head).set_params(radius=0.5, delta=1e-3)
    with np.errstate(all="raise"):
        clf.fit(X, y)
        clf.exact_optimum(sp.csr_array(X), y)
        clf.neighbour_optima(X, y, 0, X[:3])


@heads
def test_the_protocol_stores_nothing(head, blobs):
    X, y = blobs
    head = clone(head)
    before = dict(vars(head))
    theta = head.exact_optimum(X, y)
    scale = head.noise_scale_for(X, y)
    assert vars(head) == before
    fitted = clone(head).fit(X, y)
    assert fitted.released_parameters_.shape == theta.shape
    assert np.shape(scale) in ((), theta.shape)


def test_radius_objects(blobs):
    clf = BallDPRidgePrototype(Radius(0.4, source="policy 7", epsilon=0.25)).fit(*blobs)
    assert clf.radius_ == 0.4
    assert clf.certificate_.radius_source == "policy 7"
    assert clf.certificate_.radius_epsilon == 0.25
    for bad in ({"value": -1.0}, {"value": math.inf}, {"value": 1.0, "epsilon": -1.0}):
        with pytest.raises(ValueError, match="must be a number"):
            Radius(**bad)
    with pytest.raises(TypeError, match="source"):
        Radius(1.0, source=3)


SECRET = 0.123456789


def bad_arrays():
    """Input of which scikit-learn's own messages quote the values."""
    X = np.full((4, 3), SECRET)
    return {
        "complex": X + 1j,
        "one dimension": X[0],
        "three dimensions": X[None],
        "scalar": np.array(SECRET),
        "words": np.array([["secret-john", SECRET]] * 4, dtype=object),
        # Texts that contain what messages without data begin with.
        **{
            words: np.array([[f"john: {words}"] * 3] * 4, dtype=object)
            for words in ("a sparse text", "feature names", "Found array with", "y cannot be None")
        },
        "ragged": [[SECRET], [SECRET, 1.0], [1.0], [2.0]],
        "dates": np.full((4, 3), np.datetime64("2020-01-23")),
        "frame": pd.DataFrame({"a": ["secret-john"] * 4, "b": [SECRET] * 4}),
    }


@heads
@pytest.mark.parametrize("name", bad_arrays())
@pytest.mark.parametrize("method", ["fit", "exact_optimum", "noise_scale_for", "predict"])
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_errors_quote_no_data(head, blobs, name, method):
    X = bad_arrays()[name]
    clf = clone(head)
    if method == "predict":
        clf.fit(*blobs)
    with pytest.raises((ValueError, TypeError)) as caught:
        getattr(clf, method)(X) if method == "predict" else getattr(clf, method)(X, [0, 1, 0, 1])
    text = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.args)
    assert "0.123" not in text and "john" not in text and "2020" not in text
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@heads
def test_nothing_private_is_left_in_a_fitted_model(head):
    """No row, no exact parameter and no norm, as bytes of either precision, in a dump or a repr."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 7)), np.arange(40) % 3
    clf = clone(head).set_params(radius=0.5, delta=1e-3)
    optimum = clf.exact_optimum(X, y)
    clf.fit(X, y)
    dump = pickle.dumps(clf) + repr(clf).encode() + str(vars(clf)).encode()
    for secrets in (X.ravel(), np.linalg.norm(X, axis=1), optimum):
        for i, secret in enumerate(secrets):
            # Four bytes occur by chance, more so among multiples of a grid: two numbers in a row.
            for dtype, length in (("<f8", 1), (">f8", 1), ("<f4", 2), (">f4", 2)):
                assert secrets[i : i + length].astype(dtype).tobytes().ljust(8) not in dump
            assert repr(float(secret)).encode() not in dump
    assert len(optimum) == len(clf.released_parameters_)


@heads
@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": 1e-60},
        {"alpha": 1e60},
        {"radius": 1e-322},
        {"norm_bound": 1e-50, "radius": 1e-50},
        {"norm_bound": 1e50},
        {"epsilon": 1e12},
        {"epsilon": 1e300},
        {"epsilon": 1e-300},
        {"delta": 1e-310},
        {"epsilon": 0, "delta": 1e-310, "norm_bound": 1e50},
    ],
    ids=str,
)
def test_extreme_parameters_are_certified_or_refused(head, blobs, parameters):
    X, y = blobs
    clf = clone(head).set_params(**parameters)
    try:
        clf.fit(X, y)
    except CertificationError:
        return
    assert clf.certificate_.check()
    assert np.all(np.asarray(clf.noise_scale_) > 0)
    assert np.all(np.isfinite(clf.released_parameters_))
    assert str(clf.certificate_)
    noise = clf.released_parameters_ - clf.exact_optimum(X, y)
    assert np.count_nonzero(noise) == len(noise)


def test_underflow_never_means_no_noise():
    X, y = np.eye(4) * 1e100, [0, 0, 1, 1]
    for parameters in ({"radius": 1e-322}, {"radius": 1e-250, "alpha": 1e60}):
        with pytest.raises(CertificationError, match="float64"):
            BallDPRidgePrototype(norm_bound=None, delta=1e-3, **parameters).fit(X, y)
