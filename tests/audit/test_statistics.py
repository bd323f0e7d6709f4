"""Intervals, lower limits, references and summaries."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, binomtest

from skballdp import BallDPRidgePrototype, MAPReconstructionAuditor
from skballdp.accounting.reconstruction import support_bound
from skballdp.audit.attack import bayes_success_of_pair, geometry
from skballdp.audit.statistics import (
    AuditSummary,
    advantage_interval,
    at_most,
    clopper_pearson,
    enclosing_centre,
    epsilon_lower,
    measure,
    mu_lower,
)


def test_clopper_pearson_against_scipy():
    for hits, trials in [(0, 10), (3, 10), (10, 10), (555, 4000)]:
        expected = binomtest(hits, trials).proportion_ci(0.99, method="exact")
        assert clopper_pearson(hits, trials, 0.99) == pytest.approx(tuple(expected), rel=1e-9)


def test_p_values_of_a_bound():
    for hits, trials, bound in [(0, 10, 0.3), (5, 10, 0.3), (10, 10, 0.3), (7, 10, 1.0)]:
        expected = binomtest(hits, trials, bound, alternative="greater").pvalue
        assert at_most(measure(hits, trials, 0.9), bound) == pytest.approx(expected, rel=1e-9)
    assert at_most(measure(10, 10, 0.9), 1 + 1e-9) == 1.0


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("kappa", [0.5, 0.1, 0.01])
def test_lower_limits_cover(mu, kappa):
    """Exact coverage: the probability, under the sharpest attack, of a limit above the truth."""
    trials, confidence, delta = 400, 0.9, 1e-3
    p = float(ndtr(ndtri(kappa) + mu))
    hits = np.arange(trials + 1)
    limits = np.array([mu_lower(measure(h, trials, 0.5), kappa, confidence) for h in hits])
    wrong = binom.pmf(hits, trials, p)[limits > mu].sum()
    assert wrong <= 1 - confidence
    assert limits[round(p * trials)] > 0 or mu < 0.5
    # Epsilon: the best attack on an (epsilon, delta)-private release succeeds with this at most.
    epsilon = 1.0
    p = min(1.0, math.exp(epsilon) * kappa + delta)
    limits = [epsilon_lower(measure(h, trials, 0.5), kappa, delta, confidence) for h in hits]
    assert binom.pmf(hits, trials, p)[np.array(limits) > epsilon].sum() <= 1 - confidence
    assert limits[0] == 0.0 and max(limits) > 0


def test_limits_are_one_sided_clopper_pearson():
    low = clopper_pearson(682, 1000, 0.9)[0]
    measured = measure(682, 1000, 0.3)
    assert epsilon_lower(measured, 0.5, 0.0, 0.95) == pytest.approx(math.log(low / 0.5))
    assert ndtr(mu_lower(measured, 0.5, 0.95)) == pytest.approx(low)


def test_advantage_interval_holds_jointly():
    measured, null = measure(300, 1000, 0.5), measure(120, 1000, 0.5)
    low, high = advantage_interval(measured, null, 0.9)
    parts = [clopper_pearson(rate.hits, rate.trials, 0.95) for rate in (measured, null)]
    assert (low, high) == (parts[0][0] - parts[1][1], parts[0][1] - parts[1][0])
    assert low < 0.18 < high


@pytest.mark.parametrize("m, k", [(1, 3), (2, 1), (3, 2), (10, 4), (10, 9), (64, 20), (50, 1)])
def test_enclosing_centre(m, k):
    rng = np.random.default_rng(m + k)
    for points in (rng.standard_normal((m, k)), rng.uniform(size=(m, k)) ** 3, np.ones((m, k))):
        centre = enclosing_centre(points)
        radius = np.linalg.norm(points - centre, axis=1).max()
        # No point is a better centre: the optimality condition says that the centre is a
        # combination of the farthest points; here, that no step in any direction helps.
        for step in (1e-2, 1e-3):
            other = centre + step * radius * _directions(rng, k)
            worst = np.linalg.norm(points[:, None] - other, axis=2).max(axis=0)
            assert worst.min() >= radius * (1 - 1e-7)


def _directions(rng, k):
    directions = rng.standard_normal((2000, k))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.mark.parametrize("distance", [0.2, 1.0, 4.0])
def test_for_a_pair_the_enclosing_reference_is_exact(distance):
    prior = np.array([0.5, 0.5])
    optima = np.array([[0.0, 0.0], [0.6 * distance, 0.8 * distance]])
    shape = geometry(optima, np.array([3.0, 1.0]), 1.0, prior)
    exact = bayes_success_of_pair(distance, prior)
    assert shape.diameter == pytest.approx(distance)
    assert support_bound(prior, shape.to_enclosing) == pytest.approx(exact, rel=1e-9)
    assert support_bound(prior, shape.to_centre) > exact + 0.01


@pytest.fixture(scope="module")
def reports():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(60) % 2
    head = BallDPRidgePrototype(0.5, delta=1e-3)
    return [
        MAPReconstructionAuditor(
            head, n_candidates=3, n_supports=2, n_releases=200, n_fits=0, random_state=seed
        )
        .fit(X, y)
        .report_
        for seed in range(3)
    ]


def test_summary(reports):
    summary = AuditSummary.of(reports)
    rates = np.array([report.exact_id_rate for report in reports])
    assert summary.n_reports == 3 and summary.passed
    assert summary.rate == pytest.approx(rates.mean())
    assert summary.rate_sd == pytest.approx(rates.std(ddof=1))
    low, high = summary.rate_interval
    assert low < summary.rate < high
    assert (high - low) / 2 == pytest.approx(4.302653 * rates.std(ddof=1) / math.sqrt(3), rel=1e-6)
    assert summary.pooled.trials == 3 * 2 * 3 * 200
    assert summary.pooled.rate == pytest.approx(summary.rate)
    assert summary.null.hits == sum(report.null.hits for report in reports)
    assert summary.advantage == summary.pooled.rate - summary.null.rate
    assert summary.exact_id_bound == reports[0].exact_id_bound and summary.kappa == 1 / 3
    single = AuditSummary.of(reports[:1])
    assert single.rate_interval == (single.rate, single.rate) and single.rate_sd == 0
    with pytest.raises(ValueError, match="at least one"):
        AuditSummary.of([])
    with pytest.raises(ValueError, match="one confidence"):
        AuditSummary.of([reports[0], replace(reports[1], confidence=0.5)])
