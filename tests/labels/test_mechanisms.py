"""Properties of the matrices, the sampler against the matrix, and bad input."""

import decimal
import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from skballdp.labels import (
    LabelMechanism,
    block_rr,
    block_rr_sets,
    lp_optimal,
    prior_from_rr,
    private_histogram,
    project_simplex,
    rr,
    rr_floor,
    rr_on_bins,
    rr_top_k,
    rr_with_prior,
    weight_partition,
)
from skballdp.labels import mechanisms as mechanisms_module
from skballdp.noise import RandomWords, UniformMixture, discrete_laplace, make_rng

CIFAR_1 = np.array([5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500]) / 33_500
EPSILONS = [0, 1e-12, 1e-6, 0.6, 2.0, 50, 355, 650, math.inf]


def mechanisms(epsilon):
    """One of each kind, on at most ten labels."""
    q = math.exp(-epsilon)
    return [
        rr(2, epsilon),
        rr(10, epsilon),
        rr_top_k(CIFAR_1, 4, epsilon),
        rr_with_prior(CIFAR_1, epsilon),
        rr_floor(CIFAR_1, 0.4 / (1 + 9 * q), epsilon),
        block_rr(epsilon, prior=CIFAR_1, sigma=1.2, l=0),
        block_rr(epsilon, prior=CIFAR_1, sigma=1.2, l=3),
        block_rr(epsilon, prior=CIFAR_1, sigma=0.8, l=8),
        block_rr(epsilon, n_classes=4, majority=[], l=0),
        block_rr_sets([[0, 1], [1, 2], [2, 3], [4, 5], [5, 6]], 7, [0, 1, 2], [1, 2], epsilon),
        block_rr_sets([[0], [1], [], []], 2, [0, 1], [0, 1], epsilon),
        block_rr_sets(
            [[0, 1], [1, 2], [], [3, 4], [], []], 5, [0, 1], [1, 2], epsilon, uniform_rows=True
        ),
        lp_optimal(CIFAR_1, -np.abs(np.subtract.outer(np.arange(10), np.arange(10))), epsilon),
        rr_on_bins(np.arange(10), CIFAR_1, epsilon),
    ]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rows_and_ratios(epsilon):
    for mechanism in mechanisms(epsilon):
        T = mechanism.matrix()
        assert T.shape == (mechanism.n_labels, mechanism.n_outputs)
        assert np.all(np.abs(T.sum(axis=1) - 1) <= 4e-15 * T.shape[1]) and np.all(T >= 0)
        used = T[:, T.max(axis=0) > 0]
        if epsilon < math.inf:
            ratio = float((used.max(axis=0) / used.min(axis=0)).max())
            assert mechanism.max_ratio() == pytest.approx(ratio, rel=1e-14)
            assert ratio <= math.exp(epsilon) * (1 + 1e-12)
            # Attained: no budget is wasted. With one output there is nothing to tell.
            if used.shape[1] > 1:
                assert ratio == pytest.approx(math.exp(epsilon), rel=1e-12)
        if mechanism.n_labels == mechanism.n_outputs:
            np.testing.assert_array_equal(mechanism.retention(), np.diag(T))
        assert f"{epsilon:g}" in str(mechanism)


