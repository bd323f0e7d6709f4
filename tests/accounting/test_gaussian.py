"""Calibration against 60-digit arithmetic: the safe side, and how tight it is."""

import itertools
import math
import warnings

import mpmath as mp
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skballdp.accounting.gaussian import (
    classical_noise_multiplier,
    compose,
    delta_of,
    epsilon_of,
    mu_of,
)
from skballdp.exceptions import PrivacyWarning
from tests.conftest import load_goldens

GOLDENS = load_goldens("ball_dp_goldens")
REFERENCE = load_goldens("reference_goldens")
EPSILONS = [0, 1e-6, 1e-4, 0.01, 0.1, 0.5, 1, 2, 8, 10, 32, 100, 355, 600, 1000]
DELTAS = [1e-30, 1e-20, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 0.5]


def exact_delta(epsilon, mu, digits=60):
    """The profile from its definition; the digits guard against cancellation."""
    with mp.workdps(digits + 60):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return (mp.erfc(a / mp.sqrt(2)) - mp.exp(epsilon) * mp.erfc(b / mp.sqrt(2))) / 2


@pytest.mark.parametrize("entry", GOLDENS["analytic_gaussian"])
def test_mu_goldens(entry):
    mu = mu_of(entry["epsilon"], entry["delta"])
    assert mu == pytest.approx(entry["mu"], rel=1e-10)
    assert 1 / mu == pytest.approx(entry["sigma_over_sensitivity"], rel=1e-10)


@pytest.mark.parametrize("entry", GOLDENS["epsilon_of_mu"])
def test_epsilon_goldens(entry):
    assert epsilon_of(entry["mu"], entry["delta"]) == pytest.approx(
        entry["epsilon"], rel=1e-10, abs=0
    )


@pytest.mark.parametrize("epsilon, delta", list(itertools.product(EPSILONS, DELTAS)))
def test_mu_is_on_the_safe_side_and_tight(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu * (1 + 1e-9)) > delta


