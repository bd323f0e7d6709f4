"""Accounting on a grid, against exact sums over the integers at 60 digits.

The grids of these tests are coarse, one to six steps per noise scale, so that the corrections
matter: there the profile of the continuous Gaussian is not a bound.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from skballdp import CertificationError
from skballdp.accounting import discrete, gaussian
from skballdp.accounting.reconstruction import exact_id_bound

EPSILONS = [0.1, 8.0, 32.0, 64.0, 600.0]


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


class Law:
    """The discrete Gaussian and the rounded continuous one, one coordinate, by direct sums."""

    def __init__(self, s):
        self.s = mpf(s)
        self.reach = math.ceil(25 * s)  # beyond it less than 1e-130
        weights = [
            mpmath.exp(-(mpf(z) ** 2) / (2 * self.s**2)) for z in range(-self.reach, self.reach + 1)
        ]
        total = mpmath.fsum(weights)
        self.p = [weight / total for weight in weights]
        self.below = [mpf(0), *itertools.accumulate(self.p)]  # below[i]: the first i of them

    def __getitem__(self, z):
        return self.p[z + self.reach] if abs(z) <= self.reach else mpf(0)

    def cdf(self, z):
        return self.below[min(max(z + self.reach + 1, 0), len(self.p))]

    def rounded(self, z):
        # Upper tails: differences of lower ones near 1 would cancel.
        a, b = (abs(z) - mpf(1) / 2) / self.s, (abs(z) + mpf(1) / 2) / self.s
        return (mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.erfc(b / mpmath.sqrt(2))) / 2

    def delta(self, epsilon, shift):
        """sup_S P(S) - e^epsilon P'(S), P centred at 0 and P' at `shift` (one or two integers).

        The log ratio at y is ``(|m|^2 - 2 y.m) / (2 s^2)``: S is a half-plane.
        """
        m1, m2 = (*shift, 0)[:2]
        m1, m2 = max(m1, m2), min(m1, m2)
        assert m1 > 0 <= m2
        limit = mpf(m1 * m1 + m2 * m2) / 2 - mpf(epsilon) * self.s**2  # S: y.m <= limit
        growth = mpmath.exp(mpf(epsilon))
        second = [0] if len(shift) == 1 else range(-self.reach, self.reach + m2 + 1)
        total = mpf(0)
        for y2 in second:
            bound = int(mpmath.floor((limit - y2 * m2) / m1))
            first, other = (self[y2], self[y2 - m2]) if len(shift) == 2 else (1, 1)
            total += first * self.cdf(bound) - growth * other * self.cdf(bound - m1)
        return total


with mpmath.workdps(60):
    LAWS = {s: Law(s) for s in (1.0, 2.5, 6.0)}


def shifts(longest, p):
    """Integer shifts up to that length: the longest of each direction (one octant)."""
    if p == 1:
        return [(m,) for m in (int(longest),) if m > 0]
    found = []
    for m1 in range(1, int(longest) + 1):
        m2 = min(m1, math.isqrt(int(longest**2) - m1 * m1))
        if math.hypot(m1, m2) > longest - 1.5:
            found.append((m1, m2))
    return found[:: max(1, len(found) // 4)]


def test_the_direct_sum_is_right():
    """Against a brute-force sum over a square."""
    law, epsilon, (m1, m2) = LAWS[1.0], mpf(1) / 3, (3, 2)
    square = [
        law[a] * law[b] - mpmath.exp(epsilon) * law[a - m1] * law[b - m2]
        for a in range(-14, 18)
        for b in range(-14, 18)
    ]
    brute = mpmath.fsum(x for x in square if x > 0)
    assert abs(law.delta(epsilon, (m1, m2)) - brute) < 1e-35


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("s", LAWS)
def test_certified_ratio_is_private(s, p):
    """The true delta of every shift that the certified mu allows is at most the target."""
    n_shifts = 0
    for epsilon, delta in itertools.product(EPSILONS, (1e-3, 1e-9)):
        mu = discrete.mu_of(epsilon, delta, steps=s, n_coordinates=p)
        for shift in shifts(mu * s, p):
            assert LAWS[s].delta(epsilon, shift) <= mpf(delta), (epsilon, delta, shift)
            n_shifts += 1
    assert n_shifts >= 4


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("s", LAWS)
def test_epsilon_of_a_shift_is_safe_and_inverts(s, p):
    for length, delta in itertools.product((1.0, 3.7, 12.0, 40.0), (1e-3, 1e-9)):
        epsilon = discrete.epsilon_of(length / s, delta, steps=s, n_coordinates=p)
        for shift in shifts(length, p):
            assert LAWS[s].delta(epsilon, shift) <= mpf(delta)
        # The other direction evaluates b at a larger ratio: it may only be more careful.
        mu = discrete.mu_of(epsilon, delta, steps=s, n_coordinates=p)
        assert mu <= length / s * (1 + 1e-9)


def proved_delta(epsilon, delta, mu, steps, p):
    """The delta that the module docstring proves, for the best of some T, or by total variation."""
    epsilon, delta, mu, s = (mpf(x) for x in (epsilon, delta, mu, steps))

    def profile(eps):
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)

    a = p / (24 * s**2)
    log_f = mpmath.log1p(2 * sum(mpmath.exp(-2 * (mpmath.pi * s * j) ** 2) for j in range(1, 9)))
    proved = [profile(epsilon) + (1 + mpmath.exp(epsilon)) * a]
    for share in range(20, 61, 4):
        tau = delta / 2**share
        t = mpmath.sqrt(2 * mpmath.log(2 * p / tau))
        left = epsilon - a - (t * mpmath.sqrt(p) + mu) ** 2 / (24 * s**2) - p * log_f
        if left >= 0:
            proved.append(mpmath.exp(a) * profile(left) + tau)
    return min(proved)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-3, *EPSILONS, 1000.0])
@pytest.mark.parametrize("steps", [0.5, 1.0, 6.0, 300.0, 2.0**20])
def test_nothing_is_certified_that_is_not_proved(epsilon, steps):
    """Every constant of the proof counts: the code spends delta to within 2^-38 of it."""
    for delta, p in itertools.product((0.3, 1e-6, 1e-20), (1, 50, 10**7)):
        mu = discrete.mu_of(epsilon, delta, steps=steps, n_coordinates=p)
        if mu > 0:
            assert proved_delta(epsilon, delta, mu, steps, p) <= delta


@pytest.mark.parametrize("steps", [0.5, 1.0, 300.0])
@pytest.mark.parametrize("p", [1, 10**4])
def test_terms_of_the_proof(steps, p):
    """a + b rounded up, what the tails and e^a leave of delta rounded down, both tightly."""
    delta, mu, s = 1e-6, 3.0, mpf(steps)
    loss, reduced = discrete._multiplicative(delta, mu, steps, p)
    tau = mpf(delta) / 2**40
    t = mpmath.sqrt(2 * mpmath.log(2 * p / tau))
    a = p / (24 * s**2)
    log_f = mpmath.log1p(2 * sum(mpmath.exp(-2 * (mpmath.pi * s * j) ** 2) for j in range(1, 9)))
    exact = a + (t * mpmath.sqrt(p) + mu) ** 2 / (24 * s**2) + p * log_f
    assert exact <= loss <= exact * (1 + mpf(10) ** -10) + 2 * p * log_f**2  # log F <= F - 1
    left = (mpf(delta) - tau) * mpmath.exp(-a)
    assert left * (1 - mpf(10) ** -8) - mpf(10) ** -300 <= reduced <= left


@pytest.mark.parametrize("steps", [0.5, 1.0, 6.0, 300.0, 2.0**20])
def test_epsilon_of_is_proved_too(steps):
    for mu, p in itertools.product((1e-3, 1.0, 30.0), (1, 50, 10**4)):
        bound = discrete.epsilon_of(mu, 1e-6, steps=steps, n_coordinates=p)
        if bound < 1e5:  # beyond, e^epsilon wants more than 60 digits
            assert proved_delta(bound, 1e-6, mu, steps, p) <= 1e-6


@pytest.mark.parametrize("steps", [1e6, 2.0**24, 2.0**40])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_on_a_fine_grid_the_price_vanishes(epsilon, steps):
    for delta, p in itertools.product((1e-3, 1e-9), (1, 10**4)):
        continuous = gaussian.mu_of(epsilon, delta)
        mu = discrete.mu_of(epsilon, delta, steps=steps, n_coordinates=p)
        assert continuous * (1 - 3e-4 * (1e6 / steps) - 1e-11) <= mu <= continuous
        assert discrete.epsilon_of(mu, delta, steps=steps, n_coordinates=p) == pytest.approx(
            epsilon, rel=1e-3 * (1e6 / steps) + 1e-9
        )


@pytest.mark.parametrize("epsilon, shift", [(16, 3), (32, 5)])
def test_the_continuous_profile_is_not_a_bound_on_a_coarse_grid(epsilon, shift):
    """Else these tests would not notice missing corrections."""
    true = LAWS[1.0].delta(epsilon, (shift,))
    assert true > 2 * gaussian.delta_of(epsilon, shift)
    assert true > 5e-5


@pytest.mark.parametrize("s", [0.7, 1.0, 2.5, 24.0])
def test_closeness_to_the_rounded_gaussian(s):
    """Both inequalities of the module docstring, F, the tails, and the total variation."""
    law = LAWS.get(s) or Law(s)
    s = law.s
    f = [mpmath.npdf(z, 0, s) for z in range(law.reach + 1)]
    F = 1 + 2 * mpmath.fsum(mpmath.exp(-2 * (mpmath.pi * s * j) ** 2) for j in range(1, 12))
    for z in range(0, int(12 * s), max(1, int(s) // 4)):
        ratio = mpmath.log(law.rounded(z) / f[z])
        assert -1 / (24 * s**2) <= ratio <= mpf(z) ** 2 / (24 * s**4)
        assert mpmath.almosteq(f[z], F * law[z], rel_eps=mpf(10) ** -45)
        assert 1 - law.cdf(z - 1) <= mpmath.exp(-(mpf(z) ** 2) / (2 * s**2))
    variation = mpmath.fsum(
        max(0, law[z] - law.rounded(z)) for z in range(-int(12 * s), int(12 * s) + 1)
    )
    assert variation <= 1 / (24 * s**2)
    assert variation <= discrete.ratio_excess(steps=float(s), n_coordinates=1)


def test_renyi_divergence_of_a_shift():
    """What a zCDP reading of the ratio relies on: order * shift^2 / (2 s^2), for integer shifts."""
    for s, m, order in itertools.product((1.0, 2.5), (1, 2, 7), (1.5, 2, 10)):
        law = LAWS[s]
        moment = mpmath.fsum(
            law[z] ** order * law[z - m] ** (1 - mpf(order))
            for z in range(m - law.reach, law.reach + 1)
        )
        divergence = mpmath.log(moment) / (mpf(order) - 1)
        assert divergence <= order * mpf(m) ** 2 / (2 * law.s**2) * (1 + mpf(10) ** -20)


def test_identification_needs_the_excess_only():
    """Best success among candidates, exactly: at most e^a Phi(Phi^-1(kappa) + mu)."""
    for s, centres in itertools.product((1.0, 2.5), ([-1, 0, 1], [-3, 3], [-2, -1, 1, 2])):
        law = LAWS[s]
        kappa = 1 / len(centres)
        outputs = range(-law.reach, law.reach + 1)
        success = kappa * mpmath.fsum(max(law[y - k] for k in centres) for y in outputs)
        bound = exact_id_bound(mu=max(centres) / s, kappa=kappa)
        assert success <= bound * math.exp(discrete.ratio_excess(steps=s, n_coordinates=1))


def test_several_releases_count_as_one_of_all_coordinates():
    """Two releases at different scales, every integer shift of each, exactly."""
    coarse, fine, delta = LAWS[1.0], LAWS[2.5], 1e-6
    for m1, m2 in ((1, 0), (1, 2), (3, 4), (5, 11)):
        mu = gaussian.compose([m1 / 1.0, m2 / 2.5])
        epsilon = discrete.epsilon_of(mu, delta, steps=1.0, n_coordinates=2)
        true = mpf(0)
        for a in range(-coarse.reach, coarse.reach + 1):
            # In the second output the log ratio falls: up to here it is above epsilon.
            left = mpf(m1 * m1 - 2 * a * m1) / 2 - mpf(epsilon)
            if m2 == 0:
                true += max(0, coarse[a] - mpmath.exp(epsilon) * coarse[a - m1])
                continue
            bound = int(mpmath.floor((mpf(m2) ** 2 + 2 * fine.s**2 * left) / (2 * m2)))
            other = mpmath.exp(epsilon) * coarse[a - m1] * fine.cdf(bound - m2)
            true += coarse[a] * fine.cdf(bound) - other
        assert true <= delta


def test_at_epsilon_zero_total_variation_is_used():
    mu = discrete.mu_of(0.0, 1e-3, steps=20.0, n_coordinates=2)
    assert 0 < mu < gaussian.mu_of(0.0, 1e-3)
    mu = discrete.mu_of(0.0, 0.3, steps=6.0, n_coordinates=1)
    (shift,) = shifts(mu * 6, 1)
    assert LAWS[6.0].delta(0, shift) <= 0.3
    assert discrete.epsilon_of(mu, 0.3, steps=6.0, n_coordinates=1) <= 1e-3
    assert discrete.mu_of(0.0, 1e-12, steps=20.0, n_coordinates=2) == 0


def test_limits():
    price = {"steps": 1e6, "n_coordinates": 10}
    assert discrete.mu_of(math.inf, 0.0, **price) == math.inf
    assert discrete.epsilon_of(0.0, 1e-6, **price) == 0
    assert discrete.epsilon_of(math.inf, 1e-6, **price) == math.inf
    assert discrete.epsilon_of(1.0, 0.0, **price) == math.inf
    assert discrete.mu_of(1.0, 5e-324, **price) == 0  # nothing is left to spend
    assert discrete.mu_of(1.0, 1e-310, **price) > 0
    # Neither a nor e^epsilon is a float: total variation must not be believed.
    assert discrete.ratio_excess(steps=1e200, n_coordinates=1) > 0
    assert discrete._additive(800.0, 1e-6, 1e160, 1) == 0
    assert discrete._additive(math.inf, 1e-6, 1e160, 1) == 0
    for name, value in (("steps", 0.1), ("n_coordinates", 0), ("steps", math.inf)):
        with pytest.raises(ValueError, match=name):
            discrete.mu_of(1.0, 1e-6, **{**price, name: value})


# ------------------------------------------------------------------------------ calibrate


def calibrated(sensitivity, epsilon=1.0, delta=1e-6, n_coordinates=384, magnitude=1.0):
    sensitivity = np.asarray(sensitivity, dtype=np.float64)
    result = discrete.calibrate(
        sensitivity, epsilon, delta, n_coordinates=n_coordinates, magnitude=magnitude
    )
    mu, grid, scale = result
    moving = sensitivity > 0
    mantissa, _ = np.frexp(grid[moving])
    assert np.all(mantissa == 0.5)  # powers of two
    assert np.all(grid[~moving] == 0) and np.all(scale[~moving] == 0)
    # In exact arithmetic, from the numbers that are used.
    for d, g, sigma in zip(sensitivity[moving], grid[moving], scale[moving], strict=True):
        assert (mpf(d) + mpf(g) * mpmath.sqrt(n_coordinates)) / mpf(sigma) <= mpf(mu)
    steps = (scale[moving] / grid[moving]).min()
    assert mu <= discrete.mu_of(epsilon, delta, steps=steps, n_coordinates=n_coordinates)
    assert np.all(magnitude + 100 * scale[moving] <= 2.0**53 * grid[moving])
    return result


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, *EPSILONS])
def test_calibration_is_consistent(epsilon):
    mu, grid, scale = calibrated([0.01, 0.0, 0.03], epsilon)
    # The grid of the specification, or a finer one.
    limit = np.minimum(2.0**-24 * scale, 2.0**-12 * np.array([0.01, 0, 0.03]) / math.sqrt(384))
    assert np.all(grid <= limit)
    assert mu >= gaussian.mu_of(epsilon, 1e-6) * (1 - 1e-6)


def test_grid_follows_the_magnitude():
    _, fine, _ = calibrated([0.01], magnitude=1e-3)
    _, coarse, _ = calibrated([0.01], magnitude=1e6)
    assert fine[0] < 2.0**-40 < coarse[0]
    # Public numbers that float64 cannot serve.
    for settings in (
        {"magnitude": 1e12},
        {"magnitude": 1.5e10, "n_coordinates": 1},  # little noise more, but 1000 steps
        {"magnitude": 1e9, "n_coordinates": 10**12},
        {"magnitude": 1e9, "n_coordinates": 10**6},  # a quarter more noise
        {"magnitude": 1e7, "epsilon": 0.0, "delta": 1e-14},
        {"delta": 5e-324},
    ):
        with pytest.raises(CertificationError, match="too small"):
            calibrated([1e-3], **settings)