@pytest.mark.parametrize("K", [2, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_extreme_sizes(K, epsilon):
    q = math.exp(-epsilon)
    for l in {0, 1, K // 2, K - 1}:  # noqa: E741
        mechanism = block_rr(epsilon, n_classes=K, majority=range(K - 1), l=l)
        T = mechanism.matrix()
        assert np.all(np.abs(T.sum(axis=1) - 1) <= 4e-15 * K)
        assert T[-1, -1] <= (1 - l / K) * (1 + 1e-12) or epsilon < 1
        if epsilon < math.inf:
            assert mechanism.max_ratio() == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert rr(K, epsilon).matrix()[0, 0] == pytest.approx(1 / (1 + (K - 1) * q), rel=1e-15)


@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 5.0, 40.0, 700.0])
def test_levels_to_the_last_digits(epsilon):
    """Against the textbook form in exact arithmetic, where almost all labels are protected."""
    k, q = 2000, Fraction(math.exp(-epsilon))
    u = Fraction(-math.expm1(-epsilon))
    for k1, l in ((1999, 1999), (1998, 1998), (1998, 1)):  # noqa: E741
        facts = block_rr(epsilon, n_classes=k, majority=range(k1), l=l).facts
        F, k2 = u / q, k - k1
        D = F**2 + F * k + l * k2
        beta, gamma = (F + Fraction(l * k2, k)) / D, (F * (k - l) + l * k2) / (k * D)
        assert abs(Fraction(facts["beta"]) / beta - 1) < 2e-15
        assert abs(Fraction(facts["gamma"]) / gamma - 1) < 2e-15


@pytest.mark.parametrize("epsilon", [0, 1e-6, 0.6, 3.0, 355])
def test_special_cases_of_block_rr(epsilon):
    K, q = 10, math.exp(-epsilon)
    uniform = rr(K, epsilon).matrix()

    def block(**kwargs):
        return block_rr(epsilon, prior=CIFAR_1, **kwargs).matrix()

    np.testing.assert_allclose(block(sigma=1.2, l=0), uniform, rtol=1e-14)
    np.testing.assert_allclose(block(sigma=1e-3, l=4), uniform, rtol=1e-14)  # no minority
    whole = block(sigma=1.2, l=6)
    t = 1 - whole[-1, -1] * (1 + (K - 1) * q)
    mixture = (1 - t) * uniform + t * rr_top_k(CIFAR_1, 6, epsilon).matrix()
    np.testing.assert_allclose(whole, mixture, rtol=1e-12, atol=1e-16)
    facts = [block_rr(epsilon, prior=CIFAR_1, sigma=1.2, l=l).facts for l in range(7)]  # noqa: E741
    if 1e-3 < epsilon < 30:
        assert np.all(np.diff([fact["beta"] for fact in facts]) > 0)
        assert np.all(np.diff([fact["gamma"] for fact in facts]) < 0)


def test_protected_labels_are_the_likely_ones():
    mechanism = block_rr(1.0, prior=CIFAR_1, sigma=1.2, l=3)
    assert sorted(mechanism.facts["protected"]) == [0, 1, 5]
    assert block_rr(1.0, n_classes=4, majority=[2, 3], l=1).facts["protected"] == [2]
    ties = rr_top_k([0.25] * 4, 2, 1.0)
    assert ties.outputs.tolist() == [0, 1]
    assert rr_with_prior([0.25] * 4, 1.0).facts["k"] == 4
    assert rr_with_prior([0.5, 0.5, 0.0], 0.0).facts["k"] == 2
    assert weight_partition([0.5, 0.3, 0.2], np.inf)[0].tolist() == [0]


@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 3.0, 40.0, 700.0])
def test_uniform_rows(epsilon):
    """Labels without own outputs: rows 1/k, all others as without those labels, ratio at most E."""
    for b, k1, k2 in itertools.product((1, 2, 3), (3, 4, 6), (0, 1, 2, 3, 5)):
        sets = [list(range(y, y + b)) for y in range(k1 - b + 1)]
        n_first, others = len(sets), [list(range(k1, k1 + b))] if k2 >= b else []
        for l in range(k1 + 1):  # noqa: E741
            given = (k1 + k2, range(n_first), range(l), epsilon)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # wasted outputs
                if 0 < k2 < b and l:
                    with pytest.raises(ValueError, match="n_outputs must leave at least"):
                        block_rr_sets([*sets, []], *given, uniform_rows=True)
                    continue
                mechanism = block_rr_sets([*sets, *others, [], []], *given, uniform_rows=True)
                plain = block_rr_sets([*sets, *others], *given)
            T = mechanism.matrix()
            np.testing.assert_array_equal(T[:-2], plain.matrix())
            np.testing.assert_array_equal(T[-2:], 1 / (k1 + k2))
            ratio = float((T.max(axis=0) / T.min(axis=0)).max())
            assert mechanism.max_ratio() == ratio <= math.exp(epsilon) * (1 + 1e-12)
            assert mechanism.facts["uniform"] == [len(T) - 2, len(T) - 1]


