"""The auditor: correct heads pass, broken ones fail, unusable input is refused."""

import json
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skballdp import (
    AuditReport,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    MAPReconstructionAuditor,
    radius_quantiles,
)
from skballdp.accounting.reconstruction import exact_id_bound
from skballdp.audit.supports import draw_supports, farthest_points
from tests.instances import HEADS, names


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = Normalizer().transform(X / 16)
    return X[600:], y[600:], X[:600], y[:600]


def audit(head, digits, pool=True, **parameters):
    X, y, X_pool, y_pool = digits
    defaults = {"n_releases": 2000, "n_fits": 20, "random_state": 0}
    auditor = MAPReconstructionAuditor(head, **{**defaults, **parameters})
    return (auditor.fit(X, y, X_pool, y_pool) if pool else auditor.fit(X, y)).report_


class HalfTheNoise(BallDPRidgePrototype):
    def _set_released(self, released, problem):
        exact = self._exact
        super()._set_released(exact + (released - exact) / 2, problem)

    def _optimum(self, rows, codes, problem):
        self._exact = super()._optimum(rows, codes, problem)
        return self._exact


class TheSameNoise(HalfTheNoise):
    def _set_released(self, released, problem):
        noise = np.random.default_rng(0).standard_normal(released.shape)
        scale = np.broadcast_to(self.noise_scale_, len(released))
        BallDPRidgePrototype._set_released(self, self._exact + scale[:, None] * noise, problem)


class TooSensitive(BallDPRidgePrototype):
    """Optima move eight times as far as the sensitivity says."""

    def _neighbour_optima(self, rows, codes, problem, index, candidates):
        optima = super()._neighbour_optima(rows, codes, problem, index, candidates)
        return optima[-1] + 8 * (optima - optima[-1])


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
        low, high = support.exact_id_interval
        assert low <= support.exact_id_rate <= high
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
    assert report.bayes_success == 1.0
    assert report.passed and report.voided_by


def test_a_radius_much_smaller_than_the_noise_identifies_nobody(digits):
    report = audit(BallDPRidgePrototype(1e-6, epsilon=0, delta=1e-9), digits, pool=False)
    assert report.exact_id_bound == pytest.approx(0.1, abs=1e-6)
    assert report.bayes_success == pytest.approx(0.1, abs=1e-6)
    error = 6 * math.sqrt(0.09 / 80_000)
    assert report.exact_id_rate == pytest.approx(0.1, abs=error)


def test_broken_heads_fail(digits):
    """Default n_fits; the p-values are so small that power is 1 for every practical purpose."""
    parameters = {"n_fits": 50, "n_releases": 10}
    for head, test in [(HalfTheNoise, "unit scale"), (TheSameNoise, "independent fits")]:
        report = audit(head(0.8), digits, **parameters)
        assert not report.passed
        assert dict(report.implementation.p_values)[test] < report.implementation.level / 1e3
        assert "FAILED" in str(report)
    report = audit(TooSensitive(0.8, epsilon=4.0), digits)
    assert not report.passed and report.implementation.passed
    assert not any(support.passed for support in report.supports)


def test_seeded_heads_fail_without_warning(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = audit(BallDPRidgePrototype(0.8, random_state=0), digits)
    assert not report.passed
    assert dict(report.implementation.p_values)["independent fits"] == 0
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
        AuditReport.from_json('{"version": 1}')


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
        assert support.exact_id_rate == pytest.approx(0.1, abs=6 * math.sqrt(0.09 / 30_000))
    exposed = [support for support in far.report_.supports if support.n_distinct > 1]
    assert all(support.n_distinct <= 10 for support in exposed)


def test_extra_arrays_are_routed():
    """X_pool and y_pool are metadata in scikit-learn's sense."""
    auditor = MAPReconstructionAuditor(BallDPRidgePrototype())
    with config_context(enable_metadata_routing=True):
        requested = auditor.set_fit_request(X_pool=True, y_pool=True)
        assert requested.get_metadata_routing().fit.requests == {"X_pool": True, "y_pool": True}
