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
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

__all__ = ["Block", "RowBlocks", "block_rows", "longest_sum"]

# About 2 MB of float64 a block: it stays in the processor's cache between the norms and the sums.
_BLOCK_ENTRIES = 2**18


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

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order; the first pass also checks them and finds the factors."""
        first_pass = self._weights is None
        weights = np.empty(self.n_rows) if self._weights is None else self._weights
        step = block_rows(self.n_features)
        convert = not sp.issparse(self._X) and self._X.dtype != np.float64
        buffer = np.empty((min(step, self.n_rows), self.n_features)) if convert else None
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            if buffer is None:
                values = _as_float64(self._X[rows])
            else:
                values = buffer[: rows.stop - rows.start]
                values[:] = self._X[rows]
            if first_pass:
                weights[rows] = self._clipping_factors(values)
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

    def _clipping_factors(self, values: Any) -> np.ndarray:
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
        return self.norm_bound / np.maximum(norms, self.norm_bound)


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