def test_uniform_rows_in_a_square():
    with pytest.warns(UserWarning, match="wasted"):
        mechanism = block_rr_sets([[1], []], 2, [0], [], 1.0, uniform_rows=True)
    assert mechanism.retention().tolist() == np.diag(mechanism.matrix()).tolist()
    assert mechanism.retention()[1] == 0.5
    with pytest.raises(ValueError, match="no inverse"):
        mechanism.inverse()
    without = block_rr_sets([[0], [1]], 2, [0], [], 1.0, uniform_rows=True)
    assert "uniform" not in without.facts and without.inverse().shape == (2, 2)


@pytest.mark.parametrize("epsilon", [1e-6, 0.6, 2.0, 50])
def test_inverses(epsilon):
    for mechanism in mechanisms(epsilon):
        if mechanism.name not in ("randomised response", "BlockRR", "floor mechanism"):
            continue
        if mechanism.n_outputs != mechanism.n_labels:
            continue
        T, inverse = mechanism.matrix(), mechanism.inverse()
        scale = np.abs(inverse).max()
        np.testing.assert_allclose(T @ inverse, np.eye(len(T)), atol=1e-15 * scale * len(T) + 1e-13)
        np.testing.assert_allclose(inverse.sum(axis=1), 1, atol=1e-14 * scale)


def exact_inverse(T):
    """Gauss-Jordan elimination of a matrix of fractions; pivots are positive."""
    n = len(T)
    rows = [[*row, *(Fraction(i == j) for j in range(n))] for i, row in enumerate(T)]
    for i in range(n):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in set(range(n)) - {i}:
            rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return np.array([[float(x) for x in row[n:]] for row in rows])


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.6, 20.0])
def test_inverses_keep_their_digits(epsilon):
    """Where the matrix is all but uniform: against exact elimination, from the exact e^epsilon."""
    E = Fraction(decimal.Context(prec=60).exp(decimal.Decimal(epsilon)))
    n, top = E + 3, E + 1  # of RR on 4 labels and on 2
    plain = [[(E if y == z else Fraction(1)) / n for z in range(4)] for y in range(4)]
    top_2 = [
        [(E if y == z else Fraction(1)) / top for z in (0, 1)] + [Fraction(0)] * 2 for y in (0, 1)
    ]
    top_2 += [[Fraction(1, 2)] * 2 + [Fraction(0)] * 2] * 2
    floor = 0.5 / (1 + 3 * math.exp(-epsilon))
    rho = Fraction(floor) * n / E
    mixture = [
        [rho * a + (1 - rho) * b for a, b in zip(*rows, strict=True)]
        for rows in zip(plain, top_2, strict=True)
    ]
    F = E - 1
    D = F**2 + 4 * F + 2
    beta, gamma = (F + Fraction(1, 2)) / D, (F * 3 / 4 + Fraction(1, 2)) / D  # l = 1, k1 = k2 = 2
    block = [[E * beta, beta, gamma, gamma], [beta, E * beta, gamma, gamma]]
    block += [[Fraction(1, 4), beta, E * gamma, gamma], [Fraction(1, 4), beta, gamma, E * gamma]]
    for mechanism, T in (
        (rr(4, epsilon), plain),
        (rr_floor([0.5, 0.5, 0.0, 0.0], floor, epsilon), mixture),
        (block_rr(epsilon, n_classes=4, majority=[0, 1], l=1), block),
    ):
        wanted = exact_inverse(T)
        np.testing.assert_allclose(
            mechanism.inverse(), wanted, rtol=0, atol=1e-14 * np.abs(wanted).max()
        )


def test_singular_mechanisms_say_so():
    for mechanism in (
        rr(3, 0.0),
        rr_top_k(CIFAR_1, 4, 1.0),
        rr_on_bins(np.arange(10), CIFAR_1, 1.0),
        block_rr_sets([[0, 1], [2, 3]], 4, [0], [], 1.0),
    ):
        with pytest.raises(ValueError, match="no inverse"):
            mechanism.inverse()
    with pytest.raises(ValueError, match="not labels"):
        rr_on_bins(np.arange(10), CIFAR_1, 1.0).retention()


