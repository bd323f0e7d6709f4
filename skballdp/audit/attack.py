r"""The exact MAP attack on a Gaussian release, and tests of the noise itself.

Model arm. The release is ``theta_i + sigma Z`` for the hidden target i, so the best guess is
``argmax_j log pi_j - ||release - theta_j||^2 / (2 sigma^2)`` (the squared norm weighted by block
when sigma differs). Only the component of the noise in the span of the m optima matters; after
whitening with sigma and projecting there, one draw costs m^2 operations whatever the number of
features and classes is.

Implementation arm. ``(release - optimum) / sigma`` over several real fits must look like
independent standard normals, between fits and within one. And its digits must not betray the
optimum: floats reach some values and no others, so an attacker asks for which candidate the noise
is one that a sampler could have drawn at all, see `reachable`.

References
----------
J. Margaryan and N. Gupta, arXiv:2607.04209, section 5.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import chdtr, ndtr, ndtri
from scipy.stats import beta, chi2, kstwo, norm

from skballdp.audit.statistics import enclosing_centre

__all__ = [
    "Geometry",
    "ModelArm",
    "bayes_success_of_pair",
    "geometry",
    "map_guess",
    "map_posterior",
    "noise_p_values",
    "only_reachable",
    "reachable",
    "simulate",
]

# Small enough for the cache, and for BLAS to stay on one thread: threads cost more than they gain.
_CHUNK = 4096
# Whitened optima closer than this are the same release for every practical purpose: telling them
# apart would gain an attacker less than 1e-9 in success.
_TIED = 1e-9
# Uniform floats behind normals by inversion: how many there are, and where in their cell they lie
# (the lower end, as in jax after shifting to (-1, 1), or the middle).
_LATTICES = ((2.0**23, 0.0), (2.0**23, 0.25), (2.0**23, 0.5), (2.0**24, 0.0), (2.0**24, 0.5))
# The same in double precision: ours ("continuous"), and what generators of uniforms return. Nearer
# than so many of its points inversion is known, and so many parameters are looked at.
_DOUBLE_LATTICES = ((2.0**52, 0.5), (2.0**53, 0.0))
_NEAR, _ENOUGH = 8, 512
# Parameters whose noise is compared with that of each other.
_ENOUGH_COLUMNS = 1000
# Rows that are compared with all others at a time.
_ROWS = 256
# What the hypotheses allow for: relative errors of a few roundings in either precision, and errors
# in 1 - u^2, which inversion computes, in cells of the lattice.
_DOUBLE, _SINGLE, _BLUR = 2.0**-50, 2.0**-22, 0.125


@dataclass(frozen=True)
class Geometry:
    """The optima of a support as an attacker sees them.

    Attributes
    ----------
    points : ndarray of shape (n_groups, k)
        Distinct optima in units of the noise scale, in coordinates of their span.
    group : ndarray of int of shape (m,)
        Which point each candidate has: candidates with equal optima are tied.
    to_centre : ndarray of shape (m,)
        Distance of each optimum to that of the ball's centre, in units of the noise scale.
    to_mean : ndarray of shape (m,)
        The same to the mean of the optima.
    to_enclosing : ndarray of shape (m,)
        The same to the centre of the smallest ball around the optima.
    diameter : float
        Largest distance of two optima.
    silent : bool
        Whether there is no noise: the points are then in the unit of the parameters.
    """

    points: np.ndarray
    group: np.ndarray
    to_centre: np.ndarray
    to_mean: np.ndarray
    to_enclosing: np.ndarray
    diameter: float
    silent: bool

    def seen(self, n_releases: int) -> "Geometry":
        """The same for an attacker with several releases of the same data.

        Their mean is a sufficient statistic, with noise smaller by the root of their number.
        """
        if self.silent:
            return self
        root = math.sqrt(n_releases)
        return replace(
            self,
            points=root * self.points,
            to_centre=root * self.to_centre,
            to_mean=root * self.to_mean,
            to_enclosing=root * self.to_enclosing,
            diameter=root * self.diameter,
        )


@dataclass(frozen=True)
class ModelArm:
    """Outcome of many simulated attacks.

    Attributes
    ----------
    hits, trials : int
        Correct guesses of the MAP rule; ties are broken at random.
    null_hits, null_trials : int
        The same for releases that do not depend on the target.
    near_hits : int
        Targets within eta of the answer, among `trials`, for the rule that maximises that.
    bayes_success, bayes_error : float
        Mean over the same draws of the largest posterior probability, and its standard error (0
        where a closed form was used).
    """

    hits: int
    trials: int
    null_hits: int
    null_trials: int
    near_hits: int
    bayes_success: float
    bayes_error: float


def geometry(optima: np.ndarray, centre: np.ndarray, scale: Any, prior: np.ndarray) -> Geometry:
    """Whiten the optima and find their span and their ties.

    Parameters
    ----------
    optima : ndarray of shape (m, p)
        Exact parameters for each candidate.
    centre : ndarray of shape (p,)
        Exact parameters for the ball's centre.
    scale : float or ndarray of shape (p,)
        Noise scale; a parameter without noise must be the same for all candidates, unless no
        parameter has any.
    prior : ndarray of shape (m,)
        Probability of each candidate.

    Returns
    -------
    Geometry
    """
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), centre.shape)
    moving = np.flatnonzero(np.any(optima != centre, axis=0))
    difference, sigma = optima[:, moving] - centre[moving], scale[moving]
    silent = len(moving) > 0 and not np.any(sigma > 0)
    exposed = not silent and np.any(sigma == 0)
    if silent:
        sigma = np.ones_like(sigma)
    elif exposed:
        raise ValueError(
            "noise_scale_for returns 0 for parameters that differ between the candidates: they are "
            "released without noise."
        )
    whitened = difference / sigma
    offset = whitened - prior @ whitened
    coordinates = np.zeros((len(optima), 1))
    if np.any(offset):
        left, singular, _ = np.linalg.svd(offset, full_matrices=False)
        keep = singular > 1e-12 * singular[0]
        coordinates = left[:, keep] * singular[keep]
    spread = float(np.abs(coordinates).max(initial=0.0))
    tolerance = _TIED * (spread if silent else max(1.0, spread))
    close = cdist(coordinates, coordinates) <= tolerance
    firsts, group = np.unique(np.argmax(close, axis=1), return_inverse=True)
    points = coordinates[firsts]
    to_enclosing = np.linalg.norm(coordinates - enclosing_centre(points), axis=1)
    return Geometry(
        points=points,
        group=group,
        to_centre=np.linalg.norm(whitened, axis=1),
        to_mean=np.linalg.norm(offset, axis=1),
        to_enclosing=to_enclosing,
        diameter=float(cdist(points, points).max()),
        silent=silent,
    )


def map_posterior(released: np.ndarray, optima: np.ndarray, scale: Any, prior: Any) -> np.ndarray:
    """Posterior probability of each candidate given one release.

    Parameters
    ----------
    released : ndarray of shape (p,)
        Released parameters.
    optima : ndarray of shape (m, p)
        Exact parameters for each candidate.
    scale : float or ndarray of shape (p,)
        Noise scale, > 0.
    prior : array-like of shape (m,)
        Probability of each candidate.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.audit.attack import map_posterior
    >>> optima = np.array([[0.0], [1.0]])
    >>> map_posterior(np.array([0.5]), optima, 1.0, [0.25, 0.75])
    array([0.25, 0.75])
    """
    distance = np.square((released - optima) / scale).sum(axis=1)
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(prior, dtype=np.float64)) - distance / 2
    likelihood = np.exp(logits - logits.max())
    return likelihood / likelihood.sum()


def map_guess(logits: np.ndarray) -> np.ndarray:
    """The MAP rule: of each column of log posteriors (up to a constant), the largest entry.

    It is given what an attacker knows and nothing else; the null arm would tell otherwise.
    """
    # Three times as fast as argmax along the first axis.
    largest = logits.max(axis=0)
    guess = np.empty(logits.shape[1], dtype=np.intp)
    for k in reversed(range(len(logits))):  # the first of equal ones
        np.copyto(guess, k, where=logits[k] == largest)
    return guess


def simulate(
    shape: Geometry,
    prior: np.ndarray,
    n_releases: int,
    rng: np.random.Generator,
    *,
    near: np.ndarray | None = None,
) -> ModelArm:
    """Attack many simulated releases with the MAP rule.

    Parameters
    ----------
    shape : Geometry
        The support.
    prior : ndarray of shape (m,)
        Probability of each candidate.
    n_releases : int
        Releases per candidate. With a uniform prior every candidate is the target that often;
        otherwise ``m * n_releases`` targets are drawn from the prior. The null arm has a tenth.
    rng : Generator
        Source of randomness.
    near : ndarray of bool of shape (m, m), optional
        Which candidates count as a success for which answer, for approximate reconstruction; by
        default only the answer itself.

    Returns
    -------
    ModelArm

    Notes
    -----
    For a tie of t candidates the guess is the most probable among them, and uniform among those
    equally probable: a target in such a tie is hit with probability 1/t.

    *Null arm.* The release is made from a candidate that is drawn independently of the target, and
    the same code asks for the target. No rule that looks at nothing but the release succeeds more
    often than the best guess without it.

    *Approximate reconstruction.* Given a release, the answer is the candidate around which the
    posterior has most mass: the best rule among those that answer with a candidate.
    """
    m, n_groups = len(prior), len(shape.points)
    if near is None:
        near = np.eye(m, dtype=bool)
    mass = np.bincount(shape.group, weights=prior, minlength=n_groups)
    best = np.zeros(n_groups)
    np.maximum.at(best, shape.group, prior)
    favourite = prior == best[shape.group]
    ties = np.bincount(shape.group, weights=favourite, minlength=n_groups)
    # Probability that a candidate is the answer, given that its group is.
    chance = np.where(favourite, 1 / ties[shape.group], 0.0)
    counts = _targets(prior, n_releases, rng)
    null_counts = _targets(prior, max(1, n_releases // 10), rng)
    trials, null_trials = int(counts.sum()), int(null_counts.sum())

    with np.errstate(divide="ignore"):
        log_best = np.log(best)
    overweight = mass / np.where(best > 0, best, 1.0)
    gram = shape.points @ shape.points.T
    offset = (log_best - np.square(shape.points).sum(axis=1) / 2)[:, None]
    share = prior / np.where(best > 0, best, 1.0)[shape.group]

    def logits(sources: Any, size: int) -> np.ndarray:
        """Log posterior of each group, up to a constant, for releases made from some groups."""
        if shape.silent:  # the release names the group for certain
            exact = np.full((n_groups, size), -np.inf)
            exact[sources, np.arange(size)] = 0.0
            return exact
        # Groups along the first axis: maxima and sums then run over contiguous rows.
        values = shape.points @ rng.standard_normal((shape.points.shape[1], size))
        values += (gram + offset)[:, sources if np.ndim(sources) else [sources]]
        return values

    right_group = np.zeros(m, dtype=np.int64)
    near_hits: Any = 0
    total = total_square = 0.0
    for target in np.flatnonzero(counts):
        for size in _chunks(counts[target]):
            scores = logits(shape.group[target], size)
            guess = map_guess(scores)
            right_group[target] += np.count_nonzero(guess == shape.group[target])
            scores -= scores.max(axis=0)
            np.exp(scores, out=scores)
            posterior = 1 / (overweight @ scores)
            total += float(posterior.sum())
            total_square += float(posterior @ posterior)
            if near.sum() > m:
                answer = (near @ (share[:, None] * scores[shape.group])).argmax(axis=0)
                near_hits += np.count_nonzero(near[answer, target])
    hits = int(rng.binomial(right_group, chance).sum())

    null_group = np.zeros(m, dtype=np.int64)
    for target in np.flatnonzero(null_counts):
        for size in _chunks(null_counts[target]):
            sources = shape.group[rng.choice(m, size, p=prior)]
            guess = map_guess(logits(sources, size))
            null_group[target] += np.count_nonzero(guess == shape.group[target])

    mean = total / trials
    error = math.sqrt(max(0.0, total_square / trials - mean**2) / trials)
    if shape.silent:
        mean, error = float(best.sum()), 0.0
    elif n_groups == 1:
        mean, error = float(best[0]), 0.0
    elif m == n_groups == 2:
        mean, error = bayes_success_of_pair(shape.diameter, prior), 0.0
    return ModelArm(
        hits=hits,
        trials=trials,
        null_hits=int(rng.binomial(null_group, chance).sum()),
        null_trials=null_trials,
        near_hits=int(near_hits) if near.sum() > m else hits,
        bayes_success=mean,
        bayes_error=error,
    )


def _targets(prior: np.ndarray, n_releases: int, rng: np.random.Generator) -> np.ndarray:
    """How often each candidate is the target."""
    if np.all(prior == prior[0]):
        return np.full(len(prior), n_releases)
    counts: np.ndarray = rng.multinomial(len(prior) * n_releases, prior)
    return counts


def _chunks(count: int) -> Iterator[int]:
    for start in range(0, count, _CHUNK):
        yield min(_CHUNK, count - start)


def bayes_success_of_pair(distance: float, prior: Any) -> float:
    """Bayes success for two candidates, in closed form.

    Parameters
    ----------
    distance : float
        Between the two optima, in units of the noise scale, > 0.
    prior : array-like of shape (2,)
        Probability of each.

    Returns
    -------
    float
        ``sum_i pi_i Phi(d/2 +- log(pi_1/pi_2)/d)``; ``Phi(d/2)`` for a uniform prior.

    Examples
    --------
    >>> from skballdp.audit.attack import bayes_success_of_pair
    >>> round(bayes_success_of_pair(2.0, [0.5, 0.5]), 6)
    0.841345
    """
    first, second = float(prior[0]), float(prior[1])
    if min(first, second) == 0:
        return 1.0
    shift = math.log(first / second) / distance
    return float(first * ndtr(distance / 2 + shift) + second * ndtr(distance / 2 - shift))


def noise_p_values(
    noise: np.ndarray, blocks: np.ndarray, *, n_features: int = 1, resolution: float = 0.0
) -> dict[str, float]:
    """P-values of tests that the noise of several fits is standard normal and independent.

    Parameters
    ----------
    noise : ndarray of shape (n_fits, p)
        Released minus exact parameters, over the claimed scale; only parameters with noise.
    blocks : ndarray of int of shape (p,)
        Groups of parameters, numbered from 0: scales are tested by group as well.
    n_features : int, default=1
        Distance of parameters that belong to one feature of different classes.
    resolution : float, default=0.0
        Spacing of the grid that the noise lies on, in the same unit.

    Returns
    -------
    dict of str to float
        For ``"zero mean"``, ``"unit scale"``, ``"normal noise"``, ``"independent fits"`` and
        ``"independent parameters"``. Each is exact or conservative under the hypothesis (Bonferroni
        within a test).

    Notes
    -----
    - Zero mean: the sum of everything is normal; the squared column means, times n_fits, add up to
      a chi-square with p degrees of freedom.
    - Unit scale: the sum of squares, in all and within a block, is chi-square.
    - Normal noise: the largest value (of up to a thousand parameters), which truncation makes too
      small; Kolmogorov-Smirnov tests of the values, and of the squared norms, one a fit, which are
      chi-square: noise that is the same in all fits up to order and signs has equal norms, noise
      with a common random factor very different ones.
    - Independent fits: for fits i and j, ``||z_i - z_j||^2 / 2`` and ``||z_i + z_j||^2 / 2`` are
      chi-square with p degrees of freedom; equal or opposite noise makes one of them vanish.
    - Independent parameters: the same for pairs among up to a thousand parameters; the sums of all
      parameters, one a fit, are normal with variance p; and for disjoint pairs of parameters at
      some distances, those of neighbours and of classes among them, the sums have the same variance
      as the differences (the share of one in both has a beta distribution).
    """
    return {
        "zero mean": _zero_mean(noise),
        "unit scale": _unit_scale(noise, blocks),
        "normal noise": _normal(noise),
        "independent fits": _closest_pair(noise, resolution),
        "independent parameters": _independent_parameters(noise, n_features, resolution),
    }


def _zero_mean(noise: np.ndarray) -> float:
    n_fits, p = noise.shape
    in_all = 2 * float(norm.sf(abs(noise.sum()) / math.sqrt(n_fits * p)))
    by_parameter = float(chi2.sf(n_fits * np.square(noise.mean(axis=0)).sum(), p))
    return min(1.0, 2 * min(in_all, by_parameter))


def _unit_scale(noise: np.ndarray, blocks: np.ndarray) -> float:
    by_block = np.bincount(blocks, weights=np.square(noise).sum(axis=0))
    sums = np.append(by_block, by_block.sum())
    degrees = len(noise) * np.append(np.bincount(blocks), noise.shape[1])
    return min(1.0, len(sums) * _two_sided(chi2, sums, degrees))


def _normal(noise: np.ndarray) -> float:
    values = np.sort(_some_columns(noise), axis=None)
    # P(largest <= x) = P(|z| <= x)^size.
    largest = max(-values[0], values[-1])
    log_cdf = values.size * math.log1p(-2 * float(norm.sf(largest)))
    p_values = (
        2 * min(math.exp(log_cdf), -math.expm1(log_cdf)),
        _kolmogorov_smirnov(ndtr(values)),
        _kolmogorov_smirnov(np.sort(chdtr(noise.shape[1], np.square(noise).sum(axis=1)))),
    )
    return min(1.0, len(p_values) * min(p_values))


def _independent_parameters(noise: np.ndarray, n_features: int, resolution: float) -> float:
    n_fits, p = noise.shape
    p_values = [
        _closest_pair(_some_columns(noise).T, resolution),
        _two_sided(chi2, np.square(noise.sum(axis=1)).sum() / p, n_fits),
    ]
    distances = {n_features, *(2**k for k in range(p.bit_length()))}
    for distance in sorted(step for step in distances if 2 * step <= p):
        pairs = noise[:, : p - p % (2 * distance)].reshape(n_fits, -1, 2, distance)
        sums = np.square(pairs[:, :, 0] + pairs[:, :, 1]).sum()
        differences = np.square(pairs[:, :, 0] - pairs[:, :, 1]).sum()
        half = pairs.size / 4
        p_values.append(_two_sided(beta, sums / (sums + differences), half, half))
    return min(1.0, len(p_values) * min(p_values))


def _some_columns(noise: np.ndarray) -> np.ndarray:
    """At random, but the same ones in every run."""
    p = noise.shape[1]
    if p <= _ENOUGH_COLUMNS:
        return noise
    return noise[:, np.random.default_rng(0).choice(p, _ENOUGH_COLUMNS, replace=False)]


def _two_sided(law: Any, values: Any, *parameters: Any) -> float:
    """The smallest two-sided p-value of some values."""
    tails = np.minimum(law.sf(values, *parameters), law.cdf(values, *parameters))
    return float(2 * np.min(tails))


def _kolmogorov_smirnov(u: np.ndarray) -> float:
    """P-value of the hypothesis that sorted numbers are a sample of uniform ones."""
    n = len(u)
    above, below = np.arange(1, n + 1) / n - u, u - np.arange(n) / n
    return float(kstwo.sf(max(above.max(), below.max()), n))


def _closest_pair(z: np.ndarray, resolution: float) -> float:
    """P-value of the smallest distance between rows of standard normals, or their negatives.

    On a grid two rows can be equal by chance: their distance then counts as that of neighbours.
    """
    n, p = z.shape
    if n == 1:
        return 1.0
    norms = np.square(z).sum(axis=1)
    smallest = math.inf
    for start in range(0, n - 1, _ROWS):
        rows = slice(start, start + _ROWS)
        squared = (norms[rows, None] + norms[start:]) / 2 - np.abs(z[rows] @ z[start:].T)
        np.fill_diagonal(squared, math.inf)
        smallest = min(smallest, float(squared.min()))
    # Differences of equal rows cancel to rounding errors, which may be negative.
    length = math.sqrt(2 * max(0.0, smallest)) + math.sqrt(p) * resolution
    return min(1.0, n * (n - 1) * float(chi2.cdf(length**2 / 2, p)))


def reachable(
    released: np.ndarray, optima: np.ndarray, scale: Any, *, kind: str, grid: Any = 0.0
) -> np.ndarray:
    """Whether a sampler of some kind could have produced the noise that each candidate implies.

    Parameters
    ----------
    released : ndarray of shape (p,)
        Released parameters, only those with noise.
    optima : ndarray of shape (m, p)
        Exact parameters for each candidate.
    scale : float or ndarray of shape (p,)
        Noise scale that is claimed, > 0.
    kind : {"discrete", "float32 noise", "float32 release", "float64 noise"}
        A hypothesis about the sampler. ``"discrete"``: integers times the grid, added to a rounded
        optimum. ``"float32 noise"``: numbers of single precision, added in double precision.
        ``"float32 release"``: normals by inversion of single-precision uniforms, of which there
        are 2^23 or 2^24, with all arithmetic in single precision. ``"float64 noise"``: normals by
        inversion of double-precision uniforms with `scipy.special.ndtri`, times the scale, added.
    grid : float or ndarray of shape (p,), default=0.0
        For ``"discrete"``.

    Returns
    -------
    ndarray of shape (m,)
        ``-inf`` if it could not. Otherwise the evidence, ``-log`` of the probability that noise of
        another kind would look as if it could: 0 if that tells nothing.

    Notes
    -----
    On a grid all candidates are equally reachable, whatever the optima are. Inversion maps the
    noise, known up to rounding, to an interval of uniforms, which has to contain one that exists:
    single parameters tell little, dozens of them everything. In double precision, too, there are
    fewer uniforms than floats for the noise beyond about one scale; their images are computed as
    the sampler does, and must hit the release to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.audit.attack import reachable
    >>> optima = np.array([[0.1, 0.7], [0.3, 0.2]])
    >>> noise = np.float32([1.1, -0.3]).astype(float)
    >>> reachable(optima[1] + noise, optima, 1.0, kind="float32 noise").round()
    array([-inf,  36.])
    >>> reachable(np.array([1.5, 0.25]), optima, 1.0, kind="discrete", grid=0.25)
    array([0., 0.])
    """
    if kind == "discrete":
        steps = released / grid
        return np.full(len(optima), 0.0 if np.all(steps == np.rint(steps)) else -np.inf)
    if kind == "float64 noise":
        return np.max(
            [_inverted(released, optima, scale, *lat) for lat in _DOUBLE_LATTICES], axis=0
        )
    # Beyond the range of single precision nothing is reachable.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        single = released.astype(np.float32)
        if kind == "float32 noise":
            noise = released - optima
            rounded = noise.astype(np.float32)
            error = _DOUBLE * np.maximum(np.abs(released), np.abs(optima))
            exists = np.abs(noise - rounded) <= error
            return _evidence(exists, 2 * error / np.spacing(np.abs(rounded)))
        if np.any(single != released):
            return np.full(len(optima), -np.inf)
        noise = released - optima.astype(np.float32)
        error = np.spacing(np.abs(single)).astype(np.float64) / 2 + _SINGLE * np.abs(noise)
        # By symmetry in the lower tail, where probabilities keep their digits. Reflection maps the
        # lattices at 0 and 1/2 to themselves, and that at 1/4 to one at 3/4.
        sign = np.where(noise > 0, -1.0, 1.0)
        low, high = ndtr((sign * noise - error) / scale), ndtr((sign * noise + error) / scale)
        best = np.full(len(optima), -np.inf)
        for size, offset in _LATTICES:
            start = low * size - _BLUR - sign * offset
            stop = high * size + _BLUR - sign * offset
            np.maximum(best, _evidence(np.floor(stop) >= np.ceil(start), stop - start), out=best)
        return best


def _inverted(
    released: np.ndarray, optima: np.ndarray, scale: Any, size: float, offset: float
) -> np.ndarray:
    """Evidence for normals by inversion of the uniforms ``(k + offset) / size``, in float64."""
    noise = released - optima
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        z = noise / scale
        # How many uniforms lead to one number of the finest spacing that the sum resolves.
        spacing = np.maximum(np.spacing(np.abs(released)), np.spacing(np.abs(noise)))
        chance = size * np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (spacing / scale)
        exists = chance >= 1
        lower = np.rint(ndtr(-np.abs(z)) * size)  # in the lower tail, as above
        nearest = np.where(z < 0, lower, size - lower)
        for k in range(-_NEAR, _NEAR + 1):
            uniform = (nearest + k + offset) / size
            exists |= optima + scale * ndtri(uniform) == released
        return _evidence(exists, chance)


def _evidence(exists: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Of parameters that each pass with some probability by chance, together."""
    evidence = -np.log(np.minimum(chance, 1.0)).sum(axis=1)
    return np.where(np.all(exists, axis=1), evidence, -np.inf)


def only_reachable(released: np.ndarray, optima: np.ndarray, scale: Any) -> int | None:
    """Name the candidate whose noise, judged by its digits, comes from a sampler of floats.

    Parameters
    ----------
    released : ndarray of shape (p,)
        Released parameters, only those with noise.
    optima : ndarray of shape (m, p)
        Exact parameters for each candidate.
    scale : float or ndarray of shape (p,)
        Noise scale that is claimed, > 0.

    Returns
    -------
    int or None
        The one with the most evidence for any hypothesis; None if no hypothesis fits, or all that
        do fit as well for another candidate.
    """
    # Only parameters that differ between candidates tell them apart.
    telling = np.flatnonzero(np.any(optima != optima[0], axis=0))[:_ENOUGH]
    scale = np.broadcast_to(scale, released.shape)[telling]
    released, optima = released[telling], optima[:, telling]
    kinds = ("float32 noise", "float32 release", "float64 noise")
    evidence = np.max([reachable(released, optima, scale, kind=kind) for kind in kinds], axis=0)
    best = int(np.argmax(evidence))
    if not evidence[best] > 0 or np.count_nonzero(evidence == evidence[best]) > 1:
        return None
    return best
