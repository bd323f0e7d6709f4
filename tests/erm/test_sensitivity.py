"""Sensitivity by brute force: never exceeded, and reached."""

import numpy as np
import pytest

from skballdp import BallDPRidgePrototype
from skballdp.erm.sensitivity import class_sum_error, clipped_domain, gamma, ridge_sensitivity
from tests.conftest import load_goldens, reference_data

REFERENCE = load_goldens("reference_goldens")
RIDGE = [fit for fit in REFERENCE["fits"] if fit["head"] == "ridge_prototype"]
MODES = {"global": "global", "count_aware": "min_count"}


@pytest.mark.parametrize("fit", RIDGE)
def test_reference_prototypes_and_sensitivities(fit):
    X, y = reference_data(**fit)
    clf = BallDPRidgePrototype(
        fit["r"],
        epsilon=fit["epsilon"],
        delta=fit["delta"],
        alpha=fit["lam"],
        norm_bound=fit["B"],
        calibration=MODES[fit["ridge_mode"]],
    ).fit(X, y)
    assert clf.certificate_.class_counts == tuple(fit["class_counts"])
    assert clf.sensitivity_ == pytest.approx(fit["delta_ball_formula"], rel=1e-6)
    assert clf.noise_scale_ == pytest.approx(fit["sigma_formula"], rel=1e-6)
    exact = clf.exact_optimum(X, y).reshape(fit["K"], fit["d"])
    assert np.linalg.norm(exact) == pytest.approx(fit["noiseless_theta_l2"], rel=1e-6)
    if fit.get("noiseless_prototypes"):
        np.testing.assert_allclose(exact, fit["noiseless_prototypes"], atol=1e-6)
    standard = clf.set_params(radius="standard").fit(X, y)
    assert standard.sensitivity_ == pytest.approx(fit["delta_std_formula"], rel=1e-6)
    # The curve at 2 B is the reference's "standard" epsilon of the release at radius r. Its own
    # epsilons are loose, more so above 20.
    ball = clf.set_params(radius=fit["r"]).fit(X, y).certificate_
    rough = fit["epsilon_std_reported"] > 20
    assert ball.epsilon_at(2 * fit["B"]) == pytest.approx(
        fit["epsilon_std_reported"], rel=2e-2 if rough else 1e-5
    )


@pytest.mark.parametrize("calibration", ["per_class", "min_count", "global"])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_replacement_moves_a_prototype_further_than_stated(calibration, public, seed):
    """Random neighbours, with the worst direction among them."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(4, 30)), int(rng.integers(1, 6)), int(rng.integers(2, 4))
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)]) if n > K else np.arange(n)
    n = len(y)
    bound = float(10 ** rng.uniform(-1, 1))
    radius = float(rng.uniform(0.05, 2)) * bound
    X = rng.standard_normal((n, d)) * bound  # some rows are projected, some are not
    clf = BallDPRidgePrototype(
        radius,
        alpha=float(10 ** rng.uniform(-3, 1)),
        norm_bound=bound,
        calibration=calibration,
        public_prototypes=rng.standard_normal((K, d)) if public else None,
        delta=1e-3,
    ).fit(X, y)
    stated = np.broadcast_to(clf.sensitivity_, K)
    best = np.zeros(K)
    for trial in range(200):
        j = int(rng.integers(n))
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        step = radius if trial % 2 else radius * rng.uniform()
        base, other = X.copy(), X.copy()
        if trial % 4 == 1:  # a pair inside the ball, as far apart as allowed
            base[j] = -direction * step / 2
            other[j] = direction * step / 2
        else:
            other[j] = base[j] + direction * step
        theta = clf.exact_optimum(base, y).reshape(K, d)
        moved = np.linalg.norm(clf.exact_optimum(other, y).reshape(K, d) - theta, axis=1)
        assert np.all(moved <= stated)
        assert np.all(np.delete(moved, y[j]) == 0)
        best[y[j]] = max(best[y[j]], moved[y[j]])
    if calibration == "per_class":
        touched = best > 0
        np.testing.assert_allclose(best[touched], stated[touched], rtol=1e-10)
    else:
        counts = np.array(clf.certificate_.class_counts)
        exact = 2 * radius / (2 * counts + clf.alpha * n)
        touched = best > 0
        np.testing.assert_allclose(best[touched], exact[touched], rtol=1e-11)


def test_the_three_calibrations():
    counts = np.array([10, 0, 3])
    kwargs = {"radius": 0.5, "alpha": 0.1, "class_counts": counts}
    per_class = ridge_sensitivity(calibration="per_class", **kwargs)
    min_count = ridge_sensitivity(calibration="min_count", **kwargs)
    everything = ridge_sensitivity(calibration="global", **kwargs)
    np.testing.assert_allclose(per_class, [1 / 21.3, 0, 1 / 7.3])
    np.testing.assert_allclose(min_count, [1 / 7.3, 0, 1 / 7.3])
    np.testing.assert_allclose(everything, [1 / 3.3, 0, 1 / 3.3])


def test_rounding_bounds_cover_the_rounding():
    """Class sums of many rows against exact rational arithmetic."""
    from fractions import Fraction

    rng = np.random.default_rng(2)
    n, d = 3000, 3
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(n) % 2
    clf = BallDPRidgePrototype(0.5).fit(X, y)
    computed = clf.exact_optimum(X, y).reshape(2, d)
    alpha_n = Fraction(0.01) * n
    for c in range(2):
        rows = X[y == c]
        exact = [
            float(
                2 * sum((Fraction(x) for x in rows[:, k]), Fraction(0)) / (2 * len(rows) + alpha_n)
                - Fraction(computed[c, k])
            )
            for k in range(d)
        ]
        assert np.linalg.norm(exact) <= clf.certificate_.rounding_error
    assert clf.certificate_.rounding_error < 1e-12


def test_allowances():
    assert gamma(10) >= 10 * 2.0**-53
    r, b = clipped_domain(radius=1.0, norm_bound=2.0, n_features=92)
    assert 1 + 200 * 2.0**-53 <= r < 1 + 1e-12 and 2 * (1 + 100 * 2.0**-53) <= b < 2 + 1e-12
    assert clipped_domain(radius=0.0, norm_bound=2.0, n_features=5) == (0.0, 2.0)
    assert clipped_domain(radius=1.0, norm_bound=None, n_features=5) == (1.0, None)
    assert class_sum_error(n_terms=100, norm_bound=2.0) >= 2 * gamma(100)
    assert class_sum_error(n_terms=100, norm_bound=2.0, public_norm=1.0) > class_sum_error(
        n_terms=100, norm_bound=2.0
    )
