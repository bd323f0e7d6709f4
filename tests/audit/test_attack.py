"""The MAP attack: goldens, closed forms, ties, and tests of the noise with their power."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest

from skballdp import BallDPLogisticRegression, BallDPRidgePrototype, BallDPSquaredHingeSVC
from skballdp.accounting.reconstruction import support_bound
from skballdp.audit.attack import (
    bayes_success_of_pair,
    clopper_pearson,
    geometry,
    map_posterior,
    noise_p_values,
    simulate,
)
from tests.conftest import load_goldens, reference_data

REFERENCE = load_goldens("reference_goldens")
MODES = {"global": "global", "count_aware": "min_count"}
HEADS = {
    "ridge_prototype": BallDPRidgePrototype,
    "binary_logistic": BallDPLogisticRegression,
    "squared_hinge": BallDPSquaredHingeSVC,
}
# Softmax with two classes is a different parametrisation: ours is binary logistic regression.
FINITE = [entry for entry in REFERENCE["finite_support"] if entry["head"] in HEADS]


def reference_support(entry):
    """The recipe of ``finite_support`` in ``reference_goldens.json``."""
    X, y = reference_data(**{**entry, "K": 2, "B": 1.0})
    u, m, d, r = X[-1].astype(np.float64), entry["m"], entry["d"], entry["r"]
    rng = np.random.default_rng(entry["seed"] + 1000)
    G = rng.standard_normal((m, d))
    G /= np.linalg.norm(G, axis=1, keepdims=True)
    Z = u + (0.9 * r) * ((np.arange(m) + 1) / m)[:, None] * G
    Z = (Z / np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))).astype(np.float32)
    return X, y, Z


@pytest.mark.parametrize("entry", FINITE)
def test_reference_supports_and_posteriors(entry):
    X, y, Z = reference_support(entry)
    linear = entry["head"] != "ridge_prototype"
    parameters = {"sensitivity": "paper"} if linear else {"calibration": MODES[entry["ridge_mode"]]}
    head = HEADS[entry["head"]](
        entry["r"],
        epsilon=entry["epsilon"],
        delta=entry["delta"],
        alpha=entry["lam"],
        **parameters,
    )
    index = len(X) - 1
    optima = head.neighbour_optima(X, y, index, np.vstack([Z, X[index]]))
    scale = head.noise_scale_for(X, y)
    if linear:
        # Ours has 0.2 % for the solver's tolerance, the reference something that depends on the
        # data; and its own optima are rough.
        assert scale == pytest.approx(entry["sigma"], rel=1e-2)
        scale, rel = entry["sigma"], 1e-2
    else:
        assert scale == pytest.approx(entry["sigma"], rel=1e-5)
        rel = 1e-4
    m = entry["m"]
    prior = np.full(m, 1 / m) if entry["weights"] is None else np.array(entry["weights"])
    prior = prior / prior.sum()
    posterior = map_posterior(np.array(entry["released_flat"]), optima[:-1], scale, prior)
    np.testing.assert_allclose(posterior, entry["posterior"], rtol=rel)
    assert np.argmax(posterior) == entry["predicted"]
    shape = geometry(optima[:-1], optima[-1], scale, prior)
    bound = support_bound(prior, shape.to_centre)
    assert bound == pytest.approx(entry["bound_finite_opt_center_ref"], rel=rel)
    if entry["bound_finite_opt_mean_ref"] is not None:
        bound = support_bound(prior, shape.to_mean)
        assert bound == pytest.approx(entry["bound_finite_opt_mean_ref"], rel=rel)
    if entry["model_pairwise_distance_max"] is not None:
        pairs = np.linalg.norm(optima[:-1, None] - optima[None, :-1], axis=2)
        assert pairs.max() == pytest.approx(entry["model_pairwise_distance_max"], rel=rel)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.9, 0.1)])
@pytest.mark.parametrize("distance", [0.1, 1.0, 3.0])
def test_two_candidates_have_a_closed_form(distance, prior):
    """False-alarm rate below 1e-6: five standard errors."""
    prior = np.array(prior)
    optima = np.array([[0.0, 0.0], [0.0, distance * 2.0]])
    shape = geometry(optima, optima[0], 2.0, prior)
    arm = simulate(shape, prior, 100_000, np.random.default_rng(0))
    closed = bayes_success_of_pair(distance, prior)
    assert arm.bayes_success == pytest.approx(closed, rel=1e-12)
    assert arm.hits / arm.trials == pytest.approx(closed, abs=5 * 0.5 / math.sqrt(arm.trials))
    if prior[0] == 0.5:
        assert closed == pytest.approx(ndtr(distance / 2), rel=1e-12)
    grid = np.linspace(-15, 15 + distance, 400_001)
    best = np.maximum(
        prior[0] * np.exp(-(grid**2) / 2), prior[1] * np.exp(-((grid - distance) ** 2) / 2)
    )
    integral = np.trapezoid(best, grid) / math.sqrt(2 * math.pi)
    assert closed == pytest.approx(integral, rel=1e-8)


@pytest.mark.parametrize("m, uniform", itertools.product([2, 3, 10], [True, False]))
def test_simulation_agrees_with_brute_force_in_the_full_space(m, uniform):
    """Different block scales; six standard errors, below 1e-8."""
    rng = np.random.default_rng(m)
    optima = rng.standard_normal((m, 6)) * 0.5
    scale = np.array([0.5, 0.5, 1.0, 1.0, 2.0, 2.0])
    prior = np.full(m, 1 / m) if uniform else rng.dirichlet(np.full(m, 3.0))
    arm = simulate(geometry(optima, optima[0], scale, prior), prior, 40_000, rng)
    draws = 200_000
    target = rng.choice(m, draws, p=prior)
    release = optima[target] + scale * rng.standard_normal((draws, 6))
    logits = np.log(prior) - np.square((release[:, None] - optima) / scale).sum(axis=2) / 2
    rate = np.mean(np.argmax(logits, axis=1) == target)
    error = 6 * math.sqrt(0.25 / draws + 0.25 / arm.trials)
    assert arm.hits / arm.trials == pytest.approx(rate, abs=error)
    assert arm.bayes_success == pytest.approx(rate, abs=error)
    if m > 2:
        assert 0 < arm.bayes_error < 0.5 / math.sqrt(arm.trials)


def test_ties_are_hit_with_their_share():
    prior = np.full(4, 0.25)
    optima = np.array([[0.0], [0.0], [50.0], [50.0 + 1e-13]])
    shape = geometry(optima, optima[0], 1.0, prior)
    assert len(shape.points) == 2
    arm = simulate(shape, prior, 100_000, np.random.default_rng(0))
    assert arm.bayes_success == pytest.approx(0.5, rel=1e-9)
    assert arm.hits / arm.trials == pytest.approx(0.5, abs=6 * 0.5 / math.sqrt(arm.trials))
    # Of a tie the most probable is named: 0.4 and 0.3 are hit, 0.2 and 0.1 never.
    prior = np.array([0.4, 0.1, 0.3, 0.2])
    arm = simulate(
        geometry(optima, optima[0], 1.0, prior), prior, 100_000, np.random.default_rng(0)
    )
    assert arm.bayes_success == pytest.approx(0.7, abs=6 * arm.bayes_error)
    assert arm.hits / arm.trials == pytest.approx(0.7, abs=6 * 0.5 / math.sqrt(arm.trials))


def test_all_candidates_tied():
    prior = np.array([0.5, 0.25, 0.25])
    optima = np.ones((3, 2))
    arm = simulate(geometry(optima, optima[0], 1.0, prior), prior, 1000, np.random.default_rng(0))
    assert arm.bayes_success == 0.5
    assert arm.hits / arm.trials == pytest.approx(0.5, abs=0.1)


def test_without_noise_every_target_is_found_up_to_ties():
    prior = np.full(3, 1 / 3)
    optima = np.array([[0.0, 1.0], [1e-7, 1.0], [0.5, 1.0]])
    shape = geometry(optima, optima[0], 0.0, prior)
    assert shape.silent
    arm = simulate(shape, prior, 1000, np.random.default_rng(0))
    assert (arm.hits, arm.bayes_success) == (3000, pytest.approx(1.0))
    optima[1] = optima[0]
    arm = simulate(geometry(optima, optima[0], 0.0, prior), prior, 3000, np.random.default_rng(0))
    assert arm.bayes_success == pytest.approx(2 / 3)
    assert arm.hits / arm.trials == pytest.approx(2 / 3, abs=0.05)


def test_parameters_without_noise_must_not_move():
    optima = np.array([[0.0, 1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="without noise"):
        geometry(optima, optima[0], np.array([1.0, 0.0]), np.array([0.5, 0.5]))


def test_clopper_pearson_against_scipy():
    for hits, trials in [(0, 10), (3, 10), (10, 10), (555, 4000)]:
        expected = binomtest(hits, trials).proportion_ci(0.99, method="exact")
        assert clopper_pearson(hits, trials, 0.99) == pytest.approx(tuple(expected), rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 10, 3000])
def test_correct_noise_passes_and_wrong_noise_fails(p):
    """Level 1e-4: 300 correct sets give a minimum above it with probability 0.9; the seed is fixed
    and the numbers are printed on failure. Power: half the noise, and noise used twice."""
    rng = np.random.default_rng(p)
    blocks = np.arange(p) % 3 if p >= 3 else np.zeros(p, dtype=int)
    values = [noise_p_values(rng.standard_normal((50, p)), blocks) for _ in range(300)]
    for name in values[0]:
        below = sum(value[name] < 0.05 for value in values)
        assert below <= 39, (name, below)  # binomial(300, 0.05) exceeds 39 with 5e-7
    for _ in range(20):
        noise = rng.standard_normal((50, p))
        assert noise_p_values(noise / 2, blocks)["unit scale"] < 1e-4
        assert noise_p_values(noise * 2, blocks)["unit scale"] < 1e-4
        assert noise_p_values(noise + 1, blocks)["zero mean"] < 1e-4
        noise[7] = noise[31]
        assert noise_p_values(noise, blocks)["independent fits"] < 1e-4
        noise[7] = -noise[31]
        assert noise_p_values(noise, blocks)["independent fits"] < 1e-4


def test_one_block_with_too_little_noise_is_noticed():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((50, 300))
    blocks = np.repeat(np.arange(30), 10)
    noise[:, blocks == 4] /= 2
    assert noise_p_values(noise, blocks)["unit scale"] < 1e-10
