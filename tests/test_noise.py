"""The noise: law, exact decisions, streams, speed.

Statistical tests draw from the operating system, so they can fail by chance; each does so with
probability 1e-6 (`LEVEL`), and says what it would detect.
"""

import itertools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.special import ndtr
from scipy.stats import chi2, norm

from skballdp import noise
from skballdp.noise import RandomWords, discrete_gaussian, exact_bernoulli, make_rng, perturb

LEVEL = 1e-6
SCALES = [1.0, 3.7, 50.0, 2.0**20, 1.37 * 2.0**30]
N = 1_000_000


class GivenWords(RandomWords):
    """Given words, then zeros; counts what is used."""

    def __init__(self, values):
        stream = itertools.chain(values, itertools.repeat(0))
        super().__init__(lambda n: np.array(list(itertools.islice(stream, n)), dtype=np.uint64))
        self.used = 0

    def skip(self, n):
        super().skip(n)
        self.used += n


def precise(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator


# ---------------------------------------------------------------------------------- law


def bin_probabilities(edges, scale):
    """P[edges[i] <= Z < edges[i+1]], with both tails: exactly, or to 1/(24 scale^2) relative."""
    if scale > 100:
        cdf = ndtr((edges - 0.5) / scale)
        return np.diff(np.concatenate([[0], cdf, [1]]))
    z = np.arange(-math.ceil(12 * scale), math.ceil(12 * scale) + 1)
    p = np.exp(-np.square(z / scale) / 2)
    p /= p.sum()
    return np.bincount(np.searchsorted(edges, z, side="right"), p, len(edges) + 1)


def chi_square_p_value(draws, scale):
    edges = np.unique(np.round(np.linspace(-4, 4, 65) * scale)).astype(np.int64)
    expected = len(draws) * bin_probabilities(edges, scale)
    observed = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    # Join neighbours until each cell expects at least ten.
    cells = (np.cumsum(expected) // 10).astype(int)
    cells = np.unique(np.minimum(cells, len(draws) // 10 - 1), return_inverse=True)[1]
    expected, observed = np.bincount(cells, expected), np.bincount(cells, observed)
    return chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1)


@pytest.mark.parametrize("scale", SCALES)
def test_law(scale):
    """Chi-square over up to 66 cells; a scale that is off by 2 % is detected with certainty."""
    draws = discrete_gaussian(scale, N, make_rng(None))
    assert draws.dtype == np.int64 and draws.shape == (N,)
    assert chi_square_p_value(draws, scale) > LEVEL
    for wrong in (0.98, 1.02):
        assert chi_square_p_value(draws, wrong * scale) < 1e-12


@pytest.mark.parametrize("scale", SCALES)
def test_moments(scale):
    """Four tests at LEVEL / 4: mean, variance, fourth moment, correlation of successive draws.

    The variance has a standard error of 0.14 %, that is 0.07 % of scale.
    """
    x = discrete_gaussian(scale, N, make_rng(None)) / scale
    z = np.arange(-40 * math.ceil(min(scale, 1e3)), 40 * math.ceil(min(scale, 1e3)) + 1)
    z = z / min(scale, 1e3)  # beyond a scale of 1000 the moments are those of a normal to 1e-15
    p = np.exp(-(z**2) / 2)
    p /= p.sum()
    m2, m4, m8 = (float(p @ z**k) for k in (2, 4, 8))
    statistics = [
        x.mean() / math.sqrt(m2 / N),
        ((x**2).mean() - m2) / math.sqrt((m4 - m2**2) / N),
        ((x**4).mean() - m4) / math.sqrt((m8 - m4**2) / N),
        (x[1:] * x[:-1]).mean() / (m2 / math.sqrt(N - 1)),
    ]
    assert np.max(np.abs(statistics)) < norm.isf(LEVEL / 4 / 2)


def test_law_of_the_tails():
    """Proposals from the last slot only: what comes out is the law beyond the blocks.

    Two tests at LEVEL / 2 with about 270 draws: chi-square of the magnitudes, and signs.
    """
    scale, rng = 2.0**20, make_rng(None)
    histogram = noise._Histogram(scale)
    drawn = [z for z in (histogram.draw_tail(rng) for _ in range(30_000)) if z is not None]
    assert all(z >= histogram.reach or z < -histogram.reach for z in drawn)
    magnitudes = np.abs(np.array(drawn) + 0.5)
    beyond = norm.sf((histogram.reach + histogram.tail_width / 8 * np.arange(60)) / scale)
    beyond = np.append(beyond[beyond > beyond[0] / 20], 0)
    expected = -np.diff(beyond) / beyond[0] * len(drawn)
    cells = (magnitudes - histogram.reach) // (histogram.tail_width / 8)
    cells = np.minimum(cells, len(expected) - 1).astype(int)
    observed = np.bincount(cells, minlength=len(expected))
    assert len(drawn) > 150
    assert chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1) > LEVEL / 2
    assert abs(np.sum(np.sign(drawn))) / math.sqrt(len(drawn)) < norm.isf(LEVEL / 4)


@pytest.mark.parametrize("scale", [1.0, 1.99, 2.0, 3.7, 4.0, 15.99, 16.0, 50.0, 2.0**20, 2.0**48])
def test_proposal_times_acceptance_is_the_law(scale):
    """In exact arithmetic, for every block, and for tails up to 40 scales: A/w exp(-z^2/2s^2)."""
    h = noise._Histogram(scale)
    assert h.counts.sum() == 2**16 - 1 and h.counts.min() >= 1
    assert h.starts.shape == h.factors.shape == (2**16,)
    blocks = h.starts[np.append(0, np.cumsum(h.counts)[:-1])]
    np.testing.assert_array_equal(blocks, np.arange(-h.reach, h.reach, h.width))
    with mpmath.workdps(40):
        for start, count in zip(blocks.tolist(), h.counts.tolist(), strict=True):
            nearest = min(abs(start), abs(start + h.width - 1))
            assert h.peak * mpmath.exp(-((mpmath.mpf(nearest) / scale) ** 2) / 2) <= count

    recorded = []

    class Recorder:
        def __call__(self, factor, exponent, rng, *bits):
            recorded.append((factor, exponent))
            return True

    original, noise.exact_bernoulli = noise.exact_bernoulli, Recorder()
    try:
        for i, sign, offset in itertools.product(range(150), (0, 1), (0, h.tail_width - 1)):
            ones = [2**64 - 1] * (i // 64) + [2 ** (i % 64) - 1]
            z = h.draw_tail(GivenWords([sign << 63 | offset, *ones]))
            assert z == (h.reach + i * h.tail_width + offset) * (1 - 2 * sign) - sign
            factor, exponent = recorded[-1]
            assert exponent == Fraction(z) ** 2 / (2 * Fraction(scale) ** 2)
            # times the probability of the proposal, per unit of that of the slot
            assert factor / (2 ** (i + 2) * h.tail_width) == Fraction(h.peak) / h.width
            assert precise(factor) * mpmath.exp(-precise(exponent)) <= 0.5
    finally:
        noise.exact_bernoulli = original


# --------------------------------------------------------------------- exact decisions


@pytest.mark.parametrize("scale", SCALES)
def test_enclosure_of_the_acceptance(scale):
    """Float probabilities are within 2^-46 of exact ones, 64 times less than is allowed."""
    h = noise._Histogram(scale)
    rng = np.random.default_rng(0)
    slots = np.append(rng.integers(0, 2**16 - 1, 3000), [0, 2**16 - 2])
    z = h.starts[slots] + rng.integers(0, h.width, len(slots))
    counts = np.repeat(h.counts, h.counts)[slots]
    computed = h.acceptance(slots, z)
    with mpmath.workdps(40):
        for value, k, count in zip(computed.tolist(), z.tolist(), counts.tolist(), strict=True):
            exact = h.peak / mpmath.mpf(count) * mpmath.exp(-((mpmath.mpf(k) / scale) ** 2) / 2)
            assert abs(value / exact - 1) < 2.0**-46
            assert 0 < exact <= 1


def test_bounds_of_the_exponential():
    rng = np.random.default_rng(1)
    with mpmath.workdps(200):
        for _ in range(300):
            numerator, denominator = (int(v) for v in rng.integers(1, 2**62, 2))
            x = Fraction(numerator, denominator) * Fraction(2) ** int(rng.integers(-60, 8))
            bits = int(rng.integers(16, 300))
            low, high = noise._exp_bounds(x, bits)
            exact = mpmath.exp(-precise(x)) * mpmath.mpf(2) ** bits
            assert low <= exact <= high <= low + 2
    assert noise._exp_bounds(Fraction(0), 64)[1] == 2**64


@pytest.mark.parametrize("scale", [3.7, 2.0**20])
@pytest.mark.parametrize("n_tied", [1, 2, 5])
def test_undecided_draws_go_to_exact_arithmetic(scale, n_tied):
    """Words that agree with the probability in 64 n bits: only the next word decides."""
    h = noise._Histogram(scale)
    slot, offset = 20_000, h.width - 1
    z = int(h.starts[slot]) + offset
    count = int(np.repeat(h.counts, h.counts)[slot])
    with mpmath.workdps(200):
        p = h.peak / mpmath.mpf(count) * mpmath.exp(-((mpmath.mpf(z) / scale) ** 2) / 2)
        bits = int(mpmath.floor(p * mpmath.mpf(2) ** (64 * (n_tied + 1))))
    tied = [bits >> (64 * (n_tied - i)) & (2**64 - 1) for i in range(n_tied + 1)]
    proposal = slot << 48 | offset
    filler = [32_768 << 48, 0]  # accepted at once: in the central block, uniform 0
    for last, accepted in ((tied[-1] - 1, True), (tied[-1] + 1, False)):
        rng = GivenWords([proposal, *tied[:-1], last, *filler])
        draw = discrete_gaussian(scale, 1, rng)[0]
        assert bool(draw == z) is accepted
        assert rng.used == 2 + n_tied + (0 if accepted else 2)
    special = h.propose(np.array([proposal, tied[0]], dtype=np.uint64))[2]
    assert special[0]


def test_exact_bernoulli():
    half, no = Fraction(1, 2), Fraction(0)
    assert exact_bernoulli(Fraction(1), no, GivenWords([2**64 - 1] * 9))
    assert not exact_bernoulli(Fraction(0), no, GivenWords([]))
    assert exact_bernoulli(half, no, GivenWords([2**63 - 1]))
    assert not exact_bernoulli(half, no, GivenWords([2**63]))
    # e^-200 = 2^-288.5: four words of zeros leave it open.
    assert exact_bernoulli(Fraction(1), Fraction(200), GivenWords([0] * 4 + [2**31]))
    assert not exact_bernoulli(Fraction(1), Fraction(200), GivenWords([0] * 4 + [2**32]))
    # 1/3 has the bits 0101...: each word of them leaves it open.
    third = int("01" * 32, 2)
    assert exact_bernoulli(Fraction(1, 3), no, GivenWords([third] * 7 + [third - 1]))
    assert not exact_bernoulli(Fraction(1, 3), no, GivenWords([third] * 7 + [third + 1]))


def reference(scale, size, rng):
    """The sampler, one word at a time, with mpmath at 60 digits instead of floats."""
    h = noise._Histogram(scale)
    ends = np.cumsum(h.counts).tolist()
    drawn = []

    def below(p, uniform, bits):
        while True:
            scaled = p * mpmath.mpf(2) ** bits
            if uniform + 1 <= scaled or uniform >= scaled:
                return uniform + 1 <= scaled
            uniform, bits = uniform << 64 | rng.take(), bits + 64

    while len(drawn) < size:
        word, uniform = rng.take(), rng.take()
        slot, bits = word >> 48, 64
        if slot < ends[-1]:
            block = next(j for j, end in enumerate(ends) if slot < end)
            z = block * h.width - h.reach + word % h.width
            factor = mpmath.mpf(h.peak) / int(h.counts[block])
        else:
            word, run, i = rng.take(), rng.take(), 0
            while run == 2**64 - 1:
                run, i = rng.take(), i + 64
            i += len(bin(run)) - len(bin(run).rstrip("1"))
            z = h.reach + i * h.tail_width + word % h.tail_width
            z = -1 - z if word >= 2**63 else z
            factor = mpmath.mpf(h.peak) * 4 * 2**i * h.tail_width / h.width
            uniform, bits = 0, 0
        if below(factor * mpmath.exp(-((mpmath.mpf(z) / scale) ** 2) / 2), uniform, bits):
            drawn.append(z)
    return drawn


@pytest.mark.parametrize("scale", [1.0, 3.7, 50.0, 2.0**20, 2.0**48])
def test_against_a_reference(scale):
    """Ordinary words, and words that often ask for the tails, for runs of ones, and for ties."""
    rng = np.random.default_rng(3)
    plain = rng.integers(0, 2**64, 2000, dtype=np.uint64)
    odd = rng.integers(0, 2**64, 6000, dtype=np.uint64)
    odd[rng.random(6000) < 0.3] |= np.uint64(0xFFFF << 48)
    odd[rng.random(6000) < 0.05] = 2**64 - 1
    odd[rng.random(6000) < 0.05] = 0
    with mpmath.workdps(60):
        for words in (plain, odd):
            slow, fast = GivenWords(words.tolist()), GivenWords(words.tolist())
            expected = reference(scale, 700, slow)
            assert discrete_gaussian(scale, 700, fast).tolist() == expected
            assert fast.used == slow.used < len(words)


# -------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("scale", [1.0, 3.7, 2.0**30])
def test_one_seed_is_one_stream(scale, monkeypatch):
    whole = discrete_gaussian(scale, 100_000, make_rng(5))
    rng = make_rng(5)
    parts = [discrete_gaussian(scale, n, rng) for n in (1, 0, 17, 999, 60_000, 38_983)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr(noise, "_CHUNK", 1000)
    np.testing.assert_array_equal(discrete_gaussian(scale, 100_000, make_rng(5)), whole)
    assert np.any(discrete_gaussian(scale, 100_000, make_rng(6)) != whole)


def test_streams_are_the_same_on_every_platform():
    """Recorded once; the noise is a function of the words, and these of the seed."""
    seeds = {
        "int": 0,
        "Generator": np.random.default_rng(0),
        "RandomState": np.random.RandomState(0),
    }
    drawn = {
        name: [discrete_gaussian(s, 4, make_rng(seed)).tolist() for s in (3.7, 2.0**30)]
        for name, seed in seeds.items()
    }
    assert drawn == RECORDED


RECORDED = {
    "int": [[1, -6, 3, 1], [297960031, -1899108168, 1021202747, 284013183]],
    "Generator": [[3, -2, 4, 0], [203249359, -1373795871, 215959204, 718622392]],
    "RandomState": [[0, 4, -2, -3], [192457878, 181195807, -30986117, 2112681437]],
}


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_moves_on_by_a_fixed_amount(make):
    used, other = make(7), make(7)
    first = discrete_gaussian(50.0, 20_000, make_rng(used))
    other.bytes(32)
    np.testing.assert_array_equal(used.bytes(8), other.bytes(8))
    assert np.any(discrete_gaussian(50.0, 20_000, make_rng(used)) != first)


def test_entropy_comes_from_the_system_in_blocks(monkeypatch):
    sizes = []
    system = noise.os.urandom

    def urandom(n):
        sizes.append(n)
        return system(n)

    monkeypatch.setattr(noise.os, "urandom", urandom)
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first, second = (discrete_gaussian(50.0, 10_000, make_rng(None)) for _ in range(2))
    assert np.any(first != second)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert len(sizes) < 20 and 2 * 160_000 < sum(sizes) < 2 * 200_000


def _draw(_):
    return tuple(discrete_gaussian(2.0**30, 8, make_rng(None)).tolist())


@pytest.mark.parametrize("backend", ["multiprocessing", "threading", "loky"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_two_processes_or_threads_share_words(backend):
    """Nothing that was read ahead is left behind for a forked process or another thread."""
    _draw(None)
    drawn = Parallel(n_jobs=2, backend=backend)(delayed(_draw)(i) for i in range(8))
    assert len({*drawn, _draw(None)}) == 9


def test_what_is_not_a_source():
    with pytest.raises(ValueError, match="negative"):
        make_rng(-1)
    for bad in ("seed", 1.5, True, [1]):
        with pytest.raises(TypeError, match="random_state"):
            make_rng(bad)
    for scale in (0.99, 2.0**48 * 1.01, math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match="scale"):
            discrete_gaussian(scale, 1, make_rng(0))
    assert discrete_gaussian(1.0, 0, make_rng(0)).shape == (0,)


@pytest.mark.parametrize("scale", SCALES)
def test_speed(scale):
    """A million draws in less than 30 times what numpy's normals take; about 4 is usual."""

    def seconds(draw):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            draw()
            times.append(time.perf_counter() - start)
        return min(times)

    ours = seconds(lambda: discrete_gaussian(scale, N, make_rng(None)))
    assert ours < 30 * seconds(lambda: np.random.default_rng(0).standard_normal(N))


# -------------------------------------------------------------------------------- perturb


def test_perturb_releases_multiples_of_the_grid():
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((3, 1000))
    before = theta.copy()
    grid, scale = np.array([2.0**-40, 0.0, 2.0**-10]), np.array([0.1, 0.0, 3.0])
    released = perturb(theta, scale, grid, rng=make_rng(None))
    np.testing.assert_array_equal(theta, before)
    np.testing.assert_array_equal(released[1], theta[1])
    for c in (0, 2):
        steps = released[c] / grid[c]
        np.testing.assert_array_equal(steps, np.rint(steps))
        noise_steps = steps - np.rint(theta[c] / grid[c])
        assert abs(noise_steps.std() * grid[c] / scale[c] - 1) < 0.2
    assert len(np.unique(released[0])) == 1000


def test_perturb_adds_the_noise_to_the_rounded_parameters():
    theta = np.array([[0.3, -0.3, 0.5, 1.5]])
    noise_steps = discrete_gaussian(8.0, 4, make_rng(1))
    released = perturb(theta, [2.0], [0.25], rng=make_rng(1))
    np.testing.assert_array_equal(released[0], 0.25 * (np.array([1, -1, 2, 6]) + noise_steps))


def test_continuous_noise_is_still_there():
    released = perturb(np.zeros((1, N)), [2.0], [0.0], rng=make_rng(None))
    assert abs((released / 2).std() - 1) * math.sqrt(2 * N) < norm.isf(LEVEL / 2)
    assert np.mean(released * 2**30 == np.rint(released * 2**30)) < 1e-3


def test_continuous_noise_is_finite():
    """Also from the largest and the smallest word, where it is symmetric."""
    words = GivenWords([2**64 - 1, 0, 2**63, 2**63 - 1])
    low, high, *middle = perturb(np.zeros((1, 4)), [1.0], [0.0], rng=words)[0].tolist()
    assert low == -high == norm.isf(2.0**-53)
    assert middle[0] == -middle[1] != 0


def test_nothing_fails_however_large_the_parameters_are():
    released = perturb(np.array([2.0**60, -1e300, math.inf]), [8.0], [0.5], rng=make_rng(0))
    np.testing.assert_array_equal(released, np.array([1, -1, 1]) * 2.0**59)
    released = perturb(np.array([1e150, -1e300]), [8 * 2.0**-700], [2.0**-700], rng=make_rng(0))
    np.testing.assert_array_equal(released, np.array([1, -1]) * 2.0**-640)


def test_streams_do_not_depend_on_the_exponential_of_the_platform(monkeypatch):
    """Another exp, off by up to 2^-41, changes which draws need exact arithmetic, and no draw."""
    scales = [1.0, 3.7, 2.0**20]
    expected = [discrete_gaussian(s, 200_000, make_rng(0)) for s in scales]
    exp, rng = np.exp, np.random.default_rng(0)

    def other(x, out):
        np.multiply(exp(x), 1 + 2.0**-41 * rng.uniform(-1, 1, np.shape(x)), out=out)

    monkeypatch.setattr(np, "exp", other)
    for s, draws in zip(scales, expected, strict=True):
        np.testing.assert_array_equal(discrete_gaussian(s, 200_000, make_rng(0)), draws)
