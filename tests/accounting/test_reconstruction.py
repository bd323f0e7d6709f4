"""Ball-ReRo bounds: goldens, an independent optimiser, and simulated attacks."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from skballdp.accounting.gaussian import epsilon_of, mu_of
from skballdp.accounting.reconstruction import (
    advantage_bound,
    dp_bound,
    epsilon_for_exact_id,
    exact_id_bound,
    exact_id_of_epsilon,
    kappa_finite,
    kappa_uniform_ball,
    support_bound,
)
from tests.conftest import load_goldens

GOLDENS = load_goldens("ball_dp_goldens")
REFERENCE = load_goldens("reference_goldens")


@pytest.mark.parametrize("entry", GOLDENS["rero"])
@pytest.mark.parametrize("method", ["gaussian", "rdp"])
def test_exact_id_goldens(entry, method):
    bound = exact_id_bound(mu=entry["mu"], kappa=entry["kappa"], method=method)
    assert entry[method] * (1 - 1e-15) <= bound <= entry[method] * (1 + 1e-9)


@pytest.mark.parametrize("kappa", [1e-300, 1e-30, 1e-6, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.5, 1, 5, 40])
def test_exact_id_is_above_sixty_digit_arithmetic(kappa, mu):
    with mp.workdps(60):
        x = mp.findroot(lambda t: mp.log(mp.ncdf(t)) - mp.log(kappa), float(ndtri(kappa)))
        exact = mp.ncdf(x + mu)
        direct = exact_id_bound(mu=mu, kappa=kappa)
        assert exact <= direct <= exact * (1 + mp.mpf("1e-9"))
    renyi = exact_id_bound(mu=mu, kappa=kappa, method="rdp")
    delta = 1e-6
    dp = dp_bound(epsilon=epsilon_of(mu, delta), delta=delta, kappa=kappa)
    assert direct <= renyi * (1 + 1e-12)
    assert direct <= dp * (1 + 1e-12)


@pytest.mark.parametrize("kappa", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0])
def test_renyi_bound_is_the_infimum_over_orders(kappa, mu):
    orders = np.linspace(1.0001, 200, 400_000)
    logs = (orders - 1) / orders * (math.log(kappa) + orders * mu**2 / 2)
    grid = min(1.0, math.exp(logs.min()))
    assert exact_id_bound(mu=mu, kappa=kappa, method="rdp") == pytest.approx(grid, rel=1e-4)


def test_limits():
    assert exact_id_bound(mu=0, kappa=0.1) == 0.1
    assert exact_id_bound(mu=math.inf, kappa=0.1) == 1
    assert exact_id_bound(mu=math.inf, kappa=0.1, method="rdp") == 1
    assert exact_id_bound(mu=3, kappa=0) == 0
    assert exact_id_bound(mu=3, kappa=1) == 1
    assert dp_bound(epsilon=math.inf, delta=0, kappa=0.1) == 1
    assert dp_bound(epsilon=1e6, delta=0, kappa=1e-300) == 1
    assert dp_bound(epsilon=0, delta=1e-6, kappa=0) == 1e-6


@pytest.mark.parametrize("entry", REFERENCE["rero_raw"])
def test_reference_direct_bounds(entry):
    bound = exact_id_bound(mu=entry["delta_over_sigma"], kappa=entry["kappa"])
    assert bound == pytest.approx(entry["gaussian_direct"], rel=1e-6)


@pytest.mark.parametrize("entry", REFERENCE["rero"])
def test_reference_certificates(entry):
    fit = REFERENCE["fits"][entry["fit"]]
    for tag in ("ball", "std"):
        mu = fit[f"delta_{tag}"] / fit["sigma"]
        direct = exact_id_bound(mu=mu, kappa=entry["kappa"])
        assert direct == pytest.approx(entry[f"{tag}_gaussian_direct"], rel=1e-6)
        epsilon = fit[f"epsilon_{tag}_reported"]
        dp = dp_bound(epsilon=epsilon, delta=fit["delta"], kappa=entry["kappa"])
        assert dp == pytest.approx(entry[f"{tag}_dp"], rel=1e-6)
        # It tries a few orders only; ours is the infimum over all of them.
        orders = REFERENCE["about"]["rdp_orders"]
        logs = [(a - 1) / a * (math.log(entry["kappa"]) + a * mu**2 / 2) for a in orders]
        assert math.exp(min(0, *logs)) == pytest.approx(entry[f"{tag}_rdp"], rel=1e-5)
        assert exact_id_bound(mu=mu, kappa=entry["kappa"], method="rdp") <= entry[f"{tag}_rdp"] * (
            1 + 1e-6
        )


@pytest.mark.parametrize("entry", GOLDENS["support_bound"])
def test_support_goldens(entry):
    bound = support_bound(entry["prior"], entry["d"])
    assert entry["bound"] <= bound <= entry["bound"] * (1 + 1e-9)


@pytest.mark.parametrize("entry", REFERENCE["finite_raw"])
def test_reference_support_bounds(entry):
    prior = np.array(entry["weights"], dtype=float)
    bound = support_bound(prior / prior.sum(), entry["distances_over_sigma"])
    assert bound == pytest.approx(entry["bound"], rel=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_support_bound_against_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 7))
    prior, d = rng.dirichlet(np.ones(m)), rng.exponential(1.0, m)

    def value(z):
        q = np.exp(z - z.max())
        q /= q.sum()
        return -np.sum(prior * ndtr(ndtri(q) + d))

    best = -min(minimize(value, rng.standard_normal(m), tol=1e-14).fun for _ in range(5))
    bound = support_bound(prior, d)
    assert best <= bound * (1 + 1e-12)
    assert bound == pytest.approx(best, rel=1e-5)


def test_support_bound_limits():
    assert support_bound([0.5, 0.5], [math.inf, math.inf]) == 1
    assert support_bound([0.5, 0.5], [math.inf, 0]) == pytest.approx(1)
    for huge in (101.0, 1e10, 1e154, 1e160, 1e308):
        assert support_bound([0.5, 0.5], [huge, huge]) == 1
        assert support_bound([0.5, 0.3, 0.2], [huge, 0.5, 0.0]) > 0.7
    assert support_bound([0.5, 0.5], [40, 40]) == 1  # the reference implementation overflows
    assert support_bound([0.5, 0.3, 0.2], [0, 0, 0]) == pytest.approx(0.5, rel=1e-12)
    assert support_bound([1.0, 0.0], [3.0, math.inf]) == 1
    for tiny in (1e-300, 1e-12, 1e-6):
        assert support_bound([0.1] * 10, [tiny] * 10) == pytest.approx(0.1, rel=1e-5)
    # Equal distances and a uniform prior: the direct bound.
    for m, d in itertools.product([2, 10], [0.3, 1, 4]):
        assert support_bound([1 / m] * m, [d] * m) == pytest.approx(
            exact_id_bound(mu=d, kappa=1 / m), rel=1e-9
        )


@pytest.mark.parametrize("seed", range(5))
def test_no_attack_beats_the_bounds(seed):
    """The MAP attack on random candidates; false-alarm rate below 1e-6 by six standard errors."""
    rng = np.random.default_rng(seed)
    m, draws = 4, 100_000
    means = rng.standard_normal((m, 3))
    means /= np.maximum(1, np.linalg.norm(means, axis=1, keepdims=True))  # inside a unit ball
    prior = rng.dirichlet(np.ones(m))
    scale = 0.8
    target = rng.choice(m, draws, p=prior)
    release = means[target] + scale * rng.standard_normal((draws, 3))
    distance = ((release[:, None, :] - means) ** 2).sum(axis=2)
    guess = np.argmax(np.log(prior) - distance / (2 * scale**2), axis=1)
    rate = np.mean(guess == target)
    slack = 6 * 0.5 / math.sqrt(draws)
    support = support_bound(prior, np.linalg.norm(means, axis=1) / scale)
    assert rate - slack <= support
    assert support <= exact_id_bound(mu=1 / scale, kappa=prior.max()) * (1 + 1e-9)
    # The attack is strong: the bound around the candidates' mean is not far above it.
    around_mean = support_bound(prior, np.linalg.norm(means - prior @ means, axis=1) / scale)
    assert rate + slack >= 0.75 * around_mean


def test_two_candidates_around_their_midpoint_are_exact():
    # Spec section 5: Bayes success 0.665 where the ball's centre as reference gives 0.841.
    d = 2 * float(ndtri(0.6646))
    assert support_bound([0.5, 0.5], [d / 2, d / 2]) == pytest.approx(0.6646, rel=1e-9)


def test_advantage_bound():
    # Reference numbers of Theorem 4.1 of arXiv:2603.12142.
    assert advantage_bound(mu=1.0, prior=[1 / 8] * 8) == pytest.approx(0.3351, abs=5e-5)
    assert advantage_bound(mu=0.5, prior=[1 / 64] * 64) == pytest.approx(0.1943, abs=5e-5)
    assert advantage_bound(mu=1.0, prior=[0.5, 0.5]) == pytest.approx(0.1915, abs=5e-5)
    assert advantage_bound(mu=0.0, prior=[0.5, 0.5]) == 0
    assert advantage_bound(mu=math.inf, prior=[0.5, 0.5]) == pytest.approx(0.5)
    assert advantage_bound(mu=1.0, prior=[1.0, 0.0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
@pytest.mark.parametrize("m, bound", [(2, 0.51), (10, 0.11), (10, 0.2), (64, 0.05), (1000, 0.9)])
def test_calibrating_to_risk_keeps_the_promise(m, bound, delta):
    epsilon = epsilon_for_exact_id(bound, n_candidates=m, delta=delta)
    assert exact_id_of_epsilon(epsilon, n_candidates=m, delta=delta) <= bound
    assert exact_id_of_epsilon(epsilon * (1 + 1e-8), n_candidates=m, delta=delta) > bound
    assert epsilon == epsilon_for_exact_id(bound, kappa=1 / m, delta=delta)


def test_calibrating_to_risk_beats_calibrating_epsilon():
    # Spec of riskcal's gain at delta 1e-5: noise multiplier 3.24 for m = 8 and 0.2.
    epsilon = epsilon_for_exact_id(0.2, n_candidates=8, delta=1e-5)
    assert 1 / mu_of(epsilon, 1e-5) == pytest.approx(3.24, abs=0.01)
    assert epsilon_for_exact_id(1, n_candidates=8, delta=1e-5) == math.inf


def test_unreachable_risk_is_refused():
    for bound in (0.05, 0.1, 0.1 + 1e-9):
        with pytest.raises(ValueError, match="cannot be promised"):
            epsilon_for_exact_id(bound, n_candidates=10, delta=1e-6)
    with pytest.raises(ValueError, match="exactly one"):
        epsilon_for_exact_id(0.2, delta=1e-6)
    with pytest.raises(ValueError, match="exactly one"):
        exact_id_of_epsilon(1, n_candidates=10, kappa=0.1, delta=1e-6)
    with pytest.raises(TypeError, match="n_candidates"):
        exact_id_of_epsilon(1, n_candidates=10.0, delta=1e-6)


def test_kappa_of_a_uniform_ball():
    assert kappa_uniform_ball(0.5, 1.0, 3) == pytest.approx(0.125)
    assert kappa_uniform_ball(2.0, 1.0, 3) == 1
    assert kappa_uniform_ball(0.0, 1.0, 3) == 0
    assert kappa_uniform_ball(0.1, 1.0, 1000) > 0  # underflow is not zero
    for entry in REFERENCE["rero"]:
        if entry.get("prior") == "uniform_l2_ball":
            d = REFERENCE["fits"][entry["fit"]]["d"]
            assert kappa_uniform_ball(entry["eta_over_r"], 1.0, d) == pytest.approx(
                entry["kappa"], rel=1e-12
            )


def test_kappa_of_a_finite_prior():
    points, prior = [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], [0.2, 0.5, 0.3]
    assert kappa_finite(points, prior, 0.0) == pytest.approx(0.5)
    assert kappa_finite(points[:2], [0.4, 0.6], 0.0) == 0.6
    assert kappa_finite(points, prior, 5.0) == pytest.approx(1.0)
    assert kappa_finite(points, prior, 4.9) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="candidates"):
        kappa_finite([[math.nan]], [1.0], 0.1)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: exact_id_bound(mu=-1, kappa=0.1), "mu"),
        (lambda: exact_id_bound(mu=1, kappa=1.1), "kappa"),
        (lambda: exact_id_bound(mu=1, kappa=0.1, method="magic"), "method"),
        (lambda: support_bound([0.5, 0.5], [1.0]), "d must"),
        (lambda: support_bound([0.5, 0.5], [1.0, -1.0]), "d must"),
        (lambda: support_bound([0.5, 0.5], [1.0, math.nan]), "d must"),
        (lambda: support_bound([0.5, 0.4], [1.0, 1.0]), "sum to 1"),
        (lambda: support_bound([1.5, -0.5], [1.0, 1.0]), "non-negative"),
        (lambda: support_bound([math.nan, 1.0], [1.0, 1.0]), "non-negative"),
        (lambda: support_bound([], []), "prior"),
        (lambda: advantage_bound(mu=1, prior=[[1.0]]), "prior"),
        (lambda: kappa_uniform_ball(0.1, 0.0, 3), "radius"),
        (lambda: kappa_uniform_ball(0.1, 1.0, 0), "dim"),
        (lambda: dp_bound(epsilon=-1, delta=0, kappa=0.1), "epsilon"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.parametrize("seed", range(20))
def test_closed_forms_round_up(seed):
    """Against 60 digits on the doubles given: a bound below the truth is none."""
    rng = np.random.default_rng(seed)
    epsilon, delta = float(rng.uniform(0, 3)), float(10 ** rng.uniform(-9, -2))
    kappa, dim = float(10 ** rng.uniform(-6, -1.4)), int(rng.integers(1, 400))
    eta = float(rng.uniform(0.5, 0.999))
    with mp.workdps(60):
        exact = mp.exp(mp.mpf(epsilon)) * mp.mpf(kappa) + mp.mpf(delta)
        assert exact <= dp_bound(epsilon=epsilon, delta=delta, kappa=kappa) <= exact * 1.000001
        exact = mp.mpf(eta) ** dim
        assert exact <= kappa_uniform_ball(eta, 1.0, dim) <= exact * 1.000001
        prior = rng.dirichlet(np.ones(5))
        exact = mp.erf(mp.mpf(epsilon) / mp.sqrt(8)) * (1 - sum(mp.mpf(p) ** 2 for p in prior))
        assert exact <= advantage_bound(mu=epsilon, prior=prior) <= exact * 1.000001
