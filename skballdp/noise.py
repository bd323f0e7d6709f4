r"""The only place that draws noise.

The release is ``g (k + Z)``: g a public power of two, the *grid*, ``k = round(theta / g)`` and Z a
vector of independent **discrete Gaussians**, integers with ``P[Z = z]`` proportional to
``exp(-z^2 / (2 s^2))``, ``s = scale / g``. Every released number is a multiple of g whatever the
data are, and the law of Z is exactly the stated one: which floats come out, and how often, tells
nothing beyond what `skballdp.accounting.discrete` accounts for. Noise from floats (``continuous``)
is kept for comparison: which values it can reach at all depends on the data.

**The sampler.** Rejection from a histogram. Blocks of w integers (w a power of two, 1/16 to 1/8 of
s, or 1) cover ``[-J w, J w)``, about 5 s on either side. The top 16 bits of a random word choose
one of 2^16 slots, of which block j owns ``c_j``, its lowest bits an integer z in the block; a
second word U, a binary fraction in [0, 1), accepts z if

    U < (A / c_j) exp(-z^2 / (2 s^2)),    with A chosen such that the right side is at most 1.

So each z is proposed with probability ``c_j / (2^16 w)`` and comes out with probability
``A / (2^16 w) exp(-z^2 / (2 s^2))``: the law is exact whatever the ``c_j`` are. One slot, the
last, stands for both tails, see `_Histogram.draw_tail`.

**Exact decisions.** The right side is computed in floats and known to a relative error of 2^-40
(its own rounding errors are below 2^-46; what is trusted is that ``numpy.exp`` is right to 2^-41,
some thousand units in the last place). Unless that interval and the 53 bits of U that were looked
at decide, which fails once in 2^39 draws, `exact_bernoulli` decides with integers of arbitrary
length. Hence the noise is a function of the random words alone, on every platform.

**Randomness.** Words come from the operating system's cryptographic generator, since an attacker
who knows the records of all classes but one knows the noise of their prototypes, and could try to
continue an ordinary stream; with a seed, from PCG64. They are consumed strictly in order, two per
proposal, and more right behind these where a decision asks for it: how many are read at once
changes nothing. The time that drawing takes depends on the noise and is not hidden.
"""

import math
import os
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from skballdp._validate import check_real

__all__ = [
    "CONTINUOUS",
    "LARGEST_SCALE",
    "TIMING",
    "RandomWords",
    "UniformMixture",
    "discrete_gaussian",
    "discrete_laplace",
    "exact_bernoulli",
    "make_rng",
    "perturb",
]

# What separates the release from the law in the proof: always, and with continuous noise.
TIMING = "the promise is about the released numbers; how long the fit took is not hidden"
CONTINUOUS = (
    "idealised continuous noise: the proof is for real numbers, the noise was drawn in float64, "
    "and the exact released digits can name the hidden record"
)

# Up to here a block and the slot fit in one word and every proposal is exact as a float.
LARGEST_SCALE = 2.0**48
_SMALLEST_SCALE = 1.0

_SLOT_BITS = 16
_REACH = 5.25  # the blocks cover at least so many scales on either side
_RELATIVE_ERROR = 2.0**-40
_CHUNK = 2**15


class RandomWords:
    """Uniform random 64-bit words, read in blocks and consumed in order.

    Parameters
    ----------
    read : callable
        Maps n to an array of the next n words, as uint64.
    """

    def __init__(self, read: Callable[[int], np.ndarray]):
        self._read = read
        self._ahead = np.empty(0, dtype=np.uint64)

    def peek(self, n: int) -> np.ndarray:
        """Return the next n words without consuming them."""
        missing = n - len(self._ahead)
        if missing > 0:
            self._ahead = np.concatenate([self._ahead, self._read(missing)])
        return self._ahead[:n]

    def skip(self, n: int) -> None:
        """Consume n words that were peeked at."""
        self._ahead = self._ahead[n:]

    def draw(self, n: int) -> np.ndarray:
        """Consume the next n words; the array may be read-only."""
        if len(self._ahead) == 0:
            return self._read(n)
        words = self.peek(n)
        self.skip(n)
        return words

    def take(self) -> int:
        """Consume one word."""
        word = int(self.peek(1)[0])
        self.skip(1)
        return word


