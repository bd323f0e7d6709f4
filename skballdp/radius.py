"""How far two records may be apart and still count as neighbours."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, check_X_y

from skballdp._validate import check_choice, check_integer, check_real, without_data
from skballdp.data import distance_tiles, row_distances

__all__ = ["Radius", "radius_quantiles", "resolve_radius"]

# Distances that are collected at once; more are narrowed down by counting passes first.
_COLLECT = 500_000
_SAMPLED_PAIRS = 20_000


@dataclass(frozen=True)
class Radius:
    """A radius that says where it came from.

    Parameters
    ----------
    value : float
        The radius, >= 0, in the unit of the rows.
    source : str, default="given by the caller"
        Where it came from, in words; the certificate repeats it.
    epsilon : float, default=0.0
        Privacy loss spent on choosing it; 0 for a value from public knowledge.

    Raises
    ------
    TypeError, ValueError
        If a value has the wrong type or is out of range.

    Examples
    --------
    >>> from skballdp import Radius
    >>> float(Radius(0.8, source="95 % quantile of public records"))
    0.8
    """

    value: float
    source: str = "given by the caller"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        value = check_real("value", self.value, low=0.0, high_open=True)
        epsilon = check_real("epsilon", self.epsilon, low=0.0, high_open=True)
        if not isinstance(self.source, str):
            raise TypeError(f"source must be a string, got {type(self.source).__name__}.")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "epsilon", epsilon)

    def __float__(self) -> float:
        return self.value


def radius_quantiles(
    X: Any,
    y: Any,
    q: Any = (0.5, 0.8, 0.95),
    *,
    aggregate: str = "max",
    norm_bound: float | None = None,
    max_pairs: int = 20_000_000,
    return_error: bool = False,
    random_state: Any = None,
) -> Any:
    """Quantiles of the distances between records of one class.

    A radius that covers 95 % of the same-label pairs of *public* records is a natural choice for
    private ones of the same kind. Taken from the private records themselves it is not covered by
    the guarantee.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Public records.
    y : array-like of shape (n_samples,)
        Labels.
    q : float or sequence of float, default=(0.5, 0.8, 0.95)
        Levels in [0, 1].
    aggregate : {"max", "pooled"}, default="max"
        The largest of the classes' quantiles (the policy of the paper), or the quantile of all
        same-label pairs together.
    norm_bound : float, optional
        Project longer rows on the ball first, as the heads do.
    max_pairs : int, default=20_000_000
        A class with more pairs than this (all classes together, for ``"pooled"``) is split at
        random into groups, and only pairs within a group are used.
    return_error : bool, default=False
        Also return the sampling error.
    random_state : None, int or RandomState, default=None
        For the split into groups.

    Returns
    -------
    quantiles : float or ndarray of shape (n_levels,)
        In the unit of the rows; a float if `q` is one.
    error : float or ndarray of shape (n_levels,)
        Only with ``return_error=True``: half-width of a 95 % interval for the sampling error,
        from the spread between groups; 0 where every pair was used.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no class has two records.

    Notes
    -----
    Quantiles are those of `numpy.quantile` for a class (``method="linear"``, and ``"hazen"`` for
    pooled pairs, which allows weights). The distances are computed by blocked matrix products and
    never held in memory together: a sample of pairs brackets each quantile, and one pass
    collects the distances inside the brackets and counts those below.

    References
    ----------
    J. Margaryan and N. Gupta, arXiv:2607.04209, section 5 (policies q50, q80, q95).

    Examples
    --------
    >>> from skballdp import radius_quantiles
    >>> X = [[0.0], [1.0], [3.0], [10.0], [12.0]]
    >>> float(radius_quantiles(X, ["a", "a", "a", "b", "b"], q=0.5))
    2.0
    """
    X, y = without_data(check_X_y, X, y, accept_sparse="csr", dtype="numeric")
    check_choice("aggregate", aggregate, ("max", "pooled"))
    max_pairs = check_integer("max_pairs", max_pairs, low=1)
    if norm_bound is not None:
        norm_bound = check_real("norm_bound", norm_bound, low=1e-50, high=1e50)
    scalar = np.ndim(q) == 0
    levels = [
        check_real(f"q[{k}]", level, low=0.0, high=1.0)
        for k, level in enumerate([q] if scalar else q)
    ]
    rng = check_random_state(random_state)
    _, codes = np.unique(y, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    classes = [
        rows for rows in np.split(order, np.cumsum(np.bincount(codes))[:-1]) if len(rows) > 1
    ]
    if not classes:
        raise ValueError("y must have a class with at least two records to measure a distance.")
    if aggregate == "max":
        parts = [_quantiles(X, [rows], levels, norm_bound, max_pairs, rng) for rows in classes]
    else:
        parts = [_quantiles(X, classes, levels, norm_bound, max_pairs, rng)]
    values = np.array([value for value, _, _ in parts])
    low = np.array([low for _, low, _ in parts])
    high = np.array([high for _, _, high in parts])
    quantiles = values.max(axis=0)
    error = np.maximum(high.max(axis=0) - quantiles, quantiles - low.max(axis=0))
    if scalar:
        quantiles, error = float(quantiles[0]), float(error[0])
    return (quantiles, error) if return_error else quantiles


def resolve_radius(
    radius: Any, *, norm_bound: float | None, X: Any = None, y: Any = None
) -> Radius:
    """Turn the estimators' `radius` parameter into a `Radius`.

    Parameters
    ----------
    radius : float, Radius, "standard" or "q50"-style
        ``"standard"`` is ``2 * norm_bound``: every replacement inside the ball. ``"q50"`` is the
        0.5 quantile of `radius_quantiles` of the training data, which voids the promise.
    norm_bound : float or None
        Bound on the rows.
    X, y : array-like, optional
        Training data, read for ``"q50"``-style policies only.

    Returns
    -------
    Radius
        At most ``2 * norm_bound``, since no two rows of the ball are farther apart.

    Raises
    ------
    TypeError, ValueError
        If the radius is of another type, out of range, or needs a norm bound.
    """
    wanted = "a number >= 0, a Radius, 'standard', or a quantile such as 'q95'"
    if isinstance(radius, str):
        if radius == "standard":
            if norm_bound is None:
                raise ValueError(
                    "radius='standard' means 2 * norm_bound, but norm_bound=None; give a number "
                    "as radius or set norm_bound."
                )
            return Radius(2 * norm_bound, source='"standard": any replacement within norm_bound')
        level = policy_level(radius)
        if level is None:
            raise ValueError(f"radius must be {wanted}, got {radius!r}.")
        value = radius_quantiles(X, y, level, norm_bound=norm_bound, random_state=0)
        return Radius(value, source=f'"{radius}" {READ_FROM_DATA}')
    if isinstance(radius, Radius):
        resolved = radius
    else:
        if isinstance(radius, bool) or not isinstance(radius, Real):
            raise TypeError(f"radius must be {wanted}, got {radius!r:.40}.")
        hint = "Use 'standard' for any replacement within norm_bound."
        value = check_real("radius", radius, low=0.0, high=math.inf, high_open=True, hint=hint)
        resolved = Radius(value)
    if norm_bound is not None and resolved.value > 2 * norm_bound:
        source = f"{resolved.source} as {resolved.value!r}; 2 * norm_bound covers everything"
        return Radius(2 * norm_bound, source=source, epsilon=resolved.epsilon)
    return resolved


# Marks a Radius whose value was read off the training data, which voids the promise.
READ_FROM_DATA = "of the training data"


def policy_level(radius: Any) -> float | None:
    """Level of a ``"q50"``-style policy in (0, 1], or None for anything else."""
    match = re.fullmatch(r"q(\d+(?:\.\d+)?)", radius) if isinstance(radius, str) else None
    level = float(match.group(1)) / 100 if match else 0.0
    return level if 0 < level <= 1 else None


class _Pairs:
    """Pairs of rows within groups; a group stands for `weight` times its pairs."""

    def __init__(
        self, X: Any, groups: list[np.ndarray], weights: np.ndarray, norm_bound: float | None
    ):
        self.X, self.groups, self.weights, self.norm_bound = X, groups, weights, norm_bound
        sizes = np.array([len(group) for group in groups], dtype=np.float64)
        self.counts = sizes * (sizes - 1) / 2
        self.total = float(self.counts @ weights)

    def tiles(self) -> Iterator[tuple[int, np.ndarray]]:
        return distance_tiles(self.X, self.groups, norm_bound=self.norm_bound)

    def sample(self, rng: np.random.RandomState) -> np.ndarray:
        """Sorted distances of random pairs."""
        share = self.counts * self.weights / self.total
        drawn = rng.choice(len(self.groups), _SAMPLED_PAIRS, p=share)
        distances = np.empty(_SAMPLED_PAIRS)
        for start in range(0, _SAMPLED_PAIRS, 1000):
            groups = [self.groups[number] for number in drawn[start : start + 1000]]
            sizes = np.array([len(group) for group in groups])
            first = rng.randint(0, sizes)
            second = (first + rng.randint(1, sizes)) % sizes  # another row of the same group
            a = np.array([group[k] for group, k in zip(groups, first, strict=True)])
            b = np.array([group[k] for group, k in zip(groups, second, strict=True)])
            distances[start : start + 1000] = row_distances(self.X, a, b, self.norm_bound)
        return np.sort(distances)


def _quantiles(
    X: Any,
    classes: list[np.ndarray],
    levels: list[float],
    norm_bound: float | None,
    max_pairs: int,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Quantiles of the pairs within `classes`, and 95 % limits of their sampling error."""
    pooled = len(classes) > 1
    pairs, sampled = _split(X, classes, norm_bound, max_pairs, rng)
    values = _select(pairs, levels, pooled, rng)
    if not sampled:
        return values, values, values
    # The groups of a class are exchangeable, so the spread of their shares of pairs below the
    # estimate gives a standard error for the level (an upper one, since they share no row), and
    # the quantiles at the shifted levels give the interval.
    below = np.zeros((len(pairs.groups), len(levels)))
    for number, distances in pairs.tiles():
        below[number] += [np.count_nonzero(distances <= value) for value in values]
    excess = (below / pairs.counts[:, None] - np.asarray(levels)) * pairs.weights[:, None]
    margin = 1.96 * np.linalg.norm(excess * pairs.counts[:, None], axis=0) / pairs.total
    low = _select(pairs, np.maximum(levels - margin, 0.0), pooled, rng)
    high = _select(pairs, np.minimum(levels + margin, 1.0), pooled, rng)
    return values, low, high


