"""Quantiles of same-label distances: exact, blocked, sampled; and the policies."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from skballdp import BallDPRidgePrototype, PrivacyWarning, radius, radius_quantiles
from skballdp.data import distance_tiles
from skballdp.radius import resolve_radius
from tests.conftest import load_goldens, reference_data

REFERENCE = load_goldens("reference_goldens")
LEVELS = (0.0, 0.1, 0.5, 0.8, 0.95, 1.0)


@pytest.mark.parametrize("entry", REFERENCE["radius"])
@pytest.mark.parametrize("aggregate, key", [("pooled", "pooled"), ("max", "max_labelwise")])
def test_reference_radii(entry, aggregate, key):
    X, y = reference_data(**entry)
    for name, expected in entry[key].items():
        level = float(name.removeprefix("q"))
        got = radius_quantiles(X, y, level, aggregate=aggregate)
        assert got == pytest.approx(expected, rel=1e-6)  # the reference computes in float32
    for part in entry["per_label"]:
        rows = y == part["label"]
        for name, expected in part["quantiles"].items():
            got = radius_quantiles(X[rows], y[rows], float(name.removeprefix("q")))
            assert got == pytest.approx(expected, rel=1e-6)


def clustered(rng):
    return np.repeat(rng.standard_normal((4, 6)) * 1e6, 100, axis=0) + 1e-3 * rng.standard_normal(
        (400, 6)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.standard_normal((400, 6)),
        lambda rng: rng.standard_normal((400, 6)) + 1e8,
        clustered,
        lambda rng: np.ones((400, 3)),
        lambda rng: rng.integers(0, 2, (400, 2)).astype(float),
    ],
    ids=["normal", "offset", "tight clusters", "all equal", "many ties"],
)
@pytest.mark.parametrize("collect", [500_000, 500])
def test_exact_quantiles_equal_numpy(make, collect, monkeypatch):
    monkeypatch.setattr(radius, "_COLLECT", collect)  # the small one forces counting passes
    X = make(np.random.default_rng(0))
    distances = pdist(X)
    for aggregate, method in (("max", "linear"), ("pooled", "linear")):
        got = radius_quantiles(X, np.zeros(400), LEVELS, aggregate=aggregate)
        np.testing.assert_allclose(got, np.quantile(distances, LEVELS, method=method), rtol=1e-9)


def test_max_and_pooled_over_classes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 3)) * np.repeat([1, 2, 5], 30)[:, None]
    y = np.repeat(["a", "b", "c"], 30)
    parts = [pdist(X[y == label]) for label in "abc"]
    got = radius_quantiles(X, y, [0.5, 0.9])
    np.testing.assert_allclose(got, np.quantile(parts[2], [0.5, 0.9]))
    got = radius_quantiles(X, y, [0.5, 0.9], aggregate="pooled")
    np.testing.assert_allclose(got, np.quantile(np.concatenate(parts), [0.5, 0.9], method="hazen"))
    assert isinstance(radius_quantiles(X, y, 0.5), float)


@pytest.mark.parametrize("convert", [np.float32, sp.csr_array, np.asfortranarray, list])
def test_containers_and_clipping(convert):
    rng = np.random.default_rng(2)
    X = (rng.standard_normal((60, 4)) * 2).astype(np.float32).astype(np.float64)
    y = rng.integers(0, 2, 60)
    expected = radius_quantiles(X, y)
    given = X.astype(np.float32) if convert is np.float32 else convert(X)
    np.testing.assert_allclose(radius_quantiles(given, y), expected, rtol=1e-6)
    clipped = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_allclose(
        radius_quantiles(given, y, norm_bound=1.0), radius_quantiles(clipped, y), rtol=1e-6
    )


@pytest.mark.parametrize("aggregate", ["max", "pooled"])
def test_sampling_reports_an_error_that_covers(aggregate):
    """A 95 % interval: at most 9 misses in 20, exceeded with probability below 1e-7."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 4))
    y = np.repeat([0, 1], [500, 100])
    exact = radius_quantiles(X, y, 0.8, aggregate=aggregate)
    misses = 0
    for seed in range(20):
        value, error = radius_quantiles(
            X, y, 0.8, aggregate=aggregate, max_pairs=3000, return_error=True, random_state=seed
        )
        assert 0 < error < 0.2
        misses += abs(value - exact) > error
    assert misses <= 9
    value, error = radius_quantiles(X, y, 0.8, aggregate=aggregate, return_error=True)
    assert (value, error) == (exact, 0.0)


def test_every_pair_occurs_once():
    X = np.random.default_rng(4).standard_normal((1000, 2))
    groups = [np.arange(0, 1000, 2), np.arange(1, 999, 2)]
    found = {0: [], 1: []}
    for number, distances in distance_tiles(X, groups):
        found[number].append(distances)
    for number, group in enumerate(groups):
        np.testing.assert_allclose(
            np.sort(np.concatenate(found[number])), np.sort(pdist(X[group])), rtol=1e-9
        )


def test_memory_stays_small():
    X = np.random.default_rng(5).standard_normal((4000, 8))
    y = np.zeros(4000)
    tracemalloc.start()
    radius_quantiles(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6  # all pairs take 64 MB


def test_policies_read_off_the_training_data_void_the_promise(blobs):
    X, y = blobs
    with pytest.warns(PrivacyWarning, match="radius_quantiles"):
        clf = BallDPRidgePrototype("q80").fit(X, y)
    assert not clf.certificate_.holds
    assert clf.radius_ == pytest.approx(radius_quantiles(X, y, 0.8))
    assert clf.certificate_.check()
    assert clf.radius == "q80"
    assert resolve_radius("q99.5", norm_bound=1.0, X=X, y=y).value <= 2
    # Distances are those after projection.
    assert BallDPRidgePrototype("q80").fit(10 * X, y).radius_ == pytest.approx(clf.radius_)


@pytest.mark.parametrize("policy", ["q", "q0", "q101", "Q50", "q-5", "50"])
def test_unknown_policies(blobs, policy):
    with pytest.raises(ValueError, match="radius must be"):
        BallDPRidgePrototype(policy).fit(*blobs)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"q": 1.5}, "q"),
        ({"q": [0.5, -0.1]}, r"q\[1\]"),
        ({"aggregate": "mean"}, "aggregate"),
        ({"max_pairs": 0}, "max_pairs"),
        ({"norm_bound": 0.0}, "norm_bound"),
    ],
)
def test_bad_input(blobs, arguments, name):
    with pytest.raises(ValueError, match=name):
        radius_quantiles(*blobs, **arguments)


def test_classes_of_one_record():
    with pytest.raises(ValueError, match="two records"):
        radius_quantiles(np.eye(3), [0, 1, 2])
    assert radius_quantiles(np.eye(3), [0, 0, 2], 0.5) == pytest.approx(np.sqrt(2))