def best_of_all_subsets(prior, U, q):
    n_outputs, values = U.shape[1], []
    for size in range(1, n_outputs + 1):
        for J in itertools.combinations(range(n_outputs), size):
            sub = U[:, list(J)]
            reach = q * (prior @ sub).sum() + (1 - q) * prior @ sub.max(axis=1)
            values.append(reach / (1 + (size - 1) * q))
    return max(values)


@pytest.mark.parametrize("seed", range(20))
def test_the_linear_program_against_all_subsets(seed):
    rng = np.random.default_rng(seed)
    n_labels, n_outputs = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    prior, U = rng.dirichlet(np.ones(n_labels)), rng.standard_normal((n_labels, n_outputs))
    epsilon = float(rng.choice([0.0, 0.3, 1.0, 3.0, 30.0]))
    best = best_of_all_subsets(prior, U, math.exp(-epsilon))
    mechanism = lp_optimal(prior, U, epsilon)
    assert mechanism.facts["objective"] == pytest.approx(best, rel=1e-12)
    assert mechanism.facts["bound"] == pytest.approx(best, abs=1e-6 * np.abs(U).max())
    achieved = np.sum(prior[:, np.newaxis] * U * mechanism.matrix())
    assert achieved == pytest.approx(best, rel=1e-10)


def test_the_solver_tolerance_does_not_show():
    """From epsilon 12 on, differences of utility are below what the solver resolves."""
    rng = np.random.default_rng(0)
    for epsilon in (12.0, 14.0, 16.0, 18.0) * 50:
        prior, U = rng.dirichlet(np.ones(5)), rng.integers(-2, 3, (5, 6)).astype(float)
        best = best_of_all_subsets(prior, U, math.exp(-epsilon))
        assert lp_optimal(prior, U, epsilon).facts["objective"] >= best - 1e-11


def test_a_utility_for_which_no_set_of_outputs_is_optimal():
    """Two good outputs of three, in a circle: favouring both keeps 2 / (2 + q) of the utility."""
    U = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])
    prior, q = np.full(3, 1 / 3), math.exp(-2)
    with pytest.warns(UserWarning, match="not the best mechanism") as record:
        facts = lp_optimal(prior, U, 2.0).facts
    assert record[0].filename == __file__
    assert facts["bound"] == pytest.approx(2 / (2 + q), abs=1e-6)
    assert facts["objective"] == pytest.approx(best_of_all_subsets(prior, U, q), rel=1e-12)
    # It is what BlockRR with sets of two is without a minority.
    pairs = block_rr_sets([[0, 1], [1, 2], [0, 2]], 3, [0, 1, 2], [], 2.0)
    assert np.sum(U * pairs.matrix()) / 3 == pytest.approx(2 / (2 + q), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.6, 2.0, 30.0, math.inf])
