"""The auditor: correct heads pass, broken ones fail, unusable input is refused."""

import inspect
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skballdp import (
    AuditReport,
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    MAPReconstructionAuditor,
    Radius,
    radius_quantiles,
)
from skballdp.accounting.reconstruction import exact_id_bound
from skballdp.audit.attack import _unit_scale, geometry, simulate
from skballdp.audit.statistics import at_most, epsilon_lower, mu_lower
from skballdp.audit.supports import antipodal_pairs, draw_supports, farthest_points
from tests.instances import HEADS, names


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = Normalizer().transform(X / 16)
    return X[600:], y[600:], X[:600], y[:600]


def audit(head, digits, pool=True, **parameters):
    X, y, X_pool, y_pool = digits
    defaults = {"n_releases": 2000, "n_fits": 8, "random_state": 0}
    auditor = MAPReconstructionAuditor(head, **{**defaults, **parameters})
    return (auditor.fit(X, y, X_pool, y_pool) if pool else auditor.fit(X, y)).report_


class LessNoise(BallDPRidgePrototype):
    """Adds a part of the noise that it claims."""

    part = 0.5

    def _set_released(self, released, problem):
        exact = self._exact
        del self._exact
        super()._set_released(exact + (released - exact) * self.part, problem)

    def _optimum(self, rows, codes, problem):
        self._exact = super()._optimum(rows, codes, problem)
        return self._exact


class FivePercentLess(LessNoise):
    part = 0.95


class TheSameNoise(LessNoise):
    def _set_released(self, released, problem):
        noise = np.random.default_rng(0).standard_normal(released.shape)
        scale = np.broadcast_to(self.noise_scale_, len(released))
        released = self._exact + scale[:, None] * noise
        del self._exact
        BallDPRidgePrototype._set_released(self, released, problem)


class WrongSensitivity(BallDPRidgePrototype):
    """Noise and certificate for a sensitivity that is too small by a factor."""

    factor = 0.95

    def _sensitivity_of(self, problem):
        right = super()._sensitivity_of(problem)
        factor = 1 / problem.n_samples if self.factor is None else self.factor
        return replace(right, exact=factor * right.exact)


class WrongByN(WrongSensitivity):
    factor = None


class WrongByNLogistic(BallDPLogisticRegression):
    _sensitivity_of = WrongSensitivity._sensitivity_of
    factor = None

    def _sensitivity_of(self, problem):
        right = super()._sensitivity_of(problem)
        return replace(right, exact=right.exact / problem.n_samples)


class ScaleFromFeatures(BallDPRidgePrototype):
    """Ten per cent more noise than needed, or a bit more: how much depends on the rows."""

    def fit(self, X, y):
        self._spread = float(np.std(X))
        super().fit(X, y)
        return self

    def _sensitivity_of(self, problem):
        right = super()._sensitivity_of(problem)
        return replace(right, exact=right.exact * (1.1 + getattr(self, "_spread", 0.0)))


class MeanNorm(BallDPRidgePrototype):
    """Keeps something that depends on the rows."""

    kept = "mean_norm_"

    def fit(self, X, y):
        super().fit(X, y)
        setattr(self, self.kept, float(np.mean(X)))
        return self


class Overwritten(MeanNorm):
    kept = "prior_scale"


class AnyLongRow(BallDPRidgePrototype):
    """Keeps one bit, which no single record changes."""

    def fit(self, X, y):
        super().fit(X, y)
        self._long = bool(np.linalg.norm(X, axis=1).max() > 0.9)
        return self


class RandomBit(BallDPRidgePrototype):
    """Keeps one bit that is mostly the same, and random."""

    def fit(self, X, y):
        super().fit(X, y)
        self.lucky_ = bool(np.random.default_rng().random() < 0.1)
        return self


class RadiusInside(BallDPRidgePrototype):
    """Reads the radius off the data, and does not say so."""

    def fit(self, X, y):
        given, self.radius = self.radius, float(np.linalg.norm(X[0] - X[-1]))
        super().fit(X, y)
        self.radius = given
        return self


class OneClassWrong(WrongSensitivity):
    """The sensitivity of one class is too small."""

    def _sensitivity_of(self, problem):
        right = BallDPRidgePrototype._sensitivity_of(self, problem)
        wrong = np.where(np.arange(len(right.exact)) == 4, 0.95, 1.0)
        return replace(right, exact=wrong * right.exact)


class OtherScale(BallDPRidgePrototype):
    """Claims another scale than its certificate."""

    def noise_scale_for(self, X, y):
        return 1.001 * super().noise_scale_for(X, y)


class UniformNoise(LessNoise):
    """Of the right variance."""

    def _set_released(self, released, problem):
        scale = np.broadcast_to(self.noise_scale_, len(released))[:, None]
        noise = scale * np.random.default_rng().uniform(-1, 1, released.shape) * math.sqrt(3)
        BallDPRidgePrototype._set_released(self, self.__dict__.pop("_exact") + noise, problem)