def make_rng(random_state: Any, *, stream: int = 0) -> RandomWords:
    """Return a stream of random words: the operating system for None, else a seeded one.

    Parameters
    ----------
    random_state : None, int, numpy Generator or RandomState
        Anything but None makes the noise reproducible by whoever knows it, which voids the
        promise; the caller warns and says so in the certificate. A generator is asked for 32
        bytes, whatever happens next. numpy's global generator is never used. A stream that this
        function returned is returned again.
    stream : int, default=0
        With an integer seed, which of its independent streams; for callers that draw at more than
        one moment and must not use the same numbers twice.

    Returns
    -------
    RandomWords
        The same for the same seed on every platform.

    Raises
    ------
    TypeError, ValueError
        For any other value.
    """
    if isinstance(random_state, RandomWords):
        return random_state
    if random_state is None:
        return RandomWords(lambda n: np.frombuffer(os.urandom(8 * n), dtype=np.uint64))
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        seed: Any = int.from_bytes(random_state.bytes(32), "little")
    elif isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(
                "random_state must be None, a non-negative integer or a numpy generator, got a "
                "negative integer. Use None for a release."
            )
        seed = [int(random_state), stream] if stream else int(random_state)
    else:
        raise TypeError(
            "random_state must be None, a non-negative integer or a numpy generator, got an object "
            f"of type {type(random_state).__name__}. Use None for a release."
        )
    return RandomWords(np.random.PCG64(seed).random_raw)


def perturb(theta: np.ndarray, scale: Any, grid: Any, *, rng: RandomWords) -> np.ndarray:
    """Add Gaussian noise to exact parameters.

    Parameters
    ----------
    theta : ndarray
        The exact parameters, by blocks of equal size.
    scale : array-like of shape (n_blocks,)
        Standard deviation, in the unit of `theta`; blocks of scale 0 come back unchanged.
    grid : array-like of shape (n_blocks,)
        Powers of two, in the unit of `theta`; 0 for idealised continuous noise.
    rng : RandomWords
        From `make_rng`.

    Returns
    -------
    ndarray
        A new array; `theta` is not changed. With a grid, integer multiples of it, rounded to
        float64 where they have more than 53 bits.

    Notes
    -----
    Beyond 2^60 grid points, farther than any parameter within the public bounds, parameters are
    projected on that range; like rounding, a function of each neighbour that does not move the
    two apart. So nothing here can fail because of the data.
    """
    released = theta.copy()
    for block, sigma, g in zip(released.reshape(len(scale), -1), scale, grid, strict=True):
        if sigma > 0 and g > 0:
            # The division is exact: g is a power of two. An overflow must not be heard of.
            with np.errstate(over="ignore"):
                steps = np.clip(np.rint(block / g), -(2.0**60), 2.0**60).astype(np.int64)
            block[:] = g * (steps + discrete_gaussian(sigma / g, len(block), rng))
        elif sigma > 0:
            block += sigma * _standard_normal(len(block), rng)
    return released


def _standard_normal(size: int, rng: RandomWords) -> np.ndarray:
    """Normals in float64, by inversion of uniforms on a grid of 2^52 midpoints.

    With one bit more the midpoints above 1/2 would not be floats, and the last one would be 1.
    """
    bits = rng.peek(size) >> np.uint64(12)
    rng.skip(size)
    return ndtri((bits + 0.5) * 2.0**-52)