def test_identity_utility_is_rr_with_prior(epsilon):
    for prior in (CIFAR_1, np.full(5, 0.2), np.array([1.0, 0.0, 0.0])):
        best = rr_with_prior(prior, epsilon)
        found = lp_optimal(prior, np.eye(len(prior)), epsilon)
        value = found.facts["objective"]
        assert value == pytest.approx(prior @ best.retention(), rel=1e-12)
        assert value == pytest.approx(prior @ np.diag(found.matrix()), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_floor_mechanism_is_optimal(seed):
    """Its closed form is an upper bound for all mechanisms with that floor: BlockRR is one."""
    rng = np.random.default_rng(seed)
    prior, epsilon = np.sort(rng.dirichlet(np.ones(6)))[::-1], float(rng.uniform(0.1, 4))
    for l in range(4):  # noqa: E741
        block = block_rr(epsilon, prior=prior, sigma=1.0, l=l)
        rho = float(block.retention().min())
        floor = rr_floor(prior, rho, epsilon)
        assert floor.retention().min() >= rho * (1 - 1e-12)
        assert prior @ floor.retention() >= prior @ block.retention() - 1e-14
    n = 1 + 5 * math.exp(-epsilon)
    np.testing.assert_allclose(
        rr_floor(prior, 1 / n, epsilon).matrix(), rr(6, epsilon).matrix(), rtol=1e-14
    )
    np.testing.assert_array_equal(
        rr_floor(prior, 0, epsilon).matrix(), rr_with_prior(prior, epsilon).matrix()
    )


# ---- the sampler -------------------------------------------------------------------------------

PER_LABEL = 100_000
# At most 100 tests of this kind: below 1e-6 together.
FALSE_ALARM = 1e-8


def chi_square(drawn, T):
    """P-value of the counts of outputs by label, 100,000 draws each, against the matrix."""
    expected = T * PER_LABEL
    counts = np.zeros_like(expected)
    np.add.at(counts, (np.repeat(np.arange(len(T)), PER_LABEL), drawn), 1)
    # Cells that are too rare for the approximation are tested as one: a Poisson count.
    common = expected >= 10
    rare, mean = counts[~common].sum(), expected[~common].sum()
    assert counts[expected == 0].sum() == 0
    assert rare <= mean + 8 * math.sqrt(mean) + 16
    freedom = int(common.sum()) - np.count_nonzero(common.any(axis=1))
    statistic = float(((counts - expected)[common] ** 2 / expected[common]).sum())
    return chi2.sf(statistic, freedom) if freedom else 1.0


@pytest.mark.parametrize(
    ("epsilon", "random_state"), [(0, 0), (0.6, 0), (0.6, None), (2.0, 0), (30.0, 0)]
)
def test_sampler(epsilon, random_state):
    for mechanism in mechanisms(epsilon):
        codes = np.repeat(np.arange(mechanism.n_labels), PER_LABEL)
        drawn = mechanism.sample(codes, random_state)
        assert chi_square(drawn, mechanism.matrix()) > FALSE_ALARM


def exact_law(mechanism, monkeypatch):
    """What `sample` draws from, as fractions: the probability of each slot, and where it leads."""

    class Scripted(UniformMixture):
        def draw(self, rows, count, rng):
            row = int(np.ravel(rows)[0])
            thresholds = [0, *self._cumulative[row], 1]
            slot = row * self._n_parts + part
            seen.update(share=thresholds[part + 1] - thresholds[part], size=self._sizes[slot])
            seen.update(n_parts=self._n_parts)
            return np.full(count, slot), np.arange(count)

    monkeypatch.setattr(mechanisms_module, "UniformMixture", Scripted)
    law = [[Fraction(0)] * mechanism.n_outputs for _ in range(mechanism.n_labels)]
    for y in range(mechanism.n_labels):
        part, seen = 0, {"n_parts": 1}
        while part < seen["n_parts"]:
            mechanism.sample([y])
            size = int(seen["size"])
            for z in mechanism.sample(np.full(size, y)):
                law[y][z] += Fraction(seen["share"]) / size
            part += 1
    return law


@pytest.mark.parametrize("epsilon", [0, 1e-12, 1e-6, 0.6, 3.0, 36.5, 355, 700])
def test_the_sampled_law_is_private_in_exact_arithmetic(epsilon, monkeypatch):
    """Up to the last bits of the doubles that it is made of."""
    E = Fraction(decimal.Context(prec=60).exp(decimal.Decimal(epsilon)))
    for mechanism in mechanisms(epsilon):
        law, T = exact_law(mechanism, monkeypatch), mechanism.matrix()
        for row, wanted in zip(law, T, strict=True):
            assert sum(row) == 1
            np.testing.assert_allclose([float(p) for p in row], wanted, rtol=1e-14, atol=0)
        for column in zip(*law, strict=True):
            assert max(column) <= E * min(column) * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize(
    "convert",
    [
        lambda codes: codes.tolist(),
        lambda codes: codes.astype(np.uint8),
        lambda codes: codes.astype(">i4"),
        lambda codes: np.repeat(codes, 2)[::2],
        lambda codes: codes[::-1].copy()[::-1],
        lambda codes: np.frombuffer(codes.tobytes(), dtype=codes.dtype),  # read-only
    ],
)
def test_kinds_of_codes(convert):
    codes = np.arange(40_000) % 10  # several blocks
    for mechanism in mechanisms(0.6):
        given = codes % mechanism.n_labels
        expected = mechanism.sample(given, 3)
        np.testing.assert_array_equal(mechanism.sample(convert(given), 3), expected)
        for bad in (mechanism.n_labels, 250):
            wrong = given.copy()
            wrong[-1] = bad
            with pytest.raises(ValueError, match="codes must be in"):
                mechanism.sample(convert(wrong))


def test_the_sampler_test_has_power():
    """It rejects a matrix whose favoured entries are 2 % off, for every mechanism."""
    for mechanism in mechanisms(2.0):
        codes = np.repeat(np.arange(mechanism.n_labels), PER_LABEL)
        T = mechanism.matrix()
        for factor in (0.98, 1.02):
            own = np.zeros(T.shape, dtype=bool)
            own[np.arange(len(T))[:, np.newaxis], mechanism.favoured] = True
            share = np.sum(T * own, axis=1, keepdims=True)
            wrong = T * np.where(own, factor, (1 - factor * share) / (1 - share))
            assert chi_square(mechanism.sample(codes, 0), wrong) < FALSE_ALARM


def test_a_thousand_labels():
    mechanism = block_rr(5.0, n_classes=1000, majority=range(100), l=10)
    codes = np.repeat([3, 50, 999], PER_LABEL)
    drawn = mechanism.sample(codes, 0)
    T = mechanism.matrix()[[3, 50, 999]]
    assert chi_square(drawn, T) > FALSE_ALARM
    assert mechanism.sample(np.zeros(0, dtype=int)).shape == (0,)
    assert mechanism.sample(codes[:5].astype(np.uint8)).shape == (5,)


def test_without_noise():
    codes = np.arange(10)
    for mechanism in (rr(10, math.inf), block_rr(math.inf, prior=CIFAR_1, sigma=1.2, l=0)):
        np.testing.assert_array_equal(mechanism.sample(codes), codes)


def test_seeds_and_pickles():
    codes = np.arange(1000) % 10
    mechanism = block_rr(1.0, prior=CIFAR_1, sigma=1.2, l=3)
    drawn = mechanism.sample(codes, 7)
    from_generators = [mechanism.sample(codes, np.random.default_rng(7)) for _ in range(2)]
    np.testing.assert_array_equal(*from_generators)
    np.testing.assert_array_equal(drawn, pickle.loads(pickle.dumps(mechanism)).sample(codes, 7))
    assert not np.array_equal(drawn, mechanism.sample(codes, np.random.RandomState(7)))
    assert not np.array_equal(mechanism.sample(codes), mechanism.sample(codes))


@pytest.mark.parametrize("probability", [1e-300, 2.0**-40, 0.3, 1 - 2.0**-50])
def test_undecided_bits_are_settled_exactly(probability):
    """The first 32 bits agree with the threshold: more are read, until they differ."""

    def source(words):
        remaining = iter(words)
        return RandomWords(lambda n: np.array([next(remaining) for _ in range(n)], dtype=np.uint64))

    mixture = UniformMixture([[probability, 1 - probability]], 1)
    rare = min(probability, 1 - probability)  # the part that is compared with
    numerator, denominator = rare.as_integer_ratio()
    bits = 32 + 64 * 17
    below = (numerator << bits) // denominator - 1  # the largest number below the threshold
    for number, part in ((below, 0), (below + 1, 1)):
        words = [(number >> (bits - 32)) << 32]
        words += [(number >> (bits - 32 - 64 * (i + 1))) & (2**64 - 1) for i in range(17)]
        slot, _ = mixture.draw(0, 1, source(words))
        assert slot[0] == part


def test_uniform_numbers_of_awkward_size():
    """A size just above 2^31 rejects half of the words."""
    size = 2**31 + 2**29
    _, number = UniformMixture([[1.0]], size).draw(0, 400_000, make_rng(0))
    counts = np.bincount(number * 5 // size, minlength=5)
    assert len(counts) == 5
    assert chi2.sf(((counts - 80_000) ** 2 / 80_000).sum(), 4) > FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_discrete_laplace(epsilon):
    drawn = discrete_laplace(epsilon, 200_000, make_rng(0))
    a = math.exp(-epsilon)
    reach = int(math.log(5000) / epsilon)
    z = np.arange(-reach, reach + 1)
    expected = 200_000 * (1 - a) / (1 + a) * a ** np.abs(z)
    z, expected = z[expected >= 10], expected[expected >= 10]
    counts = np.array([np.count_nonzero(drawn == value) for value in z])
    tails = [200_000 - counts.sum(), 200_000 - expected.sum()]
    statistic = ((counts - expected) ** 2 / expected).sum() + (tails[0] - tails[1]) ** 2 / tails[1]
    assert chi2.sf(statistic, len(z)) > FALSE_ALARM
    wrong = discrete_laplace(epsilon * 1.05, 200_000, make_rng(0))
    counts = np.array([np.count_nonzero(wrong == value) for value in z])
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), len(z)) < FALSE_ALARM