class OneForAllClasses(LessNoise):
    def _set_released(self, released, problem):
        scale = np.broadcast_to(self.noise_scale_, len(released))[:, None]
        noise = scale * np.random.default_rng().standard_normal(released.shape[1])
        BallDPRidgePrototype._set_released(self, self.__dict__.pop("_exact") + noise, problem)


@pytest.mark.parametrize("head", HEADS, ids=names(HEADS))
@pytest.mark.parametrize("pool", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_correct_heads_pass(head, pool, epsilon, digits):
    head = clone(head).set_params(radius=0.8, epsilon=epsilon)
    X, y, X_pool, y_pool = digits
    some = y < 4  # a few classes and fits: the linear heads take longer
    few = (X[some][:300], y[some][:300], X_pool[y_pool < 4], y_pool[y_pool < 4])
    report = audit(head, few, pool, n_fits=10)
    assert report.passed
    assert report.synthetic is not pool
    assert report.kappa == pytest.approx(0.1)
    for support in report.supports:
        low, high = support.measured.interval
        assert low <= support.measured.rate <= high
        assert support.null.rate == pytest.approx(0.1, abs=5 * 0.3 / math.sqrt(2000))
        assert support.n_distinct == support.n_candidates == 10
        assert support.bayes_success <= support.support_bound + 5 * support.bayes_error
        assert support.support_bound <= report.exact_id_bound * (1 + 1e-9)
        assert support.epsilon_lower <= epsilon
    assert report.exact_id_rate < report.exact_id_bound
    assert len(report.supports) == 4


def test_the_certificate_is_the_direct_bound(digits):
    head = BallDPRidgePrototype(0.8, epsilon=2.0)
    report = audit(head, digits)
    X, y, *_ = digits
    certificate = head.fit(X, y).certificate_
    assert report.exact_id_bound == certificate.exact_id_bound(n_candidates=10)
    prior = np.arange(1, 11) / 55
    weighted = audit(head, digits, prior=prior)
    assert weighted.exact_id_bound == exact_id_bound(mu=certificate.mu, kappa=10 / 55)
    assert weighted.passed and weighted.kappa == pytest.approx(10 / 55)


def test_no_noise_identifies_everybody(digits):
    report = audit(BallDPRidgePrototype(0.8, epsilon=math.inf), digits)
    assert report.exact_id_rate == 1.0
    assert report.exact_id_bound == 1.0
    assert report.bayes_success == pytest.approx(1.0)
    assert report.passed and report.voided_by


def test_a_radius_much_smaller_than_the_noise_identifies_nobody(digits):
    report = audit(BallDPRidgePrototype(1e-6, epsilon=0, delta=1e-9), digits, pool=False)
    assert report.exact_id_bound == pytest.approx(0.1, abs=1e-6)
    assert report.bayes_success == pytest.approx(0.1, abs=1e-6)
    error = 6 * math.sqrt(0.09 / 80_000)
    assert report.exact_id_rate == pytest.approx(0.1, abs=error)


@pytest.mark.parametrize(
    "head, check",
    [
        (LessNoise(0.8), "unit scale"),
        (FivePercentLess(0.8), "unit scale"),
        (TheSameNoise(0.8), "independent fits"),
        (WrongByN(0.8), "exact-ID rate"),
        (WrongByN(0.8), "shift of the optimum"),
        (WrongSensitivity(0.8), "shift of the optimum"),
        (WrongSensitivity(0.8), "antipodal pair"),
        (WrongByNLogistic(0.8), "antipodal pair"),
        (ScaleFromFeatures(0.8), "public attributes"),
        (MeanNorm(0.8), "public attributes"),
        (RadiusInside(0.8), "public attributes"),
        (OneClassWrong(0.8), "certificate"),
        (OtherScale(0.8), "certificate"),
        (UniformNoise(0.8), "normal noise"),
        (OneForAllClasses(0.8), "independent parameters"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_broken_heads_fail_the_check_for_their_defect(head, check, digits):
    """With the default number of fits; more releases would only add to the power."""
    few = digits
    if isinstance(head, WrongByNLogistic):
        X, y, X_pool, y_pool = digits
        few = X[y < 2], y[y < 2], X_pool[y_pool < 2], y_pool[y_pool < 2]
    report = audit(head, few, n_releases=1000, n_fits=50)
    found = report.check(check)
    assert found.p_value < found.level / 10 and not found.passed and not report.passed
    assert check in report.failed_checks and "FAILED" in str(report)


@pytest.mark.parametrize("size", [1.0, 10.0])
@pytest.mark.parametrize("cls", [MeanNorm, Overwritten, AnyLongRow])
def test_attributes_are_compared_whatever_the_number_of_fits(cls, size, digits):
    """And whether or not all rows are projected on the ball."""
    rows = size * digits[0][:100], digits[1][:100], None, None
    for n_fits in (2, 5):
        report = audit(cls(0.8), rows, pool=False, n_releases=100, n_fits=n_fits)
        assert report.failed_checks == ("public attributes",)


def test_random_attributes_are_no_alarm():
    """One bit that is mostly the same: some candidates are alone in having it."""
    X, y = np.eye(8)[np.arange(40) % 8], np.arange(40) % 2
    for seed in range(6):
        auditor = MAPReconstructionAuditor(
            RandomBit(0.5, delta=1e-3), n_releases=10, n_fits=8, random_state=seed
        )
        assert auditor.fit(X, y).report_.passed


def test_the_levels_and_limits_add_up(digits):
    head = BallDPRidgePrototype(0.8, epsilon=8.0)
    report = audit(head, digits, n_releases=300, eta=0.5, confidence=0.9)
    assert math.fsum(check.level for check in report.checks) == pytest.approx(2e-7)
    assert report.false_alarm_rate == 2e-7
    # Bonferroni within a check, over all attacks that it looks at.
    parts = [part for _, part in report.attacks()]
    several = [part for part in parts if part is not report.antipodal]
    within = [part.approximate for part in report.supports] + [report.inversion.approximate]
    rates = {
        "null arm": [(part.null, part.kappa) for part in parts],
        "exact-ID rate": [(part.measured, part.exact_id_bound) for part in several],
        "approximate rate": [(part.measured, part.bound) for part in within],
    }
    for name, pairs in rates.items():
        smallest = min(at_most(rate, bound) for rate, bound in pairs)
        assert report.check(name).p_value == min(1.0, len(pairs) * smallest)
    # Of the best of two limits, each at half the risk.
    attempts = [(report.measured, 0.1), (report.antipodal.measured, 0.5)]
    assert report.mu_lower == max(mu_lower(rate, kappa, 0.95) for rate, kappa in attempts)
    assert report.epsilon_lower == max(
        epsilon_lower(rate, kappa, 1e-6, 0.95) for rate, kappa in attempts
    )
    part = report.repeated
    assert part.epsilon_lower == epsilon_lower(part.measured, part.kappa, 4e-6, 0.9)


def test_power_against_five_percent_too_little_noise():
    """p-values of what the check sees, at the default number of noise values: power 0.99.

    The misses among 400 are binomial with probability below 1e-3 by the normal approximation; more
    than 8 of them have probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    level = 2e-7 / 15
    misses = 0
    for _ in range(400):
        noise = 0.95 * rng.standard_normal((308, 65))  # 20,000 values, one block
        misses += _unit_scale(noise, np.zeros(65, dtype=int)) >= level
    assert misses <= 4


def test_automatic_number_of_fits():
    rng = np.random.default_rng(0)
    for d, expected in ((2, 500), (100, 100), (400, 30)):
        X, y = rng.standard_normal((20, d)), np.arange(20) % 2
        auditor = MAPReconstructionAuditor(
            BallDPRidgePrototype(0.8, delta=1e-3), n_releases=10, random_state=0
        )
        part = auditor.fit(X / 3, y).report_.implementation
        assert (part.n_fits, part.n_parameters) == (expected, 2 * d)


def test_the_antipodal_pair_attains_the_bound(digits):
    # A shift of mu at the radius: Phi(mu) for two candidates on opposite sides of the ball.
    for radius in (0.3, 0.8, 1.0):
        report = audit(BallDPRidgePrototype(radius, epsilon=2.0), digits, n_fits=0)
        pair = report.antipodal
        assert pair.distance == radius and pair.n_candidates == 2
        assert pair.bayes_success == pytest.approx(pair.exact_id_bound, rel=1e-6)
        assert pair.exact_id_bound == pytest.approx(0.673, abs=5e-4)
        assert pair.shift == pytest.approx(pair.shift_bound, rel=1e-6)
        # Two candidates: the bound on the advantage is attained, too.
        assert pair.advantage_bound == pytest.approx(pair.bayes_success - 0.5, rel=1e-9)
    # Beyond, the norm bound keeps the two closer to the centre than the radius.
    report = audit(BallDPRidgePrototype(epsilon=2.0), digits, pool=False, n_fits=0)
    assert report.antipodal.distance == pytest.approx(1.0)
    assert report.antipodal.bayes_success == pytest.approx(
        report.antipodal.exact_id_bound, rel=1e-6
    )
    assert report.farther == ()
    # 5 % too little noise.
    pair = audit(WrongSensitivity(0.8, epsilon=2.0), digits, n_fits=0).antipodal
    assert pair.bayes_success == pytest.approx(0.682, abs=1e-3)


@pytest.mark.parametrize("head", HEADS, ids=names(HEADS))
def test_the_antipodal_pair_of_every_head(head, digits):
    X, y, X_pool, y_pool = digits
    few = X[y < 2][:200], y[y < 2][:200], X_pool[y_pool < 2], y_pool[y_pool < 2]
    report = audit(clone(head).set_params(radius=0.5, epsilon=4.0), few, n_fits=0)
    pair = report.antipodal
    assert pair.distance == pytest.approx(0.5, rel=1e-8)
    assert pair.bayes_success <= pair.exact_id_bound * (1 + 1e-9)
    # Closer to its certificate than the supports are to theirs.
    assert pair.shift / pair.shift_bound >= max(s.shift / s.shift_bound for s in report.supports)
    assert pair.shift / pair.shift_bound > 0.1


def test_half_way_between_the_pair_is_a_reference(digits):
    """For linear heads twice the distance is less than twice the sensitivity."""
    X, y = digits[0][digits[1] < 2][:100], digits[1][digits[1] < 2][:100]
    head = BallDPLogisticRegression(0.5, epsilon=4.0)
    pair = audit(head, (X, y, None, None), pool=False, n_fits=0).antipodal
    certificate = head.fit(X, y).certificate_
    half = certificate.mu_at(2 * pair.distance) / 2
    assert pair.exact_id_bound == pytest.approx(exact_id_bound(mu=half, kappa=0.5), rel=1e-9)
    assert pair.exact_id_bound < certificate.exact_id_bound(n_candidates=2) - 1e-3


def test_farther_candidates_have_their_own_certificate(digits):
    head = BallDPRidgePrototype(0.6, epsilon=2.0)
    report = audit(head, digits, n_fits=0, beyond=(1.5, 2.0, 3.0, 9.0))
    certificate = head.fit(*digits[:2]).certificate_
    assert [part.distance for part in report.farther] == pytest.approx([0.9, 1.2, 1.8, 2.0])
    for part in report.farther:
        assert part.exact_id_bound == certificate.exact_id_bound(
            n_candidates=10, distance=part.distance
        )
        assert part.exact_id_bound > report.exact_id_bound
        assert part.measured.rate < part.exact_id_bound
    assert report.farther[1].measured.rate > report.exact_id_rate
    assert audit(head, digits, n_fits=0, beyond=()).farther == ()


def test_smaller_balls_and_several_releases(digits):
    head = BallDPRidgePrototype(1.2, epsilon=8.0)
    certificate = head.fit(*digits[:2]).certificate_
    report = audit(head, digits, n_fits=0, support_radius=0.8, n_seen=9)
    assert report.radius == 1.2 and report.supports[0].distance == 0.8
    assert report.exact_id_bound == certificate.exact_id_bound(n_candidates=10, distance=0.8)
    repeated = report.repeated
    assert repeated.n_seen == 9
    assert repeated.shift == pytest.approx(3 * report.supports[0].shift)
    assert repeated.shift_bound == pytest.approx(3 * certificate.mu_at(0.8))
    assert repeated.exact_id_bound == certificate.exact_id_bound(
        n_candidates=10, distance=0.8, n_releases=9
    )
    assert report.supports[0].bayes_success < repeated.bayes_success <= repeated.support_bound
    assert audit(head, digits, n_fits=0, n_seen=1).repeated is None
    fits = audit(head, digits, n_fits=2, support_radius=0.8).implementation
    assert fits.digits_bound == report.exact_id_bound


def test_approximate_reconstruction(digits):
    head = BallDPRidgePrototype(0.8, epsilon=8.0)
    report = audit(head, digits, n_fits=0, eta=0.5)
    certificate = head.fit(*digits[:2]).certificate_
    for support in report.supports:
        found = support.approximate
        assert found.bound == certificate.exact_id_bound(kappa=found.kappa)
        assert support.measured.rate <= found.measured.rate <= found.bound
        assert found.kappa >= 0.1
    inversion = report.inversion
    assert inversion.error < 1e-9 and inversion.n_features == 64
    assert inversion.approximate.measured.rate <= inversion.approximate.bound
    assert report.check("approximate rate").passed
    # Three features, where a ball of radius eta is a good part of the prior's.
    X, y, *_ = digits
    few = X[:, [20, 28, 36]], y, None, None
    report = audit(head, few, pool=False, n_fits=0, eta=0.7)
    found = report.inversion.approximate
    assert found.kappa == pytest.approx((0.7 / 0.8) ** 3)
    assert found.kappa - 0.05 < found.measured.rate < found.bound
    # With much noise the best answer is the middle of the ball, which the answers keep close to.
    noisy = clone(head).set_params(epsilon=0.01)
    found = audit(noisy, few, pool=False, n_fits=0, eta=0.7).inversion.approximate
    assert found.measured.rate > found.kappa - 0.1
    # Rows on the ball of the norm bound, whatever that is: the target's ball lies inside.
    rows = few[0] / np.maximum(np.linalg.norm(few[0], axis=1, keepdims=True), 1e-9)
    for size in (1.0, 10.0):
        exact = BallDPRidgePrototype(0.8 * size, epsilon=50.0, norm_bound=size)
        report = audit(exact, (size * rows, y, None, None), False, n_fits=0, eta=0.3 * size)
        assert report.inversion.approximate.measured.rate > 0.7
    # Without noise the target is found.
    report = audit(clone(head).set_params(epsilon=math.inf), digits, n_fits=0, eta=0.1)
    assert report.inversion.approximate.measured.rate == 1.0
    exact = audit(head, digits, n_fits=0)
    assert exact.supports[0].approximate is None and exact.inversion.approximate is None


def test_an_inversion_that_is_wrong_fails(digits):
    class Wrong(BallDPRidgePrototype):
        def invert_release(self, X, y, index, released):
            return super().invert_release(X, y, index, released) + 1e-3

    assert audit(Wrong(0.8), digits, n_fits=0).failed_checks == ("inversion",)


@pytest.mark.parametrize("size", [1e-9, 1e8])
def test_inversion_of_data_of_any_size(digits, size):
    """Rounding errors are those of long sums; a wrong inversion is found among short rows, too."""
    X, y, *_ = digits
    rows = size * X
    head = BallDPRidgePrototype(0.8 * min(size, 1.0), norm_bound=None, prior_scale=1.0)
    report = audit(head, (rows, y, None, None), pool=False, n_fits=0)
    assert report.passed and report.inversion.error <= report.inversion.tolerance

    class Wrong(BallDPRidgePrototype):
        def invert_release(self, X, y, index, released):
            return super().invert_release(X, y, index, released) * (1 + 1e-3)

    head = Wrong(0.8 * size, norm_bound=size)
    report = audit(head, (rows, y, None, None), pool=False, n_fits=0)
    assert report.failed_checks == ("inversion",)


def test_limits_are_for_the_radius(digits):
    """Candidates farther apart show a larger shift, which the certificate does not deny."""
    head = BallDPRidgePrototype(0.3, epsilon=8.0)
    report = audit(head, digits, pool=False, n_fits=0, support_radius=1.5)
    assert report.passed and report.supports[0].mu_lower > report.mu
    assert report.mu_lower <= report.mu and report.epsilon_lower <= 8.0


def test_a_radius_that_cost_something_is_charged(digits):
    head = BallDPRidgePrototype(Radius(0.4, "a private estimate", epsilon=0.5), epsilon=2.0)
    report = audit(head, digits, pool=False, n_fits=0)
    certificate = head.fit(*digits[:2]).certificate_
    assert (report.radius_epsilon, report.mu) == (0.5, certificate.mu)
    # Half-way between the pair, its blind success grows with the price of the radius.
    spent = 0.5 * math.exp(0.5)
    expected = exact_id_bound(mu=certificate.mu_at(0.8) / 2, kappa=spent)
    assert report.antipodal.exact_id_bound == pytest.approx(expected, rel=1e-9)
    assert report.antipodal.exact_id_bound >= expected
    words = " ".join(str(report).split())
    assert "cost of radius epsilon 0.5 for any replacement" in words
    assert "Choosing the radius cost another epsilon = 0.5" in report.to_markdown()
    assert "cost" not in str(audit(BallDPRidgePrototype(0.4), digits, pool=False, n_fits=0))


def test_attacks_have_names_of_their_own(digits):
    report = audit(BallDPRidgePrototype(0.6), digits, n_fits=0, beyond=(1.5, 1.5001, 2.0, 3.0, 4.0))
    names = [name for name, _ in report.attacks()]
    assert names[5:] == ["at 1.5 r", "at 1.5001 r", "at 2 r", "at 3 r", "whole ball", "4 releases"]
    assert AuditReport.from_json(report.to_json()).attacks() == report.attacks()
    unbounded = audit(
        BallDPRidgePrototype(0.6, norm_bound=None), digits, n_fits=0, beyond=(1.5, 4.0)
    )
    assert [name for name, _ in unbounded.attacks()][5:7] == ["at 1.5 r", "at 4 r"]


def test_unknown_labels_are_reported_without_a_certificate(digits):
    report = audit(
        BallDPRidgePrototype(0.3, epsilon=8.0), digits, False, n_releases=50, unknown_label=True
    )
    found = report.unknown_label
    assert (found.n_candidates, found.n_labels, found.kappa) == (10, 10, 0.1)
    # Labels move whole prototypes: much more than the certificate allows for one label.
    assert found.measured.rate > report.exact_id_bound
    assert report.passed and "not covered" in str(report)
    X, y = np.eye(4), [0, 1, 1, 1]
    auditor = MAPReconstructionAuditor(
        BallDPRidgePrototype(0.5, delta=1e-3), n_releases=5, n_fits=0, unknown_label=True
    )
    with pytest.raises(ValueError, match="unknown_label"):
        for seed in range(20):  # until the first support is around the only record of its class
            auditor.set_params(random_state=seed).fit(X, y)


def test_labels_are_told_apart_by_their_scales_as_well():
    """Against densities of another kind; five standard errors. Little else differs here."""
    rng = np.random.default_rng(0)
    X, y = 1e-3 * rng.standard_normal((6, 15)), np.array([0, 0, 0, 1, 1, 1])
    head = BallDPRidgePrototype(0.5, epsilon=0.5, delta=1e-3)
    report = audit(head, (X, y, None, None), False, n_candidates=2, n_fits=0, unknown_label=True)
    scales = [head.noise_scale_for(X, labels) for labels in (y, np.array([0, 0, 1, 1, 1, 1]))]
    hits, draws = 0, 20_000
    for target in (0, 1):
        noise = scales[target] * rng.standard_normal((draws, 30))
        scores = [norm.logpdf(noise, scale=scale).sum(axis=1) for scale in scales]
        hits += np.count_nonzero(np.argmax(scores, axis=0) == target)
    rate = hits / (2 * draws)
    assert rate > 0.7
    error = 5 * math.sqrt(0.25 / (2 * draws) + 0.25 / report.unknown_label.measured.trials)
    assert report.unknown_label.measured.rate == pytest.approx(rate, abs=error)


def test_candidates_that_depend_on_the_target_break_the_bound(digits):
    """Why supports are fixed before the target is drawn."""
    X, y, *_ = digits
    head = BallDPRidgePrototype(0.8, epsilon=2.0)
    optima = head.neighbour_optima(X, y, 0, np.vstack([X[0], X[0] + 0.79 * np.eye(64)[:9]]))
    scale = head.noise_scale_for(X, y)
    prior = np.full(10, 0.1)
    right = geometry(optima, optima[0], scale, prior)
    bound = head.fit(X, y).certificate_.exact_id_bound(n_candidates=10)
    arm = simulate(right, prior, 1000, np.random.default_rng(0))
    assert arm.hits / arm.trials < bound
    # An attacker whose list has the target and nine records far outside the ball finds it.
    far = np.vstack([optima[:1], optima[:1] + 50 * (optima[1:] - optima[0])])
    arm = simulate(geometry(far, far[0], scale, prior), prior, 1000, np.random.default_rng(0))
    assert arm.hits / arm.trials > bound


def test_an_attack_that_peeks_fails_the_null_arm(digits, monkeypatch):
    def peek(logits):
        names = inspect.currentframe().f_back.f_locals
        return np.full(logits.shape[1], names["shape"].group[names["target"]])

    monkeypatch.setattr("skballdp.audit.attack.map_guess", peek)
    report = audit(BallDPRidgePrototype(0.8), digits, n_fits=0)
    assert not report.check("null arm").passed and report.null.rate == 1.0


def test_simulated_audits_of_a_correct_head_pass():
    """50 audits; each fails with probability at most 2e-7, any of them with at most 1e-5 (and by
    the levels of the tests, which add up, far less)."""
    failures = audits_of_a_correct_head(range(50))
    assert failures == []


def audits_of_a_correct_head(seeds):
    """Seeds whose audit failed."""
    failures = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, d, k = rng.integers(20, 60), rng.integers(2, 12), rng.integers(2, 5)
        X, y = rng.standard_normal((n, d)), np.arange(n) % k
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        head = BallDPRidgePrototype(
            float(rng.uniform(0.2, 2)), epsilon=float(rng.uniform(0.1, 8)), delta=1e-3
        )
        auditor = MAPReconstructionAuditor(
            head,
            n_candidates=5,
            n_supports=2,
            n_releases=200,
            n_fits=10,
            eta=0.2,
            random_state=seed,
        )
        report = auditor.fit(X, y).report_
        if not report.passed:
            failures.append((seed, report.failed_checks))
    return failures


def test_seeded_heads_fail_without_warning(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = audit(BallDPRidgePrototype(0.8, random_state=0), digits)
    assert not report.passed
    assert report.check("independent fits").p_value == 0
    assert any("seed" in sentence for sentence in report.voided_by)


def test_a_seeded_auditor_is_reproducible_and_n_jobs_changes_nothing(digits):
    head = BallDPRidgePrototype(0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = audit(head, digits, n_fits=0)
        second = audit(head, digits, n_fits=0, n_jobs=2)
    assert first == second
    assert first != audit(head, digits, n_fits=0, random_state=1)
    assert first.implementation is None


@pytest.mark.parametrize(
    "random_state", [np.random.RandomState(0), np.random.default_rng(0), None], ids=str
)
def test_random_states(digits, random_state):
    audit(BallDPRidgePrototype(0.8), digits, n_fits=0, n_releases=10, random_state=random_state)


def test_report_round_trip_and_text(digits):
    for head in (BallDPRidgePrototype(0.8), BallDPRidgePrototype(0.8, epsilon=math.inf)):
        report = audit(head, digits)
        text = report.to_json()
        assert AuditReport.from_json(text) == report
        assert json.loads(text)["covered_by_certificate"] is False
        assert next(iter(json.loads(text))) == "covered_by_certificate"
        printed = str(report)
        assert printed.index("NOT covered by the certificate") < printed.index("measured rate")
        assert max(map(len, printed.splitlines())) <= 100
    with pytest.raises(ValueError, match="version"):
        AuditReport.from_json("{}")
    with pytest.raises(ValueError, match="fields"):
        AuditReport.from_json('{"version": 2, "covered_by_certificate": false}')


def test_nothing_private_is_kept(digits):
    X, y, X_pool, y_pool = digits
    auditor = MAPReconstructionAuditor(BallDPRidgePrototype(0.8), n_releases=10, n_fits=2)
    auditor.fit(X, y, X_pool, y_pool)
    assert set(vars(auditor)) - set(auditor.get_params(deep=False)) == {"report_", "n_features_in_"}
    assert not hasattr(auditor.estimator, "certificate_")


def test_policies_are_resolved_once_and_held_fixed(digits):
    X, y, *_ = digits
    report = audit(BallDPRidgePrototype("q80"), digits)
    assert report.radius == pytest.approx(radius_quantiles(X, y, 0.8, random_state=0))
    assert report.passed and report.voided_by


@pytest.mark.parametrize("selection", ["farthest", "nearest", "random", "callable"])
def test_selections(digits, selection):
    if selection == "callable":
        report = audit(
            BallDPRidgePrototype(0.9), digits, selection=lambda b, c, m, rng: np.arange(m)
        )
    else:
        report = audit(BallDPRidgePrototype(0.9), digits, selection=selection)
    assert report.selection == selection and report.passed
    assert selection in str(report)


def test_farthest_attacks_harder_than_nearest(digits):
    rates = {
        selection: audit(BallDPRidgePrototype(0.9, epsilon=8), digits, selection=selection)
        for selection in ("farthest", "nearest")
    }
    assert rates["farthest"].bayes_success > rates["nearest"].bayes_success + 0.02


def test_supports_are_in_the_ball_distinct_and_of_one_label(digits):
    X, y, X_pool, y_pool = digits
    X, X_pool = 1.7 * X, np.vstack([1.5 * X_pool, 1.5 * X_pool])  # longer rows, duplicates
    y_pool = np.tile(y_pool, 2)
    for pool in ((X_pool, y_pool), None):
        supports = draw_supports(
            X, y, pool, radius=0.7, norm_bound=1.2, n_supports=5, n_candidates=8,
            selection="farthest", rng=np.random.default_rng(0),
        )  # fmt: skip
        assert len({support.index for support in supports}) == 5
        for support in supports:
            centre = X[support.index] / max(1, np.linalg.norm(X[support.index]) / 1.2)
            distance = np.linalg.norm(support.candidates - centre, axis=1)
            assert distance.max() <= 0.7 * (1 + 1e-12)
            assert np.linalg.norm(support.candidates, axis=1).max() <= 1.2 * (1 + 1e-12)
            assert len(np.unique(support.candidates, axis=0)) == 8
            if pool is not None:
                same = X_pool[y_pool == y[support.index]]
                same = same / np.maximum(1, np.linalg.norm(same, axis=1, keepdims=True) / 1.2)
                nearest = np.abs(support.candidates[:, None] - same).max(axis=2).min(axis=1)
                assert nearest.max() < 1e-12


def test_antipodal_pairs_are_in_the_ball(digits):
    X, y, *_ = digits
    rng = np.random.default_rng(0)
    for radius, norm_bound in ((0.3, 1.0), (1.0, 1.0), (2.0, 1.0), (0.7, None)):
        pairs = antipodal_pairs(X, y, radius=radius, norm_bound=norm_bound, rng=rng)
        half = radius if norm_bound is None else min(radius, norm_bound)
        for pair in pairs:
            ends = pair.candidates
            assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(2 * half)
            assert np.linalg.norm(ends - pair.centre, axis=1).max() <= radius * (1 + 1e-12)
            if norm_bound is not None:
                assert np.linalg.norm(ends, axis=1).max() <= norm_bound * (1 + 1e-12)
        rarest = np.bincount(y).argmin()
        assert y[pairs[0].index] == rarest
    line = np.array([[0.1], [0.2]])
    assert antipodal_pairs(line, np.array([0, 1]), radius=0.5, norm_bound=1.0, rng=rng)
    same = np.full((4, 2), 0.5)  # class means that coincide
    assert len(antipodal_pairs(same, np.arange(4) % 2, radius=0.5, norm_bound=1.0, rng=rng)) == 6


def test_farthest_points():
    bank = np.array([[0.0], [1.0], [10.0], [4.0]])
    assert farthest_points(bank, np.array([0.0]), 3).tolist() == [2, 0, 3]
    assert sorted(farthest_points(np.zeros((3, 1)), np.zeros(1), 3)) == [0, 1, 2]


def test_pipelines(digits):
    head = BallDPRidgePrototype(0.8)
    stateless = make_pipeline(FunctionTransformer(), "passthrough", Normalizer(), head)
    frozen = make_pipeline(FrozenEstimator(StandardScaler(with_std=False).fit(digits[2])), head)
    for model in (stateless, frozen):
        assert audit(model, digits).passed
    with pytest.raises(ValueError, match=r"'standardscaler'.*learns from the data"):
        audit(make_pipeline(StandardScaler(), head), digits)


def test_sparse_data(digits):
    X, y, X_pool, y_pool = digits
    sparse = (sp.csr_array(X), y, sp.csr_array(X_pool), y_pool)
    dense = audit(BallDPRidgePrototype(0.8), digits, n_fits=0)
    for pool in (True, False):
        report = audit(BallDPRidgePrototype(0.8), sparse, pool, n_fits=2)
        assert report.passed
        if pool:
            assert report.bayes_success == pytest.approx(dense.bayes_success, abs=0.01)


def test_what_cannot_be_audited_is_refused(digits):
    X, y, X_pool, y_pool = digits
    head = BallDPRidgePrototype(0.8)
    with pytest.raises(TypeError, match=r"protocol.*exact_optimum, neighbour_optima"):
        audit(LogisticRegression(), digits)
    with pytest.raises(TypeError, match="protocol"):
        audit(make_pipeline(Normalizer(), LogisticRegression()), digits)
    with pytest.raises(TypeError, match=r"an instance: pass BallDPRidgePrototype\(\.\.\.\)"):
        audit(BallDPRidgePrototype, digits)
    with pytest.raises(ValueError, match="radius is 0"):
        audit(BallDPRidgePrototype(0), digits)
    auditor = MAPReconstructionAuditor(head)
    with pytest.raises(ValueError, match="X_pool has 3 features"):
        auditor.fit(X, y, X_pool[:, :3], y_pool)
    with pytest.raises(ValueError, match="lacks 1 of the classes"):
        auditor.fit(X, y, X_pool[y_pool > 0], y_pool[y_pool > 0])
    with pytest.raises(ValueError, match="one label per record"):
        auditor.fit(X, y, X_pool, y_pool[1:])
    with pytest.raises(ValueError, match="both X_pool and y_pool"):
        auditor.fit(X, y, X_pool)
    with pytest.raises(ValueError, match="selection must return"):
        audit(head, digits, selection=lambda bank, centre, m, rng: np.zeros(m, dtype=int))


def test_too_few_candidates_says_which_radius_would_do(digits):
    with pytest.raises(ValueError, match="too few candidates") as caught:
        audit(BallDPRidgePrototype(0.05), digits)
    words = str(caught.value)
    assert "A radius of about" in words and "n_candidates=10" in words
    enough = float(words.split("A radius of about ")[1].split()[0])
    assert audit(BallDPRidgePrototype(enough * 1.001), digits).passed
    with pytest.raises(ValueError, match="No radius gives enough"):
        audit(BallDPRidgePrototype(0.8), digits, n_candidates=200)


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("n_candidates", 1, ValueError),
        ("n_candidates", 10.0, TypeError),
        ("n_supports", 0, ValueError),
        ("n_releases", 0, ValueError),
        ("n_fits", 1, ValueError),
        ("n_fits", -1, ValueError),
        ("n_fits", "many", ValueError),
        ("n_seen", 0, ValueError),
        ("support_radius", 0.0, ValueError),
        ("beyond", (1.0,), ValueError),
        ("beyond", 1.5, ValueError),
        ("eta", -0.1, ValueError),
        ("unknown_label", 1, TypeError),
        ("selection", "best", ValueError),
        ("confidence", 1.0, ValueError),
        ("prior", [0.5, 0.5], ValueError),
        ("prior", np.r_[0.0, np.full(9, 1 / 9)], ValueError),
        ("prior", np.full(10, 0.2), ValueError),
        ("random_state", -1, ValueError),
    ],
)
def test_bad_parameters(digits, name, value, error):
    with pytest.raises(error, match=name):
        audit(BallDPRidgePrototype(0.8), digits, **{name: value})


def test_few_features_and_few_records():
    X = np.array([[0.0], [0.1], [0.9], [1.0]])
    report = (
        MAPReconstructionAuditor(
            BallDPRidgePrototype(0.5, delta=1e-3), n_supports=6, n_releases=100, n_fits=5
        )
        .fit(X, [0, 0, 1, 1])
        .report_
    )
    assert report.passed and len(report.supports) == 6


def test_squared_hinge_candidates_beyond_the_margin_are_tied():
    """Records without gradient leave no trace: ten candidates, one optimum, a blind guess."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = np.where(y[:, None] == 1, 1.0, -1.0) * [0.9, 0.0] + 0.02 * rng.standard_normal((400, 2))
    near = np.where(y == 1, 1.0, -1.0) * np.where(np.arange(400) < 40, 0.1, 1.0)
    X[:, 0] *= np.abs(near)  # a few records hold the margin well inside
    head = BallDPSquaredHingeSVC(0.05, alpha=1e-3, epsilon=8.0)
    far = MAPReconstructionAuditor(head, n_releases=3000, n_fits=0, random_state=1).fit(X, y)
    tied = [support for support in far.report_.supports if support.n_distinct == 1]
    assert tied and far.report_.passed
    for support in tied:
        assert support.bayes_success == pytest.approx(0.1)
        assert support.measured.rate == pytest.approx(0.1, abs=6 * math.sqrt(0.09 / 30_000))
    exposed = [support for support in far.report_.supports if support.n_distinct > 1]
    assert all(support.n_distinct <= 10 for support in exposed)


def test_extra_arrays_are_routed():
    """X_pool and y_pool are metadata in scikit-learn's sense."""
    auditor = MAPReconstructionAuditor(BallDPRidgePrototype())
    with config_context(enable_metadata_routing=True):
        requested = auditor.set_fit_request(X_pool=True, y_pool=True)
        assert requested.get_metadata_routing().fit.requests == {"X_pool": True, "y_pool": True}