@pytest.mark.parametrize("epsilon, delta", list(itertools.product(EPSILONS, DELTAS)))
def test_delta_and_epsilon_invert_mu_on_the_safe_side(epsilon, delta):
    mu = mu_of(epsilon, delta)
    exact = exact_delta(epsilon, mu)
    assert exact <= delta_of(epsilon, mu) <= exact * (1 + mp.mpf("1e-9"))
    back = epsilon_of(mu, delta)
    assert exact_delta(back, mu) <= delta
    assert back <= epsilon * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("delta", [1e-30, 1e-12, 1e-6, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("mu", [1e-12, 1e-9, 1e-3, 0.1, 0.499, 0.5, 0.501, 3.0, 40.0, 1e3])
def test_epsilon_is_on_the_safe_side_and_tight(mu, delta):
    epsilon = epsilon_of(mu, delta)
    assert exact_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert exact_delta(epsilon * (1 - 1e-9) - 1e-12 * min(mu, 1.0), mu) > delta
    else:
        assert exact_delta(0, mu) <= delta


def test_a_naive_second_implementation_agrees():
    def profile(epsilon, mu):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )

    for epsilon, delta in itertools.product([0.1, 1, 4], [1e-6, 1e-3]):
        naive = brentq(lambda mu, e=epsilon, d=delta: profile(e, mu) - d, 1e-4, 10, xtol=1e-14)
        assert mu_of(epsilon, delta) == pytest.approx(naive, rel=1e-7)


def test_limits():
    assert mu_of(math.inf, 1e-6) == math.inf
    assert mu_of(math.inf, 0) == math.inf
    assert epsilon_of(0, 1e-6) == 0
    assert epsilon_of(math.inf, 1e-6) == math.inf
    assert epsilon_of(1.0, 0) == math.inf
    assert delta_of(1.0, 0) == 0
    assert delta_of(1.0, math.inf) == 1
    assert delta_of(math.inf, 1.0) == 0
    # A positive delta is never reported as zero, nor a positive epsilon.
    assert delta_of(1000, 0.1) > 0
    assert epsilon_of(1e-9, 1e-12) > 0
    assert mu_of(0, 1e-6) == pytest.approx(2 * norm.ppf(0.5 + 0.5e-6), rel=1e-9)


@pytest.mark.parametrize("entry", REFERENCE["gaussian_sigma"])
def test_reference_implementation_where_it_is_exact(entry):
    # Its analytic values carry its own error from epsilon = 32 or delta = 1e-12 on.
    rough = entry["epsilon"] >= 32 or entry["delta"] <= 1e-12
    multiplier = 1 / mu_of(entry["epsilon"], entry["delta"])
    assert multiplier == pytest.approx(entry["analytic"], rel=2e-2 if rough else 1e-6)
    assert multiplier <= entry["analytic"] * (1 + 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        classical = classical_noise_multiplier(entry["epsilon"], entry["delta"])
    assert classical == pytest.approx(entry["classic"], rel=1e-6)


@pytest.mark.parametrize("entry", REFERENCE["epsilon_from_sigma"])
def test_reference_epsilon(entry):
    mu = entry["sensitivity"] / entry["sigma"]
    rough = entry["epsilon"] > 20  # its root search is off there, below the exact value at 20.8
    assert epsilon_of(mu, entry["delta"]) == pytest.approx(
        entry["epsilon"], rel=1e-2 if rough else 1e-6
    )


def test_the_analytic_curve_is_not_linear_in_the_distance():
    # Spec section 2: extrapolating epsilon t / r would promise too much beyond r.
    assert epsilon_of(2 * mu_of(1, 1e-6), 1e-6) == pytest.approx(2.123, abs=5e-4)
    assert epsilon_of(2 * mu_of(8, 1e-6), 1e-6) == pytest.approx(18.65, abs=5e-3)


def test_compose_is_exact_and_rounds_up():
    assert compose([]) == 0
    assert compose([0.3]) == 0.3
    assert compose([0.0, 0.0]) == 0
    assert compose([math.inf, 1.0]) == math.inf
    values = [0.1, 0.7, 1e-5, 3.3]
    with mp.workdps(60):
        exact = mp.sqrt(sum(mp.mpf(value) ** 2 for value in values))
        assert exact <= compose(values) <= exact * (1 + mp.mpf("1e-14"))
    # Five folds of ten candidates and a refit at (1, 1e-5) each: see docs/how-it-works.md.
    assert epsilon_of(compose([mu_of(1, 1e-5)] * 41), 1e-5) == pytest.approx(8.29, abs=0.01)


def test_classical_bound_warns_where_it_is_no_guarantee():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1 / classical_noise_multiplier(1, 1e-6) <= mu_of(1, 1e-6)
    with pytest.warns(PrivacyWarning, match="not a guarantee"):
        multiplier = classical_noise_multiplier(32, 1e-6)
    assert exact_delta(32, 1 / multiplier) > 1e-6


@pytest.mark.parametrize(
    "call, error, name",
    [
        (lambda: mu_of(-1, 1e-6), ValueError, "epsilon"),
        (lambda: mu_of(math.nan, 1e-6), ValueError, "epsilon"),
        (lambda: mu_of("1", 1e-6), TypeError, "epsilon"),
        (lambda: mu_of(True, 1e-6), TypeError, "epsilon"),
        (lambda: mu_of(1, 0), ValueError, "delta"),
        (lambda: mu_of(1, 1), ValueError, "delta"),
        (lambda: mu_of(1, None), TypeError, "delta"),
        (lambda: epsilon_of(-1, 1e-6), ValueError, "mu"),
        (lambda: epsilon_of(1, -1e-6), ValueError, "delta"),
        (lambda: delta_of(1, math.nan), ValueError, "mu"),
        (lambda: compose([0.1, -0.1]), ValueError, r"mus\[1\]"),
        (lambda: classical_noise_multiplier(0, 1e-6), ValueError, "epsilon"),
    ],
)
def test_bad_input_names_the_parameter(call, error, name):
    with pytest.raises(error, match=name):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: mu_of(1.7e308, 1e-6),
        lambda: mu_of(1e296, 1e-6),
        lambda: mu_of(10**400, 1e-6),
        lambda: mu_of(5e-324, 5e-324),
        lambda: mu_of(1.0, 5e-324),
        lambda: epsilon_of(1e155, 1e-6),
        lambda: epsilon_of(1e300, 0.5),
        lambda: epsilon_of(1.0, 5e-324),
        lambda: delta_of(0, 1e10),
        lambda: delta_of(1e300, 1e-300),
    ],
)
def test_far_extremes_give_a_number(call):
    assert call() >= 0


def test_far_extremes_stay_on_the_safe_side():
    assert mu_of(1e13, 1e-6) <= mu_of(1e12, 1e-6) * math.sqrt(10) * 1.01
    assert exact_delta(1.0, mu_of(1.0, 1e-310), digits=400) <= 1e-310
    assert exact_delta(epsilon_of(2.0, 1e-310), 2.0, digits=400) <= 1e-310
    assert delta_of(0, 1e10) == 1.0
