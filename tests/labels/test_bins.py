"""RR-on-Bins against brute force, RPWithPrior against its density."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from skballdp.labels import rp_with_prior, rr_on_bins

LOSSES = {
    "squared": lambda v, y: (v - y) ** 2,
    "absolute": lambda v, y: np.abs(v - y),
    "poisson": lambda v, y: v - y * np.log(v),
}


def best_output(loss, weights, values):
    if loss == "absolute":
        return values[np.argmax(np.cumsum(weights) >= weights.sum() / 2 * (1 - 1e-12))]
    return weights @ values / weights.sum()


def objective_of_map(bins, values, prior, q, loss):
    """Expected loss of the best outputs for a map of values to bins, term by term."""
    labels, total = sorted(set(bins)), 0.0
    for b in labels:
        weights = prior * np.where(np.array(bins) == b, 1.0, q)
        output = best_output(loss, weights, values)
        total += weights @ LOSSES[loss](output, values)
    return total / (1 + (len(labels) - 1) * q)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(6))
def test_against_all_maps(loss, seed):
    """Not only intervals: all partitions of six values."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.uniform(0.1, 10, 6))
    prior, epsilon = rng.dirichlet(np.ones(6)), float(rng.choice([0.3, 1.0, 2.5, 6.0]))
    best = min(
        objective_of_map(bins, values, prior, math.exp(-epsilon), loss)
        for bins in itertools.product(range(4), repeat=6)
        if bins[0] == 0 and all(b <= max(bins[:i]) + 1 for i, b in enumerate(bins) if i)
    )
    for method in ("fractional", "dynamic"):
        mechanism = rr_on_bins(values, prior, epsilon, loss, method=method)
        if mechanism.n_outputs <= 4:
            assert mechanism.objective == pytest.approx(best, rel=1e-12)
        else:
            assert mechanism.objective <= best
        direct = objective_of_map(
            mechanism.bin_of_value.tolist(), values, prior, math.exp(-epsilon), loss
        )
        assert mechanism.objective == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_both_searches_agree(loss):
    rng = np.random.default_rng(3)
    values, prior = np.sort(rng.uniform(0, 5, 80)), rng.dirichlet(np.ones(80))
    for epsilon in (0.0, 0.5, 3.0, 8.0, 50.0, math.inf):
        a, b = (
            rr_on_bins(values, prior, epsilon, loss, method=m) for m in ("fractional", "dynamic")
        )
        assert a.objective == pytest.approx(b.objective, rel=1e-11, abs=1e-12)
        T = a.matrix()
        expected = np.sum(prior * (T * LOSSES[loss](a.bin_outputs, values[:, np.newaxis])).sum(1))
        assert a.objective == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_a_large_offset_changes_nothing(loss, offset):
    values, prior = np.array([0.0, 1, 2, 4, 7, 11]), np.array([9, 7, 5, 4, 2, 1]) / 28
    near, far = (rr_on_bins(values + shift, prior, 1.5, loss) for shift in (0, offset))
    assert near.objective == pytest.approx(far.objective, rel=1e-9)
    assert near.bin_of_value.tolist() == far.bin_of_value.tolist()
    np.testing.assert_allclose(far.bin_outputs - offset, near.bin_outputs, atol=1e-15 * offset)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [12.0, 40.0, 700.0])
def test_bins_of_rare_values_are_exact(loss, epsilon):
    """Sums over prefixes lose the digits of a bin that is a millionth of the whole."""
    values = np.array([1.0, 2, 3, 4, 5])
    prior = np.array([1 - 3e-6, 1e-6, 1e-7, 1.9e-6, 0])
    mechanism = rr_on_bins(values, prior, epsilon, loss)
    q = math.exp(-epsilon)
    for b, output in enumerate(mechanism.bin_outputs):
        weights = prior * np.where(mechanism.bin_of_value == b, 1.0, q)
        assert output == pytest.approx(best_output(loss, weights, values), rel=1e-15, abs=0)
    direct = objective_of_map(mechanism.bin_of_value.tolist(), values, prior, q, loss)
    assert mechanism.objective == pytest.approx(direct, rel=1e-14, abs=0)


