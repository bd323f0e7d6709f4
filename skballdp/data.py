"""The only file that touches the rows of ``X``.

Everything the heads compute from records is a sum over rows, and every such sum is taken in
blocks: the records are read once per pass, float32 and integer input is converted block by
block, and the rounding error of a sum is bounded by public numbers alone (`longest_sum`).
In-memory arrays (dense or CSR) are one implementation of the interface; others can follow
behind the same methods.

Clipping. A row ``x`` with ``||x|| > norm_bound`` counts as its projection
``x * norm_bound / ||x||`` on the ball, a 1-Lipschitz map: r-adjacent data stay r-adjacent. No
clipped copy is made; the factor enters each sum as a weight.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

__all__ = [
    "Block",
    "RowBlocks",
    "block_rows",
    "clipped_rows",
    "distance_tiles",
    "longest_product_sum",
    "longest_sum",
    "product_rows",
    "row_distances",
]

# About 2 MB of float64 a block: it stays in the processor's cache between the norms and the sums.
_BLOCK_ENTRIES = 2**18
# About 32 MB for matrix products of float64 rows, which are not copied: every call of a threaded
# product waits for all processors, so on a busy machine time is calls, not operations.
_PRODUCT_ENTRIES = 2**22
# Rows of a block whose outer products are summed: many, to add few large matrices; but few if the
# block is a copy, since memory is for the matrices then.
_GRAM_ROWS = {False: 2048, True: 128}
# A tile of pair distances: a few temporaries of this size take 8 MB.
_TILE = 448


def block_rows(n_features: int) -> int:
    """Rows per block: a function of the number of features only, hence public."""
    return min(max(_BLOCK_ENTRIES // n_features, 256), 4096)


def longest_sum(n_rows: int, n_features: int) -> int:
    """Largest number of terms that a sum over rows adds one after the other.

    ``b`` within a block of ``b`` rows and one per block: ``b + n/b``, the ``N`` of the
    rounding bounds in `skballdp.erm.sensitivity`.
    """
    rows = min(block_rows(n_features), n_rows)
    return rows + math.ceil(n_rows / rows)


def product_rows(n_features: int) -> int:
    """Rows per block in the products with dense float64 rows: public too."""
    return max(_PRODUCT_ENTRIES // n_features, block_rows(n_features))


def longest_product_sum(n_rows: int, n_features: int) -> int:
    """The same as `longest_sum` for `RowBlocks.linear_sums`, whatever the type of the rows.

    The blocks have between `block_rows` and `product_rows` rows: at most the larger number, and at
    most as many blocks as with the smaller.
    """
    rows = min(block_rows(n_features), n_rows)
    return min(product_rows(n_features), n_rows) + math.ceil(n_rows / rows)


class Block(NamedTuple):
    """Some consecutive rows, valid until the next block is read.

    Attributes
    ----------
    rows : slice
        Which rows of the data these are.
    values : ndarray of shape (b, n_features) or csr_array
        The rows in float64, not clipped.
    weights : ndarray of shape (b,)
        The clipping factors in (0, 1]; ``weights[:, None] * values`` are the clipped rows.
    """

    rows: slice
    values: Any
    weights: np.ndarray


class RowBlocks:
    """The rows of an in-memory array, clipped to a ball and read in blocks.

    Parameters
    ----------
    X : array-like or CSR of shape (n_rows, n_features)
        Numeric, two-dimensional; finiteness is checked here, in the pass over the norms.
    norm_bound : float or None
        Radius of the ball that holds every row; None clips nothing.
    out_of_bound : {"clip", "raise"}
        Project longer rows, or refuse them.
    """

    def __init__(self, X: Any, *, norm_bound: float | None, out_of_bound: str = "clip"):
        self._X = X
        self.norm_bound = norm_bound
        self.out_of_bound = out_of_bound
        self.n_rows, self.n_features = X.shape
        self._weights: np.ndarray | None = None

    def blocks(self, rows_per_block: int | None = None) -> Iterator[Block]:
        """Yield the rows in order; the first pass also checks them and finds the factors."""
        first_pass = self._weights is None
        weights = np.empty(self.n_rows) if self._weights is None else self._weights
        step = rows_per_block or block_rows(self.n_features)
        convert = self._is_copied and not sp.issparse(self._X)
        buffer = np.empty((min(step, self.n_rows), self.n_features)) if convert else None
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            if buffer is None:
                values = _as_float64(self._X[rows])
            else:
                values = buffer[: rows.stop - rows.start]
                values[:] = self._X[rows]
            if first_pass:
                weights[rows] = self._factors(values)
            yield Block(rows, values, weights[rows])
        self._weights = weights

    def class_sums(self, codes: np.ndarray, n_classes: int) -> np.ndarray:
        """Sums of the clipped rows by class.

        Parameters
        ----------
        codes : ndarray of int of shape (n_rows,)
            The class of each row, in ``0 .. n_classes - 1``.
        n_classes : int
            Number of classes K.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
        """
        sums = np.zeros((n_classes, self.n_features))
        for rows, values, weights in self.blocks():
            # A (K, b) matrix with one entry per column: the product adds each row, times its
            # clipping factor, to the sum of its class while the block is in cache.
            one_hot = sp.csc_array(
                (weights, codes[rows], np.arange(len(weights) + 1)),
                shape=(n_classes, len(weights)),
            )
            product = one_hot @ values
            sums += product.toarray() if sp.issparse(product) else product
        return sums

    def linear_sums(
        self,
        theta: np.ndarray,
        pointwise: Callable[[slice, np.ndarray], tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the rows of functions of their scores, and the gradients of these sums.

        Parameters
        ----------
        theta : ndarray of shape (c, n_features) or (c, n_features + 1)
            Coefficients of c linear functions; a last column more is the constant feature 1,
            which is appended to the clipped rows.
        pointwise : callable
            Given the slice of some rows and their scores of shape (b, c), the sum of their
            values, and a new array of slopes, of shape (b, c): derivatives with respect to the
            scores.

        Returns
        -------
        values : ndarray
            Sum of the values.
        gradient : ndarray of shape of `theta`
            Sum over rows of slope times (augmented, clipped) row.
        """
        d = self.n_features
        values = np.zeros(())
        gradient = np.zeros(theta.shape)
        step = block_rows(d)
        if not self._is_copied:  # the scores and their temporaries must not outgrow the rows
            step = max(step, min(product_rows(d), _PRODUCT_ENTRIES // (8 * len(theta))))
        for block in self.blocks(step):
            value, slopes = pointwise(block.rows, _scores(block, theta))
            values = values + value
            gradient[:, d:] += slopes.sum(axis=0)[:, None]
            slopes *= block.weights[:, None]
            gradient[:, :d] += slopes.T @ block.values
        return values, gradient

    def gram(
        self, theta: np.ndarray, pointwise: Callable[[slice, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Weighted sum of the outer products of the rows with themselves, to single precision.

        Parameters
        ----------
        theta : ndarray of shape (c, n_features) or (c, n_features + 1)
            As in `linear_sums`.
        pointwise : callable
            Given the slice of some rows and their scores of shape (b, c), the weights >= 0 of
            these rows, of shape (b,).

        Returns
        -------
        ndarray of shape (theta.shape[1], theta.shape[1])
            Only a model of the curvature is made from it, for which single precision is enough
            at half the time and memory.
        """
        d, q = self.n_features, theta.shape[1]
        total = np.zeros((q, q))
        # Rows of length 1 at most: neither long rows nor a large bound may overflow.
        unit = 1.0 if self.norm_bound is None else 1 / max(1.0, self.norm_bound)
        step = _GRAM_ROWS[self._is_copied]
        scaled = np.empty((0 if sp.issparse(self._X) else min(step, self.n_rows), q), np.float32)
        for block in self.blocks(step):
            roots = unit * np.sqrt(pointwise(block.rows, _scores(block, theta)))
            scale = (block.weights * roots)[:, None]
            if sp.issparse(block.values):
                constant = np.repeat(roots[:, None], q - d, axis=1)
                columns = sp.hstack([block.values.multiply(scale), constant]).tocsr()
                columns = columns.astype(np.float32)
                total += (columns.T @ columns).toarray()
            else:
                part = scaled[: len(scale)]
                np.multiply(block.values, scale, out=part[:, :d], casting="same_kind")
                part[:, d:] = roots[:, None]
                total += part.T @ part
        total /= unit**2
        return total

    def largest_norm(self) -> float:
        """Norm of the longest row, clipped: **private**, unless the rows are public."""
        longest = 0.0
        for _, values, weights in self.blocks():
            longest = max(longest, float(np.max(weights * _row_norms(values))))
        return longest

    def take(self, indices: np.ndarray) -> "RowBlocks":
        """Some of the rows (copied in their own data type), clipped to the same ball."""
        return RowBlocks(
            self._X[indices], norm_bound=self.norm_bound, out_of_bound=self.out_of_bound
        )

    def clipped(self) -> np.ndarray:
        """All rows, clipped, as one dense array: for a handful of rows only."""
        dense = np.empty((self.n_rows, self.n_features))
        for rows, values, weights in self.blocks():
            dense[rows] = values.toarray() if sp.issparse(values) else values
            dense[rows] *= weights[:, None]
        return dense

    def row(self, index: int) -> np.ndarray:
        """One clipped row, dense."""
        row = clipped_rows(self._X, np.array([index]), self.norm_bound)
        return (row.toarray() if sp.issparse(row) else row)[0]

    @property
    def _is_copied(self) -> bool:
        """Whether a block is a copy of the rows, and not a view."""
        return sp.issparse(self._X) or self._X.dtype != np.float64

    def _factors(self, values: Any) -> np.ndarray:
        norms = _row_norms(values)
        if self.norm_bound is None:
            return np.ones(len(norms))
        if self.out_of_bound == "raise":
            # Computed norms err by less than (d/2 + 4) u, which the sensitivity allows for.
            unit_roundoff = 2.0**-53
            limit = self.norm_bound * (1 + (self.n_features / 2 + 4) * unit_roundoff)
            if np.any(norms > limit):
                # Which rows, and how long they are, is private.
                raise ValueError(
                    f"X has rows longer than norm_bound={self.norm_bound!r}. Scale X by a public "
                    'constant, raise norm_bound, or set out_of_bound="clip" to project them.'
                )
        return _clipping_factors(norms, self.norm_bound)


def _scores(block: Block, theta: np.ndarray) -> np.ndarray:
    """Scores of the clipped and augmented rows of a block, of shape (b, c)."""
    d = block.values.shape[1]
    if sp.issparse(block.values):
        scores = block.values @ theta[:, :d].T
    else:
        # Columns contiguous in memory: reductions over a few classes then run along the rows.
        scores = (theta[:, :d] @ block.values.T).T
    scores *= block.weights[:, None]
    if theta.shape[1] > d:
        scores += theta[:, d]
    return scores


def _as_float64(values: Any) -> Any:
    if not sp.issparse(values):
        return np.asarray(values, dtype=np.float64)
    values = sp.csr_array(values, dtype=np.float64)
    if not values.has_canonical_format:
        # Repeated entries stand for their sum: norms of the parts would be too small.
        values = values.copy()
        values.sum_duplicates()
    return values


def _row_norms(values: Any) -> np.ndarray:
    """Euclidean norms of the rows; refuses NaN and infinity in the same pass."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if sp.issparse(values):
            squared = np.asarray(values.multiply(values).sum(axis=1)).ravel()
        else:
            squared = np.vecdot(values, values)
    if not np.all(squared < np.inf):  # a NaN fails the comparison too
        entries = values.data if sp.issparse(values) else values
        # Such input lies outside the domain of the promise (finite rows, norms below 1e150).
        kind = (
            "NaN" if np.any(np.isnan(entries)) else "infinity or a value too large (beyond 1e150)"
        )
        raise ValueError(f"Input X contains {kind}. Repair or leave out such records.")
    return np.sqrt(squared)


def distance_tiles(
    X: Any, groups: Iterable[np.ndarray], *, norm_bound: float | None = None
) -> Iterator[tuple[int, np.ndarray]]:
    """Distances of all pairs of rows within each group, a tile at a time.

    Parameters
    ----------
    X : array-like or CSR of shape (n_rows, n_features)
        Numeric, two-dimensional, finite.
    groups : iterable of ndarray of int
        Positions of the rows of each group.
    norm_bound : float, optional
        Project longer rows on the ball first.

    Yields
    ------
    group : int
        Which group the tile belongs to.
    distances : ndarray
        One-dimensional; every pair of distinct rows of a group occurs in one tile.

    Notes
    -----
    ``||a - b||^2 = ||a||^2 + ||b||^2 - 2 a.b`` by matrix products, on rows centred at the group's
    first rows' mean. Where the difference cancels by more than 1e-6, as within tight clusters, the
    pair is computed again from the difference of its rows, so every distance has 9 correct digits.
    """
    tile = max(16, min(_TILE, _BLOCK_ENTRIES // X.shape[1]))
    for number, group in enumerate(groups):
        sparse = sp.issparse(X)  # centring would fill it in
        centre = None if sparse else clipped_rows(X, group[:tile], norm_bound).mean(axis=0)
        for i in range(0, len(group), tile):
            left, left_squared = _centred(X, group[i : i + tile], centre, norm_bound)
            for j in range(i, len(group), tile):
                right, right_squared = (
                    (left, left_squared)
                    if i == j
                    else _centred(X, group[j : j + tile], centre, norm_bound)
                )
                product = (-2 * left) @ right.T
                squared = product.toarray() if sp.issparse(product) else product
                squared += left_squared[:, None]
                squared += right_squared
                if i == j:
                    squared[np.tril_indices_from(squared)] = np.inf  # each pair once
                if squared.min() <= 1e-6 * (left_squared.max() + right_squared.max()):
                    scale = left_squared[:, None] + right_squared
                    doubtful = np.argwhere(squared <= 1e-6 * scale)
                    for start in range(0, len(doubtful), tile):
                        a, b = doubtful[start : start + tile].T
                        pairs = row_distances(X, group[i + a], group[j + b], norm_bound)
                        squared[a, b] = pairs**2
                kept = squared[np.triu_indices_from(squared, 1)] if i == j else squared.ravel()
                yield number, np.sqrt(kept, out=kept)


def row_distances(X: Any, a: np.ndarray, b: np.ndarray, norm_bound: float | None) -> np.ndarray:
    """Distances between rows `a` and rows `b`, pair by pair, after projection on the ball."""
    return _row_norms(clipped_rows(X, a, norm_bound) - clipped_rows(X, b, norm_bound))


def clipped_rows(X: Any, index: Any, norm_bound: float | None) -> Any:
    """Some rows in float64, dense or CSR as they come, projected on the ball."""
    values = _as_float64(X[index])
    if norm_bound is None:
        return values
    factors = _clipping_factors(_row_norms(values), norm_bound)
    if sp.issparse(values):
        return sp.csr_array(sp.diags_array(factors) @ values)
    return values * factors[:, None]


def _centred(
    X: Any, index: np.ndarray, centre: np.ndarray | None, norm_bound: float | None
) -> tuple[Any, np.ndarray]:
    """Clipped rows minus `centre`, and their squared norms."""
    rows = clipped_rows(X, index, norm_bound)
    if centre is not None:
        rows = rows - centre
    return rows, _row_norms(rows) ** 2


def _clipping_factors(norms: np.ndarray, norm_bound: float) -> np.ndarray:
    return norm_bound / np.maximum(norms, norm_bound)
