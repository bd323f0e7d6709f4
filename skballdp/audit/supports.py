"""Candidate sets: which records an attacker tries to tell apart.

A support is a ball of the certificate's radius around one training record u, and candidates with
u's label inside that ball. It is fixed before the hidden target is drawn among the candidates, as
every bound on the attacker's success requires.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skballdp.data import clipped_rows

__all__ = ["SELECTIONS", "Support", "antipodal_pairs", "draw_supports", "farthest_points"]

SELECTIONS = ("farthest", "nearest", "random")
# Synthetic candidates offered for each one selected: enough for "farthest" to spread.
_BANK_PER_CANDIDATE = 20


@dataclass(frozen=True)
class Support:
    """One candidate set.

    Attributes
    ----------
    index : int
        Position of the record that candidates take the place of.
    centre : ndarray of shape (n_features,)
        Centre of the ball; that record, except for the antipodal pairs.
    candidates : ndarray of shape (m, n_features)
        Projected on the ball of the norm bound, distinct.
    """

    index: int
    centre: np.ndarray
    candidates: np.ndarray


def draw_supports(
    X: Any,
    y: np.ndarray,
    pool: tuple[Any, np.ndarray] | None,
    *,
    radius: float,
    norm_bound: float | None,
    n_supports: int,
    n_candidates: int,
    selection: str | Callable[..., Any],
    rng: np.random.Generator,
) -> list[Support]:
    """Candidate sets around randomly chosen training records.

    Parameters
    ----------
    X, y : array-like or CSR of shape (n_samples, n_features), ndarray of shape (n_samples,)
        Training data.
    pool : tuple (X_pool, y_pool) or None
        Records to take candidates from; None makes synthetic ones.
    radius, norm_bound : float
        Of the certificate.
    n_supports, n_candidates : int
        How many sets, and of which size.
    selection : {"farthest", "nearest", "random"} or callable
        How to choose among the records in the ball; a callable gets ``(bank, centre, n_candidates,
        rng)`` and returns positions in the bank.
    rng : Generator
        Source of randomness.

    Returns
    -------
    list of Support
        With distinct centres, as far as there are enough records.

    Raises
    ------
    ValueError
        If too few training records have enough candidates in their ball; the message says how
        many were found and which radius would do.
    """
    banks = (
        _synthetic_banks(X, radius, norm_bound, n_candidates, rng)
        if pool is None
        else _pool_banks(X, y, pool, radius, norm_bound, rng)
    )
    supports: list[Support] = []
    shortages: list[tuple[float, int]] = []
    for index, centre, bank, distances in banks:
        inside = np.flatnonzero(distances <= radius * (1 + 1e-12))
        bank, inside_distances = _distinct(bank[inside], distances[inside])
        if len(bank) < n_candidates:
            enough = (
                np.partition(distances, n_candidates - 1)[n_candidates - 1]
                if len(distances) >= n_candidates
                else np.inf
            )
            shortages.append((float(enough), len(bank)))
            continue
        chosen = _select(selection, bank, centre, inside_distances, n_candidates, rng)
        supports.append(Support(index, centre, bank[chosen]))
        if len(supports) == n_supports:
            return supports
    if supports and not shortages:  # fewer training records than supports: use some twice
        return [supports[k % len(supports)] for k in range(n_supports)]
    wanted = n_supports - len(supports)
    shortages.sort()
    enough = shortages[min(wanted, len(shortages)) - 1][0]
    remedy = (
        f"A radius of about {enough:.4g} would give enough; or ask for fewer candidates, or give "
        "a larger pool."
        if np.isfinite(enough)
        else "No radius gives enough: ask for fewer candidates, or give a larger pool."
    )
    raise ValueError(
        f"too few candidates: only {len(supports)} of {n_supports} balls of radius {radius:.4g} "
        f"hold n_candidates={n_candidates} distinct records with the centre's label; the others "
        f"hold {max(count for _, count in shortages)} or fewer. {remedy}"
    )


def antipodal_pairs(
    X: Any,
    y: np.ndarray,
    *,
    radius: float,
    norm_bound: float | None,
    rng: np.random.Generator,
) -> list[Support]:
    """Pairs of synthetic records as far apart as the ball and the norm bound allow.

    Parameters
    ----------
    X, y : array-like or CSR of shape (n_samples, n_features), ndarray of shape (n_samples,)
        Training data.
    radius, norm_bound : float
        Of the certificate.
    rng : Generator
        Source of randomness.

    Returns
    -------
    list of Support
        Each with the two ends ``centre +- h e`` of a line, ``h = min(radius, norm_bound)``; they
        take the place of one record of the smallest class, for which the sensitivity is largest.

    Notes
    -----
    Every such pair moves the optimum of the ridge prototypes by as much as any pair can. The other
    heads move further when both records are on the wrong side of the model, or lie along it. So the
    direction e is a random one, or that of the difference of class means, and the centre is the
    origin, or lies so far along that direction that both ends are on the ball of the norm bound.
    """
    labels, counts = np.unique(y, return_counts=True)
    index = int(rng.choice(np.flatnonzero(y == labels[np.argmin(counts)])))
    half = radius if norm_bound is None else min(radius, norm_bound)
    own = y == y[index]
    towards = _unit(_mean(X, own, norm_bound) - _mean(X, ~own, norm_bound))
    if not np.any(towards):  # the classes have one mean: any direction
        towards[0] = 1.0
    across = rng.standard_normal(X.shape[1])
    across = _unit(across - (across @ towards) * towards)
    origin = np.zeros_like(towards)
    lines = [(origin, towards), (origin, across)]
    if norm_bound is not None and half < norm_bound:
        aside = np.sqrt((norm_bound - half) * (norm_bound + half)) * towards
        ahead = (norm_bound - half) * towards
        lines += [(aside, across), (-aside, across), (ahead, towards), (-ahead, towards)]
    pairs = []
    for centre, direction in lines:
        ends = np.array([centre + half * direction, centre - half * direction])
        if np.any(direction):  # in one dimension there is no direction across
            pairs.append(Support(index, centre, clipped_rows(ends, slice(None), norm_bound)))
    return pairs


def _mean(X: Any, of: np.ndarray, norm_bound: float | None) -> np.ndarray:
    """Mean of some clipped rows, a few at a time; zero if there are none."""
    chosen = np.flatnonzero(of)
    total = np.zeros(X.shape[1])
    for start in range(0, len(chosen), 1024):
        rows = clipped_rows(X, chosen[start : start + 1024], norm_bound)
        total += np.asarray(rows.sum(axis=0)).ravel()
    return total / max(1, len(chosen))


def _unit(vector: np.ndarray) -> np.ndarray:
    """Scaled to length 1; zero if it is zero up to rounding."""
    length = np.linalg.norm(vector)
    return vector / length if length > 1e-12 else np.zeros_like(vector)


def farthest_points(bank: np.ndarray, centre: np.ndarray, n_candidates: int) -> np.ndarray:
    """Greedy farthest-point selection.

    Parameters
    ----------
    bank : ndarray of shape (n, n_features)
        Points to choose from.
    centre : ndarray of shape (n_features,)
        The first point chosen is the farthest from it.
    n_candidates : int
        How many to choose, at most n.

    Returns
    -------
    ndarray of int of shape (n_candidates,)
        Positions; each is the farthest from all chosen before it.
    """
    distance = np.linalg.norm(bank - centre, axis=1)
    chosen = np.empty(n_candidates, dtype=np.intp)
    for k in range(n_candidates):
        chosen[k] = np.argmax(distance)
        to_chosen = np.linalg.norm(bank - bank[chosen[k]], axis=1)
        distance = to_chosen if k == 0 else np.minimum(distance, to_chosen)
        distance[chosen[: k + 1]] = -1.0
    return chosen


_Bank = tuple[int, np.ndarray, np.ndarray, np.ndarray]


def _pool_banks(
    X: Any,
    y: np.ndarray,
    pool: tuple[Any, np.ndarray],
    radius: float,
    norm_bound: float | None,
    rng: np.random.Generator,
) -> Iterator[_Bank]:
    """Centres in random order, each with the pool's records of its label."""
    X_pool, y_pool = pool
    of_label: dict[Any, np.ndarray] = {}
    for index in rng.permutation(len(y)):
        label = y[index]
        if label not in of_label:
            rows = clipped_rows(X_pool, np.flatnonzero(y_pool == label), norm_bound)
            of_label[label] = rows if isinstance(rows, np.ndarray) else rows.toarray()
        centre = _centre(X, index, norm_bound)
        bank = of_label[label]
        yield int(index), centre, bank, np.linalg.norm(bank - centre, axis=1)