def test_a_thousand_values():
    values = np.linspace(0, 1, 1000)
    mechanism = rr_on_bins(values, np.full(1000, 1e-3), 4.0)
    assert mechanism.n_outputs > 2 and np.all(np.diff(mechanism.bin_outputs) > 0)
    drawn = mechanism.bin_outputs[mechanism.sample(np.arange(1000))]
    assert drawn.min() >= 0 and drawn.max() <= 1


def test_bins_of_probability_zero():
    mechanism = rr_on_bins([0, 1, 2, 3], [0.5, 0.0, 0.0, 0.5], math.inf)
    assert mechanism.objective == pytest.approx(0, abs=1e-15)
    assert np.all(np.isfinite(mechanism.bin_outputs))
    poisson = rr_on_bins([0, 1, 2], [0.5, 0.3, 0.2], math.inf, "poisson")
    assert poisson.bin_outputs[0] == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0, 0], [0.5, 0.5], 1.0), "values must be finite and strictly increasing"),
        (([0, math.nan], [0.5, 0.5], 1.0), "values must be finite"),
        (([0, 1], [1.0], 1.0), "prior must have one entry"),
        (([0, 1], [0.5, 0.5], 1.0, "cubic"), "loss must be"),
        (([-1, 1], [0.5, 0.5], 1.0, "poisson"), "values must be non-negative"),
        (([0, 1], [1.0, 0.0], 1.0, "poisson"), "some positive one"),
    ],
)
def test_bad_bins(arguments, match):
    with pytest.raises(ValueError, match=match):
        rr_on_bins(*arguments)


# ---- RPWithPrior -------------------------------------------------------------------------------

NODES, MASS = [0, 1, 2, 3, 4, 5], [40, 25, 15, 12, 8]


@pytest.mark.parametrize("outside", ["project", "uniform"])
def test_the_sampler_has_the_density(outside):
    """Chi-square over 40 cells, for targets inside, at an end and outside; power against 2 %."""
    n = 4_000_000
    mechanism = rp_with_prior(NODES, MASS, 0.25, 1.0, outside)
    first, last = mechanism.support
    edges = np.linspace(first, last, 41)
    for seed, y in enumerate([0.0, 0.75, 2.0, 3.7]):
        drawn = mechanism.sample(np.full(n, y), seed)
        assert drawn.min() >= first and drawn.max() <= last
        counts = np.histogram(drawn, edges)[0]

        def probabilities(near_factor, y=y):
            near, far = mechanism.density_near * near_factor, mechanism.density_far
            inside = outside == "project" or mechanism.low <= y <= mechanism.high
            centre = np.clip(y, mechanism.low, mechanism.high)
            overlap = np.minimum(edges[1:], centre + 0.25) - np.maximum(edges[:-1], centre - 0.25)
            mass = far * np.diff(edges) + inside * np.maximum(overlap, 0) * (near - far)
            return mass / mass.sum()

        def p_value(expected, counts=counts):
            return chi2.sf(((counts - n * expected) ** 2 / (n * expected)).sum(), 39)

        assert p_value(probabilities(1.0)) > 1e-8  # 8 tests
        if outside == "project" or y <= 2:
            assert p_value(probabilities(1.02)) < 1e-8


def test_the_sampled_law_is_exactly_private():
    """On the grid, points near the target are exactly e^epsilon times as likely as the others."""
    for width, epsilon in ((0.25, 1.0), (1e-4, 3.0), (0.3, 30.0)):
        mechanism = rp_with_prior(NODES, MASS, width, epsilon)
        points, near = mechanism._grid()
        assert near >= 2**10 and points <= 2**31
        q = math.exp(-epsilon)
        gamma = near + q * (points - near)
        anywhere, close = q * points / gamma, (1 - q) * near / gamma
        ratio = (anywhere / points + close / near) / (anywhere / points)
        assert ratio == pytest.approx(math.exp(epsilon), rel=1e-12)
        share = 2 * width / (mechanism.support[1] - mechanism.support[0])
        assert near / points == pytest.approx(share, rel=2**-9)
    values = mechanism.sample(np.array([0.0, 5.0]), 0)
    assert np.all(np.isfinite(values))