def test_noise_sources():
    assert not np.any(discrete_laplace(math.inf, 10, make_rng(None)))
    assert np.abs(discrete_laplace(1e-12, 100, make_rng(0))).max() > 1e11
    with pytest.raises(ValueError, match="epsilon must be"):
        discrete_laplace(1e-17, 1, make_rng(0))
    for rng in (make_rng(None), make_rng(0), np.random.RandomState(0)):
        words = make_rng(rng).draw(1000)
        assert words.dtype == np.uint64 and words.max() > 2**63
    first = [make_rng(5, stream=stream).take() for stream in (0, 1, 2)]
    assert len(set(first)) == 3 and make_rng(5).take() == first[0]


# ---- priors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_projection(seed):
    """The nearest point of the simplex: no vertex is in a closer direction."""
    x = np.random.default_rng(seed).standard_normal(7) * 10.0 ** (seed - 3)
    p = project_simplex(x)
    assert p.min() >= 0 and p.sum() == pytest.approx(1, abs=1e-12)
    gradient = x - p
    assert np.all(gradient @ (np.eye(7) - p).T <= 1e-9 * (1 + np.abs(x).max()))
    assert project_simplex([1e17, 1e17, 0]).tolist() == [0.5, 0.5, 0]


def test_the_local_prior_is_unbiased():
    rng = np.random.default_rng(0)
    codes = rng.choice(10, size=400_000, p=CIFAR_1)
    counts = np.bincount(rr(10, 1.0).sample(codes, rng), minlength=10)
    true = np.bincount(codes, minlength=10) / len(codes)
    # Standard deviation at most sqrt(c (1-c) / n) n_1 / (1-q) = 0.0046, times six.
    assert np.abs(prior_from_rr(counts, 1.0, rule="none") - true).max() < 0.028


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.5, 700, math.inf])
def test_the_local_prior_keeps_its_digits(epsilon):
    """Equal counts say that all classes are equally likely, however much noise there was."""
    for rule in ("none", "project", "clip"):
        estimate = prior_from_rr([7, 7, 7, 7, 7], epsilon, rule=rule)
        np.testing.assert_allclose(estimate, 0.2, rtol=1e-15)