def _synthetic_banks(
    X: Any,
    radius: float,
    norm_bound: float | None,
    n_candidates: int,
    rng: np.random.Generator,
) -> Iterator[_Bank]:
    """Centres in random order, each with random points at distance `radius`, then projected.

    In one dimension there are only two such points, so half of the bank lies inside the ball.
    Projection moves no point away from the centre, which lies in the ball of the norm bound.
    """
    for index in rng.permutation(X.shape[0]):
        centre = _centre(X, index, norm_bound)
        directions = rng.standard_normal((_BANK_PER_CANDIDATE * n_candidates, len(centre)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        if len(centre) == 1:
            directions[1::2] *= rng.uniform(size=directions[1::2].shape)
        bank = clipped_rows(centre + radius * directions, slice(None), norm_bound)
        yield int(index), centre, bank, np.linalg.norm(bank - centre, axis=1)


def _centre(X: Any, index: int, norm_bound: float | None) -> np.ndarray:
    row = clipped_rows(X, np.array([index]), norm_bound)
    return (row if isinstance(row, np.ndarray) else row.toarray())[0]


def _distinct(bank: np.ndarray, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, first = np.unique(bank, axis=0, return_index=True)
    first.sort()
    return bank[first], distances[first]


def _select(
    selection: str | Callable[..., Any],
    bank: np.ndarray,
    centre: np.ndarray,
    distances: np.ndarray,
    n_candidates: int,
    rng: np.random.Generator,
) -> np.ndarray:
    if callable(selection):
        chosen = np.asarray(selection(bank, centre, n_candidates, rng))
        valid = chosen.shape == (n_candidates,) and chosen.dtype.kind in "iu"
        if not (valid and len(np.unique(chosen % len(bank))) == n_candidates):
            raise ValueError(
                f"selection must return n_candidates={n_candidates} distinct positions in the bank."
            )
        return chosen
    if selection == "farthest":
        return farthest_points(bank, centre, n_candidates)
    if selection == "nearest":
        return np.argsort(distances, kind="stable")[:n_candidates]
    return rng.choice(len(bank), n_candidates, replace=False)
