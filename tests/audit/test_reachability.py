"""The reachability attack: it breaks noise of single precision and is at chance on the default."""

import math

import numpy as np
import pytest
from scipy.special import erfinv
from scipy.stats import binom, norm
from sklearn.base import clone

from skballdp import BallDPLogisticRegression, BallDPRidgePrototype, MAPReconstructionAuditor
from skballdp.audit.attack import only_reachable, reachable
from tests.instances import HEADS, names

F = np.float32
# M. Giles, "Approximating the erfinv function": what XLA, and so the paper's reference, computes.
CENTRAL = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087]
CENTRAL += [-0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
TAIL = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773]
TAIL += [-0.0076224613, 0.00943887047, 1.00167406, 2.83297682]


def single_erfinv(x):
    w = -np.log1p(-x * x)
    central = w < 5
    w = np.where(central, w - F(2.5), np.sqrt(w) - F(3))
    p = np.where(central, F(CENTRAL[0]), F(TAIL[0]))
    for a, b in zip(CENTRAL[1:], TAIL[1:], strict=True):
        p = np.where(central, F(a), F(b)) + p * w
    return p * x


def single_normal(rng, shape):
    """As jax.random.normal does by default: 23 random bits, shifted to (-1, 1), inverted."""
    unit = (rng.integers(2**23, size=shape) / 2**23).astype(F)
    low = np.nextafter(F(-1), F(0))
    return F(math.sqrt(2)) * single_erfinv(np.maximum(low, unit * (F(1) - low) + low))


class SingleRelease(BallDPRidgePrototype):
    """Everything in single precision, like the paper's reference."""

    def _optimum(self, rows, codes, problem):
        self._exact = super()._optimum(rows, codes, problem)
        return self._exact

    def _set_released(self, released, problem):
        scale = np.broadcast_to(self.noise_scale_, len(released)).astype(F)[:, None]
        noise = scale * single_normal(np.random.default_rng(), released.shape)
        exact = self.__dict__.pop("_exact")
        super()._set_released((exact.astype(F) + noise).astype(np.float64), problem)


class SingleNoise(SingleRelease):
    """A sampler of another kind, in single precision; the sum in double."""

    def _set_released(self, released, problem):
        scale = np.broadcast_to(self.noise_scale_, len(released)).astype(F)[:, None]
        noise = scale * np.random.default_rng().standard_normal(released.shape, dtype=F)
        exact = self.__dict__.pop("_exact")
        BallDPRidgePrototype._set_released(self, exact + noise, problem)


def test_the_stand_in_draws_normals():
    x = np.linspace(-1, 1, 10_001, dtype=F)[1:-1]
    np.testing.assert_allclose(single_erfinv(x), erfinv(x.astype(float)), rtol=1e-5)
    z = single_normal(np.random.default_rng(0), 100_000)
    assert z.dtype == F and abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02