def test_unbiased_estimates():
    mechanism = rp_with_prior(NODES, MASS, 0.25, 1.0)
    drawn = mechanism.sample(np.full(200_000, 1.3), 0)
    estimate = mechanism.debias(drawn)
    assert abs(estimate.mean() - 1.3) < 6 * estimate.std() / math.sqrt(200_000)
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        rp_with_prior(NODES, MASS, 0.25, 0.0).debias([1.0])


@pytest.mark.parametrize("outside", ["project", "uniform"])
def test_expected_squared_error(outside):
    rng = np.random.default_rng(0)
    cells = rng.choice(5, size=400_000, p=np.array(MASS) / 100)
    y = cells + rng.random(len(cells))
    for width in (0.25, "auto"):
        mechanism = rp_with_prior(NODES, MASS, width, 1.0, outside)
        errors = (mechanism.sample(y, 1) - y) ** 2
        expected = mechanism.expected_squared_error(NODES, MASS)
        assert abs(errors.mean() - expected) < 6 * errors.std() / math.sqrt(len(y))


@pytest.mark.parametrize(
    ("epsilon", "tuned", "bins"), [(1, 1.575, 1.512), (2, 1.116, 1.039), (4, 0.393, 0.354)]
)
def test_tuning_reaches_the_table_of_the_specification(epsilon, tuned, bins):
    """And RR-on-Bins, which is optimal, stays ahead."""
    mechanism = rp_with_prior(NODES, MASS, "auto", epsilon)
    error = mechanism.expected_squared_error(NODES, MASS)
    assert error <= tuned * 1.001
    grid = (np.arange(80) + 0.5) / 16
    prior = np.repeat(np.array(MASS) / 1600, 16)
    best = rr_on_bins(grid, prior, epsilon).objective + (1 / 16) ** 2 / 12
    assert best == pytest.approx(bins, abs=1e-3) and best <= error


def test_the_best_interval_against_a_dense_scan():
    rng = np.random.default_rng(1)
    for _ in range(10):
        nodes, mass = np.cumsum(rng.random(6)), rng.dirichlet(np.ones(5))
        mechanism = rp_with_prior(nodes, mass, 0.1, 1.0)
        points = np.linspace(nodes[0], nodes[-1], 300)
        prefix = np.interp(points, nodes, np.concatenate([[0], np.cumsum(mass)]))
        gaps = points - points[:, np.newaxis]
        F = (prefix - prefix[:, np.newaxis]) / (0.2 + math.exp(-1) * gaps)
        assert F[gaps > 0].max() <= mechanism.objective * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0, 1], [0.0], 0.1, 1.0), "mass must be finite"),
        (([0, 1], [1, 1], 0.1, 1.0), "mass must be an array of 1"),
        (([0, 1], [1], "wide", 1.0), "half_width must be"),
        (([0, 1], [1], 1e-9, 1.0), "half_width must be at least"),
        (([0, 1], [1], 0.1, 1.0, "drop"), "outside must be"),
        (([0], [], 0.1, 1.0), "nodes must be"),
        (([1e15, 1e15 + 2, 1e15 + 8], [1, 1], "auto", 1.0), "nodes must be further apart"),
    ],
)
def test_bad_intervals(arguments, match):
    with pytest.raises(ValueError, match=match):
        rp_with_prior(*arguments)


def test_bad_targets():
    mechanism = rp_with_prior(NODES, MASS, 0.25, 1.0)
    with pytest.raises(ValueError, match="values must be finite"):
        mechanism.sample([math.nan])
    with pytest.raises(TypeError, match="values must be"):
        mechanism.sample(["a"])
    assert "RPWithPrior" in str(mechanism) and mechanism.max_ratio() == pytest.approx(math.e)