def _split(
    X: Any,
    classes: list[np.ndarray],
    norm_bound: float | None,
    max_pairs: int,
    rng: np.random.RandomState,
) -> tuple[_Pairs, bool]:
    """All pairs of the classes, or those within random groups if they are too many."""
    counts = [len(rows) * (len(rows) - 1) / 2 for rows in classes]
    share = max_pairs / sum(counts)
    if share >= 1:
        return _Pairs(X, classes, np.ones(len(classes)), norm_bound), False
    groups: list[np.ndarray] = []
    weights: list[float] = []
    for rows, count in zip(classes, counts, strict=True):
        # Groups of g rows hold about len(rows) * (g - 1) / 2 pairs.
        size = max(2.0, share * (len(rows) - 1) + 1)
        parts = np.array_split(rng.permutation(rows), max(1, int(len(rows) // size)))
        groups += parts
        weights += [count / sum(len(part) * (len(part) - 1) / 2 for part in parts)] * len(parts)
    return _Pairs(X, groups, np.array(weights), norm_bound), True


def _select(pairs: _Pairs, levels: Any, pooled: bool, rng: np.random.RandomState) -> np.ndarray:
    """Quantiles of weighted distances without holding them all.

    With E_k the weight before the k-th smallest distance and w_k its own, the quantile at level q
    interpolates the distances at ``q (W - w)`` over the positions E_k (numpy's "linear"; equal
    weights), or, pooled, at ``q W`` over ``E_k + w_k / 2`` ("hazen").
    """
    half = 0.5 if pooled else 0.0
    targets = [level * (pairs.total - (0.0 if pooled else pairs.weights[0])) for level in levels]
    sample = pairs.sample(rng)
    brackets = [_bracket(sample, level) for level in levels]
    results: dict[int, float] = {}
    while len(results) < len(targets):
        open_levels = [k for k in range(len(targets)) if k not in results]
        below = dict.fromkeys(open_levels, 0.0)
        kept: dict[int, list[np.ndarray]] = {k: [] for k in open_levels}
        kept_weights: dict[int, list[np.ndarray]] = {k: [] for k in open_levels}
        crowded = set()
        for number, distances in pairs.tiles():
            weight = pairs.weights[number]
            for k in open_levels:
                low, high = brackets[k]
                below[k] += weight * np.count_nonzero(distances < low)
                if k not in crowded:
                    inside = distances[(distances >= low) & (distances <= high)]
                    kept[k].append(inside)
                    kept_weights[k].append(np.full(len(inside) if pooled else 0, weight))
                    if sum(map(len, kept[k])) > 4 * _COLLECT:
                        crowded.add(k)  # many equal distances: narrow down by counting
                        kept[k].clear()
                        kept_weights[k].clear()
        for k in open_levels:
            if k in crowded:
                brackets[k] = _narrow(pairs, brackets[k], targets[k], sample)
                if brackets[k][0] >= brackets[k][1] * (1 - 1e-12):
                    results[k] = brackets[k][1]
                continue
            values = np.concatenate(kept[k])
            order = np.argsort(values)
            values = values[order]
            own = np.concatenate(kept_weights[k])[order] if pooled else pairs.weights[0]
            own = np.broadcast_to(own, values.shape)
            position = below[k] + np.cumsum(own) - (1 - half) * own
            low, high = brackets[k]
            complete = len(values) > 0 and (
                (low <= 0 or position[0] <= targets[k])
                and (high == math.inf or targets[k] <= position[-1])
            )
            if complete:
                results[k] = float(np.interp(targets[k], position, values))
            else:  # the sample missed: look everywhere
                brackets[k] = (0.0, math.inf)
    return np.array([results[k] for k in range(len(targets))])


def _bracket(sample: np.ndarray, level: float) -> tuple[float, float]:
    """Distances between which the quantile lies, but for once in ten thousand cases."""
    n = len(sample)
    reach = 4 * math.sqrt(level * (1 - level) / n) + 4 / n
    low, high = math.floor((level - reach) * n), math.ceil((level + reach) * n)
    return (
        float(sample[low]) if low > 0 else 0.0,
        float(sample[high]) if high < n else math.inf,
    )


def _narrow(
    pairs: _Pairs, bracket: tuple[float, float], target: float, sample: np.ndarray
) -> tuple[float, float]:
    """A small part of the bracket that still holds the target, by one counting pass."""
    low, high = bracket
    if high == math.inf:
        high = max(float(distances.max(initial=0.0)) for _, distances in pairs.tiles())
    # Even steps, and a sliver around the sampled distance in the middle of the bracket: when many
    # distances are equal, that is the value sought.
    inside = sample[(sample >= low) & (sample <= high)]
    middle = float(inside[len(inside) // 2]) if len(inside) else (low + high) / 2
    sliver = (middle * (1 - 1e-13), middle * (1 + 1e-13))
    edges = np.unique(np.clip([*np.linspace(low, high, 17), *sliver], low, high))
    before = np.zeros(len(edges))
    for number, distances in pairs.tiles():
        weight = pairs.weights[number]
        before += [weight * np.count_nonzero(distances < edge) for edge in edges]
    last = len(edges) - 2
    cell = min(max(int(np.searchsorted(before, target, side="right")) - 1, 0), last)
    # Interpolation needs the next distance too: it may lie in the next cell.
    enough = before[cell + 1] > target + pairs.weights.max()
    return float(edges[cell]), float(edges[cell + 1 if enough else min(cell + 2, last + 1)])