def problem(d=48, m=10):
    """Data with a record to hide, and candidates for it."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, d)), np.arange(60) % 3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    candidates = X[0] + 0.3 * rng.standard_normal((m, d)) / math.sqrt(d)
    return X, y, candidates / np.maximum(1, np.linalg.norm(candidates, axis=1, keepdims=True))


def attack(head, trials, d=48):
    """How often the hidden candidate was named, and how often any was."""
    X, y, candidates = problem(d)
    data = [np.vstack([candidate, X[1:]]) for candidate in candidates]
    optima = np.stack([head.exact_optimum(rows, y) for rows in data])
    scale = head.noise_scale_for(X, y)
    rng = np.random.default_rng(11)
    hits = named = 0
    for target in rng.integers(len(candidates), size=trials):
        released = clone(head).fit(data[target], y).released_parameters_
        guess = only_reachable(released, optima, scale)
        named += guess is not None
        hits += target == (rng.integers(len(candidates)) if guess is None else guess)
    return int(hits), named


@pytest.mark.parametrize("cls, d", [(SingleRelease, 96), (SingleNoise, 48), (SingleNoise, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_single_precision_is_broken(cls, d, epsilon):
    head = cls(1.0, epsilon=epsilon, delta=1e-3)
    assert attack(head, 30, d)[0] >= 29


class Inversion(SingleRelease):
    """Double precision from end to end: what one writes down without thinking of digits."""

    def _set_released(self, released, problem):
        scale = np.broadcast_to(self.noise_scale_, len(released))[:, None]
        noise = scale * norm.ppf(np.random.default_rng().random(released.shape))
        exact = self.__dict__.pop("_exact")
        BallDPRidgePrototype._set_released(self, exact + noise, problem)


@pytest.mark.parametrize("head", [*HEADS, Inversion()], ids=names([*HEADS, Inversion()]))
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_double_precision_is_broken(head, epsilon):
    noise = "discrete" if isinstance(head, Inversion) else "continuous"
    d = 48 if isinstance(head, BallDPRidgePrototype) else 24
    head = clone(head).set_params(radius=1.0, epsilon=epsilon, delta=1e-3, alpha=0.1, noise=noise)
    assert attack(head, 30, d)[0] >= 29


@pytest.mark.parametrize("head", HEADS, ids=names(HEADS))
def test_the_default_is_at_chance(head):
    trials = 300 if isinstance(head, BallDPRidgePrototype) else 60
    head = clone(head).set_params(radius=1.0, epsilon=0.1, delta=1e-3, alpha=0.1)
    hits, named = attack(head, trials, d=48 if trials == 300 else 24)
    # False alarms: less than 1e-6, the certificate being 0.105 here.
    assert binom.ppf(4e-7, trials, 0.1) <= hits <= binom.isf(4e-7, trials, 0.105)
    assert named == 0


def test_on_the_grid_all_candidates_are_equally_reachable():
    X, y, candidates = problem()
    head = BallDPRidgePrototype(1.0, epsilon=0.1, delta=1e-3).fit(X, y)
    grid = np.repeat(head.certificate_.grid, X.shape[1])
    data = [np.vstack([candidate, X[1:]]) for candidate in candidates]
    optima = np.stack([head.exact_optimum(rows, y) for rows in data])
    scale = head.noise_scale_for(X, y)
    released = head.released_parameters_
    arguments = {"kind": "discrete", "grid": grid}
    assert reachable(released, optima, scale, **arguments).tolist() == [0.0] * 10
    assert reachable(released + grid / 3, optima, scale, **arguments).tolist() == [-math.inf] * 10


def test_equal_optima_are_told_apart_by_nobody():
    released = np.float32(np.random.default_rng(0).standard_normal(20)).astype(float)
    assert only_reachable(released, np.zeros((4, 20)), 1.0) is None


def test_extreme_numbers():
    for size in (1e-300, 1e-42, 1e30, 1e50, 1e300):
        optima = size * np.random.default_rng(0).standard_normal((4, 20))
        for released in (optima[0], optima[0] + size, np.zeros(20), np.full(20, 1e30)):
            for scale in (size, 1e-6 * size):
                assert only_reachable(released, optima, scale) in (None, 0, 1, 2, 3)


@pytest.mark.parametrize(
    "cls, noise",
    [(SingleRelease, "discrete"), (SingleNoise, "discrete"), (BallDPRidgePrototype, "continuous")],
)
def test_the_auditor_finds_it(cls, noise):
    X, y, _ = problem(d=96)
    parameters = {"n_releases": 20, "n_supports": 1, "n_fits": 20, "random_state": 0}
    head = cls(1.0, epsilon=0.1, delta=1e-3, noise=noise)
    report = MAPReconstructionAuditor(head, **parameters).fit(X, y).report_
    part = report.implementation
    assert not report.passed and report.failed_checks == ("reachability",)
    assert part.digits.hits >= 19 and part.digits.trials == 20
    assert part.n_hidden == 10 and part.digits_bound < 0.12
    assert "Digits named the hidden one of 10" in " ".join(str(report).split())
    assert type(report).from_json(report.to_json()) == report


def test_the_auditor_is_quiet_about_the_default():
    X, y, _ = problem()
    for head in (BallDPRidgePrototype(1.0), BallDPLogisticRegression(1.0, alpha=0.1)):
        head.set_params(delta=1e-3)
        auditor = MAPReconstructionAuditor(head, n_releases=20, n_fits=10, n_candidates=12)
        report = auditor.fit(X, y).report_
        part = report.implementation
        assert report.passed and part.digits.hits == 0 and part.n_hidden == 10
    silent = MAPReconstructionAuditor(BallDPRidgePrototype(1.0, epsilon=math.inf), n_fits=2)
    assert silent.fit(X, y).report_.implementation.digits is None