def discrete_gaussian(scale: float, size: int, rng: RandomWords) -> np.ndarray:
    """Independent integers with ``P[z]`` proportional to ``exp(-z^2 / (2 scale^2))``, exactly.

    Parameters
    ----------
    scale : float
        In [1, 2^48]; as every float, a dyadic number, and taken as exactly that.
    size : int
        How many.
    rng : RandomWords
        From `make_rng`.

    Returns
    -------
    ndarray of int64 of shape (size,)
        A function of the words alone; two calls for m and n continue each other like one for
        ``m + n``.

    Raises
    ------
    ValueError
        If the scale is out of range.

    Notes
    -----
    See the module docstring. About 1.05 proposals per draw.
    """
    histogram = _Histogram(float(scale))
    drawn = np.empty(size, dtype=np.int64)
    n_drawn = 0
    while n_drawn < size:
        n_proposals = min(_CHUNK, (size - n_drawn) * 9 // 8 + 16)
        proposals, accepted, special = histogram.propose(rng.peek(2 * n_proposals))
        # What comes before the first one that needs more words, and is wanted.
        stop = int(np.argmax(special)) if special.any() else n_proposals
        wanted = np.flatnonzero(accepted[:stop])[: size - n_drawn]
        drawn[n_drawn : n_drawn + len(wanted)] = proposals[wanted]
        n_drawn += len(wanted)
        if n_drawn == size:
            rng.skip(2 * (int(wanted[-1]) + 1))
            break
        rng.skip(2 * stop)
        if stop < n_proposals:
            z = histogram.draw_exactly(rng)
            if z is not None:
                drawn[n_drawn] = z
                n_drawn += 1
    return drawn


class _Histogram:
    """The proposal for one scale, and its acceptance; see the module docstring.

    Every acceptance probability is at most 1. In a block, ``c_j`` is at least A times a bound on
    ``exp(-z^2/(2 s^2))`` (computed in floats, hence the factor ``1 + 1e-9``). In the tails, see
    `draw_tail`. The table is the same on every platform: it needs sums, products and quotients
    only, which IEEE 754 fixes to the last bit.
    """

    def __init__(self, scale: float):
        if not _SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise ValueError(
                f"scale must be in [{_SMALLEST_SCALE:g}, {LARGEST_SCALE:g}], got {scale!r}."
            )
        exponent = math.frexp(scale)[1]
        self.scale = scale
        self.width = 1 << max(0, exponent - 4)  # scale/16 < width <= scale/8, or 1
        self.tail_width = 1 << max(0, exponent - 2)  # scale/4 < tail_width, <= scale/2 or 1
        n_side = math.ceil(_REACH * scale / self.width)
        self.reach = n_side * self.width

        n_slots = 1 << _SLOT_BITS
        starts = np.arange(-n_side, n_side) * self.width
        nearest = np.where(starts < 0, starts + (self.width - 1), starts)
        heights = _above_exp(np.square(nearest / scale) / 2) * (1 + 1e-9)
        self.peak = (n_slots - 1 - len(starts)) / math.fsum(heights)  # A
        self.counts = np.ceil(self.peak * heights).astype(np.int64)
        self.counts[n_side] += n_slots - 1 - self.counts.sum()  # what rounding has left
        # Per slot; in the last one, the tails, nothing is accepted.
        self.starts = np.append(np.repeat(starts, self.counts), 0)
        self.factors = np.append(np.repeat(self.peak / self.counts, self.counts), 0.0)

    def propose(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Proposals from pairs of words; which are accepted; which have yet to be decided."""
        slots = (words[::2] >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
        proposals = (words[::2] & np.uint64(self.width - 1)).view(np.int64)
        proposals += self.starts.take(slots)
        chance = self.acceptance(slots, proposals)
        chance *= 2.0**53
        uniform = (words[1::2] >> np.uint64(11)).view(np.int64).astype(np.float64)  # its floor
        accepted = uniform + 1 <= chance * (1 - _RELATIVE_ERROR)
        open_ = uniform < chance * (1 + _RELATIVE_ERROR)
        special = (open_ ^ accepted) | (slots == len(self.starts) - 1)
        return proposals, accepted, special

    def acceptance(self, slots: np.ndarray, proposals: np.ndarray) -> np.ndarray:
        """Probabilities of acceptance, to within `_RELATIVE_ERROR`.

        ``z / s`` is below 6.3 in magnitude; its square is off by 3 units of 2^-53 relative, so the
        exponent by 60 units absolute, the result by 70 relative, and by what ``exp`` adds.
        """
        chance = proposals / self.scale
        chance *= chance
        chance *= -0.5
        np.exp(chance, out=chance)
        chance *= self.factors.take(slots)
        return chance

    def draw_exactly(self, rng: RandomWords) -> int | None:
        """One proposal, accepted or not (None), in integer arithmetic from the first word on."""
        word, uniform = rng.take(), rng.take()
        slot = word >> (64 - _SLOT_BITS)
        if slot == len(self.starts) - 1:
            return self.draw_tail(rng)
        z = int(self.starts[slot]) + (word & (self.width - 1))
        block = (z + self.reach) // self.width
        factor = Fraction(self.peak) / int(self.counts[block])
        return z if exact_bernoulli(factor, self._exponent(z), rng, uniform, 64) else None

    def draw_tail(self, rng: RandomWords) -> int | None:
        """One proposal beyond the blocks, accepted or not (None).

        Blocks of v integers start at magnitude ``J w + i v``, ``i = 0, 1, ...`` with probability
        ``2^-(i+1)``. With the sign, the probability of z is ``2^-(i+2) / v``; the acceptance

            A 2^(i+2) (v/w) exp(-z^2 / (2 s^2)) <= A 2^(i+2) (v/w) exp(-(J w + i v)^2 / (2 s^2))

        makes it ``A / w exp(...)`` as in the blocks. The bound falls with i, from each one to the
        next by ``2 exp(-J w v / s^2) <= 2 exp(-5.25/4)`` at least, and at ``i = 0`` it is at most
        ``4 A (v/w) exp(-5.25^2/2) < 4.2e-6 A v/w``. There are ``2^16 > A sum_j exp(...)`` slots,
        a sum of at least ``2.5 s / w``, so ``A v/w < 2^16 v / (2.5 s)``, and ``v <= max(1, s/2)``.
        """
        word = rng.take()
        i, ones = 0, 64
        while ones == 64:
            run = rng.take()
            ones = (~run & (run + 1)).bit_length() - 1  # below its lowest 0
            i += ones
        z = self.reach + i * self.tail_width + (word & (self.tail_width - 1))
        if word >> 63:
            z = -1 - z
        factor = Fraction(self.peak) * (4 * self.tail_width << i) / self.width
        return z if exact_bernoulli(factor, self._exponent(z), rng) else None

    def _exponent(self, z: int) -> Fraction:
        return Fraction(z * z) / (2 * Fraction(self.scale) ** 2)


def _above_exp(t: np.ndarray) -> np.ndarray:
    """An upper bound on ``exp(-t)``, t >= 0, a few millionths above it for t up to 20.

    The Taylor polynomial of degree 6 is below ``exp(t/32)``.
    """
    u = t / 32
    series = 1 + u * (1 + u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6)))))
    for _ in range(5):  # not series**32: pow is not fixed by IEEE 754
        series = series * series
    return 1 / series


def exact_bernoulli(
    factor: Fraction, exponent: Fraction, rng: RandomWords, uniform: int = 0, bits: int = 0
) -> bool:
    """True with probability ``factor * exp(-exponent)``, in exact arithmetic.

    Parameters
    ----------
    factor, exponent : Fraction
        The exponent is non-negative, the probability at most 1.
    rng : RandomWords
        Where further bits come from.
    uniform, bits : int
        The leading bits of the uniform number in [0, 1) that is compared with the probability.

    Returns
    -------
    bool
        Whether the uniform number is the smaller one. It gets as many bits as that takes.
    """
    guard = 16 + max(0, factor.numerator.bit_length() - factor.denominator.bit_length())
    while True:
        low, high = _exp_bounds(exponent, bits + guard)
        scale = factor.denominator << guard
        low, high = low * factor.numerator // scale, -(-high * factor.numerator // scale)
        if uniform + 1 <= low:
            return True
        if uniform >= high:
            return False
        uniform, bits = uniform << 64 | rng.take(), bits + 64


def _exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers around ``2^bits exp(-x)``, x >= 0, a few units apart.

    ``exp(-x) = exp(-y)^(2^h)`` with ``y = x / 2^h <= 1/2``, rounded down to ``Q`` bits: an error of
    one unit. The Taylor series alternates; each of its N terms is computed from the one before,
    rounded down, with an error below 2 units (half the last one plus 1), and what is left when a
    term is 0 is less than 2 units. Squaring rounds outwards.
    """
    halvings = max(0, math.ceil(2 * x).bit_length())
    precision = bits + halvings + 16
    y = (x.numerator << precision) // (x.denominator << halvings)
    total, term, n = 0, 1 << precision, 0
    while term:
        total += -term if n % 2 else term
        n += 1
        term = term * y // (n << precision)
    error = 2 * n + 3
    low, high = max(0, total - error), min(1 << precision, total + error)
    for _ in range(halvings):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low >> (precision - bits), -(-high >> (precision - bits))


_HALF = (1 << 32) - 1
_TABLE_BITS = 10


class UniformMixture:
    """Exact draws from finite mixtures of uniform laws: first a part, then a number inside it.

    Parameters
    ----------
    probabilities : array-like of shape (n_rows, n_parts)
        Each row is one mixture: the probabilities of its parts, summing to 1 up to rounding.
    sizes : array-like of shape (n_rows, n_parts)
        Numbers to choose from, below 2^32, in each part.

    Attributes
    ----------
    parts : ndarray of int, shape (n_rows * n_parts,)
        What the slots that `draw` returns stand for: ``row * n_parts + part``.

    Notes
    -----
    One 64-bit word a draw. Its upper half U chooses the part by comparison with the cumulative
    probabilities c_j: U / 2^32 < c_j is decided unless U = floor(2^32 c_j). In that case, one in
    2^32, more bits are read until exact rational arithmetic can tell. A table over the first ten
    bits saves most comparisons. The lower half L chooses the number ``floor(L m / 2^32)`` of a
    part of size m, and is drawn again if ``L m mod 2^32 < 2^32 mod m``, so that every number has
    the same count of accepted halves (Lemire).

    So each part has **exactly** the probability of the given double, also one of 1e-300 that no
    53-bit uniform could hit. Parts are sorted, and the most probable one takes what is missing to
    1: a relative change of it by less than ``n_parts^2 2^-53``.

    References
    ----------
    D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019).
    """

    def __init__(self, probabilities: Any, sizes: Any):
        probabilities = np.asarray(probabilities, dtype=np.float64)
        sizes = np.broadcast_to(np.asarray(sizes, dtype=np.uint64), probabilities.shape)
        n_rows, self._n_parts = probabilities.shape
        order = np.argsort(probabilities, axis=1, kind="stable")
        ascending = np.take_along_axis(probabilities, order, axis=1)
        self._cumulative = [list(accumulate(map(Fraction, row[:-1]))) for row in ascending.tolist()]
        floors = np.array(
            [[int(c * 2**32) for c in row] for row in self._cumulative], dtype=np.int64
        )
        # Of all rows in one ascending list, with an end that nothing reaches.
        keys = floors + (np.arange(n_rows)[:, np.newaxis] << 32)
        self._floors = np.append(keys.ravel(), 2**62)
        first = np.arange(n_rows)[:, np.newaxis] * self._n_parts
        self.parts = (order + first).ravel()
        self._sizes = np.take_along_axis(sizes, order, axis=1).ravel()
        self._rejected = np.uint64(2**32) % np.maximum(self._sizes, np.uint64(1))
        # Slot by row and first bits; -1 where a threshold lies between such numbers.
        low = np.arange(1 << _TABLE_BITS) << (32 - _TABLE_BITS)
        high = low + (1 << (32 - _TABLE_BITS)) - 1
        slots = np.zeros((n_rows, len(low)), dtype=np.intp)
        for floor in floors.T[:, :, np.newaxis]:
            slots[slots >= 0] += (low > floor)[slots >= 0]
            slots[(low <= floor) & (floor <= high)] = -1
        self._table = np.where(slots < 0, -1, slots + first).ravel()

    def draw(self, rows: Any, count: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        """Draw once from each of the mixtures `rows`.

        Parameters
        ----------
        rows : ndarray of shape (count,) or 0
            Row of each draw; 0 if all come from the first.
        count : int
            Number of draws.
        rng : RandomWords
            From `make_rng`.

        Returns
        -------
        slot : ndarray of shape (count,)
            Position in `parts` of the part.
        number : ndarray of shape (count,)
            In 0..m-1 for a part of size m.
        """
        words = rng.draw(count)
        single = np.ndim(rows) == 0
        prefix = (words >> (64 - _TABLE_BITS)).view(np.intp)
        slot = self._table.take(prefix if single else prefix + (rows << _TABLE_BITS))
        near = np.flatnonzero(slot < 0)
        row = 0 if single else rows[near]
        key = (words[near] >> 32).view(np.int64) + (row << 32)
        below = self._floors.searchsorted(key)  # thresholds below, in all rows up to this one
        slot[near] = below + row
        for i in np.flatnonzero(self._floors[below] == key):
            at, number = divmod(int(key[i]), 2**32)
            slot[near[i]] = at * self._n_parts + self._decide(at, number, rng)

        product = (words & _HALF) * self._sizes.take(slot)
        again = np.flatnonzero((product & _HALF) < self._rejected.max())  # usually none
        again = again[(product[again] & _HALF) < self._rejected[slot[again]]]
        while len(again):
            redrawn = rng.draw(len(again)) >> 32
            product[again] = redrawn * self._sizes[slot[again]]
            again = again[(product[again] & _HALF) < self._rejected[slot[again]]]
        product >>= 32
        return slot, product.view(np.intp)

    def _decide(self, row: int, upper: int, rng: Any) -> int:
        """Slot of a number of which the first 32 bits are `upper`."""
        bits, low = 32, Fraction(upper, 2**32)
        while any(low < c < low + Fraction(1, 2**bits) for c in self._cumulative[row]):
            bits += 64  # ends: the thresholds are doubles and have finitely many bits
            low += Fraction(rng.take(), 2**bits)
        return sum(c <= low for c in self._cumulative[row])


def discrete_laplace(epsilon: float, size: int, rng: Any) -> np.ndarray:
    """Integers with the two-sided geometric law.

    Parameters
    ----------
    epsilon : float
        In [1e-15, inf]; the law is ``P(z) = (1-a)/(1+a) a^|z|`` with ``a = exp(-epsilon)``.
    size : int
        How many.
    rng : RandomWords
        From `make_rng`.

    Returns
    -------
    ndarray of int64
        Independent draws; zeros for infinite epsilon.

    Notes
    -----
    The difference of two geometric variables has this law, and the binary digits of a geometric
    variable are independent: digit i is one with probability ``a^(2^i) / (1 + a^(2^i))``, since
    ``a^g`` is a product over the digits of g. Each digit is drawn by `UniformMixture`, exactly as
    often as its double says; digits with a probability that underflows are zero.
    """
    epsilon = check_real("epsilon", epsilon, low=1e-15)  # below, the digits would not fit
    draws = np.zeros(size, dtype=np.int64)
    digit = 0
    while (one := float(expit(-epsilon * 2.0**digit))) > 0:
        bit = UniformMixture([[one, 1 - one]], 1)
        ones = bit.parts.take(bit.draw(0, 2 * size, rng)[0]) == 0
        draws += (ones[:size].astype(np.int64) - ones[size:]) << digit
        digit += 1
    return draws