def test_the_histogram_hides_one_label():
    """P(h) / P(h') <= e^epsilon for the noise of both counts that a label moves."""
    epsilon = 0.7
    a = math.exp(-epsilon / 2)
    law = {z: a ** abs(z) for z in range(-30, 31)}
    worst = max(
        law[i] * law[j] / (law[i - 1] * law[j + 1]) for i in range(-9, 10) for j in range(-9, 10)
    )
    assert worst == pytest.approx(math.exp(epsilon), rel=1e-12)
    noisy = private_histogram([1000, 0], epsilon, 0)
    assert noisy.dtype == np.int64 and abs(noisy[0] - 1000) < 200
    # That is the noise: a law of half or twice the scale is rejected.
    noise = private_histogram(np.full(200_000, 5), epsilon, 0) - 5
    z = np.arange(-20, 21)
    counts = np.array([np.count_nonzero(noise == value) for value in z])
    for factor in (0.5, 1, 2):
        b = a**factor
        expected = 200_000 * (1 - b) / (1 + b) * b ** np.abs(z)
        p_value = chi2.sf(((counts - expected) ** 2 / expected)[expected >= 10].sum(), len(z))
        assert (p_value > FALSE_ALARM) == (factor == 1)


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: block_rr(1.0), "needs prior and sigma"),
        (lambda: block_rr(1.0, n_classes=3, sigma=1.0, l=0), "sigma needs prior"),
        (lambda: block_rr(1.0, prior=[0.5, 0.5], sigma=1.0), "exactly one of l and protected"),
        (lambda: block_rr(1.0, prior=[0.5, 0.5], sigma=1.0, l=0.5), "l must be an integer"),
        (lambda: block_rr(1.0, prior=[0.5, 0.5], n_classes=3, sigma=1.0, l=0), "n_classes"),
        (lambda: block_rr(1.0, n_classes=3, majority=[], l=1), "l must be an integer between 0"),
        (lambda: block_rr_sets([[0], [1], [2]], 3, [0], [3], 1.0), r"outputs in 0\.\.2"),
        (lambda: block_rr_sets([[0], [1], []], 2, [0], [0], 1.0), "own output"),
        (lambda: block_rr_sets([[0], []], 1, [0], [], 1.0), "l must equal"),
        (lambda: rr_top_k([0.5, 0.5], 0, 1.0), "k must be"),
        (lambda: rr_floor([0.5, 0.5], -0.1, 1.0), "floor must be"),
        (lambda: rr_floor([0.5, 0.5], 0.500001, 0.0), "floor must not exceed"),
        (lambda: lp_optimal([0.5, 0.5], np.ones((3, 2)), 1.0), "utility must be"),
        (lambda: lp_optimal([0.5, 0.5], [[0, np.nan], [0, 1]], 1.0), "utility must be finite"),
        (lambda: weight_partition([0.5, 0.5], math.nan), "sigma must be"),
        (lambda: rr(0, 1.0), "n_classes must be"),
        (lambda: prior_from_rr([1, 2], 0.0), "epsilon must be above 0"),
        (lambda: prior_from_rr([1, -2], 1.0), "counts must be non-negative"),
        (lambda: project_simplex([]), "x must be"),
        (lambda: project_simplex([math.inf]), "x must be finite"),
        (lambda: private_histogram([0.5], 1.0), "counts must be"),
        (lambda: private_histogram([1, 2], 0.0), "epsilon must be"),
        (lambda: rr(3, 1.0).sample([0, 3]), r"codes must be in 0\.\.2"),
        (lambda: rr(3, 1.0).sample([-1]), r"codes must be in 0\.\.2"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_bad_types():
    for codes in ([0.0, 1.0], [[0, 1]], ["a"]):
        with pytest.raises(TypeError, match="codes must be"):
            rr(3, 1.0).sample(codes)
    with pytest.raises(TypeError, match="n_classes must be"):
        rr(2.0, 1.0)


def test_a_wasted_output_warns():
    with pytest.warns(UserWarning, match="wasted"):
        mechanism = block_rr_sets([[0], [1]], 3, [0], [], 1.0)
    assert mechanism.max_ratio() == pytest.approx(math.e, rel=1e-12)


def test_a_ratio_above_the_promise_is_refused():
    """Whatever builds the terms: the constructor has the last word."""
    fields = {name: getattr(rr(3, 1.0), name) for name in LabelMechanism.__dataclass_fields__}
    with pytest.raises(ValueError, match="epsilon must be smaller"):
        LabelMechanism(**{**fields, "epsilon": 0.9})
